"""Text for people: what it may not hold, how it is cut, counted and put in words.

Characters that text from others may not have are parts of a pattern: `f"[{CONTROLS}]"`.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All but LF and TAB: an escape sequence could rewrite a screen, end a paste or press keys."""
SEPARATORS = r"\u2028\u2029"
"""Line ends to some programs, and not to others."""
BREAKS = rf"\t\n{SEPARATORS}"
DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that make a text look like another one, by showing it from right to left."""
HALVES = r"\ud800-\udfff"
"""Halves of a character, which cannot be written at all."""
UNSAFE_PATTERN = f"[{CONTROLS}{SEPARATORS}{DIRECTIONS}{HALVES}]"
MOST_NAMED = 10
"""Files that a sentence names."""
CUT = " …"
UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def printable(text: str) -> str:
    """Return a text in which nothing but line ends and tabs controls the terminal."""
    return re.sub(UNSAFE_PATTERN, "�", text)


def one_line(text: str) -> str:
    """Return a text for a place in a line: it cannot pretend to be a line of its own."""
    return re.sub(f"[{BREAKS}]", "�", printable(text))


def is_plain(text: str) -> bool:
    """Is a text printable ASCII, with line ends and tabs? This says so faster than a pattern."""
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def on_a_line(name: str) -> str:
    """Return a name from outside so that it stays on its line: as it is, or else quoted."""
    return name if name.isprintable() else ascii(name)


def first_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Name the first of some files, each so that it stays on its line, and say how many more."""
    more = len(names) - most
    return ", ".join(map(on_a_line, names[:most])) + (f" and {more} more" if more > 0 else "")


def columns_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(4096)
def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def short_line(text: str, most: int) -> str:
    """Return a text on one line of at most so many characters, cut after a word if there is one."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    kept = line[: most - len(CUT) + 1]
    return (kept.rpartition(" ")[0] or kept[:-1]) + CUT


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def age(seconds: float) -> str:
    """Return a span of time so roughly that it seldom changes: `40 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0))} s"


def twice_as_many(rounds: int) -> int:
    return 2 * max(rounds, 1)
