"""Reading a terminal's screen: escapes, dim text, lines, and one way to search.

Patterns are plain strings named `…_PATTERN`; `find` adds the flags, so that `^` and `$` always mean
a line. A no-break space is kept: some agents mark their input box with it.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from typing import TypeVar

from msgspec import Struct

from ..core.text import CONTROLS, HALVES

# ESC [ 2 m        ESC ] 0 ; title BEL        ESC ( B
ESCAPE_PATTERN = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-Z\\-~]?"
)
# ESC [ 0 ; 2 ; 38 ; 5 ; 12 m
COLOR_PATTERN = r"\x1b\[([\d;:]*)m"
# everything that moves or rings and is not a line end or a tab
CONTROL_PATTERN = r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Screens are read many times a second, and a handful of patterns is all there is."""
    return re.compile(pattern, re.MULTILINE)


def find(pattern: str, text: str) -> re.Match[str] | None:
    return _compiled(pattern).search(text)


def find_all(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return _compiled(pattern).finditer(text)


Key = TypeVar("Key")


def first_match(patterns: Mapping[Key, str], text: str) -> Key | None:
    return next((key for key, pattern in patterns.items() if find(pattern, text)), None)


# Delete all of it? [Y/n]        1. Yes        Allow this command?        Enter your API key:
MAY_ASK_PATTERN = (
    r"(?i)[\[(]y(?:es)?/no?\b|\byes/no\b|^\W*1[.)] *(?:yes|ok|allow|accept|approve|trust)\b"
    r"|\b(?:allow|approve|proceed|continue|permission|overwrite|delete|run)\b.*\?\W*$"
    r"|\b(?:key|password|passphrase|token|code)\b[^:\n]*: *$"
)


def may_ask(screen: str) -> bool:
    """Do the last rows of a screen of which nothing is known look like a question to a person?"""
    return bool(find(MAY_ASK_PATTERN, "\n".join(tail(screen_lines(screen), 6))))


def rows_like(pattern: str, lines: Sequence[str]) -> list[int]:
    return [row for row, line in enumerate(lines) if find(pattern, line)]


def strip_escapes(text: str) -> str:
    """Return the text alone: no escape sequences, no control characters, plain line ends."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _compiled(ESCAPE_PATTERN).sub("", text)
    return _compiled(CONTROL_PATTERN).sub("", text)


def without_dim(ansi_text: str) -> str:
    """Return the text without what is drawn dim, every other character in its column.

    A placeholder in an input box is dim and a draft is not: `› \\x1b[2mAsk anything\\x1b[0m`
    becomes `›` and spaces.
    """
    kept: list[str] = []
    faint = False
    for number, piece in enumerate(_compiled(COLOR_PATTERN).split(ansi_text)):
        if number % 2:
            faint = _is_faint_after(piece, faint)
        else:
            plain = strip_escapes(piece)
            kept.append("".join(map(_blank, plain)) if faint else plain)
    return "".join(kept)


def screen_lines(text: str) -> list[str]:
    """Return the lines of a screen without trailing blanks; the last one is not blank."""
    lines = [line.rstrip(" \t") for line in strip_escapes(text).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def tail(lines: Sequence[str], count: int) -> list[str]:
    filled = [line for line in lines if line.strip()]
    return filled[-count:]


def dedent_cell(lines: Sequence[str], margin: int) -> str:
    return "\n".join(line[margin:] for line in lines).strip("\n")


def text_of_last(cells: Sequence["Cell"], margin: int) -> str:
    return dedent_cell(cells[-1].lines, margin).strip() if cells else ""


class Kind(Enum):
    MESSAGE = auto()
    """A message of the user, or an input box that was left behind."""
    ANSWER = auto()
    DONE = auto()
    WORKING = auto()
    ERROR = auto()
    NOTE = auto()
    BANNER = auto()
    REST = auto()
    """The lower part of a cell whose head has left the screen."""
    OTHER = auto()


class Cell(Struct, frozen=True):
    lines: tuple[str, ...]
    kind: Kind = Kind.OTHER

    def is_like(self, pattern: str) -> bool:
        return bool(find(pattern, self.lines[0]))


def last_turn(cells: Sequence[Cell], message: str) -> list[Cell]:
    asked = [row for row, cell in enumerate(cells) if cell.is_like(message)]
    return list(cells[asked[-1] + 1 :]) if asked else list(cells)


def _blank(character: str) -> str:
    if character.isspace():
        return character
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


def _is_faint_after(parameters: str, faint: bool) -> bool:
    codes = iter(parameters.split(";"))
    for code in codes:
        if code in ("38", "48", "58"):
            # 38 ; 5 ; N and 48 ; 2 ; R ; G ; B: the numbers behind a color are no attributes.
            for _ in range({"5": 1, "2": 3}.get(next(codes, ""), 0)):
                next(codes, "")
        elif code in ("2", "", "0", "22"):
            faint = code == "2"
    return faint


LONGEST_ACTION = 120
TELLING = (
    "command", "cmd", "file_path", "filePath", "notebook_path", "path", "pattern", "url", "query",
    "description", "told",
)  # fmt: skip
"""The argument of a tool that says most about its use; the first that is there counts."""


def action_line(tool: str, arguments: Mapping[str, object]) -> str:
    """Return the use of a tool on one line.

    >>> action_line("Bash", {"description": "Runs the tests", "command": "make\\n  test"})
    'Bash: make test'
    """
    told = next((word for name in TELLING if (word := _words(arguments.get(name)))), "")
    line = f"{_words(tool)}: {told}" if told else _words(tool)
    return line if len(line) <= LONGEST_ACTION else line[: LONGEST_ACTION - 1] + "…"


def _words(value: object) -> str:
    if isinstance(value, list):
        value = " ".join(word for word in value if isinstance(word, str))
    if not isinstance(value, str):
        return ""
    # A command may have megabytes.
    return re.sub(f"[{CONTROLS}{HALVES}]", "�", " ".join(value[:480].split()))
