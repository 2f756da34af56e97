"""Files that are held back: agents do not have them in their work tree, gates do.

They are taken from the user's folder as they are there, kept where no agent works, and laid over
every checkout in which a gate is run. Paths begin at the top of the repository; each is a file, or
a folder with all that is in it. No link is followed: one in such a folder is kept as a link.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ..core.files import Folder, NotPlain
from ..errors import GitError, UsageError, in_words

MOST_NAMED = 5


@dataclass
class Laying:
    """The work on one folder, and how it went."""

    root: Path
    is_ours: bool
    """May all that is in the way be removed? Otherwise only what holds no content."""
    keep: tuple[str, ...] = ()
    """A folder below the root that is never removed, nor are those on the way to it."""
    private: frozenset[str] = frozenset()
    """Paths that nobody but their owner may read."""
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def put(self, paths: Iterable[str], source: Path) -> None:
        """Put files and links at these paths, as they are at the same paths below the source."""
        self._each(paths, lambda path: self._put(path, source / path))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and links, and the folders that are empty then."""
        self._each(paths, self._remove)

    def check(self) -> None:
        if self.failed:
            named = "; ".join(self.failed[:MOST_NAMED])
            more = len(self.failed) - MOST_NAMED
            rest = f"; and {more} more" if more > 0 else ""
            raise GitError(f"not everything in {self.root} could be put back: {named}{rest}")

    def _each(self, paths: Iterable[str], act: Callable[[str], None]) -> None:
        for path in paths:
            try:
                act(path)
            except OSError as error:
                # The others are put back all the same; `check` tells.
                self.failed.append(f"{path!r} ({error.strerror})")
            else:
                self.done.append(path)

    def _put(self, path: str, source: Path) -> None:
        *above, name = path.split("/")
        for depth, part in enumerate(above):
            self._clear(Folder(self.root, tuple(above[:depth])), part)
        folder = Folder(self.root, tuple(above))
        before = folder.mode(name)
        if stat.S_ISDIR(before):
            self._clear_folder(Folder(self.root, (*above, name)))
        else:
            folder.remove(name)
        if source.is_symlink():
            # A Path would make `a` of `./a`.
            folder.create_link(name, os.readlink(source))  # noqa: PTH115
            return
        # Git knows only whether a file may be run.
        mode = 0o600 if path in self.private else 0o666
        if stat.S_ISREG(before):
            mode &= before
        if source.stat().st_mode & 0o100:
            mode |= (mode & 0o444) >> 2
        folder.create(name, source.read_bytes(), mode, lasting=False)

    def _clear(self, folder: Folder, name: str) -> None:
        """Remove what is no folder where one is needed."""
        mode = folder.mode(name)
        if not mode or stat.S_ISDIR(mode):
            return
        if stat.S_ISREG(mode) and not self.is_ours:
            text = "a file that is in no snapshot lies where its folder should be; move it away"
            raise NotPlain(folder.path / name, text)
        folder.remove(name)

    def _clear_folder(self, folder: Folder) -> None:
        """Remove a folder where a file is needed."""
        if self.is_ours:
            folder.remove_all()
            return
        for name in folder.names():
            if stat.S_ISDIR(folder.mode(name)):
                self._clear_folder(Folder(folder.root, (*folder.parts, name)))
        if not folder.remove_if_empty():
            text = "a folder with files that are in no snapshot lies in its place; move it away"
            raise NotPlain(folder.path, text)

    def _remove(self, path: str) -> None:
        *above, name = path.split("/")
        folder = Folder(self.root, tuple(above))
        if self.is_ours and stat.S_ISDIR(folder.mode(name)):
            Folder(self.root, (*above, name)).remove_all()
        else:
            folder.remove(name)
        while above and tuple(above) != self.keep[: len(above)]:
            if not Folder(self.root, tuple(above)).remove_if_empty():
                return
            above.pop()


def remove_folder(folder: Folder) -> None:
    """Remove a folder with all that is in it, also what may not be changed as it is."""
    with suppress(PermissionError):
        folder.remove_all()
        return
    for place, names, _ in os.walk(folder.path):
        for name in names:
            with suppress(OSError):
                if not (path := Path(place, name)).is_symlink():
                    path.chmod(stat.S_IRWXU)
    folder.remove_all()


MOST_FILES = 10_000
MOST_BYTES = 256 * 1024 * 1024
DEEPEST = 100
MOST_NOTICED = 100
"""Files of others in the place of these that are told."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Where the files of a run are kept, and which they are."""

    kept: Folder
    paths: tuple[str, ...]

    def take(self, top: Path) -> None:
        """Copy them from the user's work tree; raise `UsageError` as `find` does."""
        found = find(top, self.paths)
        try:
            for path in found:
                *above, name = path.split("/")
                of = Folder(top, tuple(above))
                to = Folder(self.kept.root, (*self.kept.parts, *above), private=True)
                mode = of.mode(name)
                if stat.S_ISLNK(mode):
                    # A Path would make `a` of `./a`.
                    to.create_link(name, os.readlink(of.path / name))  # noqa: PTH115
                else:
                    data = of.read(name, MOST_BYTES)
                    to.create(name, data, stat.S_IMODE(mode), lasting=False)
        except OSError as error:
            raise UsageError(f"what is held back cannot be kept: {in_words(error)}") from error

    def lay_over(self, folder: Path) -> None:
        """Put them into a checkout, in the place of whatever is there."""
        files = list(_files(self.kept.path))
        if not files:
            raise GitError(f"the files that are held back are gone from {self.kept.path}")
        laying = Laying(folder, is_ours=True)
        laying.put(files, self.kept.path)
        laying.check()

    def files(self) -> tuple[str, ...]:
        return tuple(_files(self.kept.path))

    def read(self, path: str, limit: int) -> bytes | None:
        """Return a file; None if it is none, or longer than the limit."""
        *above, name = path.split("/")
        try:
            return Folder(self.kept.root, (*self.kept.parts, *above)).read(name, limit)
        except OSError:
            return None

    def mentioning(self, word: str, limit: int) -> tuple[str, ...]:
        data = word.encode(errors="surrogateescape")
        return tuple(one for one in self.files() if data in (self.read(one, limit) or b""))


def is_held(path: str, held: Iterable[str]) -> bool:
    """Is a path one that is held back, or below one?"""
    return any(f"{path.rstrip('/')}/".startswith(f"{one}/") for one in held)


def find(top: Path, paths: Sequence[str], most_files: int = MOST_FILES) -> tuple[str, ...]:
    """Return the files to be held back; raise `UsageError` with what cannot be."""
    found: dict[str, None] = {}
    size = 0
    for path in paths:
        try:
            files = _held_files(top, path, most_files)
        except OSError as error:
            raise UsageError(f"held_back: {path} cannot be held back: {error.strerror}") from error
        if not files:
            raise UsageError(f"held_back: there is no file {path} in {top}, nor one below it")
        for name in files:
            if name not in found:
                size += (top / name).lstat().st_size
                found[name] = None
    if len(found) > most_files or size > MOST_BYTES:
        raise UsageError(
            f"held_back: there are {len(found)} files ({size // 1024 // 1024} MB), and no more "
            f"than {most_files} ({MOST_BYTES // 1024 // 1024} MB) can be held back"
        )
    return tuple(found)


def in_their_place(folder: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return files that somebody has made at such paths in a work tree, the first of many."""
    found: list[str] = []
    for path in paths:
        with suppress(OSError):
            found += islice(_files(folder, path), MOST_NOTICED - len(found))
    return tuple(found)


def _held_files(top: Path, path: str, most: int) -> list[str]:
    files = list(islice(_files(top, path), most + 1))
    for name in files:
        *above, last = name.split("/")
        mode = Folder(top, tuple(above)).mode(last)
        if ".git" in above or last == ".git":
            raise OSError(errno.EINVAL, f"{name} belongs to a repository of its own")
        if not stat.S_ISREG(mode) and not (stat.S_ISLNK(mode) and name != path):
            raise OSError(errno.EINVAL, f"{name} is no regular file")
    return files


def _files(top: Path, path: str = "") -> Iterator[str]:
    """Yield what is no folder at a path or below it."""
    waiting = [tuple(path.split("/")) if path else ()]
    while waiting:
        parts = waiting.pop()
        mode = Folder(top, parts[:-1]).mode(parts[-1]) if parts else stat.S_IFDIR
        if len(parts) > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, f"it has more than {DEEPEST} folders in each other")
        if stat.S_ISDIR(mode):
            names = sorted(Folder(top, parts).names(), reverse=True)
            waiting += [(*parts, name) for name in names]
        elif mode:
            yield "/".join(parts)
