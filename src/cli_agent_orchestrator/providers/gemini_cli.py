"""Gemini CLI: what its title and its screen say, and how it is started.

The title tells work, rest and questions at any time. On the screen only marks at the left edge
count, for an answer is indented by two columns, and the rows around the input box:

     > Fix the basket                          a message; further lines of it are indented by three
    ✦ Done.                                    an answer
    ✕ [API Error: terminated]                  a failure
    ℹ Request cancelled.                       a note
    ╭────╮                                     what a tool did; a dialog, if it is the last thing

     ⠼ Thinking... (esc to cancel, 5s)         the status row stands on the last rule
    ─────────────────────────────────
     Shift+Tab to accept edits
     >   Type your message or @path/to/file

No option or variable carries a persona: `GEMINI_SYSTEM_MD` would replace all that Gemini CLI knows
of its tools, so the profile is not handed over. Its hooks cannot be given at the start either:
settings beside the user's own count only if they belong to root.
"""

from collections.abc import Sequence
from functools import partial
from itertools import dropwhile

from ..core.models import TerminalStatus
from .base import SIGN_IN, Dialog, Launch, LaunchRequest, Permissions, Provider, status_of
from .screen import (
    Cell,
    cells_by_margin,
    dedent_cell,
    find,
    first_match,
    last_frame,
    last_turn,
    rows_like,
    screen_lines,
    text_of_last,
)

TITLES = {
    # ✋  Action Required (my-project)
    TerminalStatus.WAITING_USER_ANSWER: r"^✋ ",
    # ✦  Working… (my-project)        ⏲  Working… (my-project)
    TerminalStatus.PROCESSING: r"^[✦⏲] ",
    # ◇  Ready (my-project)
    TerminalStatus.IDLE: r"^◇ ",
}
title_status = partial(first_match, TITLES)

# ────────────────────────────
RULE_PATTERN = r"^─{10,}$"
#  > Fix it        *   Type your message or @path/to/file        !  ls
BOX_PATTERN = r"^ [>*!] ?"
SHELL_MARK = "!"
#  ⠼ Thinking... (esc to cancel, 5s)
SPINNER_PATTERN = r"^ [⠁-⣿] "
#   Queued (press ↑ to edit):
QUEUE_PATTERN = r"^  Queued \("
#  ▝▜▄     Gemini CLI v0.61.0
BANNER_PATTERN = r"^ {1,9}(?:[▝▜▄]+ +)?Gemini CLI v\d"
#  > Fix the basket        $ make test
MESSAGE_PATTERN = r"^ [>!$] "
# ✦ Done.
ANSWER_PATTERN = r"^✦ "
# ✦ Done.        ╭────╮        │ ✓  Shell make test        ╰────╯
REPLY_PATTERN = r"^[✦╭│╰]"
# ℹ Initializing... Prompts will be queued.
TAKEN_PATTERN = r"^ℹ Initializing\.\.\. Prompts will be queued"
# ✕ [API Error: terminated]
FAILED_PATTERN = r"^✕ "
# ℹ Request cancelled.        ℹ User cancelled the request.
CANCELLED_PATTERN = r"^ℹ (?:Request cancelled|User cancelled)\b"
# │ ● 1. Allow once        │ Enter to select · ↑/↓ to navigate · Esc to cancel
CHOICE_PATTERN = r"^ ?│ +● +\d+\. |^ ?│ +(?:\(?Use )?Enter to \w+"
# ESC[7m ESC[39m ESC[0m ESC[38;5;248m Type your message: the cursor stands before a placeholder
PLACEHOLDER_PATTERN = r"\x1b\[7m(?:\x1b\[[\d;]*m)* (?:\x1b\[[\d;]*m)+ \S.*$"

STARTUP_DIALOGS = {
    Dialog(SIGN_IN, "Run gemini once by hand and choose how; it remembers the answer."):
    # │   How would you like to authenticate for this project?
    r"^ ?│ +How would you like to authenticate\b",
    Dialog("trust this folder", "Run gemini once by hand in this folder and answer; it remembers."):
    # │ Do you trust the files in this folder?
    r"^ ?│ +Do you trust the files in this folder\?",
}


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    rule = last_rule(lines)
    box = input_row(lines, rule)
    cells = cells_by_margin(conversation(lines, rule))
    turn = last_turn(cells, MESSAGE_PATTERN)
    patterns = (REPLY_PATTERN, FAILED_PATTERN, CANCELLED_PATTERN)
    outcomes = (cell for cell in reversed(turn) if any(map(cell.is_like, patterns)))
    last = next(outcomes, Cell(("",)))
    return status_of(
        asks=box is None and bool(last_frame(lines, CHOICE_PATTERN)),
        ready=box is not None,
        # The status row says so, or a message that came during the start waits to be taken.
        working=is_working(lines[:rule]) or any(cell.is_like(TAKEN_PATTERN) for cell in turn),
        failed=last.is_like(FAILED_PATTERN),
        interrupted=last.is_like(CANCELLED_PATTERN),
        replied=has_reply(turn, asked=len(turn) < len(cells)),
        told=title_status(title or ""),
    )


def last_rule(lines: Sequence[str]) -> int | None:
    return max(rows_like(RULE_PATTERN, lines), default=None)


def input_row(lines: Sequence[str], rule: int | None) -> int | None:
    """Return the first row of the input box: it is right below the rule and the mode."""
    below = () if rule is None else range(rule + 1, min(rule + 7, len(lines)))
    return next((row for row in below if find(BOX_PATTERN, lines[row])), None)


def conversation(lines: Sequence[str], rule: int | None) -> list[str]:
    """Return the rows above the status row, which has a blank row above it and the rule below."""
    rows = list(lines[:rule])
    while rule is not None and rows and rows[-1]:
        rows.pop()
    return list(dropwhile(lambda row: not row, rows))


def is_working(above: Sequence[str]) -> bool:
    """Is there a spinner in the row above the rule, or do messages wait above it?

    One row is between those and the status row; between an answer and the status row are two.
    """
    if above and find(SPINNER_PATTERN, above[-1]):
        return True
    rows = list(above[:-2])
    while rows and rows[-1].startswith("    "):
        rows.pop()
    return bool(rows) and bool(find(QUEUE_PATTERN, rows[-1]))


def has_reply(turn: Sequence[Cell], asked: bool) -> bool:
    """Has the agent said or done something in the turn?

    With the message scrolled away, and no banner in sight, indented text is the rest of an answer.
    """
    if asked:
        return any(cell.is_like(REPLY_PATTERN) for cell in turn)
    if any(cell.is_like(BANNER_PATTERN) for cell in turn):
        return False
    begins_within = bool(turn) and turn[0].is_like(r"^  ")
    return begins_within or any(cell.is_like(ANSWER_PATTERN) for cell in turn)


def startup_dialog(screen: str) -> Dialog | None:
    text = "\n".join(last_frame(screen_lines(screen), CHOICE_PATTERN))
    return first_match(STARTUP_DIALOGS, text)


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text in the input box, None when it cannot be seen.

    A placeholder is not dim here: it is behind a cursor on a blank. In shell mode the draft begins
    with the `!` of the box, also when nothing is typed: a message would be run.
    """
    rows = ansi_screen.replace("\r\n", "\n").split("\n")
    lines = screen_lines(ansi_screen)
    first = input_row(lines, last_rule(lines))
    if first is None:
        return None
    mode = SHELL_MARK if lines[first][1] == SHELL_MARK else ""
    if find(PLACEHOLDER_PATTERN, rows[first]):
        return mode
    typed = [lines[first]]
    for line in lines[first + 1 :]:
        if line.strip() and not line.startswith("   "):
            break
        typed.append(line)
    return mode + dedent_cell(typed, 3).strip()


def last_answer(scrollback: str) -> str:
    lines = screen_lines(scrollback)
    cells = cells_by_margin(conversation(lines, last_rule(lines)))
    turn = last_turn(cells, MESSAGE_PATTERN)
    said = [cell for cell in turn if cell.is_like(ANSWER_PATTERN)]
    return text_of_last(said, 2)


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts Gemini CLI in a folder that is trusted for this time.

    `workspace` lets it edit files in its folder, which its own tools do not leave, and run any
    command without asking; nothing holds a command back.
    """
    mode = "default" if request.permissions is Permissions.ASK else "yolo"
    flags: tuple[str, ...] = ("--approval-mode", mode)
    if request.permissions is Permissions.WORKSPACE and () < request.version < (1,):
        flags = ("--approval-mode", "auto_edit", "--allowed-tools=run_shell_command")
    if request.has_any({"--approval-mode", "-y", "--yolo"}):
        flags = ()
    return Launch((request.program, "--skip-trust", *flags, *request.args))


PROVIDER = Provider(
    name="gemini_cli",
    program="gemini",
    install_hint="npm install -g @google/gemini-cli",
    # One empties a draft or stops a turn, one announces the end, one quits.
    exit_keys=("C-c",) * 3,
    # Each pair takes a line and the line end before it. Ctrl-C would quit if the box were empty.
    clear_keys=("C-u", "BSpace") * 32,
    # `@file` at the end of a message opens a list that takes the Enter for itself.
    completes="@",
    # `/` opens its commands, also behind blanks.
    guards={"/": "\u2800"},
    # It shows its input box before it asks for marked pastes. As single keys, all that follows a
    # `!` anywhere in a message would be run by a shell.
    marks_pastes=True,
    tested_versions=((0, 61, 0),),
    launch=launch,
    detect_status=detect_status,
    title_status=title_status,
    startup_dialog=startup_dialog,
    draft=draft,
    last_answer=last_answer,
)
