"""Notices what others change in a repository that can start a program or moves its branches.

    watch = Watch(repository, run_folder)
    watch.begin()   # what is different since an earlier process of the run looked for the last time
    ...
    watch.look()    # ('.git/config (core.fsmonitor)', '.git/hooks/post-checkout (new)')

A file that looks as before to the system is not read again. No link is followed, and git is not
run: what stands there is what it must not go by.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
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
DEEPEST = 8
LARGEST_KEPT = 256 * 1024 * 1024
LARGEST_FILE = 64 * 1024 * 1024
SHORT = 1024 * 1024
"""Bytes up to which a file is kept as it is; of a larger one a number that stands for it."""

Look = tuple[int, int, int, int, int]
"""What changes whenever a file does."""


class Watch:
    """One repository, as it was when it was last looked at."""

    def __init__(self, repository: Repository, kept_in: Folder | None = None) -> None:
        """Take the folder in which each look is kept, if it is to outlive this process."""
        self._repository = repository
        self._kept_in = kept_in
        self._read: dict[Path, tuple[Look, Trace]] = {}
        self._last = Traces()

    def begin(self) -> tuple[str, ...]:
        """Look for the first time; say what is different from the last look that was kept."""
        kept = self._kept()
        self._last = self._traces() if kept is None else kept
        if kept is None:
            self._keep()
        return self.look()

    def look(self) -> tuple[str, ...]:
        """Say what is different from the last look, in words."""
        before, self._last = self._last, self._traces()
        if before != self._last:
            self._keep()
        return differences(before, self._last)

    def _kept(self) -> Traces | None:
        if self._kept_in is not None:
            with suppress(OSError):
                text = self._kept_in.read(WATCH_FILE, LARGEST_KEPT).decode(errors="replace")
                return from_json(text)
        return None

    def _keep(self) -> None:
        if self._kept_in is not None:
            # Without it a crash is the only thing that hides a change.
            with suppress(OSError):
                self._kept_in.replace(WATCH_FILE, to_json(self._last).encode(), lasting=False)

    def _traces(self) -> Traces:
        common = self._repository.common_dir
        files = {}
        for place in self._places():
            trace = self._trace(place)
            if trace is not None:
                files[self._shown(place)] = trace
        packed = self._trace(common / "packed-refs")
        refs = {} if packed is None else packed_refs(packed.content)
        for path in _below(common / "refs"):
            at = self._trace(path)
            if at is not None:
                name = path.relative_to(common).as_posix()
                refs[name] = at.content.decode(errors="replace").strip()
        return Traces(files, refs)

    def _places(self) -> Iterator[Path]:
        repository = self._repository
        if repository.git_dir != repository.top / ".git":
            yield repository.top / ".git"
        for folder in dict.fromkeys((repository.common_dir, repository.git_dir)):
            yield from (folder.joinpath(*parts) for parts in FILES)
        yield from _below(repository.common_dir / "hooks")
        for folder in _submodules(repository.common_dir / SUBMODULES, DEEPEST):
            yield from (folder.joinpath(*parts) for parts in FILES if parts != ("HEAD",))
            yield from _below(folder / "hooks")

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


def _submodules(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the repositories of submodules below a folder, and of their own submodules."""
    names: list[str] = []
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            with os.scandir(folder) as entries:
                names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    for name in names if depth else ():
        inner = folder / name
        if os.path.lexists(inner / "config"):
            yield inner
        if name not in NO_REPOSITORIES:
            yield from _submodules(inner, depth - 1)


def _below(folder: Path) -> Iterator[Path]:
    """Yield all that is in a folder and in those in it; of a link only itself."""
    with suppress(OSError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            yield folder
            return
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_folder in found:
            if is_folder:
                yield from _below(folder / name)
            elif not name.endswith(".lock"):
                yield folder / name


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
