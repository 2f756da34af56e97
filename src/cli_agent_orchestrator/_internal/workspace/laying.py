"""Puts files into a folder in which anybody may have worked, and removes them there.

No link is followed, neither at the end of a path nor on the way to it: an agent that puts a link to
the user's home in the place of a folder gets the link removed, and nothing behind it is touched.
"""

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cli_agent_orchestrator._internal.plain_files import Folder, NotPlain, Owner
from cli_agent_orchestrator.errors import GitError

MOST_NAMED = 5
ROOT = 0


@dataclass
class Laying:
    """The work on one folder, and how it went."""

    root: Path
    is_ours: bool
    """May all that is in the way be removed? Otherwise only what holds no content."""
    keep: tuple[str, ...] = ()
    """A folder below the root that is never removed, nor are those on the way to it."""
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def put(self, paths: Iterable[str], source: Path) -> None:
        """Put files and links at these paths, as they are at the same paths below the source."""
        self._each(paths, lambda path: self._put(path, source / path))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files and links, and the folders that are empty then."""
        self._each(paths, self._remove)

    def check(self) -> None:
        """Raise if something could not be done."""
        if self.failed:
            named = "; ".join(self.failed[:MOST_NAMED])
            more = len(self.failed) - MOST_NAMED
            raise GitError(
                f"not everything in {self.root} could be put back: {named}"
                + (f"; and {more} more" if more > 0 else "")
            )

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
        owner = self._owner(folder, name)
        if stat.S_ISDIR(folder.mode(name)):
            self._clear_folder(Folder(self.root, (*above, name)))
        else:
            folder.remove(name)
        if source.is_symlink():
            # A Path would make `a` of `./a`.
            folder.create_link(name, os.readlink(source))  # noqa: PTH115
        else:
            mode = 0o777 if source.stat().st_mode & 0o100 else 0o666
            folder.create(name, source.read_bytes(), mode, lasting=False, owner=owner)

    def _owner(self, folder: Folder, name: str) -> Owner | None:
        """Return whose a file is to be; None if it is ours, or we may not give it to anybody.

        One that is not there comes to whom its folder belongs, or the nearest that is there.
        """
        if self.is_ours or os.geteuid() != ROOT:
            return None
        depths = range(len(folder.parts), -1, -1)
        above = (Folder(self.root, folder.parts[:depth]).owner() for depth in depths)
        return folder.owner(name) or next(filter(None, above), None)

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
