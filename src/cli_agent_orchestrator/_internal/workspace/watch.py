"""Notices what others change in a repository that can start a program or moves its branches.

    watch = Watch(repository)
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

from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.workspace.repository import Repository
from cli_agent_orchestrator._internal.workspace.traces import (
    Trace,
    Traces,
    differences,
    packed_refs,
)

FILES = (
    # Those that need not be the same in all work trees of a repository.
    ("HEAD",),
    ("config",),
    ("config.worktree",),
    ("info", "attributes"),
    ("reftable", "tables.list"),
)
LARGEST_FILE = 64 * 1024 * 1024
SHORT = 1024 * 1024
"""Bytes up to which a file is kept as it is; of a larger one a number that stands for it."""

Look = tuple[int, int, int, int, int]
"""What changes whenever a file does."""


class Watch:
    """One repository, as it was when it was last looked at."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._read: dict[Path, tuple[Look, Trace]] = {}
        self._last = self._traces()

    def look(self) -> tuple[str, ...]:
        """Say what is different from the last look, in words."""
        before, self._last = self._last, self._traces()
        return differences(before, self._last)

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
