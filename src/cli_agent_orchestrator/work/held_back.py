"""Files that are held back: agents do not have them in their work tree, gates do.

They are taken from the user's folder as they are there, kept where no agent works, and laid over
every checkout in which a gate is run. Paths begin at the top of the repository; each is a file, or
a folder with all that is in it. No link is followed: one in such a folder is kept as a link.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ..core.files import Folder, NotPlain
from ..errors import GitError, UsageError

MOST_NAMED = 5


def lay(
    root: Path,
    source: Path,
    put: Iterable[str],
    remove: Iterable[str] = (),
    *,
    is_ours: bool,
    keep: tuple[str, ...] = (),
    private: Collection[str] = (),
) -> list[str]:
    """Remove files from a folder, put others there as they are below the source; return which.

    All are tried, and then `GitError` names what failed. If the folder is not ours, what is in the
    way is removed only if it holds no content. `keep` is a folder that is never removed.
    """
    gone = dict.fromkeys(remove)
    done: list[str] = []
    failed: list[str] = []
    for path in [*gone, *put]:
        try:
            if path in gone:
                _remove(root, path, is_ours, keep)
            else:
                _put(root, path, source / path, is_ours, path in private)
            done.append(path)
        except OSError as error:
            failed.append(f"{path!r} ({error.strerror})")
    if failed:
        named = "; ".join(failed[:MOST_NAMED])
        rest = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
        raise GitError(f"not everything in {root} could be put back: {named}{rest}")
    return done


def _put(root: Path, path: str, source: Path, is_ours: bool, is_private: bool) -> None:
    *above, name = path.split("/")
    for depth, part in enumerate(above):
        folder = Folder(root, tuple(above[:depth]))
        kind = folder.mode(part)
        if stat.S_ISREG(kind) and not is_ours:
            text = "a file that is in no snapshot lies where its folder should be; move it away"
            raise NotPlain(folder.path / part, text)
        if kind and not stat.S_ISDIR(kind):
            folder.remove(part)
    folder = Folder(root, tuple(above))
    before = folder.mode(name)
    if not stat.S_ISDIR(before):
        folder.remove(name)
    elif is_ours:
        folder.below(name).remove_all()
    else:
        _remove_empty(folder.below(name))
    if source.is_symlink():
        # A Path would make `a` of `./a`.
        folder.create_link(name, os.readlink(source))  # noqa: PTH115
        return
    # Git knows only whether a file may be run.
    mode = 0o600 if is_private else 0o666
    if stat.S_ISREG(before):
        mode &= before
    if source.stat().st_mode & 0o100:
        mode |= (mode & 0o444) >> 2
    folder.create(name, source.read_bytes(), mode, lasting=False)


def _remove_empty(folder: Folder) -> None:
    for name in folder.names():
        if stat.S_ISDIR(folder.mode(name)):
            _remove_empty(folder.below(name))
    if not folder.remove_if_empty():
        text = "a folder with files that are in no snapshot lies in its place; move it away"
        raise NotPlain(folder.path, text)


def _remove(root: Path, path: str, is_ours: bool, keep: tuple[str, ...]) -> None:
    *above, name = path.split("/")
    folder = Folder(root, tuple(above))
    if is_ours and stat.S_ISDIR(folder.mode(name)):
        folder.below(name).remove_all()
    else:
        folder.remove(name)
    while above and tuple(above) != keep[: len(above)]:
        if not Folder(root, tuple(above)).remove_if_empty():
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
MOST_NOTICED = 100


class HeldBack(Struct, frozen=True):
    kept: Folder
    paths: tuple[str, ...]

    def take(self, top: Path) -> None:
        try:
            self.kept.make()
            lay(self.kept.path, top, find(top, self.paths), is_ours=True)
        except (GitError, OSError) as error:
            raise UsageError(f"what is held back cannot be kept: {error}") from error

    def lay_over(self, folder: Path) -> None:
        files = self.files()
        if self.paths and not files:
            raise GitError(f"the files that are held back are gone from {self.kept.path}")
        lay(folder, self.kept.path, files, is_ours=True)

    def files(self) -> tuple[str, ...]:
        return tuple(_files(self.kept.path)) if self.paths else ()

    def read(self, path: str, limit: int) -> bytes | None:
        *above, name = path.split("/")
        try:
            return self.kept.below(*above).read(name, limit)
        except OSError:
            return None

    def mentioning(self, word: str, limit: int) -> tuple[str, ...]:
        data = word.encode(errors="surrogateescape")
        return tuple(one for one in self.files() if data in (self.read(one, limit) or b""))


def is_held(path: str, held: Iterable[str]) -> bool:
    return any(f"{path.rstrip('/')}/".startswith(f"{one}/") for one in held)


def find(top: Path, paths: Sequence[str], most_files: int = MOST_FILES) -> tuple[str, ...]:
    sizes: dict[str, int] = {}
    for path in paths:
        try:
            found = islice(_files(top, path), most_files + 1)
            files = {name: (top / name).lstat() for name in found}
        except OSError as error:
            raise UsageError(f"held_back: {path} cannot be held back: {error.strerror}") from error
        for name, status in files.items():
            is_link = stat.S_ISLNK(status.st_mode) and name != path
            fault = "" if stat.S_ISREG(status.st_mode) or is_link else "is no regular file"
            if ".git" in name.split("/"):
                fault = "belongs to a repository of its own"
            if fault:
                raise UsageError(f"held_back: {path} cannot be held back: {name} {fault}")
            sizes[name] = status.st_size
        if not files:
            raise UsageError(f"held_back: there is no file {path} in {top}, nor one below it")
    size = sum(sizes.values())
    if len(sizes) > most_files or size > MOST_BYTES:
        raise UsageError(
            f"held_back: there are {len(sizes)} files ({size // 1024 // 1024} MB), and no more "
            f"than {most_files} ({MOST_BYTES // 1024 // 1024} MB) can be held back"
        )
    return tuple(sizes)


def in_their_place(folder: Path, paths: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for path in paths:
        with suppress(OSError):
            found += islice(_files(folder, path), MOST_NOTICED - len(found))
    return tuple(found)


def _files(top: Path, path: str = "") -> Iterator[str]:
    waiting = [tuple(path.split("/")) if path else ()]
    while waiting:
        parts = waiting.pop()
        mode = Folder(top, parts[:-1]).mode(parts[-1]) if parts else stat.S_IFDIR
        if stat.S_ISDIR(mode):
            names = sorted(Folder(top, parts).names(), reverse=True)
            waiting += [(*parts, name) for name in names]
        elif mode:
            yield "/".join(parts)
