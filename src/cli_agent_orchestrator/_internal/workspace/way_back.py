"""The way back from a delivery that stopped halfway: a disk was full, a folder may not be written.

Git has then written some files and not others, and its index is as it was. Only what is another
file than before is put back, so nothing that git has not touched is touched by us.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.workspace import staging
from cli_agent_orchestrator._internal.workspace.git import Git
from cli_agent_orchestrator.errors import GitError

AT_ONCE = 500
"""Paths that are named to git in one command."""

Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeforeDelivery:
    """What lay where a delivery is about to write, all of it committed."""

    git: Git
    marks: dict[str, Mark | None]
    """By path: what tells a file from another that takes its place; None if there was none."""
    known: frozenset[str]
    """Paths that the index has."""
    new_folders: tuple[str, ...]
    """Folders that are not there yet, the deepest first."""

    @classmethod
    def look(cls, git: Git, paths: Sequence[str], new: Sequence[str]) -> "BeforeDelivery":
        """Note how the files of a delivery are now; `new` are those that git does not know yet."""
        top = git.work_tree
        parents = {str(one) for path in new for one in [*PurePosixPath(path).parents][:-1]}
        missing = (one for one in parents if not _is_folder(top / one))
        marks = {path: _mark(top / path) for path in paths}
        folders = sorted(missing, key=lambda one: one.count("/"), reverse=True)
        return cls(git, marks, frozenset(paths) - frozenset(new), tuple(folders))

    def go(self) -> str:
        """Put back what is another file now; return what is not as it was, and what helps."""
        for path in self._changed(known=False):
            place = PurePosixPath(path)
            with suppress(OSError):
                Folder(self.git.work_tree, place.parent.parts).remove(place.name)
        for folder in self.new_folders:
            with suppress(OSError):
                (self.git.work_tree / folder).rmdir()
        again = list(self._changed(known=True))
        for begin in range(0, len(again), AT_ONCE):
            self._ask("checkout-index", "-f", "-q", "--", *again[begin : begin + AT_ONCE])
        self._ask("update-index", "-q", "--refresh")
        return "\n".join(filter(None, [self._left(again), *self._filtered(again)]))

    def _changed(self, *, known: bool) -> Iterator[str]:
        for path, before in self.marks.items():
            if (path in self.known) is known and _mark(self.git.work_tree / path) != before:
                yield path

    def _left(self, again: list[str]) -> str:
        """Say which files are not as they were, with the command that puts them back."""
        differing = self._differing(again)
        new = list(self._changed(known=False))
        top = self.git.work_tree
        commands = []
        if new:
            commands.append(shlex.join(["rm", "-f", "--", *(str(top / path) for path in new)]))
        if differing:
            words = ["git", "-C", str(top), "checkout-index", "-f", "--", *differing]
            commands.append(shlex.join(words))
        if not commands:
            return ""
        names = ", ".join(sorted([*new, *differing]))
        lines = "\n  ".join(commands)
        return f"these files are not as they were: {names}. What puts them back:\n  {lines}"

    def _filtered(self, again: list[str]) -> Iterator[str]:
        """Say what is there as it is stored: no filter of a repository is run by us."""
        with suppress(GitError, OSError):
            for name, files in staging.filters(self.git, again).items():
                advice = " (git lfs checkout brings their content)" if name == "lfs" else ""
                listed = ", ".join(files)
                yield f"put back as stored, not through the filter {name}{advice}: {listed}"

    def _differing(self, paths: list[str]) -> list[str]:
        found: list[str] = []
        for begin in range(0, len(paths), AT_ONCE):
            some = paths[begin : begin + AT_ONCE]
            try:
                listed = [f":(top,literal){path}" for path in some]
                found += self.git.names("diff-files", "--name-only", "-z", "--", *listed)
            except (GitError, OSError):
                found += some
        return found

    def _ask(self, *words: str) -> None:
        # What it could not do is seen afterwards.
        with suppress(GitError, OSError):
            self.git.ask(*words)


def _mark(path: Path) -> Mark | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    if _is_folder(path):
        return (found.st_mode,)
    return (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not os.path.islink(path)  # noqa: PTH114
