"""The files of a project, which may have come from anybody: the one way they are read and written.

A cloned project can hold a link to a file of the user's, or a pipe to which nobody ever writes.
So no name below the project's folder is followed if it is a link, neither a file nor a folder on
the way to it, and only regular files are opened. Everything is done relative to folders that are
held open meanwhile: whatever is put in their place later makes no difference.

What should not lie there is `NotPlain`, an OSError whose text says what it is and to remove it, but
not to remove what the user has named: it may be a device.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

LARGEST_FILE = 64 * 1024 * 1024

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


class Folder(Struct, frozen=True):
    """A folder: `root` is trusted; everything below it is not."""

    root: Path
    parts: tuple[str, ...] = ()
    private: bool = False
    """Is what is made here for its owner alone?"""
    named: bool = False
    """Is it outside of any project, and did the user name what is in it?"""

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def below(self, *names: str) -> "Folder":
        return Folder(self.root, (*self.parts, *names), self.private)

    def make(self) -> None:
        with self._opened(make=True):
            pass

    def names(self) -> list[str]:
        with suppress(FileNotFoundError), self._opened() as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries]
        return []

    def changed(self) -> dict[str, int]:
        changed = {}
        with suppress(FileNotFoundError), self._opened() as folder, os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    changed[entry.name] = entry.stat(follow_symlinks=False).st_mtime_ns
        return changed

    def free_name(self, stem: str, suffix: str = "") -> str:
        taken = set(self.names())
        others = (f"{stem}-{number}{suffix}" for number in count(2))
        return next(name for name in chain([f"{stem}{suffix}"], others) if name not in taken)

    def status(self, name: str) -> os.stat_result | None:
        status = self._lstat(name)
        if status is not None:
            self._check_regular(status, name)
        return status

    def mode(self, name: str) -> int:
        """Return kind and permissions of whatever lies there, a link's own; 0 if nothing does."""
        status = self._lstat(name)
        return 0 if status is None else status.st_mode

    def read_in_each(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Yield the content of the file of a name in each folder of this one; empty if none."""
        with suppress(FileNotFoundError), self._opened() as parent:
            with os.scandir(parent) as entries:
                folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            for folder in folders:
                data = b""
                with suppress(OSError):
                    file = os.open(f"{folder}/{name}", FILE_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
                    try:
                        status = os.fstat(file)
                        if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_FILE:
                            data = os.read(file, status.st_size)
                    finally:
                        os.close(file)
                yield folder, data

    def read(self, name: str, limit: int = LARGEST_FILE) -> bytes:
        with self.open_to_read(name) as file:
            return _read_all(file, self.path / name, limit)

    def create(self, name: str, data: bytes, mode: int = 0o666, lasting: bool = True) -> None:
        with self._opened(make=True) as folder:
            _write(folder, name, data, mode & self._file_mode | mode & 0o111, lasting)

    def create_link(self, name: str, target: str) -> None:
        with self._opened(make=True) as folder:
            os.symlink(target, name, dir_fd=folder)

    def replace(self, name: str, data: bytes, mode: int = 0o666, lasting: bool = True) -> None:
        """Write a file as a whole or not at all; one that is not `lasting` is not waited for."""
        draft = f".{name}.draft"
        with self._opened(make=True) as folder:
            self.status(name)
            # A draft may be left over from a killed run. It is removed, not opened.
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            _write(folder, draft, data, mode & self._file_mode, lasting)
            try:
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(draft, dir_fd=folder)
                raise
            # Makes the rename last through a power cut, on file systems that can.
            if lasting:
                with suppress(OSError):
                    os.fsync(folder)

    def open_to_read(self, name: str) -> BinaryIO:
        with self._opened() as folder:
            return os.fdopen(self._open(folder, name, os.O_RDONLY), "rb", buffering=0)

    def append(self, name: str) -> BinaryIO:
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
        with suppress(FileNotFoundError), self._opened() as folder:
            os.unlink(name, dir_fd=folder)

    def rename_to(self, new_name: str) -> "Folder":
        parent = Folder(self.root, self.parts[:-1], self.private)
        with parent._opened() as folder:
            os.rename(self.parts[-1], new_name, src_dir_fd=folder, dst_dir_fd=folder)
        return parent.below(new_name)

    def remove_all(self) -> None:
        with suppress(FileNotFoundError), Folder(self.root, self.parts[:-1])._opened() as parent:
            shutil.rmtree(self.parts[-1], dir_fd=parent)

    def remove_if_empty(self) -> bool:
        with suppress(OSError), Folder(self.root, self.parts[:-1])._opened() as parent:
            os.rmdir(self.parts[-1], dir_fd=parent)
            return True
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that ends with the process; raise BlockingIOError if another has it.

        It is on the folder itself: whatever is removed in it makes no difference. `is_locked`
        shares the lock for a moment and is waited for; meanwhile the parent is locked, so that of
        several processes that want the lock only one waits.
        """
        with self._opened() as folder:
            if self.parts:
                with Folder(self.root, self.parts[:-1])._opened() as parent:
                    fcntl.flock(parent, fcntl.LOCK_EX)
                    fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    fcntl.flock(folder, fcntl.LOCK_EX)
            else:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def is_locked(self) -> bool:
        """Does a process hold the lock? Not to be asked of the root: the look takes its lock."""
        try:
            with self._opened() as folder:
                fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    @property
    def _file_mode(self) -> int:
        return 0o600 if self.private else 0o666

    @contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        mode = 0o700 if self.private else 0o777
        if make:
            with suppress(FileExistsError):
                self.root.mkdir(parents=True, mode=mode)
        descriptor = os.open(self.root, FOLDER_FLAGS)
        try:
            path = self.root
            for part in self.parts:
                path /= part
                inner = _enter(descriptor, path, mode if make else None)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _lstat(self, name: str) -> os.stat_result | None:
        try:
            with self._opened() as folder:
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _open(self, folder: int, name: str, flags: int) -> int:
        flags |= FILE_FLAGS | os.O_NOFOLLOW
        try:
            descriptor = os.open(name, flags, mode=self._file_mode, dir_fd=folder)
        except OSError:
            # The system's error for a link or for a pipe without a reader is of no help.
            self.status(name)
            raise
        try:
            self._check_regular(os.fstat(descriptor), name)
        except NotPlain:
            os.close(descriptor)
            raise
        return descriptor

    def _check_regular(self, status: os.stat_result, name: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            advice = "" if self.named else "; remove it"
            text = f"it is {_kind(status)}, not a regular file{advice}"
            raise NotPlain(self.path / name, text)


def folder_of(path: Path, project: Path) -> Folder:
    """Return the folder of a file: one in the project is not trusted, one elsewhere is."""
    return _inside(path, project) or Folder(path.parent, named=True)


def read_file(path: Path, project: Path) -> bytes:
    folder = _inside(path, project)
    return read_named(path) if folder is None else folder.read(path.name)


def read_named(path: Path, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of a file outside of any project; it may be a link of the user's own."""
    descriptor = os.open(path, os.O_RDONLY | FILE_FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotPlain(path, f"it is {_kind(status)}, not a regular file")
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        return _read_all(file, path, limit)


def _inside(path: Path, project: Path) -> Folder | None:
    path = Path(os.path.normpath(path.absolute()))
    for ancestor in reversed(path.parents):
        with suppress(OSError):
            if ancestor.samefile(project):
                return Folder(project, path.parent.relative_to(ancestor).parts)
    return None


def _enter(parent: int, path: Path, mode: int | None) -> int:
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


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "a device")


def _read_all(file: BinaryIO, path: Path, limit: int) -> bytes:
    is_larger = os.fstat(file.fileno()).st_size > limit
    data = b"" if is_larger else file.read()
    if is_larger or len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes; shorten it", str(path))
    return data


def _write(folder: int, name: str, data: bytes, mode: int, lasting: bool) -> None:
    """Write a new file; nothing is left of one that cannot be written whole."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode=mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if lasting:
                os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


# src/__pycache__/a.cpython-311.pyc
CACHE_PATTERN = (
    r"^(?:.*?/)??(?:(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|node_modules)(?=/)"
    r"|[^/]+\.pyc\Z|\.coverage\Z)"
)


def cache_of(path: str) -> str:
    """Return the outermost file or folder that programs leave behind, of which a path is a part."""
    match = re.match(CACHE_PATTERN, path)
    return match.group() if match else ""
