"""Notices what others change in a repository that can start a program or moves its branches.

    watch = Watch(repository, run_folder)
    watch.begin()   # what is different since an earlier process of the run looked for the last time
    ...
    watch.look()    # ('.git/config (core.fsmonitor)', '.git/hooks/post-checkout (new)')

A file that looks as before to the system is not read again. Whoever works there may have made any
number of folders: what was not looked at is said, too. No link is followed, and git is not
run: what stands there is what it must not go by.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from cli_agent_orchestrator._internal.layout import WATCH_FILE
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.workspace.repository import Repository
from cli_agent_orchestrator._internal.workspace.traces import (
    Trace,
    Traces,
    differences,
    from_json,
    packed_refs,
    to_json,
)
from cli_agent_orchestrator._internal.workspace.walking import walk

FILES = (
    # Those that need not be the same in all work trees of a repository.
    ("HEAD",),
    ("config",),
    ("config.worktree",),
    ("info", "attributes"),
    ("info", "exclude"),
    ("reftable", "tables.list"),
)
SUBMODULES = "modules"
NO_REPOSITORIES = ("hooks", "info", "lfs", "logs", "objects", "refs", "worktrees")
"""Folders of a repository in which there is none of a submodule."""
DEEPEST = 32
"""Folders in each other, of hooks and of branches, that are looked at."""
DEEPEST_SUBMODULE = 8
MOST_LOOKED_AT = 20_000
"""Files, and folders, below one folder."""
MOST_UNSEEN = 100
LONGEST_SHOWN = 500
"""Characters of a path that is told."""
TOO_DEEP = "too deep to be looked at"
LARGEST_KEPT = 256 * 1024 * 1024
LARGEST_FILE = 64 * 1024 * 1024
SHORT = 1024 * 1024
"""Bytes up to which a file is kept as it is; of a larger one a number that stands for it."""

Look = tuple[int, int, int, int, int]
"""What changes whenever a file does."""


class RepositoryWatch:
    """One repository, as it was when it was last looked at."""

    def __init__(
        self, repository: Repository, kept_in: Folder | None = None, most: int = MOST_LOOKED_AT
    ) -> None:
        """Take the folder in which each look is kept, if it is to outlive this process."""
        self._most = most
        self._repository = repository
        self._kept_in = kept_in
        self._read: dict[Path, tuple[Look, Trace]] = {}
        self._last: Traces | None = None
        self.has_compared = False
        """Was there an earlier look with which the first one was compared?"""

    def begin(self) -> tuple[str, ...]:
        """Look for the first time; say what is different from the last look that was kept."""
        kept = self._kept()
        self.has_compared = kept is not None
        return self._compare(kept)

    def look(self) -> tuple[str, ...]:
        """Say what is different from the last look, in words."""
        return self.begin() if self._last is None else self._compare(self._last)

    def _compare(self, before: Traces | None) -> tuple[str, ...]:
        """Look, and say what is different; compared with nothing, that is nothing."""
        now = self._last = self._traces()
        if before != now:
            self._keep(now)
        return () if before is None else differences(before, now)

    def _kept(self) -> Traces | None:
        if self._kept_in is not None:
            with suppress(OSError):
                text = self._kept_in.read(WATCH_FILE, LARGEST_KEPT).decode(errors="replace")
                return from_json(text)
        return None

    def _keep(self, traces: Traces) -> None:
        if self._kept_in is not None:
            # Without it a crash is the only thing that hides a change.
            with suppress(OSError):
                self._kept_in.replace(WATCH_FILE, to_json(traces).encode(), lasting=False)

    def _traces(self) -> Traces:
        common = self._repository.common_dir
        finder = _Finder(self._shown, self._most)
        files = {}
        for place in self._places(finder):
            trace = self._trace(place)
            if trace is not None:
                files[self._shown(place)] = trace
        packed = self._trace(common / "packed-refs")
        refs = {} if packed is None else packed_refs(packed.content)
        for path in finder.below(common / "refs"):
            at = self._trace(path)
            if at is not None:
                name = path.relative_to(common).as_posix()
                refs[name] = at.content.decode(errors="replace").strip()
        return Traces(files, refs, tuple(finder.unseen))

    def _places(self, finder: "_Finder") -> Iterator[Path]:
        repository = self._repository
        if repository.git_dir != repository.top / ".git":
            yield repository.top / ".git"
        for folder in dict.fromkeys((repository.common_dir, repository.git_dir)):
            yield from (folder.joinpath(*parts) for parts in FILES)
        yield from finder.below(repository.common_dir / "hooks")
        for folder in finder.submodules(repository.common_dir / SUBMODULES):
            yield from (folder.joinpath(*parts) for parts in FILES if parts != ("HEAD",))
            yield from finder.below(folder / "hooks")

    def _trace(self, path: Path) -> Trace | None:
        """Return a file as it is; None if it is not there."""
        try:
            status = path.lstat()
        except OSError:
            return None
        look = (
            status.st_mode,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        known = self._read.get(path)
        if known is not None and known[0] == look:
            return known[1]
        trace = Trace(status.st_mode, _content(path, status.st_mode))
        self._read[path] = (look, trace)
        return trace

    def _shown(self, path: Path) -> str:
        top = self._repository.top
        return str(path.relative_to(top) if path.is_relative_to(top) else path)


class _Finder:
    """Finds files in folders that anybody may have made, and keeps what it did not look at."""

    def __init__(self, shown: Callable[[Path], str], most: int) -> None:
        """Take how a path is called, and how many are looked at below one folder."""
        self._shown = shown
        self._most = most
        self.unseen: list[str] = []

    def submodules(self, top: Path) -> Iterator[Path]:
        """Yield the repositories of submodules below a folder, and of their own submodules."""
        for place, folders, _ in self._walk(top, DEEPEST_SUBMODULE):
            if place != top and os.path.lexists(place / "config"):
                yield place
            if place != top:
                folders[:] = [name for name in folders if name not in NO_REPOSITORIES]

    def below(self, top: Path) -> Iterator[Path]:
        """Yield all that is in a folder and in those in it; of a link only itself."""
        with suppress(OSError):
            if not stat.S_ISDIR(top.lstat().st_mode):
                yield top
                return
        files = (
            place / name
            for place, _, others in self._walk(top, DEEPEST)
            for name in others
            if not name.endswith(".lock")
        )
        yield from islice(files, self._most)
        if next(files, None) is not None:
            self._note(top, "too many files to be looked at")

    def _walk(self, top: Path, deepest: int) -> Iterator[tuple[Path, list[str], list[str]]]:
        """Yield the folders below one, so many at most, and so many in each other."""
        levels = len(top.parts) + deepest
        found = walk(top, self._cannot_read)
        for place, folders, others in islice(found, self._most):
            if len(place.parts) >= levels and folders:
                self._note(place, TOO_DEEP)
                folders.clear()
            yield place, folders, others
        if next(found, None) is not None:
            self._note(top, "too many folders to be looked at")

    def _cannot_read(self, folder: Path, error: OSError) -> None:
        if error.errno != errno.ENOENT:
            reason = "could not be read"
            self._note(folder, TOO_DEEP if error.errno == errno.ENAMETOOLONG else reason)

    def _note(self, folder: Path, why: str) -> None:
        if len(self.unseen) < MOST_UNSEEN:
            self.unseen.append(f"{self._shown(folder)[:LONGEST_SHOWN]}/… ({why})")


def _content(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        with suppress(OSError):
            return os.fsencode(path.readlink())
    try:
        content = Folder(path.parent).read(path.name, LARGEST_FILE)
    except OSError:
        return b""
    # Those of branches and settings are compared in parts.
    return content if len(content) <= SHORT or path.name == "packed-refs" else _digest(content)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
