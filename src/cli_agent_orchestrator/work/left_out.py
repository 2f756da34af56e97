"""What of a work folder cannot be kept in a snapshot, and why."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..core.files import is_left_behind
from ..errors import GitError
from ..settings.layout import TEMPORARY_FOLDER
from .changes import Change

LARGEST_FILE = 50 * 1024 * 1024
TOO_LARGE = f"larger than {LARGEST_FILE // 1024 // 1024} MB"
OWN_REPOSITORY = "a repository of its own: only its commit id is kept"
NO_COMMIT = "a repository without a commit that can be read"
UNREADABLE = "it cannot be read"
READ_BY_GIT = (".gitignore", ".gitattributes", ".git/HEAD")
READ_IN_GIT_DIR = ("info/exclude", "info/attributes")
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not in a snapshot."""

    path: str
    reason: str

    @property
    def is_odd(self) -> bool:
        """Is it neither a file nor a folder?"""
        return self.reason in KINDS.values()


def open_to_owner(path: Path) -> bool:
    """Let the owner of a file or folder read it; was that needed, and is it so now?"""
    with suppress(OSError):
        mode = path.lstat().st_mode
        wanted = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
        if (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and mode & wanted != wanted:
            path.chmod(stat.S_IMODE(mode) | wanted)
            return True
    return False


class Untouched:
    """What a restore leaves alone: of what it would write over or remove there is no copy."""

    def __init__(self, then: Iterable[LeftOut], now: Iterable[LeftOut]) -> None:
        self._then = {one.path for one in then}
        self._now = {one.path for one in now if one.reason in (TOO_LARGE, UNREADABLE)}

    def has(self, change: Change) -> bool:
        """Is a file left alone that is different from the snapshot?"""
        parts = change.path.split("/")
        return (
            change.path in self._now
            or change.is_repository
            or any("/".join(parts[:depth]) in self._then for depth in range(1, len(parts) + 1))
        )


@dataclass
class Sorted:
    """What git says may have changed, by what can be done with it."""

    to_store: list[str] = field(default_factory=list)
    """To be read by git; one that is gone is removed from the snapshot."""
    to_forget: list[str] = field(default_factory=list)
    """No longer a file of the work folder, whatever can be seen under its name."""
    bytes_to_store: int = 0
    repositories: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def sort_out(top: Path, changed: Iterable[tuple[str, bool]]) -> Sorted:
    """Look at paths that may have changed, each with whether the last snapshot may have it."""
    found = Sorted()
    links = _Links(top)
    for path, is_known in changed:
        if links.is_beyond(path):
            found.to_forget.append(path)
            continue
        try:
            status = os.lstat(os.path.join(top, path))  # noqa: PTH118 - for 50,000 files
        except (FileNotFoundError, NotADirectoryError):
            found.to_store.append(path)
            continue
        except OSError:
            found.left_out.append(LeftOut(path, UNREADABLE))
            continue
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            # Either it is a repository or it took the place of a file: then its files are listed.
            is_repository = os.path.lexists(top / path / ".git")
            (found.repositories if is_repository else found.to_forget).append(path.rstrip("/"))
        elif kind == stat.S_IFREG and status.st_size > LARGEST_FILE:
            found.left_out.append(LeftOut(path, TOO_LARGE))
        elif kind == stat.S_IFREG and not os.access(top / path, os.R_OK):
            found.left_out.append(LeftOut(path, UNREADABLE))
        elif kind in (stat.S_IFREG, stat.S_IFLNK):
            found.to_store.append(path)
            found.bytes_to_store += status.st_size
        else:
            found.left_out.append(LeftOut(path, KINDS.get(kind, "a device")))
            if is_known:
                found.to_forget.append(path)
    return found


def odd_files(top: Path, since: float = 0.0, apart: Sequence[str] = ()) -> Iterator[LeftOut]:
    """Yield pipes and sockets that were made after a time: git does not list them.

    Those in repositories and caches are left. Of other files the kind alone is asked for, which
    costs next to nothing: there may be 50,000.
    """
    left = {str(top / path) for path in apart}
    waiting = [str(top)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    is_cache = is_left_behind(f"{entry.name}/")
                    if entry.name != ".git" and not is_cache and entry.path not in left:
                        waiting.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    status = entry.stat(follow_symlinks=False)
                    kind = KINDS.get(stat.S_IFMT(status.st_mode))
                    if kind and status.st_ctime >= since:
                        yield LeftOut(os.path.relpath(entry.path, top), kind)


def refuse_pipes(folders: Iterable[str], names: Iterable[str] = READ_BY_GIT) -> None:
    """Raise if git would wait without end for what it reads in one of these folders."""
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - for 50,000 files
            with suppress(OSError):
                if stat.S_ISFIFO(os.lstat(path).st_mode):
                    raise GitError(f"{path} is a pipe, for which git would wait; remove it")


def refuse_pipes_of(top: Path, common_dir: Path) -> None:
    """Raise if git would wait for what it reads first in a work tree and its git directory."""
    refuse_pipes([str(top)])
    refuse_pipes([str(common_dir)], READ_IN_GIT_DIR)


class _Links:
    """Knows which folders are links: what can be seen through one is not of the work folder."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: dict[str, bool] = {"": False}

    def is_beyond(self, path: str) -> bool:
        """Is there a link on the way to a path?"""
        folder = path.rstrip("/").rpartition("/")[0]
        unknown = []
        while folder not in self._known:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        found = self._known[folder]
        for below in reversed(unknown):
            found = found or (self._top / below).is_symlink()
            self._known[below] = found
        return found


Fault = Callable[[Path, OSError], None]
"""Is told of a folder that cannot be read, and why."""


def overlook(folder: Path, error: OSError) -> None:
    """Make nothing of a folder that cannot be read."""


def walk(top: Path, on_fault: Fault = overlook) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder from the top down, with the names of the folders in it and of all else.

    No link is followed, not even the top. What is taken from the names of folders is not entered.
    A path that is longer than the system bears cannot be read.
    """
    waiting = [top]
    while waiting:
        place = waiting.pop()
        folders: list[str] = []
        others: list[str] = []
        try:
            if not stat.S_ISDIR(place.lstat().st_mode):
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        except OSError as error:
            on_fault(place, error)
            continue
        folders.sort()
        yield place, folders, sorted(others)
        waiting += [place / name for name in reversed(folders)]


def make_writable(top: Path) -> None:
    """Let the folders below one be changed by their owner, as far as that goes."""
    for place, folders, _ in walk(top):
        for name in folders:
            with suppress(OSError):
                (place / name).chmod(stat.S_IRWXU)


OURS = (TEMPORARY_FOLDER, ".claude/.cc-writes")
"""Folders of ours and of the agents' sandboxes."""
MARKER = ".codex"
"""A file that one agent leaves behind; it is empty."""


def is_ours(path: str, prefix: str, top: Path, *, is_known: bool) -> bool:
    """Is a path such a thing, in the work folder `prefix` below `top` or at the top itself?

    The empty file is one only if it is not known to be the project's.
    """
    for start in starts(prefix):
        below = path.removeprefix(start)
        if path.startswith(start) and any(f"{below}/".startswith(f"{our}/") for our in OURS):
            return True
        if path == start + MARKER and not is_known:
            return _is_empty_file(top / path)
    return False


def starts(prefix: str) -> set[str]:
    """Return how paths begin that lie in the work folder, or at the top."""
    return {"", f"{prefix}/" if prefix else ""}


def _is_empty_file(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0
