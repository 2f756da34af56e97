"""Text from agents, servers and files, made safe to be shown in a terminal.

Everything that is printed and is not ours goes through here, and JSON through `json.dumps`.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum

from ..core.text import BREAKS, CONTROLS, DIRECTIONS, HALVES, SEPARATORS

TIME = "00:00:00  "
"""How a time is written before a line."""
UNSAFE_PATTERN = f"[{CONTROLS}{SEPARATORS}{DIRECTIONS}{HALVES}]"


def printable(text: str) -> str:
    """Return a text in which nothing but line ends and tabs controls the terminal.

    >>> printable("a\\x1b[31mb\\r\\n")
    'a�[31mb�\\n'
    """
    return re.sub(UNSAFE_PATTERN, "�", text)


def one_line(text: str) -> str:
    """Return a text for a place in a line: it cannot pretend to be a line of its own."""
    return re.sub(f"[{BREAKS}]", "�", printable(text))


def beside_time(text: str, width: int = 0) -> str:
    """Return a text to be shown behind the time: lines after its first cannot look like another.

    In a terminal of a width, lines go on at a word, below their own beginning; a word that is too
    long for a row is not broken. Without a width no line is.
    """
    room = max(width - len(TIME), 1) if width else 0
    rows = [row for line in printable(text).split("\n") for row in rows_of(line, room)]
    return ("\n" + " " * len(TIME)).join(rows)


def rows_of(line: str, room: int) -> list[str]:
    """Return a line as rows of so many cells at most, broken between words; 0 if it never ends."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    rows = [""]
    for space, word in re.findall(r"( *)([^ ]+)", line):
        longer = f"{rows[-1]}{space}{word}"
        if room and rows[-1] and cells(longer) > room:
            rows.append(f"{indent}{word}")
        else:
            rows[-1] = longer
    return rows if room else [line]


def cells(text: str) -> int:
    """Return how much room a text takes in a terminal: a wide character takes that of two."""
    return sum(
        0 if unicodedata.combining(character)
        else 2 if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )  # fmt: skip


class Tone(Enum):
    """How a line is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people, or the few with which a run ends."""

    text: str
    tone: Tone = Tone.PLAIN
