"""A terminal's screen as HTML: colors and attributes are classes, all else of an escape is gone.

    screen_lines("\\x1b[1;31mno\\x1b[0m yes")  →  ['<span class="f1 o">no</span> yes']

`f0` to `f255` and `b0` to `b255` are the colors of letters and of what is behind them, `o` bold,
`d` dim, `i` italic, `u` underlined, `s` struck out, `r` reversed, `w` a letter that takes two
cells. `color_rules` is their stylesheet. It counts inside of an element of the class `screen`.
"""

import re
import unicodedata
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, islice, pairwise

from cli_agent_orchestrator._internal.characters import CONTROLS
from cli_agent_orchestrator._internal.html.markup import Markup, joined, tag, text

ATTRIBUTES_PATTERN = r"\x1b\[([0-9;:]{0,64})m"
# ESC [ 2 J        ESC ] 0 ; title BEL        ESC ( B
OTHER_ESCAPE_PATTERN = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-Z\\-~]"
)
# Lines and blocks, which agents draw much of, are not among these.
MAYBE_WIDE = re.compile(r"[\u1100-\u115f\u231a-\u23ff\u25fd-\u2bff\u2e80-\U0010ffff]")
PIECES = re.compile(f"{ATTRIBUTES_PATTERN}|{OTHER_ESCAPE_PATTERN}|[{CONTROLS}]")

SET = {1: "o", 2: "d", 3: "i", 4: "u", 7: "r", 9: "s", 21: "u"}
UNSET = {22: "od", 23: "i", 24: "u", 27: "r", 29: "s"}
FORE, BACK, UNDERLINE = 38, 48, 58
COLOR_ARGUMENTS = {"5": 1, "2": 3}
NO_UNDERLINE = ["4", "0"]

CUBE = (0, 95, 135, 175, 215, 255)
"""The shades of red, green and blue that colors 16 to 231 are mixed from."""
GREYS = range(8, 248, 10)
"""The colors 232 to 255."""
CUBE_BORDERS, GREY_BORDERS = (
    [(low + high) / 2 for low, high in pairwise(shades)] for shades in (CUBE, GREYS)
)
"""Where the next of these is nearer."""
CUBE_START, GREY_START = 16, 232
BASIC = (
    *("000000", "f2777a", "7fc77f", "e5c07b", "7aa6f0", "d68fd6", "66c2cd", "d4d4d4"),
    *("9a9a9a", "ff9a9a", "a6e3a1", "ffe08a", "a8c7ff", "f0b3f0", "94e2ec", "ffffff"),
)
"""Colors 0 to 15, which every terminal chooses for itself: all but black read well on black."""
LAYOUT = """\
.screen{--f:var(--screen-text,#d4d4d4);--b:var(--screen-ground,#1b1b1b);color:var(--f);\
background:var(--b)}
.screen span{color:var(--f);background:var(--b)}
.screen .o{font-weight:bold}
.screen .d{color:color-mix(in srgb,var(--f) 70%,var(--b))}
.screen .i{font-style:italic}
.screen .u{text-decoration:underline}
.screen .s{text-decoration:line-through}
.screen .u.s{text-decoration:underline line-through}
.screen .r{color:var(--b);background:var(--f)}
.screen .w{display:inline-block;width:2ch;overflow:hidden;vertical-align:bottom;color:inherit;\
background:inherit}
"""


@dataclass(frozen=True, slots=True)
class Pen:
    """How what follows is drawn."""

    fore: int | None = None
    """One of 256 colors; None: what is usual."""
    back: int | None = None
    marks: str = ""
    """The classes of its attributes, each a letter."""


PLAIN = Pen()


def screen_lines(ansi: str) -> list[Markup]:
    """Return the inside of each line. What is drawn in a color stays so over the line's end."""
    lines = []
    pen = PLAIN
    for line in ansi.split("\n"):
        drawn, pen = _line(line, pen)
        lines.append(drawn)
    return lines


# Most lines of a screen that has changed are as they were.
@lru_cache(maxsize=1024)
def _line(line: str, pen: Pen) -> tuple[Markup, Pen]:
    """Return the inside of a line, and the pen that the next one begins with."""
    first, *rest = PIECES.split(line)
    found = [(pen, first)]
    for written, piece in zip(rest[::2], rest[1::2], strict=True):
        pen = pen if written is None else _changed(pen, written)
        found.append((pen, piece))
    runs = groupby((run for run in found if run[1]), lambda run: run[0])
    return joined(_drawn("".join(t for _, t in same), drawn) for drawn, same in runs), pen


def _drawn(run: str, pen: Pen) -> Markup:
    inner = joined(_spaced(run)) if MAYBE_WIDE.search(run) else text(run)
    return inner if pen == PLAIN else tag("span", inner, class_=_classes(pen))


def _spaced(run: str) -> Iterator[str]:
    """Yield a text with each letter that takes two cells in an element of its own."""
    for is_wide, letters in groupby(_letters(run), lambda letter: _is_wide(letter[0])):
        if is_wide:
            yield from (tag("span", letter, class_="w") for letter in letters)
        else:
            yield "".join(letters)


def _letters(run: str) -> list[str]:
    """Return the letters of a text, each with the marks that are put on it."""
    letters: list[str] = []
    for character in run:
        # A mark, a choice between two looks, or what joins two signs to one.
        if letters and unicodedata.category(character) in ("Mn", "Me", "Cf"):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def _classes(pen: Pen) -> str:
    fore = [] if pen.fore is None else [f"f{pen.fore}"]
    back = [] if pen.back is None else [f"b{pen.back}"]
    return " ".join([*fore, *back, *pen.marks])


@lru_cache(maxsize=1024)
def _changed(pen: Pen, written: str) -> Pen:
    """Return a pen after the numbers between `ESC [` and `m`."""
    fields = iter(written.split(";"))
    for field in fields:
        # With colons all of a color is one field, and 4:3 is a way to underline.
        head, *own = field.split(":")
        code = _number(head or "0")
        if code in (FORE, BACK, UNDERLINE):
            pen = _colored(pen, code, own or _color_arguments(fields))
        elif [head, *own[:1]] == NO_UNDERLINE:
            pen = _with_code(pen, 24)
        else:
            pen = _with_code(pen, code)
    return pen


def _color_arguments(fields: Iterator[str]) -> list[str]:
    kind = next(fields, "")
    return [kind, *islice(fields, COLOR_ARGUMENTS.get(kind, 0))]


def _colored(pen: Pen, code: int, arguments: list[str]) -> Pen:
    color = _color(arguments)
    if color is None or code == UNDERLINE:
        return pen
    return replace(pen, fore=color) if code == FORE else replace(pen, back=color)


def _color(arguments: list[str]) -> int | None:
    kind, *written = arguments
    # 2:R:G:B, or with the name of a color space, which is mostly empty: 2::R:G:B
    values = [_number(value) for value in (written[1:4] if len(written) > 3 else written)]
    if len(values) != COLOR_ARGUMENTS.get(kind) or not all(0 <= value < 256 for value in values):
        return None
    return values[0] if kind == "5" else _nearest((values[0], values[1], values[2]))


def _with_code(pen: Pen, code: int) -> Pen:
    """Return a pen after one number; those that mean nothing here leave it as it is."""
    if code == 0:
        return PLAIN
    if code in SET:
        return replace(pen, marks=_sorted({*pen.marks, SET[code]}))
    if code in UNSET:
        return replace(pen, marks=_sorted(set(pen.marks) - set(UNSET[code])))
    ten, one = divmod(code, 10)
    match ten:
        case 3 | 9 if one < 8 or code == 39:
            return replace(pen, fore=None if one == 9 else one + (8 if ten == 9 else 0))
        case 4 | 10 if one < 8 or code == 49:
            return replace(pen, back=None if one == 9 else one + (8 if ten == 10 else 0))
    return pen


def _sorted(marks: Iterable[str]) -> str:
    return "".join(sorted(marks))


def _number(written: str) -> int:
    """Return a number of a few digits, and -1 for anything else."""
    return int(written) if len(written) <= 3 and written.isdecimal() else -1


@lru_cache(maxsize=1024)
def _nearest(color: tuple[int, int, int]) -> int:
    """Return which of the colors 16 to 255 is nearest to one of red, green and blue."""
    red, green, blue = (bisect(CUBE_BORDERS, value) for value in color)
    mixed = CUBE_START + 36 * red + 6 * green + blue
    grey = GREY_START + bisect(GREY_BORDERS, sum(color) / 3)
    return min((mixed, grey), key=lambda number: _distance(_rgb(number), color))


def _rgb(number: int) -> tuple[int, ...]:
    """Return red, green and blue of a color from 16 to 255."""
    if number >= GREY_START:
        return (GREYS[number - GREY_START],) * 3
    step = number - CUBE_START
    return CUBE[step // 36], CUBE[step // 6 % 6], CUBE[step % 6]


def _distance(one: Iterable[int], other: Iterable[int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def color_rules() -> str:
    """Return the stylesheet of everything that `screen_lines` writes."""
    mixed = ("".join(f"{shade:02x}" for shade in _rgb(n)) for n in range(CUBE_START, 256))
    colors = [*BASIC, *mixed]
    rules = (f".{side}{n}{{--{side}:#{color}}}" for side in "fb" for n, color in enumerate(colors))
    return LAYOUT + "".join(rules) + "\n"
