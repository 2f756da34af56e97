"""The work folder of a run: kept after every turn, so that it is known who changed what."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.files import Folder, is_left_behind
from ..core.text import first_names
from ..errors import GitError, GitMissing, RunError
from ..events import RunEvent, Warned
from ..settings.layout import CHECKOUTS_FOLDER, HELD_BACK_FOLDER, SNAPSHOTS_FOLDER
from .changes import UNSEEN, Change, LeftOut, Work
from .git import Repository, RepositoryWatch, find_repository
from .held_back import HeldBack, is_held, lay, remove_folder
from .snapshots import Snapshot, Snapshots

START_LABEL, RESUMED_LABEL, PERSON_LABEL = "start", "resumed", "you"
"""Of snapshots that are of no turn; what changed up to the last two is a person's."""
PUT_BACK = ", put back"
NO_FOLDER = "the run has no folder for them"
REMOVED = "the snapshots of the run are not there any more, so its start is not known"
GONE = (
    "the repository is gone: {}/.git {}. Bring it back, from a copy or a clone, and resume the "
    "run; the files as they were are kept: cao diff, cao undo"
)
ABOUT_REPOSITORY = "repository"
ABOUT_SNAPSHOTS = "snapshots"
NOT_COMPARED = (
    "what the repository was like before is not known, so it cannot be told whether it was changed "
    "since the run was interrupted"
)
UNCOMMITTED = "uncommitted changes when the run began"
MENDED = "resume the run when that is mended"
BORROWED = "snapshots can be read only as long as the repository has what it has now: "
LONGEST_COPY = 60.0
"""Seconds for that; 50,000 files of a clone take about one."""


@dataclass(frozen=True, slots=True)
class Seen:
    work: Work = UNSEEN
    changes: tuple[Change, ...] = ()
    repository: tuple[str, ...] = ()
    """What of the repository was changed meanwhile that can start a program, or which branches."""
    left_out: tuple[LeftOut, ...] = ()
    """What could be kept before, or was not there, and is in no snapshot now."""

    @property
    def touched(self) -> tuple[Change, ...]:
        """The changes without what programs leave behind when they are merely run."""
        return tuple(one for one in self.changes if not is_left_behind(one.path))

    @property
    def restorable(self) -> tuple[str, ...]:
        return tuple(one.path for one in self.touched if not one.is_repository)

    @property
    def not_kept(self) -> tuple[str, ...]:
        paths = (one.path for one in self.left_out if not is_left_behind(one.path))
        return tuple(path for path in paths if path not in self.restorable)


def leave_alone() -> None:
    """Do nothing: a folder that is the user's own is not for us to repair."""


class WorkFolder:
    """Takes the snapshots of a run; without any, nothing is known and nothing is in the way."""

    def __init__(
        self,
        snapshots: Snapshots | None,
        repository: Repository | None = None,
        run_folder: Folder | None = None,
        tend: Callable[[], None] = leave_alone,
        held_back: HeldBack | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take what can be kept, and where; `tend` repairs the folder before it is looked at.

        What is held back is in every checkout, and in no snapshot.
        """
        self._held_back = held_back
        self._tend = tend
        self.snapshots = snapshots
        self._repository = repository
        self._checkouts: Folder | None = None
        if run_folder is not None:
            parts = (*run_folder.parts, CHECKOUTS_FOLDER)
            self._checkouts = Folder(run_folder.root, parts, private=True)
        self._before: Snapshot | None = None
        self.now: Snapshot | None = None
        self._looked: Snapshot | None = None
        """Of the turn that is recorded next, if a process that was killed has looked already."""
        self._inodes = () if repository is None else repository.inodes
        self._watch: RepositoryWatch | None = None
        if repository is not None:
            self._watch = RepositoryWatch(repository, run_folder, environ or {})
        self.changed_before: tuple[str, ...] = ()
        """What of the repository was changed since an earlier process of the run looked."""
        self.why_no_snapshots = NO_FOLDER if snapshots is None else ""

    @property
    def holds_back(self) -> bool:
        return self._held_back is not None

    @property
    def prefix(self) -> str:
        """Where in the repository the folder lies; empty at its top."""
        return "" if self._repository is None else self._repository.prefix

    def files(self, commit: str) -> list[str]:
        kept = [] if self.snapshots is None else self.snapshots.files(commit)
        return kept if self._held_back is None else [*kept, *self._held_back.files()]

    def read(self, commit: str, path: str, limit: int) -> bytes | None:
        """Return a file of a checkout; None if it is not there.

        Of one that is longer than the limit there is nothing more than that, if anything.
        """
        if self._held_back is not None and is_held(path, self._held_back.paths):
            return self._held_back.read(path, limit)
        return None if self.snapshots is None else self.snapshots.read(commit, path, limit)

    def links(self, commit: str) -> dict[str, str]:
        return {} if self.snapshots is None else self.snapshots.links(commit)

    def mentioning(self, commit: str, word: str, limit: int) -> tuple[str, ...]:
        kept = () if self.snapshots is None else self.snapshots.mentioning(commit, word)
        held = () if self._held_back is None else self._held_back.mentioning(word, limit)
        return (*kept, *held)

    def left_behind(self, *commits: str) -> tuple[str, ...]:
        """Return what of some snapshots programs have left behind, or changed, since the start.

        It is no part of the work, and no commit gets it. What was committed before is.
        """
        snapshots = self.snapshots
        if snapshots is None:
            return ()
        start = snapshots.all()[0].tree
        changes = (one for commit in commits for one in snapshots.changes(start, commit))
        paths = {path for one in changes for path in (one.path, one.old_path)}
        found = {path for path in paths if is_left_behind(path)}
        committed = snapshots.files(snapshots.base) if found and snapshots.base else ()
        return tuple(sorted(found.difference(committed)))

    @contextmanager
    def laid_out(
        self,
        commit: str,
        over: str = "",
        paths: Sequence[str] = (),
        texts: Mapping[str, str] | None = None,
    ) -> Iterator[Path]:
        """Yield a fresh checkout of a snapshot, with some paths as another one has them.

        Some files may have another text there. What programs left behind is as it was at the start.
        """
        if self.snapshots is None or self._checkouts is None:
            raise RunError("without snapshots there is no fresh checkout to run a gate in")
        try:
            self._checkouts.make()
            folder = Path(tempfile.mkdtemp(dir=self._checkouts.path))
            self.snapshots.lay_out(commit, folder)
            if over:
                self.snapshots.lay_over(over, folder, paths)
            if left := self.left_behind(*filter(None, (commit, over))):
                self.snapshots.lay_over(self.snapshots.all()[0].tree, folder, left)
            if self._held_back is not None:
                self._held_back.lay_over(folder)
            # Not through a link that is there: it could lead anywhere.
            with tempfile.TemporaryDirectory(dir=self._checkouts.path) as scratch:
                for path, text in (texts or {}).items():
                    *above, name = path.split("/")
                    place = Folder(Path(scratch), tuple(above))
                    place.replace(name, text.encode(errors="surrogateescape"))
                lay(folder, Path(scratch), texts or {}, is_ours=True)
        except (GitError, OSError) as error:
            raise RunError(f"a fresh checkout cannot be made: {error}") from error
        try:
            yield folder / self.prefix
        finally:
            _clear(self._checkouts)

    def begin(
        self, sequence: int, *, is_in_flight: bool, replied: tuple[int, str] | None = None
    ) -> tuple[int, list[str]]:
        """Keep the folder before anything is done in it; return the last number and what to say.

        When a run is resumed, what changed since belongs to nobody's turn, unless one is in flight.
        If that has its reply already, its number and role are given: it may have its snapshot, too.
        Raise `RunError` if a run that has snapshots cannot be kept any more.
        """
        remarks: list[str] = []
        if self._checkouts is not None and self.snapshots is not None:
            # A run that was killed may have left some.
            _clear(self._checkouts)
        if sequence and self.snapshots is not None and not self.snapshots.has_any:
            self.snapshots, self.why_no_snapshots = None, REMOVED
        snapshots = self.snapshots
        try:
            taken = () if snapshots is None else snapshots.all()
            if snapshots is not None and not taken:
                remarks += self._start(snapshots)
            elif snapshots is not None:
                self.now = taken[-1]
                at_reply = (one for one in taken if (one.sequence, one.label) == replied)
                self._looked = next(at_reply, None)
                # A person may have gone back meanwhile, which takes numbers of its own.
                sequence = max(sequence, *(one.sequence for one in taken))
                if self._looked is not None or not is_in_flight:
                    self.now = snapshots.take(sequence + 1, RESUMED_LABEL, after=self.now)
                    sequence = max(sequence, self.now.sequence)
        except (GitError, OSError) as error:
            if snapshots is not None and snapshots.has_any:
                raise RunError(
                    f"the work folder could not be kept when the run was resumed: {error}; {MENDED}"
                ) from error
            reason = error if isinstance(error, GitMissing) else f"it cannot be kept: {error}"
            self.snapshots, self.why_no_snapshots = None, str(reason)
        # Afterwards: what is told once must not be lost with a run that cannot go on.
        if self._watch is not None:
            self.changed_before = self._watch.begin()
            if sequence and self._checkouts is not None and not self._watch.has_compared:
                remarks.append(NOT_COMPARED)
        return sequence, remarks

    def _start(self, snapshots: Snapshots) -> list[str]:
        start = self.now = snapshots.take(0, START_LABEL)
        said = []
        if dirty := snapshots.keep_base(start):
            said.append(f"{first_names(dirty)} had {UNCOMMITTED}; they count as yours")
        if start.left_out:
            left = [f"{one.path} ({one.reason})" for one in start.left_out]
            said.append(f"not kept in snapshots: {first_names(left)}")
        try:
            # An agent may do anything to the repository that they are borrowed from.
            snapshots.keep_for_good(LONGEST_COPY)
        except (GitError, OSError) as error:
            said.append(f"{BORROWED}{error}")
        return said

    def look_before_turn(self, number: int) -> tuple[str, ...]:
        """Keep what changed while no agent was at work, under a number; return these files.

        They are the person's: no turn is blamed for them, and none is undone with a turn.
        """
        before, snapshots = self.now, self.snapshots
        if before is None or snapshots is None or not snapshots.has_any:
            return ()
        # What hinders is told by the look after the turn.
        with suppress(GitError, OSError):
            self.now = snapshots.take(number, PERSON_LABEL, after=before)
            return tuple(one.path for one in snapshots.changes(before.tree, self.now.tree))
        return ()

    def look(self, sequence: int, label: str, approved_tree: str = "") -> Seen:
        """Keep the folder as it is after a turn or a gate, and return what that did to it.

        Raise `RunError` if it cannot be kept, or if its repository was removed.
        """
        self._tend()
        gone = self._gone(label)
        snapshots, before = self.snapshots, self.now
        seen = Seen()
        if snapshots is not None and before is not None:
            if not snapshots.has_any:
                lost = f"while {label} was at work, {REMOVED}; the reply is kept"
                raise gone or RunError(lost)
            try:
                seen = self._compare(snapshots, before, sequence, label, approved_tree)
            except (GitError, OSError) as error:
                why = f"the work folder could not be kept after {label}: {error}"
                raise gone or RunError(f"{why}. The reply is kept; {MENDED}") from error
        if gone is not None:
            raise gone
        return seen if self._watch is None else replace(seen, repository=self._watch.look())

    def _compare(
        self, snapshots: Snapshots, before: Snapshot, sequence: int, label: str, approved_tree: str
    ) -> Seen:
        after, self._looked = self._looked, None
        if after is not None and (after.sequence, after.label) == (sequence, label):
            # What a process that was killed has taken stays: its changes may be put back.
            before = [one for one in snapshots.all() if one.at < after.at][-1]
        else:
            after = self.now = snapshots.take(sequence, label)
        self._before = before
        changes = snapshots.changes(before.tree, after.tree)
        left_out = tuple(one for one in after.left_out if one not in before.left_out)
        paths = dict.fromkeys([*(one.path for one in changes), *(one.path for one in left_out)])
        work = Work(after.tree, tuple(paths), self._since(approved_tree, after.tree))
        return Seen(work, changes, left_out=left_out)

    def _gone(self, label: str) -> RunError | None:
        repository, snapshots = self._repository, self.snapshots
        if repository is None or repository.inodes == self._inodes != ():
            return None
        became = "removed"
        # Git that cannot be asked says why at the next snapshot, and so does what is a link.
        with suppress(GitError):
            if repository.inodes and snapshots is not None:
                is_link = repository.top.is_symlink()
                became = "" if is_link else repository.became(snapshots.environ)
        if not became:
            return None
        return RunError(GONE.format(repository.top, f"was {became} while {label} was at work"))

    def kept(self, approved_tree: str) -> Work:
        """Return the last snapshot as the work that it holds; take none."""
        if self.snapshots is None or self.now is None:
            return UNSEEN
        try:
            return Work(self.now.tree, (), self._since(approved_tree, self.now.tree))
        except (GitError, OSError) as error:
            raise RunError(f"the snapshots of the run cannot be read: {error}") from error

    def _since(self, approved_tree: str, tree: str) -> tuple[str, ...]:
        """Return the files that differ from what was approved, if that is known."""
        if self.snapshots is None or not approved_tree:
            return ()
        since = self.snapshots.changes(approved_tree, tree)
        return tuple(one.path for one in since if not is_left_behind(one.path))

    def put_back(self, number: int, label: str, seen: Seen, approved_tree: str = "") -> Seen:
        """Undo what a turn did to some files, and return what is left of its changes.

        The snapshot of the turn has them all the same: they may be somebody else's. What is left
        has a number of its own.
        """
        assert self.snapshots is not None, "something was seen"
        assert self._before is not None, "there was a look before"
        paths = {path for one in seen.touched for path in (one.path, one.old_path)}
        self.snapshots.restore(self._before.tree, sorted(paths))
        self.now = self._before
        return self.look(number, f"{label}{PUT_BACK}", approved_tree)


def open_work_folder(
    wd: Path,
    run_folder: Folder | None,
    environ: Mapping[str, str],
    tend: Callable[[], None] = leave_alone,
    held_back: tuple[str, ...] | None = None,
) -> WorkFolder:
    """Return the work folder of a run; raise `UsageError` if it is none to work in.

    Of a work tree is said what is held back; all else in it is the run's.
    """
    repository = repository_of(wd, environ)
    if run_folder is None:
        if held_back:
            raise RunError("without the folder of the run there is nothing of what is held back")
        return WorkFolder(None, repository, environ=environ)
    snapshots = Snapshots(
        run_folder.path / SNAPSHOTS_FOLDER,
        wd,
        repository,
        environ,
        whole=held_back is not None,
        apart=held_back or (),
    )
    held = held_back_of(run_folder, held_back) if held_back else None
    return WorkFolder(snapshots, repository, run_folder, tend, held, environ)


def held_back_of(run_folder: Folder, paths: tuple[str, ...]) -> HeldBack:
    kept = Folder(run_folder.root, (*run_folder.parts, HELD_BACK_FOLDER), private=True)
    return HeldBack(kept, paths)


def repository_of(wd: Path, environ: Mapping[str, str]) -> Repository | None:
    try:
        return find_repository(wd, environ)
    except (GitError, OSError):
        # Without git, or in a repository that cannot be read, it is a folder like any other.
        return None


def began_at(wd: Path, environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Return what is checked out in a work folder, commit and branch, and where its paths begin."""
    repository = repository_of(wd, environ)
    if repository is None:
        return "", "", str(wd)
    return repository.head, repository.branch, str(repository.top)


def said_of_start(wd: Path, environ: Mapping[str, str]) -> str:
    """Return what to say of a work folder before anything is started in it; nothing if all is well.

    An agent that meets conflicts of the user's may end what the user has begun.
    """
    repository = repository_of(wd, environ)
    if repository is None or not repository.under_way:
        return ""
    return (
        f"{repository.under_way} is under way in {repository.top}: agents see what it has left in "
        "the files; Ctrl-C, and end it first, if that is not meant"
    )


def said_of_repository(events: Iterable[RunEvent]) -> tuple[str, ...]:
    """Return what was said of changes to the repository itself, each once."""
    warnings = (event for event in events if isinstance(event, Warned))
    said = (event.text for event in warnings if event.about == ABOUT_REPOSITORY)
    return tuple(dict.fromkeys(said))


def _clear(checkouts: Folder) -> None:
    """Remove all checkouts, also those that a gate has made unwritable; what resists is left."""
    with suppress(OSError):
        remove_folder(checkouts)
