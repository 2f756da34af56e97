"""HTML that nothing from outside can break out of.

    tag("p", "by ", tag("b", name), class_="author")

Text becomes HTML here alone: everything that is no `Markup` is escaped, and only `tag`, `joined`
and `text` make a `Markup`. So names, replies and screens cannot change the structure of a page.

A terminal's screen becomes HTML too: colors and attributes are classes, other escapes are left out.

    screen_lines("\\x1b[1;31mno\\x1b[0m yes")  →  ['<span class="f1 o">no</span> yes']

`f0` to `f255` and `b0` to `b255` are the colors of letters and of what is behind them, `o` bold,
`d` dim, `i` italic, `u` underlined, `s` struck out, `r` reversed, `w` a letter that takes two
cells. `color_rules` is their stylesheet. It counts inside of an element of the class `screen`.
"""

import re
import unicodedata
from bisect import bisect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from itertools import groupby, pairwise
from math import dist

from ..core.ansi import PEN, Pen, Style, read_line
from ..core.text import CONTROLS, DIRECTIONS, HALVES, columns_of, is_plain

# div, h1, font-face; with a capital letter only in SVG: linearGradient
NAME_PATTERN = r"[a-z][a-zA-Z0-9]*(?:-[a-z0-9]+)*"
# /dashboard/runs/x?step=3, #turn-3, and no //host
OWN_ADDRESS_PATTERN = r"(?:/(?!/)[^\s\\]*)?(?:#[^\s\\]*)?"
ADDRESSES = frozenset({"href", "src", "action", "formaction"})
FORBIDDEN = frozenset({"style", "srcdoc"})
"""The page's own rules forbid these."""
VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
RAW = frozenset({"script", "style", "iframe", "object", "embed"})
"""Their content is no text, so escaping would not help."""
UNSEEN_PATTERN = f"[{CONTROLS}{DIRECTIONS}{HALVES}]"
REPLACEMENT = "\ufffd"


class Markup(str):
    """HTML that is as its writer meant it."""

    __slots__ = ()


Child = str | None
"""Content of an element: HTML as it is, other text escaped, nothing for None."""
Attribute = str | int | float | bool | None
"""True is the name alone, False and None are no attribute."""


def text(value: str) -> Markup:
    """Return a text as HTML; characters that are invisible, or turn a text round, are shown.

    >>> text("<b> & \\x1b")
    '&lt;b&gt; &amp; \ufffd'
    """
    # A screen has hundreds of texts, several times a second.
    seen = value if is_plain(value) else re.sub(UNSEEN_PATTERN, REPLACEMENT, value)
    return Markup(escape(seen, quote=True))


def joined(parts: Iterable[Child], between: str = "") -> Markup:
    return Markup(_inner(between).join(_inner(part) for part in parts if part is not None))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element.

    Names of attributes have `_` for `-`, and `_` at the end if they are words of Python: `class_`,
    `for_`, `data_role`, `aria_label`. An address may only lead to this server.

    >>> tag("a", "1 < 2", href="/dashboard", class_="x", hidden=True, id=None)
    '<a href="/dashboard" class="x" hidden>1 &lt; 2</a>'
    """
    _check_element(name)
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{joined(children)}</{name}>")


def _inner(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else text(child)


@lru_cache(maxsize=256)
def _check_element(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name) or name in RAW:
        raise ValueError(f"no element of ours: {name!r}")


@lru_cache(maxsize=256)
def _attribute_name(key: str) -> str:
    # In SVG some names have capital letters: viewBox.
    name = key.rstrip("_").replace("_", "-")
    is_code = name.startswith("on") or name in FORBIDDEN
    if not re.fullmatch(NAME_PATTERN, name) or is_code:
        raise ValueError(f"no attribute of ours: {name!r}")
    return name


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _attribute_name(key)
    if value is True:
        return f" {name}"
    written = f"{value:g}" if isinstance(value, float) else str(value)
    if name in ADDRESSES and not re.fullmatch(OWN_ADDRESS_PATTERN, written):
        raise ValueError(f"an address of somebody else: {written!r}")
    return f' {name}="{text(written)}"'


MARKS = {"1": "o", "2": "d", "3": "i", "4": "u", "7": "r", "9": "s"}
BRIGHT_TENS, BRIGHT = (9, 10), 8
"""31 and 41 are color 1, 91 and 101 color 9."""

CUBE = (0, 95, 135, 175, 215, 255)
"""The shades of red, green and blue that colors 16 to 231 are mixed from."""
GREYS = range(8, 248, 10)
CUBE_BORDERS, GREY_BORDERS = (
    [(low + high) / 2 for low, high in pairwise(shades)] for shades in (CUBE, GREYS)
)
CUBE_START, GREY_START = 16, 232
BASIC = (
    *("000000", "f2777a", "7fc77f", "e5c07b", "7aa6f0", "d68fd6", "66c2cd", "d4d4d4"),
    *("9a9a9a", "ff9a9a", "a6e3a1", "ffe08a", "a8c7ff", "f0b3f0", "94e2ec", "ffffff"),
)
"""Colors 0 to 15, which every terminal chooses: all but black are readable on black."""
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


def screen_lines(ansi: str) -> list[Markup]:
    """Return the inside of each line. What is drawn in a color stays so over the line's end."""
    lines = []
    pen = PEN
    for line in ansi.split("\n"):
        drawn, pen = _line(line, pen)
        lines.append(drawn)
    return lines


# Most lines of a screen that has changed are as they were.
@lru_cache(maxsize=1024)
def _line(line: str, pen: Pen) -> tuple[Markup, Pen]:
    pieces, pen = read_line(line, pen)
    drawn = []
    for style, same in groupby(pieces, lambda piece: piece.style):
        run = "".join(piece.text for piece in same)
        inner = text(run) if columns_of(run) == len(run) else joined(_spaced(run))
        classes = _classes(style)
        drawn.append(tag("span", inner, class_=classes) if classes else inner)
    return joined(drawn), pen


def _spaced(run: str) -> Iterator[str]:
    """Yield a text with each letter that takes two cells in an element of its own."""
    letters: list[str] = []
    for character in run:
        # A mark on the letter, a choice between two looks, or what joins two signs to one.
        if letters and unicodedata.category(character) in ("Mn", "Me", "Cf"):
            letters[-1] += character
        else:
            letters.append(character)
    for is_wide, same in groupby(letters, lambda letter: columns_of(letter[0]) > 1):
        if is_wide:
            yield from (tag("span", letter, class_="w") for letter in same)
        else:
            yield "".join(same)


@lru_cache(maxsize=1024)
def _classes(style: Style) -> str:
    fore = [f"f{_color(style.foreground)}"] if style.foreground else []
    back = [f"b{_color(style.background)}"] if style.background else []
    return " ".join([*fore, *back, *sorted(MARKS[mark] for mark in style.marks & MARKS.keys())])


def _color(written: str) -> int:
    """Return which of 256 colors is meant: `31`, `91`, `38;5;208`, `38;2;1;2;3`."""
    code, *values = map(int, written.split(";"))
    match values:
        case [_, number]:
            return number
        case [_, red, green, blue]:
            return _nearest((red, green, blue))
    ten, one = divmod(code, 10)
    return one + (BRIGHT if ten in BRIGHT_TENS else 0)


@lru_cache(maxsize=1024)
def _nearest(color: tuple[int, int, int]) -> int:
    red, green, blue = (bisect(CUBE_BORDERS, value) for value in color)
    mixed = CUBE_START + 36 * red + 6 * green + blue
    grey = GREY_START + bisect(GREY_BORDERS, sum(color) / 3)
    return min((mixed, grey), key=lambda number: dist(_rgb(number), color))


def _rgb(number: int) -> tuple[int, ...]:
    if number >= GREY_START:
        return (GREYS[number - GREY_START],) * 3
    step = number - CUBE_START
    return CUBE[step // 36], CUBE[step // 6 % 6], CUBE[step % 6]


def color_rules() -> str:
    mixed = ("".join(f"{shade:02x}" for shade in _rgb(n)) for n in range(CUBE_START, 256))
    colors = [*BASIC, *mixed]
    rules = (f".{side}{n}{{--{side}:#{color}}}" for side in "fb" for n, color in enumerate(colors))
    return LAYOUT + "".join(rules) + "\n"
