"""What a user has in a checkout that is in no commit yet, as git tells it; no filter is run.

Where a file goes through a filter of the repository, its bytes say nothing. There git's notes on
the file count: if size and times are as they were at git's last look, the file is; if they are not,
only the filter could tell.
"""

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.files import Folder
from ..errors import GitFailed
from . import staging
from .git import Git
from .left_out import is_ours, refuse_pipes_of
from .repository import Repository
from .store import LARGEST_INDEX, line_ends, listed

STATUS = ("status", "-z", "--porcelain", "--no-renames", "--ignore-submodules=all")
# "?? new.txt", " M changed.txt"
STATUS_LETTERS = 3
UNKNOWN = "??"
OPTIONS = {"core.splitIndex": "false"}
"""The copy of the index is all in one file."""
LATE = (2**31 - 1) * 10**9
"""A time after that of every file: git takes none to have changed since it looked."""
UNHEEDED = {"--no-assume-unchanged": "hs", "--no-skip-worktree": "Ss"}
"""How files are looked at again that git was told not to look at, and the letters of those."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which files are not as they are committed."""

    changed: frozenset[str]
    doubtful: frozenset[str]
    """Only a filter could tell."""


def uncommitted(
    repository: Repository, environ: Mapping[str, str], apart: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return files and folders with changes, and those that git does not know nor ignore.

    What is kept apart is not looked at.
    """
    without = (f":(top,exclude,literal){path}" for path in apart)
    with _looking(repository, environ) as look:
        names = look.differing("--", ":(top)", *without)
        same = look.same_by_notes(look.filtered(names))
    return tuple(
        name
        for name, letters in names.items()
        if name not in same
        and not is_ours(
            name.rstrip("/"), repository.prefix, repository.top, is_known=letters != UNKNOWN
        )
    )


def compare_with_commit(
    repository: Repository, paths: Collection[str], environ: Mapping[str, str]
) -> Comparison:
    """Return which of some committed files have changes, whatever git was told not to look at.

    The bytes of all of them are others. If the index cannot be read, that is all that is known.
    """
    asked = frozenset(paths)
    if not asked:
        return Comparison(asked, asked)
    try:
        with _looking(repository, environ) as look:
            look.heed(asked)
            names = look.differing("--untracked-files=no")
            found = {name: letters for name, letters in names.items() if name in asked}
            filtered = look.filtered(found)
            return Comparison(frozenset(found) - filtered, filtered - look.same_by_notes(filtered))
    except GitFailed:
        return Comparison(asked, frozenset())


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the user's files, by a copy of the index."""

    git: Git
    index: Path

    def differing(self, *options: str) -> dict[str, str]:
        """Return what is not as it is committed: in the index, and in the files."""
        entries = self.git.names(*STATUS, *options)
        return {one[STATUS_LETTERS:]: one[: STATUS_LETTERS - 1] for one in entries}

    def filtered(self, names: Mapping[str, str]) -> frozenset[str]:
        """Return which differ in nothing but files that go through a filter."""
        unstaged = [name for name, letters in names.items() if letters == " M"]
        found = staging.filters(self.git, unstaged) if unstaged else {}
        return frozenset(name for files in found.values() for name in files)

    def same_by_notes(self, names: frozenset[str]) -> frozenset[str]:
        """Return which of them git would not even read, if it were sure of its notes.

        It is not where a file is as young as the index, as all are in a fresh checkout.
        """
        if not names:
            return names
        with self._late():
            return names - self.differing("--untracked-files=no").keys()

    def heed(self, names: frozenset[str]) -> None:
        """Let git look at all of these."""
        letters = {one[2:]: one[0] for one in self.git.names("ls-files", "-v", "-z")}
        for option, marks in UNHEEDED.items():
            marked = [name for name in names if letters.get(name, "") in tuple(marks)]
            if marked:
                # Else git would read what is as young as the index, and note that it differs.
                with self._late():
                    self.git.run("update-index", "-z", option, "--stdin", given=listed(marked))

    @contextmanager
    def _late(self) -> Iterator[None]:
        status = self.index.stat()
        os.utime(self.index, ns=(LATE, LATE))
        yield
        os.utime(self.index, ns=(status.st_atime_ns, status.st_mtime_ns))


@contextmanager
def _looking(repository: Repository, environ: Mapping[str, str]) -> Iterator[_Look]:
    refuse_pipes_of(repository.top, repository.common_dir)
    users = Git(repository.git_dir, repository.top, environ)
    options = {**OPTIONS, **staging.user_ignore_file(users), **line_ends(users)}
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        own = Folder(repository.git_dir)
        with suppress(OSError):
            status = own.status("index")
            index.write_bytes(own.read("index", LARGEST_INDEX))
            if status is not None:
                os.utime(index, ns=(status.st_atime_ns, status.st_mtime_ns))
        yield _Look(replace(users, options=options, index=index).defused(), index)
