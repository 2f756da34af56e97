"""The files of a project, which may have come from anybody: the one way they are read and written.

A cloned project can hold a link to a file of the user's, or a pipe to which nobody ever writes.
So no name below the project's folder is followed if it is a link, neither a file nor a folder on
the way to it, and only regular files are opened. Everything is done relative to folders that are
held open meanwhile: whatever is put in their place later makes no difference.

What lies there and should not is `NotPlain`, an OSError whose text says what it is, and to remove
it. Nobody is told to remove what he has named himself: it may be a device.
"""

import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

LARGEST_FILE = 64 * 1024 * 1024
LARGEST_TEXT = 4 * 1024 * 1024
"""Bytes of a task or a reply, as JSON. The state of a usual run holds up to 13 of them, or of what
is taken from them, and is no larger than a file may be: what can be saved can be read again."""

Owner = tuple[int, int]
"""User and group, by number."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
"""Opening a pipe would wait for its other end."""

KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class NotPlain(OSError):
    """Something else lies where a regular file or a folder should be."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(errno.EINVAL, text, str(path))


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder: how to come to `root` is the user's own affair, what is below it is not trusted."""

    root: Path
    parts: tuple[str, ...] = ()
    private: bool = False
    """Is what is made here for nobody but its owner?"""
    named: bool = False
    """Is it outside of any project, and has the user himself named what is in it?"""

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def make(self) -> None:
        """Make the folder, with its parents, if it is not there."""
        with self._opened(make=True):
            pass

    def names(self) -> list[str]:
        """Return the names of all that is in the folder; none if it is not there."""
        try:
            with self._opened() as folder, os.scandir(folder) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return []

    def changed(self) -> dict[str, int]:
        """Return the names of all that is in the folder, and when each was changed last."""
        try:
            with self._opened() as folder, os.scandir(folder) as entries:
                return {one.name: _changed_at(one) for one in entries}
        except FileNotFoundError:
            return {}

    def free_name(self, stem: str, suffix: str = "") -> str:
        """Return `stem` with `suffix`, or `stem-2` and so on: what nothing in the folder has."""
        taken = set(self.names())
        numbers = count(2)
        name = f"{stem}{suffix}"
        while name in taken:
            name = f"{stem}-{next(numbers)}{suffix}"
        return name

    def status(self, name: str) -> os.stat_result | None:
        """Return what the system knows of a regular file, or None if it is not there."""
        try:
            with self._opened() as folder:
                return self._status(folder, name)
        except FileNotFoundError:
            return None

    def mode(self, name: str) -> int:
        """Return kind and permissions of whatever lies there, a link's own; 0 if nothing does."""
        try:
            with self._opened() as folder:
                return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0

    def read(self, name: str, limit: int = LARGEST_FILE) -> bytes:
        """Return the content of a file."""
        with self._opened() as folder:
            descriptor = self._open(folder, name, os.O_RDONLY)
        return _read_all(descriptor, self.path / name, limit)

    def read_in_each(self, folders: Iterable[str], name: str) -> Iterator[tuple[str, bytes]]:
        """Yield the content of the file of a name in folders of this one; empty if it has none."""
        with self._opened() as parent:
            for folder in folders:
                data = b""
                with suppress(OSError), ExitStack() as opened:
                    inner = os.open(folder, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
                    opened.callback(os.close, inner)
                    file = os.open(name, FILE_FLAGS | os.O_NOFOLLOW, dir_fd=inner)
                    opened.callback(os.close, file)
                    status = os.fstat(file)
                    if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE:
                        data = os.read(file, status.st_size)
                yield folder, data

    def owner(self, name: str = ".") -> Owner | None:
        """Return whose something is, a link itself, or the folder; None if it is not there."""
        try:
            with self._opened() as folder:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return status.st_uid, status.st_gid

    def create(
        self,
        name: str,
        data: bytes,
        mode: int = 0o666,
        lasting: bool = True,
        owner: Owner | None = None,
    ) -> None:
        """Write a new file; raise FileExistsError if there is anything of that name."""
        with self._opened(make=True) as folder:
            try:
                mode = mode & self._file_mode | mode & 0o111
                _write(_made(folder, name, mode, owner), data, lasting)
            except FileExistsError:
                raise
            except OSError:
                with suppress(OSError):
                    _remove(folder, name)
                raise

    def create_link(self, name: str, target: str) -> None:
        """Make a link, wherever it leads; raise FileExistsError if there is anything."""
        with self._opened(make=True) as folder:
            os.symlink(target, name, dir_fd=folder)

    def replace(self, name: str, data: bytes, mode: int = 0o666, lasting: bool = True) -> None:
        """Write a file as a whole or not at all: what was there before stays until then.

        One that need not last through a power cut is not waited for.
        """
        draft = f".{name}.draft"
        with self._opened(make=True) as folder:
            self._status(folder, name)
            # A draft may be left over from a killed run. It is removed, not opened.
            _remove(folder, draft)
            try:
                _write(_made(folder, draft, mode & self._file_mode), data, lasting)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    _remove(folder, draft)
                raise
            # Makes the rename last through a power cut, on file systems that can.
            if lasting:
                with suppress(OSError):
                    os.fsync(folder)

    def open_to_read(self, name: str) -> BinaryIO:
        """Open a file to read from it as it grows."""
        with self._opened() as folder:
            return os.fdopen(self._open(folder, name, os.O_RDONLY), "rb", buffering=0)

    def append(self, name: str) -> BinaryIO:
        """Open a file to write at its end; it is made if it is not there."""
        with self._opened(make=True) as folder:
            descriptor = self._open(folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if os.fstat(descriptor).st_nlink > 1:
            os.close(descriptor)
            raise NotPlain(self.path / name, "it has a second name (a hard link); remove it")
        return os.fdopen(descriptor, "ab")

    def move(self, name: str, to: "Folder", new_name: str) -> None:
        """Move a file as it is, whatever it is, to a name that is free."""
        with self._opened() as folder, to._opened(make=True) as other:
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=other)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(FileNotFoundError), self._opened() as folder:
            _remove(folder, name)

    def rename_to(self, new_name: str) -> "Folder":
        """Give the folder another name, which must be free, and return it under that."""
        parent = Folder(self.root, self.parts[:-1], self.private)
        with parent._opened() as folder:
            os.rename(self.parts[-1], new_name, src_dir_fd=folder, dst_dir_fd=folder)
        return Folder(self.root, (*self.parts[:-1], new_name), self.private)

    def remove_all(self) -> None:
        """Remove the folder with all that is in it; no link is followed."""
        with suppress(FileNotFoundError), Folder(self.root, self.parts[:-1])._opened() as parent:
            try:
                shutil.rmtree(self.parts[-1], dir_fd=parent)
            except RecursionError:
                _remove_deep(self.parts[-1], parent)

    def remove_if_empty(self) -> bool:
        """Remove the folder if nothing is in it; say whether it was."""
        try:
            with Folder(self.root, self.parts[:-1])._opened() as parent:
                os.rmdir(self.parts[-1], dir_fd=parent)
        except OSError:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that ends with the process; raise BlockingIOError if another has it.

        It is on the folder itself: whatever is removed in it makes no difference.
        """
        with self._opened() as folder:
            if self.parts:
                self._lock_despite_lookers(folder)
            else:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def is_locked(self) -> bool:
        """Does a process hold the lock? Not if the folder is not there.

        The root is not asked: who looks there would keep another from taking its lock.
        """
        try:
            with self._opened() as folder:
                fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def _lock_despite_lookers(self, folder: int) -> None:
        """Take the lock, and wait for whoever looks: that shares it for a moment.

        Meanwhile the parent is locked, so that of several who want the lock only one waits for it.
        """
        with Folder(self.root, self.parts[:-1])._opened() as parent:
            fcntl.flock(parent, fcntl.LOCK_EX)
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(folder, fcntl.LOCK_EX)

    @property
    def _file_mode(self) -> int:
        return 0o600 if self.private else 0o666

    @property
    def _folder_mode(self) -> int:
        return 0o700 if self.private else 0o777

    @property
    def _advice(self) -> str:
        return "" if self.named else "; remove it"

    @contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        if make:
            with suppress(FileExistsError):
                self.root.mkdir(parents=True, mode=self._folder_mode)
        descriptor = os.open(self.root, FOLDER_FLAGS)
        try:
            path = self.root
            for part in self.parts:
                path /= part
                inner = _enter(descriptor, path, self._folder_mode if make else None)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _status(self, folder: int, name: str) -> os.stat_result | None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _check_regular(status, self.path / name, self._advice)
        return status

    def _open(self, folder: int, name: str, flags: int) -> int:
        try:
            descriptor = os.open(
                name, flags | FILE_FLAGS | os.O_NOFOLLOW, mode=self._file_mode, dir_fd=folder
            )
        except OSError:
            # The system's word for a link or for a pipe without a reader would help nobody.
            self._status(folder, name)
            raise
        return _checked(descriptor, self.path / name, self._advice)


def folder_of(path: Path, project: Path) -> Folder:
    """Return the folder of a file: one in the project is not trusted, one elsewhere is."""
    return _inside(path, project) or Folder(path.parent, named=True)


def read_file(path: Path, project: Path) -> bytes:
    """Return the content of a file that the user has named, in the project or elsewhere."""
    folder = _inside(path, project)
    return read_named(path) if folder is None else folder.read(path.name)


def read_named(path: Path, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of a file outside of any project; it may be a link of the user's own."""
    descriptor = _checked(os.open(path, os.O_RDONLY | FILE_FLAGS), path)
    return _read_all(descriptor, path, limit)


def is_too_large(text: str) -> bool:
    """Would a text take too much room in the state of a run?"""
    return len(text) > LARGEST_TEXT or len(json.dumps(text)) > LARGEST_TEXT


def _inside(path: Path, project: Path) -> Folder | None:
    path = Path(os.path.normpath(path.absolute()))
    for ancestor in reversed(path.parents):
        with suppress(OSError):
            if ancestor.samefile(project):
                return Folder(project, path.parent.relative_to(ancestor).parts)
    return None


def _enter(parent: int, path: Path, mode: int | None) -> int:
    """Open a folder; with a mode it is made if it is not there."""
    if mode is not None:
        with suppress(FileExistsError):
            os.mkdir(path.name, mode, dir_fd=parent)
    try:
        return os.open(path.name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    except OSError:
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            text = f"its folder {path} is {_kind(status)}, not a folder; remove it"
            raise NotPlain(path, text) from None
        raise


def _checked(descriptor: int, path: Path, advice: str = "") -> int:
    try:
        _check_regular(os.fstat(descriptor), path, advice)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result, path: Path, advice: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotPlain(path, f"it is {_kind(status)}, not a regular file{advice}")


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "a device")


def _read_all(descriptor: int, path: Path, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        is_larger = os.fstat(descriptor).st_size > limit
        data = b"" if is_larger else file.readall()
    if is_larger or len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes; shorten it", str(path))
    return data


def _made(folder: int, name: str, mode: int, owner: Owner | None = None) -> int:
    """Make a file and return it, opened to write."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode=mode, dir_fd=folder)
    if owner is not None:
        try:
            # By what was opened: under its name there may be another file by now.
            os.fchown(descriptor, *owner)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def _remove_deep(name: str, parent: int) -> None:
    """Remove a folder in which folders lie too deep for a walk: all are brought up first."""
    top = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    mark, number = secrets.token_hex(8), 0
    try:
        while entries := _names(top):
            for entry in entries:
                if not _is_folder(entry, top):
                    os.unlink(entry, dir_fd=top)
                    continue
                folder = os.open(entry, FOLDER_FLAGS, dir_fd=top)
                try:
                    for inner in _names(folder):
                        if _is_folder(inner, folder):
                            number += 1
                            new = f"{mark}-{number}"
                            os.rename(inner, new, src_dir_fd=folder, dst_dir_fd=top)
                        else:
                            os.unlink(inner, dir_fd=folder)
                finally:
                    os.close(folder)
                os.rmdir(entry, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _changed_at(entry: os.DirEntry[str]) -> int:
    """Return when something was changed last, in nanoseconds; 0 if it is just being removed."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        return 0


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _write(descriptor: int, data: bytes, lasting: bool) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if lasting:
            os.fsync(file.fileno())


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


# src/__pycache__/a.cpython-311.pyc
CACHE_PATTERN = (
    r"^(?:.*?/)??(?:(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|node_modules)(?=/)"
    r"|[^/]+\.pyc\Z|\.coverage\Z)"
)


def is_left_behind(path: str) -> bool:
    """Is a file one that programs leave behind when they are merely run?"""
    return bool(cache_of(path))


def cache_of(path: str) -> str:
    """Return the outermost file or folder that programs leave behind, of which a path is a part."""
    match = re.match(CACHE_PATTERN, path)
    return match.group() if match else ""
