"""The work folder of a run: kept after every turn, so that it is known who changed what."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..core.files import Folder, cache_of
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
REMOVED = "the snapshots of the run are not there any more, so its start is not known"
GONE = (
    "the repository is gone: {}/.git {}. Bring it back, from a copy or a clone, and resume the "
    "run; the files as they were are kept: cao diff, cao undo"
)
ABOUT_REPOSITORY = "repository"
ABOUT_SNAPSHOTS = "snapshots"
MENDED = "resume the run when that is mended"
LONGEST_COPY = 60.0
"""Seconds for that; 50,000 files of a clone take about one."""


class Seen(Struct, frozen=True):
    work: Work = UNSEEN
    changes: tuple[Change, ...] = ()
    repository: tuple[str, ...] = ()
    """What of the repository was changed meanwhile that can start a program, or which branches."""
    left_out: tuple[LeftOut, ...] = ()
    """What could be kept before, or was not there, and is in no snapshot now."""

    @property
    def touched(self) -> tuple[Change, ...]:
        """The changes without what programs leave behind when they are merely run."""
        return tuple(one for one in self.changes if not cache_of(one.path))

    @property
    def restorable(self) -> tuple[str, ...]:
        return tuple(one.path for one in self.touched if not one.is_repository)

    @property
    def not_kept(self) -> tuple[str, ...]:
        paths = (one.path for one in self.left_out if not cache_of(one.path))
        return tuple(path for path in paths if path not in self.restorable)


NONE_HELD = HeldBack(Folder(Path()), ())


class WorkFolder:
    """Takes the snapshots of a run; without any, nothing is known and nothing is in the way."""

    def __init__(
        self,
        snapshots: Snapshots | None,
        repository: Repository | None = None,
        run_folder: Folder | None = None,
        tend: Callable[[], None] | None = None,
        held_back: HeldBack = NONE_HELD,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take what can be kept, and where; `tend` repairs the folder before it is looked at."""
        self._held_back = held_back
        self._tend = tend
        self.snapshots = snapshots
        self._repository = repository
        self._checkouts = run_folder and run_folder.below(CHECKOUTS_FOLDER)
        self._before: Snapshot | None = None
        self.now: Snapshot | None = None
        self._looked: Snapshot | None = None
        """Of the turn that is recorded next, if a process that was killed has looked already."""
        self._inodes = () if repository is None else repository.inodes
        self._watch: RepositoryWatch | None = None
        if repository is not None:
            self._watch = RepositoryWatch(repository, run_folder, environ or {})
        self.changed_before: tuple[str, ...] = ()
        self.why_no_snapshots = "" if snapshots else "the run has no folder for them"

    @property
    def holds_back(self) -> bool:
        return bool(self._held_back.paths)

    @property
    def prefix(self) -> str:
        return "" if self._repository is None else self._repository.prefix

    @property
    def _store(self) -> Snapshots:
        if self.snapshots is None:
            raise RunError("without snapshots there is no fresh checkout to run a gate in")
        return self.snapshots

    def files(self, commit: str) -> list[str]:
        return [*self._store.files(commit), *self._held_back.files()]

    def read(self, commit: str, path: str, limit: int) -> bytes | None:
        if is_held(path, self._held_back.paths):
            return self._held_back.read(path, limit)
        return self._store.read(commit, path, limit)

    def links(self, commit: str) -> dict[str, str]:
        return self._store.links(commit)

    def mentioning(self, commit: str, word: str, limit: int) -> tuple[str, ...]:
        held = self._held_back.mentioning(word, limit)
        return (*self._store.mentioning(commit, word), *held)

    def left_behind(self, *commits: str) -> tuple[str, ...]:
        snapshots = self._store
        start = snapshots.all()[0].tree
        changes = (one for commit in commits for one in snapshots.changes(start, commit))
        paths = {path for one in changes for path in (one.path, one.old_path)}
        found = {path for path in paths if cache_of(path)}
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
        """Yield a fresh checkout of a snapshot, with paths of another one, and other texts."""
        snapshots = self._store
        assert self._checkouts is not None, "snapshots are in the folder of a run"
        try:
            self._checkouts.make()
            folder = Path(tempfile.mkdtemp(dir=self._checkouts.path))
            snapshots.lay_out(commit, folder)
            if over:
                snapshots.lay_over(over, folder, paths)
            if left := self.left_behind(*filter(None, (commit, over))):
                snapshots.lay_over(snapshots.all()[0].tree, folder, left)
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
        """Keep the folder before anything is done in it; return the last number and warnings.

        When a run is resumed, what changed since belongs to no turn, unless one is in flight. If
        that has `replied` already, it may have its snapshot, too. Raise `RunError` if a run that
        has snapshots cannot be kept any more.
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
        # Last: what is reported once must not be lost with a run that cannot be resumed.
        if self._watch is not None:
            self.changed_before = self._watch.begin()
        return sequence, remarks

    def _start(self, snapshots: Snapshots) -> list[str]:
        start = self.now = snapshots.take(0, START_LABEL)
        said = []
        if dirty := snapshots.keep_base(start):
            had = "had uncommitted changes when the run began; no agent is blamed for them"
            said.append(f"{first_names(dirty)} {had}")
        if start.left_out:
            left = [f"{one.path} ({one.reason})" for one in start.left_out]
            said.append(f"not kept in snapshots: {first_names(left)}")
        try:
            # An agent may do anything to the repository that they are borrowed from.
            snapshots.keep_for_good(LONGEST_COPY)
        except (GitError, OSError) as error:
            lasting = "snapshots can be read only as long as the repository has what it has now"
            said.append(f"{lasting}: {error}")
        return said

    def look_before_turn(self, number: int) -> tuple[str, ...]:
        """Keep what changed while no agent was at work; return these files: they are the user's."""
        before, snapshots = self.now, self.snapshots
        if before is None or snapshots is None or not snapshots.has_any:
            return ()
        # The look after the turn reports what hinders.
        with suppress(GitError, OSError):
            self.now = snapshots.take(number, PERSON_LABEL, after=before)
            return tuple(one.path for one in snapshots.changes(before.tree, self.now.tree))
        return ()

    def look(self, sequence: int, label: str, approved_tree: str = "") -> Seen:
        """Keep the folder after a turn or a gate, and return what that did; else `RunError`."""
        if self._tend is not None:
            self._tend()
        gone = self._gone(label)
        snapshots, before = self.snapshots, self.now
        seen = Seen()
        if snapshots is not None and before is not None:
            if not snapshots.has_any:
                lost = f"while {label} was at work, {REMOVED}; the reply is kept"
                raise gone or RunError(lost)
            try:
                after, self._looked = self._looked, None
                if after is not None and (after.sequence, after.label) == (sequence, label):
                    # What a killed process has taken stays: its changes may be put back.
                    taken = snapshots.all()
                    before = taken[taken.index(after) - 1]
                else:
                    after = self.now = snapshots.take(sequence, label)
                self._before = before
                changes = snapshots.changes(before.tree, after.tree)
                left_out = tuple(one for one in after.left_out if one not in before.left_out)
                paths = [*(one.path for one in changes), *(one.path for one in left_out)]
                since = self._since(approved_tree, after.tree)
                work = Work(after.tree, tuple(dict.fromkeys(paths)), since)
                seen = Seen(work, changes, left_out=left_out)
            except (GitError, OSError) as error:
                why = f"the work folder could not be kept after {label}: {error}"
                raise gone or RunError(f"{why}. The reply is kept; {MENDED}") from error
        if gone is not None:
            raise gone
        return seen if self._watch is None else replace(seen, repository=self._watch.look())

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
        if self.snapshots is None or not approved_tree:
            return ()
        since = self.snapshots.changes(approved_tree, tree)
        return tuple(one.path for one in since if not cache_of(one.path))

    def put_back(self, number: int, label: str, seen: Seen, approved_tree: str = "") -> Seen:
        """Undo what a turn did to some files; return what is left of its changes."""
        assert self.snapshots is not None, "something was seen"
        assert self._before is not None, "there was a look before"
        paths = {path for one in seen.touched for path in (one.path, one.old_path)}
        self.snapshots.restore(self._before.tree, sorted(paths))
        self.now = self._before
        return self.look(number, f"{label}, put back", approved_tree)


def open_work_folder(
    wd: Path,
    run_folder: Folder | None,
    environ: Mapping[str, str],
    tend: Callable[[], None] | None = None,
    held_back: tuple[str, ...] | None = None,
) -> WorkFolder:
    """Return the work folder of a run; `held_back` is not None for a work tree."""
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
    held = held_back_of(run_folder, held_back or ())
    return WorkFolder(snapshots, repository, run_folder, tend, held, environ)


def held_back_of(run_folder: Folder, paths: tuple[str, ...]) -> HeldBack:
    return HeldBack(run_folder.below(HELD_BACK_FOLDER), paths)


def repository_of(wd: Path, environ: Mapping[str, str]) -> Repository | None:
    try:
        return find_repository(wd, environ)
    except (GitError, OSError):
        # Without git, or in a repository that cannot be read, it is a folder like any other.
        return None


def said_of_repository(events: Iterable[RunEvent]) -> tuple[str, ...]:
    warnings = (event for event in events if isinstance(event, Warned))
    said = (event.text for event in warnings if event.about == ABOUT_REPOSITORY)
    return tuple(dict.fromkeys(said))


def _clear(checkouts: Folder) -> None:
    with suppress(OSError):
        remove_folder(checkouts)
