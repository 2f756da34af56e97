"""`.worktreeinclude`: files of the user's folder that a new work tree gets besides a commit's.

The file lies at the top of the project and has the form of a `.gitignore`; other tools know it too.
It names files like `.env` that are ignored or not yet added. They are copied, never linked; a link
is not followed, and what is in the new tree already stays as it is.
"""

import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..core.files import Folder
from .git import Git
from .left_out import OURS, LeftOut

FILE = ".worktreeinclude"
LARGEST_LIST = 64 * 1024


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """How much is copied."""

    largest_file: int = 64 * 1024 * 1024
    most_bytes: int = 256 * 1024 * 1024
    most_files: int = 10_000


LIMITS = CopyLimits()


def include(
    git: Git, to: Path, names: list[str], limits: CopyLimits = LIMITS
) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Copy files from the user's work tree; return those that were copied, and those that not."""
    copied: list[str] = []
    left_out: list[LeftOut] = []
    room = limits.most_bytes
    for number, name in enumerate(names):
        if number >= limits.most_files:
            reason = f"there are more than {limits.most_files} files to copy"
            left_out.append(LeftOut(name, reason))
            break
        try:
            size = _copy(git.work_tree, to, PurePosixPath(name), min(limits.largest_file, room))
        except OSError as error:
            left_out.append(LeftOut(name, error.strerror or str(error)))
            continue
        room -= size
        copied.append(name)
    return tuple(copied), tuple(left_out)


def named_files(git: Git, scratch: Path) -> list[str]:
    """Return the files outside of git's care that the list in the user's work tree names.

    Raises OSError if the list is not a plain file of a usual size. In `scratch`, a folder of ours,
    it is put down for git for a moment, so that no link in the project is followed.
    """
    try:
        patterns = Folder(git.work_tree).read(FILE, LARGEST_LIST)
    except FileNotFoundError:
        return []
    with tempfile.NamedTemporaryFile(dir=scratch, prefix=".include-") as listed:
        listed.write(patterns)
        listed.flush()
        words = ("ls-files", "-z", "--others", "--ignored", f"--exclude-from={listed.name}")
        names = git.names(*words)
    return [name for name in names if not name.endswith("/") and not _is_ours(name)]


def _copy(source: Path, target: Path, name: PurePosixPath, limit: int) -> int:
    """Copy one file with its permissions; return its size."""
    of, to = Folder(source, name.parent.parts), Folder(target, name.parent.parts)
    status = of.status(name.name)
    if status is None:
        raise FileNotFoundError(2, "it went away")
    if to.status(name.name) is not None:
        raise FileExistsError(17, "the work tree has a file of that name")
    data = of.read(name.name, limit)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    to.replace(name.name, data, mode, lasting=False)
    # May it be run? Nobody works in the tree yet: what was just made is still what lies there.
    (to.path / name.name).chmod(mode)
    return len(data)


def _is_ours(name: str) -> bool:
    return any(name.startswith(f"{our}/") for our in OURS)
