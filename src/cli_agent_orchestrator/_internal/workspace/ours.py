"""What in a work folder is nothing of the project's: we or agents' programs left it there."""

import stat
from pathlib import Path

from cli_agent_orchestrator._internal.layout import TEMPORARY_FOLDER

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
