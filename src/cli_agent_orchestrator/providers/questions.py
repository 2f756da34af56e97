"""What an agent asks, and the keys that answer it, as far as its screen shows them.

All agents draw their questions much alike: a text, a list, and a line about keys.

     Do you want to proceed?
     ❯ 1. Yes
       2. No, and tell Claude what to do differently (esc)
     Esc to cancel · Tab to amend

A wrong key would give an unwanted answer. So a number counts only in the last list of the screen,
if one of its lines is marked and only words about keys follow it. Without numbers there is the
marked line alone, for Enter, if the screen says that Enter takes it. Otherwise there are no
choices: only a person who looks at the screen can answer.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from ..core.models import Choice
from .screen import find, screen_lines, tail

# │ text in a box │        ┃ text behind a bar
FRAME_PATTERN = r"^ {0,2}[│┃](?: |$)"
# ╭────────        ╌╌╌╌╌╌╌╌        ╰────────
EMPTY_PATTERN = r"^[\s│┃╹─━╌╭╮╰╯├┤▀▄▔]*$"
#  ❯ 1. Yes           2. No
NUMBERED_PATTERN = r"^( *)([❯›>●▸] +)?([1-9]\d?)\. +(\S.*)$"
#  ❯ Yes, I trust this folder
MARKED_PATTERN = r"^( *[❯›▸●] +)(\S.*)$"
# Type something.        Enter a custom value
FIELD_PATTERN = r"^(?:Type |Enter a custom )"
# Press enter to confirm or esc to cancel        ↑↓ select  enter submit
KEYS_PATTERN = r"(?i)\b(?:enter|esc)\b|[↑↓←→]"
ENTER_PATTERN = r"(?i)\benter\b"
# Type to filter · Enter/↓ to select
SEARCH_PATTERN = r"(?i)\btype to\b"
# Esc to cancel        esc back
ESCAPE_PATTERN = r"(?i)\besc (?:to )?(cancel|exit|go back|back|close|skip|quit|dismiss|interrupt)\b"
# What the text of a question stands below: ────────        ╭────        • Running make
ABOVE_PATTERN = r"^ ?(?:[─━]{8}|╭|[•◦›❯●○✻✦⚠■] )"
# ▨ permission needed
HEADING_PATTERN = r"^▨ "
# Allow this action? Use 't' to trust (always allow) this tool for the session. [y/n/t]:
LINE_QUESTION_PATTERN = r"^Allow this action\?.*\[y/n/t\]:$"
# [builder] 16% λ !>
EMPTY_PROMPT_PATTERN = r"^(?:\[[^\]\s][^\]]*\] ?)?(?:\d+% ?)?(?:λ ?)?!?>$"


class ShownQuestion(Struct, frozen=True):
    text: str
    choices: tuple[Choice, ...]
    shown: str
    """All that can be seen of it, with its mark."""
    then: tuple[str, ...] = ()


Found = tuple[Sequence[Choice], int, str]
"""Choices, the row of the first one, and the words about keys below them."""


def read_question(screen: str) -> ShownQuestion:
    raw = [line.rstrip() for line in screen_lines(screen)]
    lines = [_unframed(line) for line in raw]
    rows = [row for row, line in enumerate(lines) if line]
    if rows and find(EMPTY_PROMPT_PATTERN, lines[rows[-1]]):
        rows.pop()
    # The question is text as well as the place of its choices; answers are typed at a prompt.
    is_typed = bool(rows) and bool(find(LINE_QUESTION_PATTERN, lines[rows[-1]]))
    letters = (Choice("y", "yes"), Choice("n", "no"), Choice("t", "trust"))
    typed = (letters, rows[-1] + 1, "") if is_typed else None
    found = typed or _numbered(raw, lines) or _marked(lines)
    if found is None:
        text = "\n".join(tail(_text(raw), 15))
        return ShownQuestion(text, (), text)
    choices, row, hints = found
    text = "\n".join(_text(raw[_first_row(raw, row) : row]))
    escape = find(ESCAPE_PATTERN, hints)
    more = (Choice("Escape", escape[1].lower()),) if escape else ()
    shown = "\n".join([text, *lines[row:]])
    return ShownQuestion(text, (*choices, *more), shown, ("Enter",) if is_typed else ())


def _unframed(line: str) -> str:
    frame = find(FRAME_PATTERN, line)
    return re.sub(r" *│$", "", line[frame.end() :]) if frame else line


def _numbered(raw: Sequence[str], lines: Sequence[str]) -> Found | None:
    read = [find(NUMBERED_PATTERN, line) for line in lines]
    first = max((row for row, line in enumerate(read) if line and line[3] == "1"), default=None)
    if first is None:
        return None
    listed = [line for line in read[first:] if line]
    marked = [line for line in listed if line[2]]
    # OpenCode marks by a color alone, behind its bar.
    if len(marked) != 1 and (marked or not raw[first].lstrip().startswith("┃")):
        return None
    # There a number would be text.
    if marked and find(FIELD_PATTERN, marked[0][4]):
        return None
    framed = [bool(find(FRAME_PATTERN, line)) for line in raw]
    inside = [is_framed == framed[first] for is_framed in framed]
    labels = _labels(list(zip(lines, inside, strict=True))[first:], listed)
    if labels is None:
        return None
    *choices, hints = labels
    return [Choice(str(number), label) for number, label in enumerate(choices, 1)], first, hints


def _labels(lines: Sequence[tuple[str, bool]], listed: Sequence[re.Match[str]]) -> list[str] | None:
    """Return the labels of a list and, as the last text, the words about keys below it.

    Each line comes with whether it is in the same frame as the list. None if anything else is among
    them.
    """
    column = listed[0].start(3)
    is_in_order = [line[3] for line in listed] == [str(n) for n in range(1, len(listed) + 1)]
    is_straight = all(line.start(3) == column for line in listed)
    if not (is_in_order and is_straight and len(listed) <= 9):
        return None
    labels: list[str] = []
    hints = ""
    for line, is_inside in lines:
        choice = find(NUMBERED_PATTERN, line)
        if find(EMPTY_PATTERN, line):
            continue
        if choice and not hints:
            labels.append(choice[4])
        elif not hints and is_inside and _indent(line) > column:
            labels[-1] += f" {line.strip()}"
        elif not choice and find(KEYS_PATTERN, line):
            hints += f"{line.strip()}\n"
        else:
            return None
    return [*(re.sub(r"\s+", " ", label).strip() for label in labels), hints]


def _marked(lines: Sequence[str]) -> Found | None:
    rows = [row for row, line in enumerate(lines) if not find(EMPTY_PATTERN, line)]
    hints = ""
    while rows and find(KEYS_PATTERN, lines[rows[-1]]):
        hints = f"{lines[rows.pop()]}\n{hints}"
    marks = [(row, mark) for row in rows if (mark := find(MARKED_PATTERN, lines[row]))]
    if not marks or not find(ENTER_PATTERN, hints) or find(SEARCH_PATTERN, hints):
        return None
    row, mark = marks[-1]
    column = mark.end(1)
    first = row
    while first > 0 and _indent(lines[first - 1]) >= column:
        first -= 1
    others = [_indent(lines[other]) for other in range(first, rows[-1] + 1) if other != row]
    follows_a_mark = first > 0 and find(MARKED_PATTERN, lines[first - 1])
    if column not in others or min(others) < column or follows_a_mark:
        return None
    return [Choice("Enter", mark[2].strip())], first, hints


def _first_row(raw: Sequence[str], row: int) -> int:
    is_framed = bool(find(FRAME_PATTERN, "".join(raw[row : row + 1])))
    first = max(row - 30, 0)
    for above in reversed(range(first, row)):
        if find(HEADING_PATTERN, raw[above]):
            return above
        is_outside = is_framed and not find(FRAME_PATTERN, raw[above])
        if is_outside or find(ABOVE_PATTERN, raw[above]):
            return above + 1
    return first


def _text(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for line in lines:
        inside = line
        while (inner := _unframed(inside)) != inside:
            inside = inner
        inside = "" if find(EMPTY_PATTERN, inside) else re.sub(HEADING_PATTERN, "", inside).strip()
        if inside or (kept and kept[-1]):
            kept.append(inside)
    return kept[:-1] if kept and not kept[-1] else kept


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
