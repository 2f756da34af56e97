"""Secrets on a screen that others will see: also those that go on in the next row.

A terminal breaks what is too long for it anywhere, and agents do the same inside of their boxes and
indents. So rows are looked at as they are, and once more put together where one may go on in the
next. What is masked takes the room that it had: all else stays in its place, in its colors.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cli_agent_orchestrator._internal.ansi import (
    Pen,
    Piece,
    columns_of,
    read_line,
    write_line,
)
from cli_agent_orchestrator._internal.masking import MASK, secrets

SIDES = "│┃║▏▕▌▐┆╎┊|█"
"""What stands beside a text: of a box, of a quotation, of a bar that scrolls."""
MARGIN = 8
"""Columns that an agent may leave free to the right of what it writes."""
# What a blank follows: `Authorization: Basic`
BLANK_FOLLOWS = re.compile(r"(?i::|\b(?:bearer|basic|token|digest))\Z")
LONGEST_WORD = 16


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a screen, and where in it something is written."""

    text: str
    start: int
    end: int
    used: int
    """Columns up to its end."""
    room: int
    """Columns up to the side of its box, or of the screen."""

    @property
    def written(self) -> str:
        return self.text[self.start : self.end]


HasBlank = Callable[[str, _Row, _Row], bool]
"""Was a blank where a text was broken, after what had been said, between two rows? Nobody knows:
each way to tell finds some secrets."""


@dataclass(slots=True)
class _Text:
    """Rows put together, and where each letter of that stands on the screen."""

    letters: str = ""
    places: list[int] = field(default_factory=list)
    joints: list[int] = field(default_factory=list)

    def add(self, letters: str, places: Sequence[int]) -> None:
        self.letters += letters
        self.places += places


def masked_screen(ansi: str) -> str:
    """Return a screen in which what looks like a secret is masked, in every row that it touches.

    >>> masked_screen("| see ghp_a1B2c3 |\\n| D4e5F6 for more |")
    '| see (masked)   |\\n| ****** for more |'
    """
    lines = list(_lines(ansi))
    texts = ["".join(piece.text for piece in pieces) for pieces in lines]
    width = max(map(columns_of, texts))
    rows = [_row(text, width) for text in texts]
    hidden = _hidden(rows)
    if not hidden:
        return ansi
    written = []
    at = 0
    for row, pieces in zip(rows, lines, strict=True):
        spans = list(_spans_of(row, at, hidden))
        written.append(write_line(_masked(pieces, spans) if spans else pieces))
        at += len(row.text) + 1
    return "\n".join(written)


def _lines(ansi: str) -> Iterator[list[Piece]]:
    pen = Pen()
    for line in ansi.split("\n"):
        pieces, pen = read_line(line, pen)
        yield pieces


def _row(text: str, width: int) -> _Row:
    end = len(text.rstrip(f" {SIDES}"))
    start = min(len(text) - len(text.lstrip(f" {SIDES}")), end)
    blanks = len(text[end:]) - len(text[end:].lstrip(" "))
    used = columns_of(text[:end])
    return _Row(text, start, end, used, used + blanks if end + blanks < len(text) else width)


def _hidden(rows: Sequence[_Row]) -> set[int]:
    """Return the places of all letters that belong to secrets, counted over all rows."""
    screen = "\n".join(row.text for row in rows)
    hidden = {place for start, end in secrets(screen) for place in range(start, end)}
    goes_on = [_goes_on(upper, lower) for upper, lower in pairwise(rows)]
    for has_blank in (_never, _by_room, _by_words) if any(goes_on) else ():
        text = _put_together(rows, goes_on, has_blank)
        for start, end in secrets(text.letters, text.joints):
            hidden.update(text.places[start:end])
    return hidden


def _put_together(rows: Sequence[_Row], goes_on: Sequence[bool], has_blank: HasBlank) -> _Text:
    """Return what rows say, in one line where one goes on in the next."""
    text = _Text()
    text.add(rows[0].written, range(rows[0].start, rows[0].end))
    at = len(rows[0].text) + 1
    for (upper, lower), is_one in zip(pairwise(rows), goes_on, strict=True):
        if not is_one:
            text.add("\n", (-1,))
        else:
            if has_blank(text.letters, upper, lower):
                text.add(" ", (-1,))
            text.joints.append(len(text.letters))
        text.add(lower.written, range(at + lower.start, at + lower.end))
        at += len(lower.text) + 1
    return text


def _goes_on(upper: _Row, lower: _Row) -> bool:
    """May a row go on in the next: would the first word of that have had no room in it?"""
    if not (upper.written and lower.written):
        return False
    word = lower.written.split(" ", 1)[0]
    return upper.used + columns_of(word) >= upper.room - MARGIN


def _never(before: str, upper: _Row, lower: _Row) -> bool:
    return False


def _by_room(before: str, upper: _Row, lower: _Row) -> bool:
    """Is there room for a blank at the end of a row, or one at the beginning of the next?"""
    begins = lower.text.startswith(" ") or lower.start > upper.start
    return begins or upper.used < upper.room


def _by_words(before: str, upper: _Row, lower: _Row) -> bool:
    return BLANK_FOLLOWS.search(before[-LONGEST_WORD:]) is not None


def _spans_of(row: _Row, at: int, hidden: set[int]) -> Iterator[tuple[int, int]]:
    """Yield what is hidden of a row, which begins at a place; the sides of a box never are."""
    start = None
    for letter in range(row.start, row.end + 1):
        is_hidden = letter < row.end and at + letter in hidden
        if is_hidden and start is None:
            start = letter
        elif not is_hidden and start is not None:
            yield start, letter
            start = None


def _masked(pieces: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    letters = [Piece(letter, piece.style) for piece in pieces for letter in piece.text]
    done = 0
    for start, end in spans:
        yield from letters[done:start]
        columns = columns_of("".join(letter.text for letter in letters[start:end]))
        word = MASK.ljust(columns) if columns >= len(MASK) else "*" * columns
        yield Piece(word, letters[start].style)
        done = end
    yield from letters[done:]
