"""Reading a terminal's screen: escapes, dim text, lines, and one way to search.

Patterns are plain strings named `…_PATTERN`; `find` and `find_all` add the flags, so that `^` and
`$` always mean a line. A no-break space is kept: some agents mark their input box with it.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

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

# ╭────╮
FRAME_START_PATTERN = r"^ ?╭─+╮$"
# ╰────╯
FRAME_END_PATTERN = r"^ ?╰─+╯$"

FAINT = "2"
NOT_FAINT = ("", "0", "22")
# 38 ; 5 ; N and 48 ; 2 ; R ; G ; B: the numbers behind a color are no attributes of their own
COLOR_CODES = ("38", "48", "58")
COLOR_ARGUMENTS = {"5": 1, "2": 3}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Screens are read many times a second, and a handful of patterns is all there is."""
    return re.compile(pattern, re.MULTILINE)


def find(pattern: str, text: str) -> re.Match[str] | None:
    """Return the first place where a pattern matches; `^` and `$` mean a line."""
    return _compiled(pattern).search(text)


def find_all(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return _compiled(pattern).finditer(text)


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
    position = 0
    for color in find_all(COLOR_PATTERN, ansi_text):
        kept.append(_shown(ansi_text[position : color.start()], faint))
        faint = _is_faint_after(color[1], faint)
        position = color.end()
    kept.append(_shown(ansi_text[position:], faint))
    return "".join(kept)


def screen_lines(text: str) -> list[str]:
    """Return the lines of a screen without trailing blanks; the last one is not blank."""
    lines = [line.rstrip(" \t") for line in strip_escapes(text).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def tail(lines: Sequence[str], count: int) -> list[str]:
    """Return the last lines that are not blank, at most `count` of them, in their order."""
    filled = [line for line in lines if line.strip()]
    return filled[-count:] if count > 0 else []


def dedent_cell(lines: Sequence[str], margin: int) -> str:
    """Return the text of a block whose lines are drawn `margin` columns from the left.

    The first line's own mark stands in the margin and is cut off with it.
    """
    return "\n".join(line[margin:] for line in lines).strip("\n")


class Kind(Enum):
    """What a cell is."""

    MESSAGE = auto()
    """A message of the user, or an input box that was left behind."""
    ANSWER = auto()
    """What the agent said or did."""
    DONE = auto()
    """The note that a turn is over."""
    WORKING = auto()
    """A sign of work going on."""
    ERROR = auto()
    NOTE = auto()
    """What the program itself says."""
    BANNER = auto()
    REST = auto()
    """The lower part of a cell whose head has left the screen."""
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Cell:
    """A block of the conversation: its head, empty if it has left the screen, and what follows."""

    lines: tuple[str, ...]
    kind: Kind = Kind.OTHER

    @property
    def head(self) -> str:
        return self.lines[0]

    def is_like(self, pattern: str) -> bool:
        """Does the head look like this?"""
        return bool(find(pattern, self.head))


@dataclass(frozen=True, slots=True)
class Box:
    """Where an input box is: its first row, and the row that closes it."""

    row: int
    end: int


def last_turn(cells: Sequence[Cell], message: str) -> list[Cell]:
    """Return the cells below the last one that looks like a message; all if there is none."""
    asked = [row for row, cell in enumerate(cells) if cell.is_like(message)]
    return list(cells[asked[-1] + 1 :]) if asked else list(cells)


def cells_by_margin(lines: Sequence[str]) -> list[Cell]:
    """Split a conversation at the rows with a mark in one of the first two columns.

    Indented rows at the top are the banner, or the rest of a cell that has scrolled away.
    """
    parts: list[list[str]] = []
    for line in lines:
        if line[:2].strip() or not parts:
            parts.append([line])
        else:
            parts[-1].append(line)
    return [Cell(tuple(part)) for part in parts]


def last_frame(lines: Sequence[str], choice: str) -> list[str]:
    """Return the rows of the frame that ends the screen, if it has something to choose."""
    if not lines or not find(FRAME_END_PATTERN, lines[-1]):
        return []
    starts = [row for row, line in enumerate(lines) if find(FRAME_START_PATTERN, line)]
    frame = list(lines[starts[-1] :]) if starts else []
    return frame if any(find(choice, line) for line in frame) else []


def _shown(text: str, faint: bool) -> str:
    plain = strip_escapes(text)
    return "".join(map(_blank, plain)) if faint else plain


def _blank(character: str) -> str:
    if character.isspace():
        return character
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


def _is_faint_after(parameters: str, faint: bool) -> bool:
    codes = iter(parameters.split(";"))
    for code in codes:
        if code in COLOR_CODES:
            for _ in range(COLOR_ARGUMENTS.get(next(codes, ""), 0)):
                next(codes, "")
        elif code == FAINT:
            faint = True
        elif code in NOT_FAINT:
            faint = False
    return faint


LONGEST_ACTION = 120
LOOKED_AT = 480
"""Characters of a text: a command may have megabytes, of which no more can be shown."""
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
    """Return a text, or a list of words, as words with one blank between them."""
    if isinstance(value, list):
        value = " ".join(word for word in value if isinstance(word, str))
    if not isinstance(value, str):
        return ""
    return re.sub(f"[{CONTROLS}{HALVES}]", "�", " ".join(value[:LOOKED_AT].split()))
