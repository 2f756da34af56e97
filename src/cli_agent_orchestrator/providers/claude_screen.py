"""How Claude Code draws: the input box at the bottom, the cells above it, dialogs in its place.

Marks stand at the left edge and everything the agent says is indented, so an answer cannot look
like a mark. The input box is a glyph and a no-break space; a message that was sent has an
ordinary space there. A dialog takes the place of the box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from .base import SIGN_IN, Dialog
from .screen import find, tail

# ❯⍽draft        >⍽draft (2.0)        │⍽>⍽draft (1.0)        !⍽ls (shell); ⍽ is a no-break space
BOX_PATTERN = r"^(?:│\xa0)?(?:[❯>]|(?P<mode>[!#]))\xa0"
# ─────────        ╭─────────╮        ╰─────────╯
RULE_PATTERN = r"^[─╭╰]"
#                                          ◐ medium · /effort
HINT_PATTERN = r"^ {10,}\S"

# ❯ Fix the failing test        > Fix the failing test
USER_PATTERN = r"^[❯>] \S"
# ● The test passes now.        ⏺ The test passes now. (macOS)
ANSWER_PATTERN = r"^[●⏺][ \xa0]"
# ✻ Churned for 5s · done 12:01 AM
DONE_PATTERN = r"^[·✢✳✶✻✽*] \S+ for (?:\d+[dhm] )*\d+[dhms]\b"
# ✽ Gusting… (3s · ↓ 22 tokens)        ✻ 401 unauthorized · Retrying in 5s · attempt 4/10
# ✻ Waiting for 2 background agents to finish
SPINNER_PATTERN = r"^[·✢✳✶✻✽*] (?:\S.*(?:…|Retrying in )|Waiting for \d+ background )"
#   ⎿ ⍽Interrupted · What should Claude do instead?
NOTICE_PATTERN = r"^  ⎿ \xa0"
#   ⎿ ⍽$ make test        under the head of a tool
RESULT_PATTERN = r"^  ⎿ [ \xa0]"

#  Esc to cancel · Tab to amend        Enter to select · ↑/↓ to navigate · Esc to cancel
#   ↑/↓ to select · Enter to view · ←/Esc to close (what a person opened)
DIALOG_FOOTER_PATTERN = (
    r"^ {0,4}(?:\S.* · )?(?:←/)?Esc (?:to )?(?:cancel|exit|close|clear|go back)\b"
    r"|^ {0,3}(?:Press )?Enter to (?:select|confirm|continue)"
)
#   Showing detailed transcript · ctrl+o to toggle · ctrl+e to show all
TRANSCRIPT_PATTERN = r"^  Showing detailed transcript · ctrl\+o to toggle"
#  ❯ 1. Yes        │ ❯ 1. Yes                │
OPTION_PATTERN = r"^(?: ?|│ )❯ \d+\. \S"


class Kind(Enum):
    """Who made a cell."""

    USER = auto()
    ANSWER = auto()
    """Something the agent said or did."""
    DONE = auto()
    SPINNER = auto()
    NOTICE = auto()
    """Something Claude Code itself says below a message."""
    REST = auto()
    """The end of a cell whose head has left the screen."""
    OTHER = auto()
    """Banner and news."""


HEADS = (
    (USER_PATTERN, Kind.USER),
    (ANSWER_PATTERN, Kind.ANSWER),
    (DONE_PATTERN, Kind.DONE),
    (SPINNER_PATTERN, Kind.SPINNER),
    (NOTICE_PATTERN, Kind.NOTICE),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One block of the conversation."""

    kind: Kind
    lines: tuple[str, ...]

    @property
    def head(self) -> str:
        return self.lines[0]

    @property
    def is_tool(self) -> bool:
        """Is this something the agent did, as opposed to something it said?"""
        first = self.lines[: self.lines.index("")] if "" in self.lines else self.lines
        return self.kind is Kind.ANSWER and any(find(RESULT_PATTERN, line) for line in first[1:])

    @property
    def is_one_paragraph(self) -> bool:
        text = "\n".join(self.lines).strip("\n")
        return "\n\n" not in text


@dataclass(frozen=True, slots=True)
class Box:
    """Where the input box is: its first row, and the row of the line that closes it."""

    row: int
    end: int


def find_box(lines: Sequence[str]) -> Box | None:
    """Return the input box, None if it cannot be seen."""
    for row in range(len(lines) - 1, 0, -1):
        if find(BOX_PATTERN, lines[row]) and find(RULE_PATTERN, lines[row - 1]):
            below = range(row + 1, len(lines))
            end = next((end for end in below if find(RULE_PATTERN, lines[end])), None)
            return None if end is None else Box(row, end)
    return None


def is_dialog(lines: Sequence[str]) -> bool:
    """Does a question stand at the end of the screen, where the input box would be?"""
    if find_box(lines) is not None:
        return False
    footer = "\n".join(tail(lines, 2))
    options = "\n".join(tail(lines, 10))
    return bool(find(DIALOG_FOOTER_PATTERN, footer) or find(OPTION_PATTERN, options))


def is_transcript(lines: Sequence[str]) -> bool:
    """Does the whole conversation stand where the input box would be, for a person to read?"""
    return find_box(lines) is None and bool(find(TRANSCRIPT_PATTERN, "\n".join(tail(lines, 2))))


def split_cells(lines: Sequence[str]) -> list[Cell]:
    """Return the conversation as cells: all that stands above the input box."""
    parts: list[tuple[Kind, list[str]]] = []
    above = ""
    for line in lines:
        kind = _kind_of_head(line, above, parts[-1][0] if parts else None)
        if kind is not None:
            parts.append((kind, [line]))
        elif parts:
            parts[-1][1].append(line)
        elif line:
            parts.append((Kind.REST, [line]))
        above = line
    return [Cell(kind, tuple(part)) for kind, part in parts]


def conversation(lines: Sequence[str], box: Box | None) -> list[Cell]:
    """Return the cells above the input box, without the hint that may stand right above it."""
    if box is None:
        ends = [row for row, line in enumerate(lines) if find(RULE_PATTERN, line)]
        return split_cells(lines[: ends[-1]] if is_transcript(lines) and ends else lines)
    end = box.row - 1
    if end and find(HINT_PATTERN, lines[end - 1]):
        end -= 1
    return split_cells(lines[:end])


def last_turn(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells below the last message of the user; all of them if there is none."""
    asked = [row for row, cell in enumerate(cells) if cell.kind is Kind.USER]
    return list(cells[asked[-1] + 1 :]) if asked else list(cells)


def _kind_of_head(line: str, above: str, current: Kind | None) -> Kind | None:
    """Return the kind of cell that begins with a line, None if the line goes on with one.

    A notice is indented like text: it counts below a message, another notice or an empty line.
    In 2.0 all lines of a message but the first stand at the edge, without a mark.
    """
    kind = next((kind for pattern, kind in HEADS if find(pattern, line)), None)
    if kind is Kind.NOTICE:
        return kind if not above or current in (Kind.USER, Kind.NOTICE, Kind.OTHER) else None
    if kind is not None or line[:1] in ("", " "):
        return kind
    return Kind.OTHER


@dataclass(frozen=True, slots=True)
class StartupQuestion:
    """A dialog that may come before the input box does."""

    name: str
    sign: str
    """Pattern of a text that no other dialog has."""
    advice: str
    choice: str | None = None
    """Pattern of the option that passes it; None if only a person may choose."""


STARTUP_QUESTIONS = (
    StartupQuestion(
        "trust this folder",
        # │ Do you trust the files in this folder?        Quick safety check: Is this a project
        r"^[│ ] *(?:Do you trust the files in this folder\?|Quick safety check: )",
        "run claude in the folder once and trust it",
        # ❯ 1. Yes, proceed        Yes, I trust this folder
        choice=r"Yes, (?:I trust this folder|proceed)\b",
    ),
    StartupQuestion(
        "use this API key",
        # │ Detected a custom API key in your environment
        r"^[│ ] *Detected a custom API key in your environment",
        "run claude once with the same ANTHROPIC_API_KEY and answer, or take the key away",
    ),
    StartupQuestion(
        "accept the risk of skipping permissions",
        # │ WARNING: Claude Code running in Bypass Permissions mode
        r"^[│ ] *WARNING: Claude Code running in Bypass Permissions mode",
        "run claude --dangerously-skip-permissions once and accept",
    ),
    StartupQuestion(
        SIGN_IN,
        # Select login method:
        r"^ Select login method",
        "run claude once in a terminal and sign in",
    ),
    StartupQuestion(
        "first set-up",
        # Choose the text style that looks best with your terminal        Press Enter to continue…
        r"^ (?:Choose the text style that looks best|Press Enter to continue…)",
        "run claude once in a terminal and finish its set-up",
    ),
    StartupQuestion(
        "settings with errors",
        #   Settings Warning        Settings Error
        r"^ +Settings (?:Warning|Error)$",
        "mend the settings file that is named on its screen",
    ),
    StartupQuestion(
        "new MCP servers",
        # New MCP server found in .mcp.json: docs
        r"^[│ ] *(?:\d+ )?[Nn]ew MCP servers? found in ",
        "run claude in the folder once and decide about its MCP servers",
    ),
)


def find_startup_dialog(lines: Sequence[str]) -> Dialog | None:
    """Return the start-up question at the end of the screen, if there is one.

    A dialog that is passed has a name of its own for each step.
    """
    if find_box(lines) is not None:
        return None
    text = "\n".join(lines)
    known = next((known for known in STARTUP_QUESTIONS if find(known.sign, text)), None)
    if known is None:
        return None
    if known.choice is None:
        return Dialog(known.name, (), known.advice)
    return _next_step(known, lines, known.choice)


def _next_step(question: StartupQuestion, lines: Sequence[str], choice: str) -> Dialog:
    # ❯ No, exit          Yes, I trust this folder        │ ❯ 1. Yes, proceed        │
    wanted = rf"^(?:│ )? *(?:❯ +)?(?:\d+\. )?{choice}"
    marked = [row for row, line in enumerate(lines) if find(r"^(?:│ )? {0,4}❯ \S", line)]
    offered = [row for row, line in enumerate(lines) if find(wanted, line)]
    if not marked or not offered:
        return Dialog(question.name, (), question.advice)
    if marked[-1] == offered[-1]:
        return Dialog(question.name, ("Enter",), question.advice)
    key = "End" if marked[-1] < offered[-1] else "Home"
    return Dialog(f"{question.name} (choosing yes)", (key,), question.advice)
