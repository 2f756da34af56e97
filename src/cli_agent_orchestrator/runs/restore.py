"""What a run kept of its work folder: looked at afterwards, and brought back.

Whoever goes back keeps the present state first, under a number of its own, so that nothing is lost
by it and it can be undone. HEAD, index and stash are never touched.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..core.clock import Clock
from ..core.files import Folder
from ..errors import GitError, GitFailed, RunError, RunLocked, StateError
from ..events import Warned
from ..settings.layout import RECORD_FILE, SNAPSHOTS_FOLDER, ours_in, temporary_folder
from ..work.changes import Change
from ..work.folder import ABOUT_SNAPSHOTS, repository_of
from ..work.left_out import LeftOut, odd_files
from ..work.snapshots import Scope, Snapshot, Snapshots
from ..work.store import Store, is_ready
from .event_log import read_events
from .moments import AFTER_LABEL, BEFORE_LABEL, before, in_order, own_of_run
from .record import RunRecord, keeping_runs_out
from .view import read_settled, view_run


@dataclass(frozen=True, slots=True)
class Kept:
    """The snapshots of a run."""

    folder: Folder
    """Of the run."""
    record: RunRecord
    snapshots: Snapshots
    """To be looked at; they know nothing of the work folder as it is now."""
    taken: tuple[Snapshot, ...]
    """In their order."""


@dataclass(frozen=True, slots=True)
class WayBack:
    """What going back to a snapshot would do."""

    target: Snapshot
    restored: tuple[str, ...]
    """Files that become what they were."""
    removed: tuple[str, ...]
    """Files that were not there then."""
    changed_since: tuple[str, ...]
    """Which of these somebody has changed since the run's last turn."""


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """What going back did."""

    kept: int
    """The number under which the state before it is kept."""
    paths: tuple[str, ...]
    left_alone: tuple[LeftOut, ...]
    """What no snapshot has."""


def has_snapshots(folder: Folder) -> bool:
    """Are there snapshots in a run folder? No git is asked."""
    return is_ready(folder.path / SNAPSHOTS_FOLDER)


def read_kept(folder: Folder, environ: Mapping[str, str]) -> Kept:
    """Return the snapshots in a run folder; raise `RunError` with the reason if there are none."""
    record = read_settled(folder)
    if record is None:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    # Paths are the same whatever has become of the repository.
    store = Store(folder.path / SNAPSHOTS_FOLDER, Path(record.wd), None, environ)
    snapshots = Snapshots(store)
    taken = in_order(snapshots.all())
    if not taken:
        raise RunError(f"the run {record.id} has no snapshots: {_why_none(folder)}")
    return Kept(folder, record, snapshots, taken)


def changes_of_turn(
    folder: Folder, sequence: int, limit: int, environ: Mapping[str, str]
) -> tuple[bytes, tuple[Change, ...]]:
    """Return what a turn changed, as a patch up to a limit and by file.

    Raise `RunError` or `GitError` if that is not known.
    """
    kept = read_kept(folder, environ)
    after = next((one for one in kept.taken if one.sequence == sequence), None)
    if after is None:
        raise RunError(f"the run {kept.record.id} has no snapshot of turn {sequence}")
    old = before(kept.taken, after)
    patch = kept.snapshots.diff(old.commit, after.commit, limit=limit)
    return patch, kept.snapshots.changes(old.commit, after.commit)


@contextmanager
def opened_to_go_back(kept: Kept, clock: Clock) -> Iterator["GoingBack"]:
    """Yield what can bring the work folder of a run back; meanwhile no run can begin there."""
    wd = Path(kept.record.wd)
    _check(kept, wd)
    environ = kept.snapshots.environ
    repository = repository_of(wd, environ)
    top = wd if repository is None else repository.top
    # That of a repository was noted without links: one on the way there now leads elsewhere.
    began_in = kept.record.top if repository else os.path.realpath(kept.record.top)
    if kept.record.top and began_in != os.path.realpath(top):
        raise RunError(
            f"the repository of {wd} was {kept.record.top} when the run began and is {top} now; "
            "nothing is brought back into another one"
        )
    with keeping_runs_out(temporary_folder(wd)):
        store = Store(kept.folder.path / SNAPSHOTS_FOLDER, wd, repository, environ)
        tree = kept.record.tree
        kept_out = () if tree is None else (*tree.held_back, *tree.ours)
        apart = (*kept_out, *ours_in(top, kept.folder.root))
        snapshots = Snapshots(store, clock, Scope(tree is not None, apart))
        readable = snapshots.make_readable(kept.taken[0].left_out)
        yield GoingBack(kept, snapshots, apart, readable)


@dataclass(frozen=True, slots=True)
class GoingBack:
    """The way back of one work folder."""

    kept: Kept
    snapshots: Snapshots
    apart: tuple[str, ...] = ()
    """What is in no snapshot and is not looked at."""
    made_readable: tuple[str, ...] = ()
    """What could not be read before, so that it can be kept."""

    def plan(self, target: Snapshot) -> WayBack:
        """Return what it would do."""
        last = self.kept.taken[-1]
        differing = self.snapshots.differing(target.commit)
        since = {one.path for one in self.snapshots.differing(last.commit)} | self._not_by_run(last)
        paths = [one.path for one in differing]
        return WayBack(
            target,
            tuple(one.path for one in differing if one.status != "D"),
            tuple(one.path for one in differing if one.status == "D"),
            tuple(path for path in paths if path in since),
        )

    def go(self, target: Snapshot) -> BroughtBack:
        """Keep the present state and bring the work folder back."""
        number = self._next_number()
        present = self.snapshots.take(number, BEFORE_LABEL)
        try:
            paths = self.snapshots.restore(target.commit)
        except GitFailed as error:
            raise RunError(
                f"it cannot be brought back, and nothing was changed: {error}; snapshots borrow "
                "from the repository, which may have lost what they need"
            ) from error
        except GitError as error:
            undo = f"cao restore {self.kept.record.id} {number}"
            raise RunError(f"{error}. What was there before is kept: {undo}") from error
        finally:
            self.snapshots.take(number + 1, AFTER_LABEL)
        left_out = [one for one in (*target.left_out, *present.left_out) if not one.is_odd]
        left_alone = {one.path: one for one in (*left_out, *self.odd_files())}
        return BroughtBack(number, paths, tuple(left_alone.values()))

    def odd_files(self) -> tuple[LeftOut, ...]:
        """Return the pipes and sockets that were made since the run began; they stay."""
        record = self.kept.record
        return tuple(odd_files(Path(record.top or record.wd), record.started, self.apart))

    def _not_by_run(self, last: Snapshot) -> set[str]:
        """Return the files that a snapshot has as none has them that the run itself took.

        Whoever went back and forth has brought back what a person had changed.
        """
        own = own_of_run(self.kept.taken)
        if not own or last in own:
            return set()
        changes = (self.snapshots.changes(one.commit, last.commit) for one in own)
        return set.intersection(*({one.path for one in found} for found in changes))

    def _next_number(self) -> int:
        """Return a number that no snapshot has, nor a turn that was begun."""
        begun = [turn.sequence for turn in view_run(self.kept.folder).turns]
        return max(*begun, *(one.sequence for one in self.kept.taken), 0) + 1


def _check(kept: Kept, wd: Path) -> None:
    record = kept.record
    if record.status.is_open:
        raise RunLocked(f"the run {record.id} is at work; end it first: cao stop {record.id}")
    if not wd.is_dir() and record.tree is not None:
        raise RunError(
            f"the work tree {wd} of the run is gone; `cao diff {record.id}` has its work"
        )
    if not wd.is_dir():
        raise RunError(
            f"the work folder {wd} is not there any more; make it if it is to be filled again "
            "from the snapshots"
        )
    if not os.access(wd, os.W_OK | os.X_OK):
        raise RunError(f"the work folder {wd} cannot be written by you")


def _why_none(folder: Folder) -> str:
    for event in read_events(folder):
        if isinstance(event, Warned) and event.about == ABOUT_SNAPSHOTS:
            return event.text
    if not view_run(folder).turns:
        return "it has not come to its first turn"
    return "they were removed, or it is from before there were any"
