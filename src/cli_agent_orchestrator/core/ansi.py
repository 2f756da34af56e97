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
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import TypeGuard

from .text import CONTROLS, DIRECTIONS, HALVES, SEPARATORS

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
# as we write it ourselves: ESC[0;1;31mred ESC[0m
OWN_STYLE = r"[1-57-9]|[349][0-7]|10[0-7]|[34]8;5;[0-9]{1,3}|[34]8;2(?:;[0-9]{1,3}){3}"
OWN_LINE = re.compile(
    rf"(?:[^{CONTROLS}\t\n{SEPARATORS}{DIRECTIONS}{HALVES}]++|\x1b\[0(?:;(?:{OWN_STYLE}))*m)*+"
)
TO_LINES, TO_LETTERS = "\x0e", "\x0f"
LINE_LETTERS = str.maketrans(
    "`afgijklmnopqrstuvwxyz{|}~",
    "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·",
)
"""What letters mean while a program draws lines with them."""

MARKS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "8": "28", "9": "29"}
"""Bold, dim, italic, underlined, blinking, reversed, hidden, struck: and what ends each."""
SEEN_ON_BLANKS = {"4", "7", "9"}
FOREGROUNDS = {*map(str, range(30, 38)), *map(str, range(90, 98))}
BACKGROUNDS = {*map(str, range(40, 48)), *map(str, range(100, 108))}
# 208
PART_PATTERN = r"[0-9]{1,3}"
HIGHEST_PART = 255
CHANGES_KEPT = 4096
LINES_KEPT = 1024
LONGEST_KEPT = 4096
"""A screen has hundreds of changes of color, and most of its lines are as they were a moment ago:
these are not worked out again."""


@dataclass(frozen=True, slots=True)
class Style:
    """How letters are drawn: colors as the parameters that ask for them, empty for the usual."""

    foreground: str = ""
    background: str = ""
    marks: frozenset[str] = frozenset()

    @property
    def escape(self) -> str:
        return _escape(self)

    @property
    def shows_blanks(self) -> bool:
        """Can a blank be told from nothing?"""
        return bool(self.background) or not self.marks.isdisjoint(SEEN_ON_BLANKS)


USUAL = Style()


@lru_cache(CHANGES_KEPT)
def _escape(style: Style) -> str:
    words = ("0", *sorted(style.marks), style.foreground, style.background)
    return f"\x1b[{';'.join(word for word in words if word)}m"


@dataclass(frozen=True, slots=True)
class Piece:
    """Letters of one style."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Pen:
    """How what follows is written."""

    style: Style = USUAL
    draws_lines: bool = False


def read_line(line: str, pen: Pen) -> tuple[list[Piece], Pen]:
    """Return the pieces of a line, and the pen that the next one begins with."""
    style, draws_lines = pen.style, pen.draws_lines
    pieces: list[Piece] = []
    for text, token in _tokens(line):
        if text:
            pieces.append(Piece(text.translate(LINE_LETTERS) if draws_lines else text, style))
        if token is None:
            continue
        if token[1] is not None:
            style = after(style, token[1])
        elif token[0] in (TO_LINES, TO_LETTERS):
            draws_lines = token[0] == TO_LINES
    return pieces, Pen(style, draws_lines)


def read_lines(ansi: str) -> list[list[Piece]]:
    """Return the lines of a screen, each as its pieces; attributes hold until they are changed."""
    pen = Pen()
    lines: list[list[Piece]] = []
    for line in ansi.split("\n")[:MOST_ROWS]:
        pieces, pen = read_line(line, pen)
        lines.append(pieces)
    return lines


def clean_lines(ansi: str) -> tuple[str, ...]:
    """Return the lines of a screen so that each can be shown alone; the last is not blank.

    >>> clean_lines("\\x1b[31mred\\nstill\\x1b[0m \\n\\n")
    ('\\x1b[0;31mred\\x1b[0m', '\\x1b[0;31mstill\\x1b[0m')
    """
    pen = Pen()
    lines: list[str] = []
    for line in ansi.split("\n")[:MOST_ROWS]:
        written, pen = _clean_line(line, pen)
        lines.append(written)
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


@lru_cache(LINES_KEPT)
def _cleaned(line: str, pen: Pen) -> tuple[str, Pen]:
    pieces, pen = read_line(line, pen)
    return write_line(pieces), pen


def _clean_line(line: str, pen: Pen) -> tuple[str, Pen]:
    return _cleaned(line, pen) if len(line) <= LONGEST_KEPT else _cleaned.__wrapped__(line, pen)


def clean_line(ansi: str) -> str:
    """Return one line so that it can be shown; what follows a line end is left out."""
    return _clean_line(ansi.partition("\n")[0], Pen())[0]


def kept_line(line: str) -> str:
    """Return a line of a recording so that it can be shown: much sooner if it is as we write it."""
    is_ours = len(line) <= MOST_LETTERS and OWN_LINE.fullmatch(line) is not None
    ends = "\x1b" not in line or line.endswith(USUAL.escape)
    return line if is_ours and ends else clean_line(line)


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
    while joined and not joined[-1].style.shows_blanks:
        last_piece = joined.pop()
        if text := last_piece.text.rstrip(" "):
            joined.append(Piece(text, last_piece.style))
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
    """Return as much of a line as a terminal of some columns can show."""
    kept: list[Piece] = []
    for piece in read_lines(line)[0]:
        ends = list(accumulate(map(columns_of, piece.text)))
        kept.append(replace(piece, text=piece.text[: bisect_right(ends, columns)]))
        columns -= ends[-1]
    return write_line(kept)


def plain_text(line: str) -> str:
    return "".join(piece.text for piece in read_lines(line)[0])


def columns_of(text: str) -> int:
    """Return how many columns a text takes on most terminals."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


@lru_cache(CHANGES_KEPT)
def after(style: Style, parameters: str) -> Style:
    """Return how letters look after a sequence that changes that; what is not known changes none.

    >>> after(Style("31"), "1;48:5:7")
    Style(foreground='31', background='48;5;7', marks=frozenset({'1'}))
    """
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
    """Return a color in one form: 38;5;208 or 38;2;1;2;3; empty if it is none."""
    words = iter(words)
    kind = next(words, "")
    count = {"5": 1, "2": 3}.get(kind, 0)
    parts = [next(words, "") for _ in range(count)]
    if count == 3 and not parts[0]:
        # 38:2::1:2:3, with a color space that nobody names
        parts = [*parts[1:], next(words, "")]
    are_parts = all(re.fullmatch(PART_PATTERN, part) for part in parts)
    if not parts or not are_parts or max(map(int, parts)) > HIGHEST_PART:
        return ""
    return ";".join((code, kind, *(str(int(part)) for part in parts)))


def _tokens(line: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield text, and what follows it that is no text; None at the end."""
    position = 0
    for token in TOKEN_PATTERN.finditer(line):
        yield line[position : token.start()], token
        position = token.end()
    yield line[position:], None


@lru_cache(CHANGES_KEPT)
def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


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
