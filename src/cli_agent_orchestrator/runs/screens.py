"""What agents showed: the screen at the end of each turn, and recordings."""

import re
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from ..core.ansi import Cast, parse_cast, plain_text
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


def keep_screen(
    run: Folder, view_of: Callable[[str], AgentView], terminal_id: str, sequence: int, role: str
) -> None:
    """Keep what an agent shows now, and note its records, if possible."""
    with suppress(OrchestratorError, OSError):
        view = view_of(terminal_id)
        if view.screen:
            data = view.screen.encode(errors="replace")[-LARGEST_SCREEN:]
            turns_folder(run).replace(screen_name(sequence, role), data, lasting=False)
        note_records(run, terminal_id, view.records)


def read_screen(run: Folder, sequence: int, role: str) -> str | None:
    # An agent could write the events of a run, and name a file elsewhere.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        data = turns_folder(run).read(screen_name(sequence, role), LARGEST_SCREEN)
    except OSError:
        return None
    # The first character may have been cut.
    return data.decode(errors="ignore")


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
    # The role comes from a request, and names a file.
    if not re.fullmatch(ROLE_PATTERN, role):
        return None
    try:
        known = replay_folder(run).status(cast_name(role))
        return known and _cast(run, role, (known.st_ino, known.st_size, known.st_mtime_ns))
    except OSError:
        return None


@lru_cache(maxsize=2)
def _cast(run: Folder, role: str, version: tuple[int, int, int]) -> Cast | None:
    """Return a recording, read once for each version of its file: a page asks frame by frame."""
    with replay_folder(run).open_to_read(cast_name(role)) as file:
        return parse_cast(file.read(MOST_READ))


def recording_folder(state_folder: Path, terminal: TerminalFacts) -> Folder | None:
    run = run_of_session(terminal.session_name)
    if not run or not re.fullmatch(ROLE_PATTERN, terminal.role or ""):
        return None
    folder = run_folder(state_folder, run)
    return replay_folder(folder) if folder.status(RECORD_FILE) else None


def screen_at(cast: Cast, number: int) -> str:
    """Return the screen after a frame, counted from 0, with its colors; empty before the first."""
    lines: dict[int, str] = {}
    for frame in cast.frames[: max(number + 1, 0)]:
        if frame.is_whole:
            lines.clear()
        lines.update(frame.lines)
    last = max((row for row, line in lines.items() if line), default=-1)
    return "\n".join(lines.get(row, "") for row in range(last + 1))


def first_shown(cast: Cast) -> int:
    for number, frame in enumerate(cast.frames):
        if any(plain_text(line).strip() for line in frame.lines.values()):
            return number
    return 0


def steps_of(cast: Cast, most: int) -> list[int]:
    """Return the numbers of up to `most` frames that show the story, the last always among them.

    Between any two of them about as many lines have changed: a clock that ticks counts for little.
    """
    if not cast.frames or most < 1:
        return []
    changed = list(accumulate(max(len(frame.lines), 1) for frame in cast.frames))
    return sorted({bisect_left(changed, changed[-1] * step / most) for step in range(1, most + 1)})
