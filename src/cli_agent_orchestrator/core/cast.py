"""The form of a recording: asciicast, version 2, as other players read it too.

    {"version": 2, "width": 120, "height": 40, "timestamp": 1763400000, "title": "programmer"}
    [0.5, "o", "…"]           a frame: lines that have changed, each written to its place
    [7.25, "r", "130x40"]     the terminal has become larger
    [9.0, "m", "full"]        the recording has come to its largest size and ends here

Of such files we read what we write and no more: whatever else stands there is passed over, and no
line comes out but as `ansi.py` writes it. Anybody may have put a file there.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeGuard

from .ansi import MOST_ROWS, kept_line

VERSION = 2
CLEARED = "\x1b[?7l\x1b[0m\x1b[2J"
"""Begins a frame that is a whole screen. Lines that a player thinks too long are not wrapped."""
# ESC[7;1H, and the line is erased before it is written: after a full one that would eat a letter
PLACE_PATTERN = re.compile(r"\x1b\[([0-9]{1,4});1H\x1b\[0m\x1b\[2K")
SIZE_PATTERN = r"([0-9]{1,4})x([0-9]{1,4})"
FULL = "full"
MOST_COLUMNS = 1000
MOST_FRAMES = 20_000
LONGEST_TIME = 1e9


@dataclass(frozen=True, slots=True)
class Frame:
    """What changed on a screen in one moment."""

    at: float
    """Seconds since the recording began."""
    lines: Mapping[int, str]
    """Rows from 0, each as it has become: text with colors that stands for itself."""
    is_whole: bool = False
    """Was all else erased?"""


@dataclass(frozen=True, slots=True)
class Cast:
    """A recording."""

    began: float
    """Unix time."""
    width: int
    height: int
    """The largest that it had."""
    frames: tuple[Frame, ...]
    is_full: bool = False
    """Did it end because it had come to its largest size?"""


def header_line(began: int, width: int, height: int, title: str) -> bytes:
    """Return the beginning of a recording."""
    size = {"width": width, "height": height}
    return _line({"version": VERSION, **size, "timestamp": began, "title": title})


def frame_line(frame: Frame) -> bytes:
    """Return a frame as a line of the file."""
    places = (f"\x1b[{row + 1};1H\x1b[0m\x1b[2K{line}" for row, line in frame.lines.items())
    return _line([frame.at, "o", (CLEARED if frame.is_whole else "") + "".join(places)])


def size_line(at: float, width: int, height: int) -> bytes:
    """Return the line that tells of another size."""
    return _line([at, "r", f"{width}x{height}"])


def full_line(at: float) -> bytes:
    """Return the line that ends a recording before its time."""
    return _line([at, "m", FULL])


def changed_lines(before: Sequence[str], now: Sequence[str]) -> dict[int, str]:
    """Return the rows of a screen that differ from what they were, as they are now."""
    rows = enumerate(zip_longest(before, now, fillvalue=""))
    return {row: new for row, (old, new) in rows if old != new}


def parse_cast(data: bytes) -> Cast | None:
    """Return what can be read of a recording; None if it is none."""
    first, _, rest = data.partition(b"\n")
    header = _value(first)
    if not isinstance(header, dict) or header.get("version") != VERSION:
        return None
    width, height = _size(header.get("width"), header.get("height"))
    began = header.get("timestamp")
    if not (width and height and _is_time(began, 1e11)):
        return None
    frames: list[Frame] = []
    is_full = False
    at = 0.0
    for moment, kind, text in _events(rest):
        at = max(at, moment)
        if kind == "o":
            frames.append(_frame(at, text))
        elif kind == "r" and (size := re.fullmatch(SIZE_PATTERN, text, re.ASCII)):
            wider, higher = _size(int(size[1]), int(size[2]))
            width, height = max(width, wider), max(height, higher)
        is_full = is_full or (kind == "m" and text == FULL)
        if len(frames) >= MOST_FRAMES:
            break
    return Cast(float(began), width, height, tuple(frames), is_full)


def _events(data: bytes) -> Iterator[tuple[float, str, str]]:
    for line in data.split(b"\n"):
        match _value(line):
            case [at, str(kind), str(text)] if _is_time(at, LONGEST_TIME):
                yield float(at), kind, text


def _frame(at: float, data: str) -> Frame:
    head, *rest = PLACE_PATTERN.split(data)
    places = zip(map(int, rest[::2]), rest[1::2], strict=True)
    lines = {row - 1: kept_line(line) for row, line in places if 1 <= row <= MOST_ROWS}
    return Frame(at, lines, head == CLEARED)


def _size(width: object, height: object) -> tuple[int, int]:
    """Return a size that can be; (0, 0) if it cannot."""
    match width, height:
        case int(columns), int(rows) if 1 <= columns <= MOST_COLUMNS and 1 <= rows <= MOST_ROWS:
            return int(columns), int(rows)
    return 0, 0


def _is_time(value: object, limit: float) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < limit


def _value(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _line(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return f"{text}\n".encode()
