"""What the agent draws: its rows, and how the live ones at the bottom are painted anew.

Marks of the interface stand in column 0. What the agent says stands behind a gutter, on every row:
`│ ` starts a line and `┆ ` continues one that is too long. So no answer can look like a mark.

    ▒▒ scripted agent · profile programmer        banner
    ▢ ready                                       at rest, before the first turn
    ▌ Fix the basket … [4,120 chars]              a message it took
    ∙ ran python3 -m unittest: exit code 1        something it did
    │ RESULT: FAIL                                its answer
    ▣ turn 1 over · 0.4s                          at rest; `▧ error: …` after a failure
    ▖ working · 3s · esc stops                    live, while busy
    scripted ❯ draft                              live: the input box
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PROMPT = "scripted ❯ "
PLACEHOLDER = "Say what to do, or /exit"
SPINNER = "▖▘▝▗"
READY, OVER, FAILED, QUESTION = "▢ ", "▣ ", "▧ ", "▨ "
BANNER, MESSAGE, NOTE = "▒▒ ", "▌ ", "∙ "
LINE, CONTINUED = "│ ", "┆ "
MORE = "…"

RESET, BOLD, DIM, RED, GREEN, YELLOW, CYAN = (
    f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33", "36")
)
STYLES = {
    READY: DIM,
    OVER: GREEN,
    FAILED: RED,
    QUESTION: YELLOW,
    BANNER: BOLD,
    MESSAGE: CYAN,
    NOTE: DIM,
}
TAB_COLUMNS = 4
LEAST_COLUMNS = 16


class Row(NamedTuple):
    """One row of the screen: its text, and the same text with colors."""

    text: str
    drawn: str


def styled(text: str) -> Row:
    """Return a row in the color of its mark."""
    style = YELLOW if text[:1] in SPINNER else STYLES.get(text[:2], STYLES.get(text[:3], ""))
    return Row(text, f"{style}{text}{RESET}" if style and text else text)


def prompt_row(shown: str, hint: str, columns: int) -> Row:
    """Return the input box: the end of the draft, or a dim hint."""
    room = columns - 1 - width_of(PROMPT)
    label = f"{BOLD}{PROMPT.rstrip()}{RESET} "
    if not shown:
        text = clip(hint, room)
        return Row(PROMPT + text, f"{label}{DIM}{text}{RESET}")
    text = clip_left(plain(shown[-columns:].replace("\n", "⏎").replace("\r", "⏎")), room)
    return Row(PROMPT + text, label + text)


def message_row(message: str, columns: int) -> str:
    """Return the head of a message that was taken, in one row."""
    first = next((line for line in message[:4000].splitlines() if line.strip()), "")
    head = plain(first[:columns]).strip()
    if len(head) == len(message.strip()):
        return clip(MESSAGE + head, columns - 1)
    length = f" [{len(message):,} chars]"
    return clip(MESSAGE + head, columns - 1 - len(length)) + length


def answer_rows(text: str, columns: int) -> Iterator[str]:
    """Yield what the agent says, row by row, behind its gutter."""
    room = max(columns, LEAST_COLUMNS) - 1 - len(LINE)
    for line in text.split("\n"):
        mark = LINE
        for piece in wrap(plain(line), room):
            yield (mark + piece).rstrip(" ")
            mark = CONTINUED


def dialog_rows(title: str, question: str, yes_marked: bool, columns: int) -> list[str]:
    """Return a question with two choices; its last row is a mark, as its first."""
    yes, no = ("▸ ", "  ") if yes_marked else ("  ", "▸ ")
    asked = list(wrap(plain(question.replace("\n", " ")), max(columns, LEAST_COLUMNS) - 3))
    return [
        QUESTION + title,
        *("  " + piece for piece in asked[:10]),
        f"  {yes}1. Yes",
        f"  {no}2. No",
        QUESTION + "1 yes · 2 no · Enter takes the marked one",
    ]


def plain(text: str) -> str:
    """Return one line without control characters, its tabs as spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(filter(_is_shown, text.expandtabs(TAB_COLUMNS)))


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def clip(text: str, columns: int) -> str:
    """Return as much of the start of a text as fits."""
    if width_of(text) <= columns:
        return text
    return _head(text, columns - 1) + MORE if columns > 0 else ""


def clip_left(text: str, columns: int) -> str:
    """Return as much of the end of a text as fits."""
    if width_of(text) <= columns:
        return text
    return MORE + _head(text[::-1], columns - 1)[::-1] if columns > 0 else ""


def wrap(line: str, columns: int) -> Iterator[str]:
    """Yield the pieces of a line, cut where no blank is lost: not after one."""
    start = 0
    while len(line) - start > columns or width_of(line[start:]) > columns:
        piece = _head(line[start : start + columns], columns)
        kept = piece.rstrip(" ") or piece
        yield kept
        start += len(kept)
    yield line[start:]


def _head(text: str, columns: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _columns_of(character)
        if used > columns:
            return text[:index]
    return text


def _columns_of(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs")


class Painter:
    """Knows what is drawn at the bottom, and returns the bytes that change it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._live: tuple[Row, ...] = ()
        self._cursor = 0

    def paint(self, above: Sequence[str], live: Sequence[Row], cursor: int) -> str:
        """Return what puts rows above for good and draws the live ones below them.

        `cursor` is the column of the cursor in the last live row.
        """
        lines = [styled(row).drawn for row in above] + [row.drawn for row in live]
        drawn = self._erase() + "\r\n".join(lines if live else [*lines, ""])
        self._live, self._cursor = tuple(live), min(cursor, self.columns - 1)
        return f"{drawn}\x1b[{self._cursor + 1}G" if live else drawn

    def _erase(self) -> str:
        """Return what removes the live rows; a terminal made narrower has wrapped them."""
        if not self._live:
            return ""
        rows = [max(0, width_of(row.text) - 1) // self.columns + 1 for row in self._live[:-1]]
        up = sum(rows) + self._cursor // self.columns
        return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
