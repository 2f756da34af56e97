"""Codex's screen as cells: what stands where, without what it means for the status.

Codex draws its own marks at the left edge and indents all prose by two columns. So a cell is a
line at the left edge and the indented lines below it. Below the transcript stands the composer
(`›`, with a placeholder or a draft in it) over a footer; a dialog takes the place of both.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from .base import SIGN_IN, Dialog
from .screen import action_line, find

SHELL_MARK = "!"
"""Stands in the place of the composer's `›` while what is typed would be run by a shell."""
#   gpt-5.1-codex default · /home/me        Shell mode
SHELL_FOOTER_PATTERN = r"\b(?:Bash|Shell) mode\b"
#   ? for shortcuts        100% context left        gpt-5.1-codex default · 100% left · /home/me
FOOTER_PATTERN = r"\? for shortcuts|\d% (?:context )?left\b"
# │ >_ OpenAI Codex (v0.125.0)        │
BANNER_PATTERN = r"^[│ ]*(?:>_ )?OpenAI Codex\b"
#   └ Read slow.fifo        ↳ queued message
DETAIL_PATTERN = r"^\s+[└↳]|^ {4}"
# › 1. Yes, proceed (y)        > 1. Sign in with ChatGPT
OPTION_PATTERN = r"^ {0,2}[›>] \d+\. \S"
#   Press enter to confirm or esc to cancel        enter continue · esc quit
CONFIRM_PATTERN = r"\b[Ee]nter (?:to )?(?:confirm|continue|submit|select)\b"
#   tab to add notes | enter to submit answer | esc to interrupt
SUBMIT_ANSWER_PATTERN = r"\benter to submit\b"

# • Added notes.txt (+2 -0)        • Questions 1/1 answered
TOOL_PATTERN = (
    r"^• (?:\S.*\(\+\d+ -\d+\)$|Questions \d+/\d+ answered|Messages to be submitted"
    r"|Model interrupted to submit|Context compacted|Updated Plan)"
)
# • Ran make test        • Explored        the details below it start with one of these
TOOL_BODY_PATTERN = r"^  [│└]"


MOST_HINT_ROWS = 4
"""A hint below a dialog has no more rows, however narrow the window."""


class Kind(Enum):
    """What a cell of the transcript is."""

    PROMPT = auto()
    """A message of the user, or a composer that was left behind."""
    ANSWER = auto()
    """What the agent said or did."""
    LIVE = auto()
    """The blinking form of a mark: work going on."""
    ERROR = auto()
    BANNER = auto()
    NOTE = auto()
    TEXT = auto()
    """A line without a mark."""
    REST = auto()
    """The lower part of a cell whose head has left the screen."""


MARKS = {
    "›": Kind.PROMPT,
    "•": Kind.ANSWER,
    "◦": Kind.LIVE,
    "■": Kind.ERROR,
    **dict.fromkeys("⚠✔✗─╭│╰", Kind.NOTE),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A line at the left edge, empty if it has left the screen, and the lines below it."""

    kind: Kind
    head: str
    body: tuple[str, ...]

    @property
    def has_only_details(self) -> bool:
        """Is there nothing below the head but what Codex itself writes there?"""
        return all(find(DETAIL_PATTERN, line) for line in self.body if line)

    @property
    def is_prose(self) -> bool:
        """Is this something the agent said, as opposed to something it did?"""
        if self.kind is not Kind.ANSWER or find(TOOL_PATTERN, self.head):
            return False
        return not find(TOOL_BODY_PATTERN, "".join(self.body[:1]))


def split_cells(lines: Sequence[str]) -> list[Cell]:
    """Return the transcript as cells.

    Errors and warnings that are too long go on at the edge, without a mark; messages and answers
    never do.
    """
    parts: list[list[str]] = []
    wraps = False
    for line in lines:
        at_edge = not is_indented(line)
        if at_edge and (line[0] in MARKS or not wraps):
            parts.append([line])
        elif parts:
            parts[-1].append(line)
        elif line:
            parts.append(["", line])
        wraps = at_edge and line[0] not in "›•◦"
    return [Cell(_kind(part), part[0], tuple(part[1:])) for part in parts]


def _kind(part: Sequence[str]) -> Kind:
    head, *body = part
    if find(BANNER_PATTERN, head or body[0]):
        return Kind.BANNER
    if not head:
        return Kind.REST
    if head[0] in MARKS:
        return MARKS[head[0]]
    # warnings of the start may stand right above the banner
    return Kind.BANNER if find(BANNER_PATTERN, "\n".join(body)) else Kind.TEXT


def is_indented(line: str) -> bool:
    """Is the column at the left edge empty?"""
    return not line[:1].strip()


def is_dialog(lines: Sequence[str]) -> bool:
    """Do options to choose from stand at the end of the screen, where the composer would be?"""
    hint = " ".join(row.strip() for row in _last_rows(lines))
    if not find(CONFIRM_PATTERN, hint):
        return False
    return bool(find(SUBMIT_ANSWER_PATTERN, hint) or find(OPTION_PATTERN, "\n".join(lines)))


def _last_rows(lines: Sequence[str]) -> list[str]:
    """Return the hint at the end of the screen, which a narrow window breaks into a few rows."""
    rows = next(reversed(blocks(lines)), [])
    return rows if len(rows) <= MOST_HINT_ROWS else rows[-1:]


def blocks(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines in groups, as blank ones part them."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def composer_row(lines: Sequence[str]) -> int | None:
    """Return the row of the composer's `›`: below it there is only a draft and the footer.

    Without a footer below it, `› text` is a message that was sent.
    """
    for row, line in reversed(list(enumerate(lines))):
        if line == "›" or line.startswith("› "):
            return row if line == "›" or footer_row(lines, row) < len(lines) else None
        if line.startswith(SHELL_MARK) and find(SHELL_FOOTER_PATTERN, lines[-1]):
            return row
        if not is_indented(line) and not find(FOOTER_PATTERN, line):
            return None
    return None


def footer_start(lines: Sequence[str]) -> int:
    """Return the row of a footer that stands alone, the number of lines if there is none."""
    has_footer = bool(lines) and bool(find(FOOTER_PATTERN, lines[-1]))
    return len(lines) - 1 if has_footer else len(lines)


def transcript_end(lines: Sequence[str]) -> int | None:
    """Return the row where the composer or a dialog starts, None if there is neither.

    A dialog is indented but for the mark of its options, and has two blank rows above it.
    """
    if not is_dialog(lines):
        return composer_row(lines)
    heads = (
        row
        for row, line in enumerate(lines)
        if not is_indented(line) and not find(OPTION_PATTERN, line)
    )
    last_cell = max(heads, default=0)
    below = range(last_cell + 1, len(lines))
    return next((row for row in below if not lines[row - 1] + lines[row]), None)


def footer_row(lines: Sequence[str], composer: int) -> int:
    """Return the row where the footer below a composer starts, the number of lines if nowhere.

    All rows behind the last blank one are the footer; without a blank one its words tell.
    """
    below = range(composer + 1, len(lines))
    for row in reversed(below):
        if not lines[row - 1]:
            return row
    return next((row for row in below if find(FOOTER_PATTERN, lines[row])), len(lines))


@dataclass(frozen=True, slots=True)
class StartupQuestion:
    """A dialog that may come before the composer does, or at any time."""

    name: str
    sign: str
    """Pattern of a line that no other dialog has."""
    choice: str | None
    """Pattern of the option that passes it; None if only a person may choose."""
    advice: str
    anytime: bool = False
    """May it come up in the middle of the work as well?"""


STARTUP_QUESTIONS = (
    StartupQuestion(
        "trust this folder",
        # Do you trust the contents of this directory?        Trust this folder? Codex can read
        r"^ +(?:Do you trust the contents of this directory|Trust this folder)\?",
        r"Yes, continue$|Trust and continue$",
        "run codex in the folder once and trust it",
    ),
    StartupQuestion(
        "update notice",
        #   ✨ Update available! 0.101.0 -> 0.166.0
        r"^ +(?:✨\W*)?Update available\b",
        r"Skip$",
        "update codex, or set check_for_update_on_startup = false in its config.toml",
    ),
    StartupQuestion(
        "new model",
        #   Choose how you'd like Codex to proceed.
        r"^ +Choose how you'd like Codex to proceed\b",
        r"Use existing model$",
        "choose a model with -m in CAO_CODEX_ARGS or in codex's config.toml",
    ),
    StartupQuestion(
        SIGN_IN,
        # > 1. Sign in with ChatGPT
        r"^[›> ] 1\. Sign in with ChatGPT$",
        None,
        "run `codex login` once",
    ),
    StartupQuestion(
        "review of hooks",
        #   Hooks need review
        r"^ +Hooks need review$",
        None,
        "run codex once and decide about its hooks",
    ),
    StartupQuestion(
        "approaching rate limits",
        #   Approaching rate limits
        r"^ +Approaching rate limits$",
        r"Keep current model$",
        "set notice.hide_rate_limit_model_nudge = true in codex's config.toml",
        anytime=True,
    ),
)


def find_startup_dialog(lines: Sequence[str]) -> Dialog | None:
    """Return the start-up question at the end of the screen, if there is one.

    The key is the number of the option as it stands on the screen: nothing is chosen by being
    preselected, and in a composer the number would be text that is not submitted.
    """
    if not is_dialog(lines):
        return None
    for question in STARTUP_QUESTIONS:
        heading, options = _parts(lines) if question.anytime else ("\n".join(lines),) * 2
        if find(question.sign, heading):
            choice = question.choice and find(rf"^[›> ] (\d)\. (?:{question.choice})", options)
            keys = (choice[1],) if choice else ()
            return Dialog(question.name, keys, question.advice, question.anytime)
    return None


def _parts(lines: Sequence[str]) -> tuple[str, str]:
    """Return heading and options of the dialog at the end, none of them words of an answer."""
    parts = [[], [], *blocks(lines)]
    return "\n".join(parts[-3]), "\n".join(parts[-2])


TOOL_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
# *** Update File: src/basket.py
PATCHED_FILE_PATTERN = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"


def action_of(call: dict[str, Any]) -> str:  # whatever JSON holds
    """Return what a call of a tool does: the command, or the file that a patch is for."""
    match call:
        case {"name": "apply_patch", "input": str(patch)}:
            file = re.search(PATCHED_FILE_PATTERN, patch)
            return action_line("apply_patch", {"path": file[1] if file else ""})
        case {"name": str(name), "arguments": str(text)}:
            return action_line(name, _arguments(text))
        case {"action": {"command": command}}:
            return action_line("shell", {"command": _inner(command)})
    return action_line(str(call.get("name") or call["type"]), {})


def _arguments(text: str) -> dict[str, Any]:  # whatever JSON holds
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: _inner(value) for name, value in found.items()}


def _inner(command: object) -> object:
    """Return the command that a shell is to run: the last of `["bash", "-lc", "make test"]`."""
    is_shell = isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c")
    return command[2] if isinstance(command, list) and is_shell else command
