"""Text with colors, as tmux shows a screen: read into pieces, and written again by us alone.

tmux carries attributes over line ends, and switches to its own letters for lines and corners. What
is written here has neither: each line stands for itself, and nothing is in it but printable text
and the attributes that are named here, in one form. Whatever else came with it is left out.

A recording is asciicast, version 2, as other players read it too:

    {"version": 2, "width": 120, "height": 40, "timestamp": 1763400000, "title": "programmer"}
    [0.5, "o", "…"]           a frame: lines that have changed, each written to its place
    [7.25, "r", "130x40"]     the terminal has become larger
    [9.0, "m", "full"]        the recording has come to its largest size and ends here

Of such files only what we write ourselves is read. Anybody may have put a file there.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from .text import CONTROLS, DIRECTIONS, HALVES, SEPARATORS, columns_of

MOST_ROWS = 500
MOST_LETTERS = 2000
"""Of one line; letters that take no room of their own count too."""

# ESC[1;38;5;208m   ESC[4:3m
COLOR_PATTERN = r"\x1b\[([0-9;:]*)m"
# other sequences: ESC[2J, ESC]8;;address ESC\, ESC(B; tmux's SO and SI; a lone ESC or control
TOKEN_PATTERN = re.compile(
    rf"{COLOR_PATTERN}"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
    rf"|[{CONTROLS}\t{SEPARATORS}{DIRECTIONS}{HALVES}]"
)
TO_LINES, TO_LETTERS = "\x0e", "\x0f"
LINE_LETTERS = str.maketrans("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
"""What letters mean while a program draws lines with them."""

MARKS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
"""Bold, dim, italic, underlined, blinking, reversed, hidden, struck: and what ends each."""
FOREGROUNDS = {*map(str, range(30, 38)), *map(str, range(90, 98))}
BACKGROUNDS = {*map(str, range(40, 48)), *map(str, range(100, 108))}
CHANGES_KEPT = 4096
LINES_KEPT = 1024
"""A screen has hundreds of changes of color, and most of its lines are as they were a moment ago:
these are not worked out again."""


class Style(Struct, frozen=True):
    """How letters are drawn: colors as the parameters that ask for them, empty for the usual."""

    foreground: str = ""
    background: str = ""
    marks: frozenset[str] = frozenset()

    @property
    def escape(self) -> str:
        return _escape(self)


USUAL = Style()


@lru_cache(CHANGES_KEPT)
def _escape(style: Style) -> str:
    words = ("0", *sorted(style.marks), style.foreground, style.background)
    return f"\x1b[{';'.join(word for word in words if word)}m"


class Piece(Struct, frozen=True):
    text: str
    style: Style


Pen = tuple[Style, bool]
"""How letters look, and whether they draw lines."""
PEN: Pen = USUAL, False


def read_line(line: str, pen: Pen) -> tuple[list[Piece], Pen]:
    style, draws_lines = pen
    pieces: list[Piece] = []
    position = 0
    for token in (*TOKEN_PATTERN.finditer(line), None):
        if text := line[position : token.start() if token else None]:
            pieces.append(Piece(text.translate(LINE_LETTERS) if draws_lines else text, style))
        if token is None:
            break
        position = token.end()
        if token[1] is not None:
            style = after(style, token[1])
        elif token[0] in (TO_LINES, TO_LETTERS):
            draws_lines = token[0] == TO_LINES
    return pieces, (style, draws_lines)


def read_lines(ansi: str) -> list[list[Piece]]:
    """Return the lines of a screen, each as its pieces; attributes hold until they are changed."""
    pen = PEN
    lines: list[list[Piece]] = []
    for line in ansi.split("\n")[:MOST_ROWS]:
        pieces, pen = read_line(line, pen)
        lines.append(pieces)
    return lines


def clean_lines(ansi: str) -> tuple[str, ...]:
    """Return the lines of a screen so that each can be shown alone; the last is not blank."""
    pen = PEN
    lines: list[str] = []
    for line in ansi.split("\n")[:MOST_ROWS]:
        written, pen = _cleaned(line, pen)
        lines.append(written)
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


@lru_cache(LINES_KEPT)
def _cleaned(line: str, pen: Pen) -> tuple[str, Pen]:
    pieces, pen = read_line(line, pen)
    return write_line(pieces), pen


def clean_line(ansi: str) -> str:
    """Return one line so that it can be shown; what follows a line end is left out."""
    return _cleaned(ansi.partition("\n")[0], PEN)[0]


def write_line(pieces: Iterable[Piece]) -> str:
    """Return a line of text; its attributes end with it, and blanks that nobody sees are not it."""
    joined: list[Piece] = []
    left = MOST_LETTERS
    for piece in pieces:
        text = piece.text[:left]
        left -= len(text)
        if joined and joined[-1].style == piece.style:
            joined[-1] = Piece(joined[-1].text + text, piece.style)
        elif text:
            joined.append(Piece(text, piece.style))
    while joined:
        end = joined.pop()
        # Underlined, reversed and struck ones are seen.
        are_seen = end.style.background or not end.style.marks.isdisjoint("479")
        if text := end.text if are_seen else end.text.rstrip(" "):
            joined.append(Piece(text, end.style))
            break
    written: list[str] = []
    last = USUAL
    for piece in joined:
        if piece.style != last:
            written.append(piece.style.escape)
            last = piece.style
        written.append(piece.text)
    if last != USUAL:
        written.append(USUAL.escape)
    return "".join(written)


def cut_line(line: str, columns: int) -> str:
    kept: list[Piece] = []
    for piece in read_lines(line)[0]:
        ends = list(accumulate(map(columns_of, piece.text)))
        kept.append(replace(piece, text=piece.text[: bisect_right(ends, columns)]))
        columns -= ends[-1]
    return write_line(kept)


def plain_text(line: str) -> str:
    return "".join(piece.text for piece in read_lines(line)[0])


@lru_cache(CHANGES_KEPT)
def after(style: Style, parameters: str) -> Style:
    words = iter(parameters.split(";"))
    for word in words:
        code, _, more = word.partition(":")
        if code in ("38", "48", "58"):
            color = _color(code, more.split(":") if more else words)
            if color and code == "38":
                style = replace(style, foreground=color)
            elif color and code == "48":
                style = replace(style, background=color)
        else:
            style = _changed(style, code.lstrip("0"), more)
    return style


def _changed(style: Style, code: str, more: str) -> Style:
    if not code:
        return USUAL
    if code in MARKS:
        # ESC[4:0m ends what ESC[4:3m began
        ends = code == "4" and more == "0"
        return replace(style, marks=style.marks - {code} if ends else style.marks | {code})
    ended = {mark for mark, end in MARKS.items() if end == code}
    if ended:
        return replace(style, marks=style.marks - ended)
    if code in FOREGROUNDS or code == "39":
        return replace(style, foreground=code if code != "39" else "")
    if code in BACKGROUNDS or code == "49":
        return replace(style, background=code if code != "49" else "")
    return style


def _color(code: str, words: Iterable[str]) -> str:
    words = iter(words)
    kind = next(words, "")
    count = {"5": 1, "2": 3}.get(kind, 0)
    parts = [next(words, "") for _ in range(count)]
    if count == 3 and not parts[0]:
        # 38:2::1:2:3, with a color space that nobody names
        parts = [*parts[1:], next(words, "")]
    are_parts = all(re.fullmatch(r"[0-9]{1,3}", part) for part in parts)
    if not parts or not are_parts or max(map(int, parts)) > 255:
        return ""
    return ";".join((code, kind, *(str(int(part)) for part in parts)))


VERSION = 2
CLEARED = "\x1b[?7l\x1b[0m\x1b[2J"
"""Begins a frame that is a whole screen. Lines that a player thinks too long are not wrapped."""
# ESC[7;1H, and the line is erased before it is written: after a full one that would eat a letter
PLACE_PATTERN = re.compile(r"\x1b\[([0-9]{1,4});1H\x1b\[0m\x1b\[2K")
FULL = "full"
MOST_COLUMNS = 1000
MOST_FRAMES = 20_000


class Frame(Struct, frozen=True):
    at: float
    lines: Mapping[int, str]
    """Rows from 0, each as it has become: text with colors that stands for itself."""
    is_whole: bool = False


class Cast(Struct, frozen=True):
    began: float
    width: int
    height: int
    """The largest that it had."""
    frames: tuple[Frame, ...]
    is_full: bool = False
    """Did it end because it had come to its largest size?"""


def header_line(began: int, width: int, height: int, title: str) -> bytes:
    size = {"width": width, "height": height}
    return _line({"version": VERSION, **size, "timestamp": began, "title": title})


def frame_line(frame: Frame) -> bytes:
    places = (f"\x1b[{row + 1};1H\x1b[0m\x1b[2K{line}" for row, line in frame.lines.items())
    return _line([frame.at, "o", (CLEARED if frame.is_whole else "") + "".join(places)])


def size_line(at: float, width: int, height: int) -> bytes:
    return _line([at, "r", f"{width}x{height}"])


def full_line(at: float) -> bytes:
    return _line([at, "m", FULL])


def changed_lines(before: Sequence[str], now: Sequence[str]) -> dict[int, str]:
    rows = enumerate(zip_longest(before, now, fillvalue=""))
    return {row: new for row, (old, new) in rows if old != new}


class _Header(msgspec.Struct):
    version: Literal[2]
    width: Annotated[int, Meta(ge=1, le=MOST_COLUMNS)]
    height: Annotated[int, Meta(ge=1, le=MOST_ROWS)]
    timestamp: Annotated[float, Meta(ge=0, lt=1e11)]


_HEADER = msgspec.json.Decoder(_Header)
_EVENT = msgspec.json.Decoder(tuple[Annotated[float, Meta(ge=0, lt=1e9)], str, str])


def parse_cast(data: bytes) -> Cast | None:
    first, _, rest = data.partition(b"\n")
    try:
        header = _HEADER.decode(first)
    except (ValueError, RecursionError):
        return None
    width, height = header.width, header.height
    frames: list[Frame] = []
    is_full = False
    last = 0.0
    for line in rest.split(b"\n"):
        try:
            at, kind, text = _EVENT.decode(line)
        except (ValueError, RecursionError):
            continue
        last = max(at, last)
        if kind == "o":
            head, *places = PLACE_PATTERN.split(text)
            rows = zip(map(int, places[::2]), places[1::2], strict=True)
            shown = {row - 1: clean_line(now) for row, now in rows if 1 <= row <= MOST_ROWS}
            frames.append(Frame(last, shown, head == CLEARED))
        elif kind == "r" and (size := re.fullmatch(r"(\d{1,4})x(\d{1,4})", text, re.ASCII)):
            wider, higher = int(size[1]), int(size[2])
            if 1 <= wider <= MOST_COLUMNS and 1 <= higher <= MOST_ROWS:
                width, height = max(width, wider), max(height, higher)
        is_full = is_full or (kind == "m" and text == FULL)
        if len(frames) >= MOST_FRAMES:
            break
    return Cast(header.timestamp, width, height, tuple(frames), is_full)


def _line(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return f"{text}\n".encode()
