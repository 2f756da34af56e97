"""What an agent showed when its turn had ended, and where its records are: asked for in one."""

import re
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from ..core.ansi import Cast, Frame, parse_cast, plain_text
from ..core.files import Folder
from ..core.models import AgentView, TerminalFacts
from ..errors import OrchestratorError
from ..settings.layout import (
    CAST_SUFFIX,
    RECORD_FILE,
    cast_name,
    replay_folder,
    run_folder,
    screen_name,
    turns_folder,
)
from .record import run_of_session
from .usage import note_records

# analyst_review
ROLE_PATTERN = r"[a-z][a-z0-9_-]{0,60}"
LARGEST_SCREEN = 64 * 1024
"""Bytes; of more, the last."""


class Shows(Protocol):
    def get_view(self, terminal_id: str) -> AgentView: ...


@dataclass(frozen=True, slots=True)
class Screens:
    agents: Shows
    run: Folder

    def keep(self, terminal_id: str, sequence: int, role: str) -> None:
        """Keep what an agent shows now, and note its records; no harm if that cannot be."""
        with suppress(OrchestratorError, OSError):
            view = self.agents.get_view(terminal_id)
            if view.screen:
                data = view.screen.encode(errors="replace")[-LARGEST_SCREEN:]
                turns_folder(self.run).replace(screen_name(sequence, role), data, lasting=False)
            note_records(self.run, terminal_id, view.records)


def read_screen(run: Folder, sequence: int, role: str) -> str | None:
    """Return what an agent showed when its turn had ended; None if that is not known."""
    # Whoever can write the events of a run might name a file elsewhere.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        data = turns_folder(run).read(screen_name(sequence, role), LARGEST_SCREEN)
    except OSError:
        return None
    # The first character may have been cut.
    return data.decode(errors="ignore")


__all__ = [
    "Cast",
    "Frame",
    "fault_of_cast",
    "first_shown",
    "read_cast",
    "recording_folder",
    "roles_with_cast",
    "screen_at",
    "steps_of",
]

MOST_READ = 5 * 1024 * 1024
"""Bytes of a recording; ours are no larger than 4 MB."""


def roles_with_cast(run: Folder) -> list[str]:
    try:
        names = replay_folder(run).names()
    except OSError:
        return []
    roles = (name.removesuffix(CAST_SUFFIX) for name in names if name.endswith(CAST_SUFFIX))
    return sorted(role for role in roles if re.fullmatch(ROLE_PATTERN, role))


def read_cast(run: Folder, role: str) -> Cast | None:
    """Return what can be read of a role's recording; None if there is none."""
    # Who asks may be anybody, and names a file with it.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        known = replay_folder(run).status(cast_name(role))
        return known and _cast(run, role, (known.st_ino, known.st_size, known.st_mtime_ns))
    except OSError:
        return None


def fault_of_cast(run: Folder, role: str) -> str:
    """Say why there is nothing to be played in the recording of a role that has one."""
    try:
        data = replay_folder(run).read(cast_name(role))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not data:
        return "is empty"
    return "shows nothing" if parse_cast(data) else "is damaged"


@lru_cache(maxsize=2)
def _cast(run: Folder, role: str, version: tuple[int, int, int]) -> Cast | None:
    """Return a recording, read once for each version of its file: a page asks frame by frame."""
    with replay_folder(run).open_to_read(cast_name(role)) as file:
        return parse_cast(file.read(MOST_READ))


def recording_folder(state_folder: Path, terminal: TerminalFacts) -> Folder | None:
    """Return where a terminal is recorded: in the folder of its run, if there is such a run."""
    run = run_of_session(terminal.session_name)
    if not run or not re.fullmatch(ROLE_PATTERN, terminal.role or ""):
        return None
    folder = run_folder(state_folder, run)
    return replay_folder(folder) if folder.status(RECORD_FILE) else None


def screen_at(cast: Cast, number: int) -> str:
    """Return the screen after a frame, counted from 0: text with colors, at most to the last line.

    Nothing is shown before the first, and what there is after the last.
    """
    lines: dict[int, str] = {}
    for frame in cast.frames[: max(number + 1, 0)]:
        _apply(lines, frame)
    return _text(lines)


def first_shown(cast: Cast) -> int:
    for number, frame in enumerate(cast.frames):
        if any(plain_text(line).strip() for line in frame.lines.values()):
            return number
    return 0


def steps_of(cast: Cast, most: int) -> list[int]:
    """Return the numbers of up to `most` frames that tell the story, the last always among them.

    Between any two of them about as many lines have changed: a clock that ticks counts for little.
    """
    if not cast.frames or most < 1:
        return []
    changed = list(accumulate(max(len(frame.lines), 1) for frame in cast.frames))
    return sorted({bisect_left(changed, changed[-1] * step / most) for step in range(1, most + 1)})


def _apply(lines: dict[int, str], frame: Frame) -> None:
    if frame.is_whole:
        lines.clear()
    lines.update(frame.lines)


def _text(lines: dict[int, str]) -> str:
    last = max((row for row, line in lines.items() if line), default=-1)
    return "\n".join(lines.get(row, "") for row in range(last + 1))
