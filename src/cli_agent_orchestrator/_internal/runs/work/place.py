"""Where the user's state folder lies: agents should not be able to write there."""

import os
from collections.abc import Iterator
from pathlib import Path

from cli_agent_orchestrator._internal.layout import RUNS_FOLDER
from cli_agent_orchestrator.errors import UsageError

OPEN_TO_ALL = Path("/tmp")
IN_WORK_FOLDER = (
    "cao's state folder {} is inside the work folder, where agents may write: they could change "
    "what it holds of this run and others. Set CAO_STATE_DIR to a folder elsewhere, or work in a "
    "folder of your project"
)
BELOW_OPEN = (
    "cao's state folder {} is below {}, where every agent may write; set CAO_STATE_DIR to a folder "
    "elsewhere"
)


def said_of_place(state_folder: Path, wd: Path) -> Iterator[str]:
    """Say why agents that work in a folder could write to the state folder."""
    if path_inside(wd, state_folder):
        yield IN_WORK_FOLDER.format(state_folder)
    if path_inside(OPEN_TO_ALL, state_folder):
        yield BELOW_OPEN.format(state_folder, OPEN_TO_ALL)


def check_place(state_folder: Path, wd: Path) -> None:
    """Refuse to work in the state folder itself, of which nothing could be kept apart."""
    own, work = _resolved(state_folder), _resolved(wd)
    if work in (own, own / RUNS_FOLDER):
        raise UsageError(
            f"{wd} is where cao keeps its own files, and no place for agents: name a folder of "
            "your project with --wd"
        )


def ours_in(folder: Path, *own: Path) -> tuple[str, ...]:
    """Return what is ours in a folder of the user's: the state folder, say, if it lies there.

    It is in no snapshot, it counts as nobody's change, and nothing in it is put back. Where links
    lead there, they count as well: somebody may put a folder in the place of one.
    """
    found = (place for path in own for place in (path_inside(folder, path), _named(folder, path)))
    return tuple(dict.fromkeys(filter(None, found)))


def path_inside(folder: Path, path: Path) -> str:
    """Return where in a folder a path lies, wherever links lead; nothing if it does not."""
    above, below = _resolved(folder), _resolved(path)
    return str(below.relative_to(above)) if above in below.parents else ""


def _named(folder: Path, path: Path) -> str:
    """Return where in a folder a path lies by its name alone; nothing if it does not."""
    above, below = Path(os.path.abspath(folder)), Path(os.path.abspath(path))  # noqa: PTH100
    return str(below.relative_to(above)) if above in below.parents else ""


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
