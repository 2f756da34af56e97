"""Which folder `cao run` is meant for if it names none: where it is typed, or the project above."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ..core.models import RUN_INDEX
from ..settings.layout import STATE_FILE
from ..settings.table import AGENTS, PREFIX, SETTINGS, SETTINGS_FILE
from ..settings.values import expand_path
from .printable import one_line

MARKS = (SETTINGS_FILE, STATE_FILE)
"""What a run could be started or resumed with."""
NAMED_BY = ("WD", "STATE_FILE")
"""Settings that name a place; where one is given, nothing is looked for."""


@dataclass(frozen=True, slots=True)
class FolderSigns:
    """What can be seen of a folder."""

    path: Path
    is_project: bool
    """Is there anything a run could be started or resumed with?"""
    is_top: bool
    """Is it the top folder of a repository?"""
    is_border: bool
    """Is it the home folder, or one in which somebody else can write?"""


def choose_project(here: FolderSigns, above: Iterable[FolderSigns]) -> Path:
    """Return the nearest project, from here upwards to the border; here, if there is none."""
    if here.is_project or here.is_top or here.is_border:
        return here.path
    for folder in above:
        if folder.is_border:
            break
        if folder.is_project:
            return folder.path
        if folder.is_top:
            break
    return here.path


def is_placed(given: Mapping[str, str]) -> bool:
    """Do settings say where a run is: by a folder, a state, or a task that lies here or below?"""
    if any(name in given for name in NAMED_BY):
        return True
    task = given.get("PROMPT_FILE")
    if task is None:
        return False
    folder = expand_path("PROMPT_FILE", task).parent
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath("."))


def find_project(folder: Path, home: Path) -> Path | None:
    """Return the project above a folder that a run in it is meant for; None if there is none."""
    try:
        here = Path(os.path.realpath(folder))
        first, above = _look(here, home), _look_upwards(here, home)
        found = choose_project(first, above)
    except OSError:
        return None
    return None if found == here else found


def _look_upwards(here: Path, home: Path) -> Iterator[FolderSigns]:
    for folder in here.parents:
        yield _look(folder, home)


def _look(folder: Path, home: Path) -> FolderSigns:
    status = folder.stat()
    is_own = status.st_uid == os.geteuid() and not status.st_mode & stat.S_IWOTH
    return FolderSigns(
        folder,
        is_project=any(os.path.lexists(folder / mark) for mark in MARKS),
        is_top=os.path.lexists(folder / ".git"),
        is_border=not is_own or folder == Path(os.path.realpath(home)),
    )


KNOWN = frozenset(
    (
        *(setting.variable for setting in SETTINGS),
        *(f"{PREFIX}{name.upper()}_{word}" for name in AGENTS for word in ("ARGS", "COMMAND")),
        *("CAO_HOST", "CAO_PORT", "CAO_START_SECONDS", "CAO_STATE_DIR", "CAO_CONFIG_DIR"),
        *("CAO_TOKEN", "CAO_DEBUG"),
        # In what belongs to a run: its agents, its gates.
        RUN_INDEX,
        # In the terminals of some agents, from which `cao` may be started as well.
        *("CAO_EVENT_FILE", "CAO_SESSION_CONTEXT"),
        # In the gates of a run.
        "CAO_GATE",
    )
)


def remarks_on_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like ours and says nothing to us."""
    names = sorted(name for name in environ if name.startswith(PREFIX) and environ[name].strip())
    return [_remark(name) for name in names if name not in KNOWN]


def _remark(name: str) -> str:
    meant = get_close_matches(name, sorted(KNOWN), 1, 0.8)
    proposal = f" (did you mean {meant[0]}?)" if meant else ""
    return one_line(f"{name} is set, but cao does not know it{proposal}")
