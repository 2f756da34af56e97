"""Where everything of a run lies: the one place that knows these names.

In the project, where agents can write:

    WD/.tmp/.gitignore                         so that a run never dirties a repository
    WD/.tmp/orchestrator-loop-state.json       the run for scripts, written with every save
    WD/.tmp/agent-responses/<file of a role>   written by an agent
    WD/.tmp/agent-responses/NNN-<role>.md      what prompts refer to: replies, pages of gates

In the user's state folder, where no agent can; the run holds a lock on its folder while it lives:

    <state folder>/runs/<run>/run.json         what the run is, and how it stands
    <state folder>/runs/<run>/state.json       the saved run: from here it is resumed
    <state folder>/runs/<run>/events.jsonl     what has happened
    <state folder>/runs/<run>/control.jsonl    what it is asked to do
    <state folder>/runs/<run>/run.log          what was logged
    <state folder>/runs/<run>/turns/NNN-<role>-prompt.md  what the agent was told
    <state folder>/runs/<run>/turns/NNN-<role>.md         a reply that was accepted
    <state folder>/runs/<run>/turns/NNN-<gate>.md         the page of a gate
    <state folder>/runs/<run>/turns/NNN-<role>-stale.md   what lay there before the prompt was sent
    <state folder>/runs/<run>/turns/NNN-<role>.txt        what the agent showed at the end
    <state folder>/runs/<run>/snapshots.git    the work folder as it was, again and again
    <state folder>/runs/<run>/gates/NNN-<gate>.log  what a gate wrote
    <state folder>/runs/<run>/replay/<role>.cast  the screens of a role's agent, over time
    <state folder>/runs/<run>/records/<terminal>.json  where an agent keeps its own records
    <state folder>/runs/<run>/checkouts/<name> a snapshot laid out, while a gate runs in it
    <state folder>/runs/<run>/held_back        files that gates have and agents do not
    <state folder>/runs/<run>/repository.json  what the user's repository was like at the last look
    <state folder>/runs/<run>/pull-request.md  what the last `cao pr` wrote about the work
    <state folder>/runs/<run>/state-before.json  what another program had saved in the project

    <state folder>/indexes/<number>            locked by the run that has this number
    <state folder>/worktrees/<run>             where agents work that have a work tree
"""

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import platformdirs

from ..core.files import Folder
from ..errors import UsageError

TASK_FILE = "task.md"
"""The task that `cao init` writes; a run is told of it like of any other."""
TEMPORARY_FOLDER = ".tmp"
IGNORE_FILE = ".gitignore"
STATE_FILE = f"{TEMPORARY_FOLDER}/orchestrator-loop-state.json"
LOG_FILE = "run.log"
PROMPT_LABEL = "prompt"

RUNS_FOLDER = "runs"
RECORD_FILE = "run.json"
EVENTS_FILE = "events.jsonl"
CONTROL_FILE = "control.jsonl"
SNAPSHOTS_FOLDER = "snapshots.git"
GATES_FOLDER = "gates"
CAST_SUFFIX = ".cast"
CHECKOUTS_FOLDER = "checkouts"
HELD_BACK_FOLDER = "held_back"
WATCH_FILE = "repository.json"
REQUEST_FILE = "pull-request.md"
STATE_NAME = "state.json"
STATE_VERSION = 2
REPLACED_STATE = "state-before.json"
TURNS_FOLDER = "turns"
DRAFT_PREFIX = ".new-"
"""Begins the name of a run folder that is being made."""

# 007-analyst.md
KEPT_PATTERN = r"(\d{3,})-.*"


def state_folder(values: Mapping[str, str]) -> Path:
    """Return where the server keeps its store, token and event files (CAO_STATE_DIR)."""
    own = values.get("CAO_STATE_DIR")
    return Path(own).expanduser() if own else platformdirs.user_state_path("cao", appauthor=False)


def fault_of_state_folder(folder: Path) -> tuple[str, str]:
    """Return what lets another user put something there, and the command that repairs it."""
    try:
        status = folder.lstat()
    except OSError:
        return "", ""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link; set CAO_STATE_DIR to the folder to which it leads", ""
    if status.st_uid != os.geteuid():
        whose = f"belongs to another user (number {status.st_uid}, you are {os.geteuid()})"
        return f"{whose}; set CAO_STATE_DIR to a folder of your own", ""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o022:
        return "can be written by others", f"chmod go-w {shlex.quote(str(folder))}"
    return "", ""


def check_state_folder(folder: Path) -> None:
    fault, repair = fault_of_state_folder(folder)
    if fault:
        how = f"; fix it with: {repair}" if repair else ""
        raise UsageError(f"the state folder {folder} {fault}{how}")


def config_folder(values: Mapping[str, str]) -> Path:
    own = values.get("CAO_CONFIG_DIR")
    return Path(own).expanduser() if own else platformdirs.user_config_path("cao", appauthor=False)


def temporary_folder(wd: Path) -> Folder:
    return Folder(wd, (TEMPORARY_FOLDER,))


def response_folder(wd: Path) -> Folder:
    return Folder(wd, (TEMPORARY_FOLDER, "agent-responses"))


def kept_name(sequence: int, role: str, label: str = "") -> str:
    return f"{sequence:03d}-{role}{'-' if label else ''}{label}.md"


def runs_folder(state_folder: Path) -> Folder:
    return Folder(state_folder, (RUNS_FOLDER,), private=True)


def run_folder(state_folder: Path, name: str) -> Folder:
    return Folder(state_folder, (RUNS_FOLDER, name), private=True)


def turns_folder(run: Folder) -> Folder:
    return run.below(TURNS_FOLDER)


def screen_name(sequence: int, role: str) -> str:
    return f"{sequence:03d}-{role}.txt"


def replay_folder(run: Folder) -> Folder:
    return run.below("replay")


def cast_name(role: str) -> str:
    return f"{role}{CAST_SUFFIX}"


def records_folder(run: Folder) -> Folder:
    return run.below("records")


def records_name(terminal_id: str) -> str:
    return f"{terminal_id}.json"


def worktree_folder(state_folder: Path, run: str) -> Path:
    return state_folder / "worktrees" / run


def index_folder(state_folder: Path, number: int) -> Folder:
    return Folder(state_folder, ("indexes", str(number)), private=True)


OPEN_TO_ALL = Path("/tmp")
IN_WORK_FOLDER = (
    "cao's state folder {} is inside the work folder, where agents may write: they could change "
    "what it holds of this run and others. Set CAO_STATE_DIR to a folder elsewhere, or work in a "
    "folder of your project"
)


def said_of_place(state_folder: Path, wd: Path) -> Iterator[str]:
    """Say why agents that work in a folder could write to the state folder."""
    if path_inside(wd, state_folder):
        yield IN_WORK_FOLDER.format(state_folder)
    if path_inside(OPEN_TO_ALL, state_folder):
        yield (
            f"cao's state folder {state_folder} is below {OPEN_TO_ALL}, where every agent may "
            "write; set CAO_STATE_DIR to a folder elsewhere"
        )


def check_place(state_folder: Path, wd: Path) -> None:
    """Refuse to work where cao keeps its own files, in whatever folder above that, too."""
    own, work = _resolved(state_folder), _resolved(wd)
    if work in (own, own / RUNS_FOLDER):
        raise UsageError(
            f"{wd} is where cao keeps its own files, and no place for agents: name a folder of "
            "your project with --wd"
        )
    if work in own.parents:
        raise UsageError(IN_WORK_FOLDER.format(state_folder))


def path_inside(folder: Path, path: Path) -> str:
    above, below = _resolved(folder), _resolved(path)
    return str(below.relative_to(above)) if above in below.parents else ""


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
