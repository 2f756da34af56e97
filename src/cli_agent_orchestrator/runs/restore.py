"""What a run kept of its work folder: looked at afterwards, and brought back.

A word means snapshots of a run:

    start         before the first turn
    7             after turn 7, or the gate of that number
    programmer    after the last turn of that role, or of a gate of that name
    3..7          from after turn 3 to after turn 7; without a side, from the start or to the end

Going back undoes what turns did since. A file that a person changed, while no agent was at work or
since the run's last turn, stays as it is unless all is asked for. The present state is kept first,
under a number of its own, so that nothing is lost and this can be undone, too. HEAD, index and
stash are never touched.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ..core.files import Folder
from ..errors import GitError, GitFailed, NotFound, RunError, RunLocked
from ..events import Warned
from ..settings.layout import SNAPSHOTS_FOLDER
from ..work.changes import Change, LeftOut
from ..work.folder import ABOUT_SNAPSHOTS, PERSON_LABEL, RESUMED_LABEL, START_LABEL, repository_of
from ..work.snapshots import Snapshot, Snapshots
from .record import keeping_runs_out, read_events
from .view import RunView, readable_run, view_run

BETWEEN = ".."
BEFORE_LABEL, AFTER_LABEL = "before going back", "after going back"
DISCARDED_LABEL = "discarded"
BY_PERSON = (PERSON_LABEL, RESUMED_LABEL, BEFORE_LABEL)
"""What changed up to such a snapshot was no turn's doing."""


class Kept(Struct, frozen=True):
    folder: Folder
    record: RunView
    snapshots: Snapshots
    """They know nothing of the work folder as it is now."""
    taken: tuple[Snapshot, ...]


def find_moment(taken: Sequence[Snapshot], word: str) -> Snapshot:
    fitting = [one for one in taken if word in (str(one.sequence), one.label)]
    if not fitting:
        raise NotFound("snapshot for", word, map(name_of, taken))
    return fitting[-1]


def find_span(taken: Sequence[Snapshot], word: str) -> tuple[Snapshot, Snapshot]:
    """Return the two snapshots that a word means: for a turn, what it changed; for none, all."""
    first, between, second = word.partition(BETWEEN)
    if not between and word not in ("", START_LABEL):
        after = find_moment(taken, word)
        return before(taken, after), after
    return find_moment(taken, first or START_LABEL), (
        find_moment(taken, second) if second else last_of_run(taken)
    )


def before(taken: Sequence[Snapshot], snapshot: Snapshot) -> Snapshot:
    return taken[max(taken.index(snapshot) - 1, 0)]


def last_of_run(taken: Sequence[Snapshot]) -> Snapshot:
    of_people = (BEFORE_LABEL, AFTER_LABEL, DISCARDED_LABEL)
    return [one for one in taken if one.label not in of_people][-1]


def name_of(snapshot: Snapshot) -> str:
    return f"{snapshot.sequence} ({snapshot.label})"


def read_kept(folder: Folder, environ: Mapping[str, str]) -> Kept:
    record = readable_run(folder)
    # Paths are the same whatever has become of the repository.
    snapshots = Snapshots(folder.path / SNAPSHOTS_FOLDER, Path(record.wd), None, environ)
    if taken := snapshots.all():
        return Kept(folder, record, snapshots, taken)
    warnings = [
        one
        for one in read_events(folder)
        if isinstance(one, Warned) and one.about == ABOUT_SNAPSHOTS
    ]
    reason = "they were removed, or it is from before there were any"
    if warnings:
        reason = warnings[0].text
    elif not view_run(folder).turns:
        reason = "it has not come to its first turn"
    raise RunError(f"the run {record.id} has no snapshots: {reason}")


def changes_of_turn(
    folder: Folder, sequence: int, limit: int, environ: Mapping[str, str]
) -> tuple[bytes, tuple[Change, ...]]:
    kept = read_kept(folder, environ)
    after = next((one for one in kept.taken if one.sequence == sequence), None)
    if after is None:
        raise RunError(f"the run {kept.record.id} has no snapshot of turn {sequence}")
    old = before(kept.taken, after)
    patch = kept.snapshots.diff(old.tree, after.tree, limit=limit)
    return patch, kept.snapshots.changes(old.tree, after.tree)


class WayBack(Struct, frozen=True):
    target: Snapshot
    restored: tuple[str, ...]
    removed: tuple[str, ...]
    yours: tuple[str, ...]
    left_alone: tuple[LeftOut, ...]
    """What no snapshot has as it belongs there."""
    head_moved: str = ""
    """How HEAD differs from what it was when the run began."""


@contextmanager
def opened_to_go_back(kept: Kept) -> Iterator[Snapshots]:
    """Yield snapshots that can be brought back; meanwhile no run can begin in the work folder."""
    record, wd = kept.record, Path(kept.record.wd)
    if record.status.is_open:
        raise RunLocked(f"the run {record.id} is at work; end it first: cao stop {record.id}")
    if not wd.is_dir() and record.tree is not None:
        text = f"the work tree {wd} of the run is gone; `cao diff {record.id}` has its work"
        raise RunError(text)
    if not wd.is_dir():
        raise RunError(
            f"the work folder {wd} is not there any more; make it if it is to be filled again "
            "from the snapshots"
        )
    environ = kept.snapshots.environ
    repository = repository_of(wd, environ)
    top = wd if repository is None else repository.top
    # That of a repository was noted without links: one on the way there now leads elsewhere.
    began_in = record.top if repository else os.path.realpath(record.top)
    if record.top and began_in != os.path.realpath(top):
        raise RunError(
            f"the repository of {wd} was {record.top} when the run began and is {top} now; "
            "nothing is brought back into another one"
        )
    with keeping_runs_out(wd):
        yield Snapshots(
            kept.snapshots.path,
            wd,
            repository,
            environ,
            whole=record.tree is not None,
            apart=() if record.tree is None else record.tree.held_back,
        )


def plan_way_back(
    kept: Kept, snapshots: Snapshots, target: Snapshot, *, everything: bool = False
) -> WayBack:
    differing = snapshots.differing(target.tree)
    paths = [one.path for one in differing]
    yours = set() if everything else _by_person(kept, snapshots, target)
    filtered = snapshots.through_filters(paths)
    stay = yours | {one.path for one in filtered}
    going = [one for one in differing if one.path not in stay]
    repository, record = snapshots.repository, kept.record
    moved = ""
    if repository is not None and record.tree is None and record.base:
        was, now = (record.base, record.branch), (repository.head, repository.branch)
        if was != now:
            shown = (f"{commit[:12]} ({at or 'no branch'})" for commit, at in (was, now))
            moved = " and is ".join(shown)
    return WayBack(
        target,
        tuple(one.path for one in going if one.status != "D"),
        tuple(one.path for one in going if one.status == "D"),
        tuple(path for path in paths if path in yours),
        (*filtered, *target.left_out),
        moved,
    )


def _by_person(kept: Kept, snapshots: Snapshots, target: Snapshot) -> set[str]:
    since = kept.taken[kept.taken.index(target) :]
    found = {one.path for one in snapshots.differing(since[-1].tree)}
    for old, new in pairwise(since):
        if new.label in BY_PERSON:
            changes = snapshots.changes(old.tree, new.tree)
            found |= {path for one in changes for path in (one.path, one.old_path)}
    return found


def go_back(kept: Kept, snapshots: Snapshots, way: WayBack) -> tuple[int, tuple[str, ...]]:
    """Keep the present state and bring the folder back; return its number, and the files."""
    begun = [turn.sequence for turn in view_run(kept.folder).turns]
    number = max(*begun, *(one.sequence for one in kept.taken), 0) + 1
    snapshots.take(number, BEFORE_LABEL)
    try:
        done = snapshots.restore(way.target.tree, [*way.restored, *way.removed])
    except GitFailed as error:
        raise RunError(
            f"it cannot be brought back, and nothing was changed: {error}; snapshots borrow "
            "from the repository, which may have lost what they need"
        ) from error
    except GitError as error:
        undo = f"cao undo {kept.record.id} --to {number}"
        raise RunError(f"{error}. What was there before is kept: {undo}") from error
    finally:
        snapshots.take(number + 1, AFTER_LABEL)
    return number, done
