"""How the screens of a terminal become a recording: what is added to its file, and when.

A recording is at most `LARGEST_CAST` bytes. As it grows, frames come less often, so that hours of
work fit in; where it would become larger it ends, and says so.
"""

from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.ansi import clean_lines, columns_of, plain_text
from cli_agent_orchestrator._internal.asciicast import (
    MOST_COLUMNS,
    Cast,
    Frame,
    changed_lines,
    frame_line,
    full_line,
    header_line,
    size_line,
)

LARGEST_CAST = 4 * 1024 * 1024
FRAME_SECONDS = 0.5
"""Between two frames, as long as a recording is small."""
LITTLE = 2
"""Rows. Where no more change, as where a clock ticks, the next frame has time."""
PARTS = 4
"""For each of these parts of its largest size that are written, frames come half as often."""
ROOM_FOR_END = 100


@dataclass(frozen=True, slots=True)
class Tape:
    """A recording that is being written, as far as it is."""

    began: float
    """Unix time."""
    width: int
    height: int
    size: int
    """Bytes in the file."""
    at: float = 0.0
    """When the last frame was, in seconds since the beginning."""
    lines: tuple[str, ...] | None = None
    """The screen at that time; None if it is not known, so that the next frame is a whole one."""
    changed: int = 0
    """Rows that were written with the last frame."""
    is_full: bool = False


def begin(now: float, width: int, height: int, title: str) -> tuple[Tape, bytes]:
    """Return a new recording, and how its file begins."""
    began = int(now)
    header = header_line(began, width, height, title)
    return Tape(began, width, height, len(header)), header


def go_on(cast: Cast, size: int) -> Tape:
    """Return a recording that was begun earlier, of another terminal perhaps."""
    at = cast.frames[-1].at if cast.frames else 0.0
    return Tape(cast.began, cast.width, cast.height, size, at, is_full=cast.is_full)


def pause_after(tape: Tape) -> float:
    """Return how many seconds must pass until the next frame."""
    times = 1 if tape.changed > LITTLE else 2
    return float(FRAME_SECONDS * times * 2 ** (tape.size * PARTS // LARGEST_CAST))


def add_screen(tape: Tape, ansi: str, now: float) -> tuple[Tape, bytes]:
    """Return the recording with a screen as it is now, and what is added to the file for that.

    Nothing is if the screen is the same, or the recording full.
    """
    lines = clean_lines(ansi)
    if tape.is_full or lines == tape.lines:
        return tape, b""
    # The time of a machine can be put back.
    at = max(tape.at, round(now - tape.began, 3))
    changed = changed_lines(tape.lines or (), lines)
    widest = max((columns_of(plain_text(line)) for line in changed.values()), default=0)
    width = max(tape.width, min(widest, MOST_COLUMNS))
    height = max(tape.height, len(lines))
    added = size_line(at, width, height) if (width, height) != (tape.width, tape.height) else b""
    added += frame_line(Frame(at, changed, is_whole=tape.lines is None))
    size = tape.size + len(added)
    if size > LARGEST_CAST - ROOM_FOR_END:
        return replace(tape, is_full=True), full_line(at)
    after = replace(tape, width=width, height=height, size=size, at=at)
    return replace(after, lines=lines, changed=len(changed)), added
