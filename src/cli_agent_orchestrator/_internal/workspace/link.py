"""The files by which git, the folder of a work tree and its branch find each other.

    <folder>/.git                            a file that leads to the entry
    <repository>/worktrees/<name>/gitdir     leads back
    <repository>/worktrees/<name>/commondir  leads to the repository
    <repository>/worktrees/<name>/HEAD       names the branch

An agent may be able to write all of them. What they ought to say we know without reading them.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.workspace.walking import make_writable

LONGEST_POINTER = 8192
UNFINISHED = (b"initializing", b"added with --lock")
"""What locks a work tree until its files are there: git's own words."""


@dataclass(frozen=True, slots=True)
class Link:
    """How it ought to be."""

    common_dir: Path
    name: str
    folder: Path
    branch: str

    @property
    def entry(self) -> Folder:
        """What git keeps about the work tree, its index too."""
        return Folder(self.common_dir, ("worktrees", self.name))

    @property
    def has_folder(self) -> bool:
        """Is there a folder that is no link?"""
        try:
            return stat.S_ISDIR(self.folder.lstat().st_mode)
        except OSError:
            return False

    @property
    def is_unfinished(self) -> bool:
        """Was it left while it was made, before all files were there?"""
        return (content_of(self.entry, "locked") or b"").strip() in UNFINISHED

    def faults(self) -> Iterator[str]:
        """Say what is not as it ought to be."""
        if not self.has_folder:
            yield f"its folder {self.folder} is gone"
        elif content_of(Folder(self.folder), ".git") != self._pointer:
            yield "its .git file is gone or changed"
        if any(content_of(self.entry, name) != text for name, text in self._ways.items()):
            yield "what git knows about it is gone or changed"
        if content_of(self.entry, "HEAD") != self._head:
            yield f"the branch {self.branch} is not checked out in it"
        if self.is_unfinished:
            yield "it was not finished when it was made"

    def write(self) -> None:
        """Write all of them; a `.git` that is no file is moved out, beside the work tree."""
        self._clear()
        folder, beside = Folder(self.folder), Folder(self.folder.parent)
        folder.make()
        if content_of(folder, ".git") is None and os.path.lexists(self.folder / ".git"):
            folder.move(".git", beside, beside.free_name(f"{self.folder.name}.git"))
        folder.replace(".git", self._pointer)
        for name, text in {**self._ways, "HEAD": self._head}.items():
            self.entry.replace(name, text)
        for name in ("index.lock", "HEAD.lock"):
            self.entry.remove(name)

    def finish(self) -> None:
        """Note that all files are there."""
        if self.is_unfinished:
            self.entry.remove("locked")

    def remove(self) -> None:
        """Remove the folder with all that is in it, and the entry."""
        self._clear()
        _remove(Folder(self.folder.parent, (self.folder.name,)))
        _remove(self.entry)

    def _clear(self) -> None:
        """Remove a link or a file in the place of the folder."""
        if os.path.lexists(self.folder) and not self.has_folder:
            self.folder.unlink()

    @property
    def _pointer(self) -> bytes:
        return b"gitdir: " + os.fsencode(self.entry.path) + b"\n"

    @property
    def _ways(self) -> Mapping[str, bytes]:
        return {"gitdir": os.fsencode(self.folder / ".git") + b"\n", "commondir": b"../..\n"}

    @property
    def _head(self) -> bytes:
        return f"ref: refs/heads/{self.branch}\n".encode()


def content_of(folder: Folder, name: str) -> bytes | None:
    """Return what is in a small file, or None if there is none to read."""
    try:
        return folder.read(name, LONGEST_POINTER)
    except OSError:
        return None


def _remove(folder: Folder) -> None:
    """Remove a folder, with the parts of it that may not be changed as they are."""
    try:
        folder.remove_all()
    except PermissionError:
        make_writable(folder.path)
        folder.remove_all()
