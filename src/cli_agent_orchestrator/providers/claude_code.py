"""Claude Code: what its screen says, how it is started, what its hooks tell.

Only marks at the left edge count, and what stands below the input box: an answer is always
indented, so nothing in it can change the status. The newest turn is what stands below the last
message of the user.

The title of 2.1 tells work from rest while the program does not know that it runs in tmux
(`◐ Claude Code`, `✳ Claude Code`), so it is not told. Where it knows, the title never changes:
`✳` alone says nothing.
"""

import json
from collections.abc import Sequence
from typing import Any

from ..core.models import TerminalStatus
from .base import AgentSignal, Dialog, Launch, LaunchRequest, Marks, Permissions
from .claude_hooks import hook_settings, read_line
from .claude_screen import (
    BOX_PATTERN,
    Cell,
    Kind,
    conversation,
    find_box,
    find_startup_dialog,
    is_dialog,
    is_transcript,
    last_turn,
)
from .screen import dedent_cell, find, screen_lines, without_dim

name = "claude_code"
program = "claude"
install_hint = "npm install -g @anthropic-ai/claude-code"
# The first empties a draft or stops a turn, the second one quits.
exit_keys: tuple[str, ...] = ("C-c", "C-c")
CLEARED_LINES = 32
# Each pair takes a line and the line end before it. Ctrl-C would quit if it were pressed twice.
clear_keys: tuple[str, ...] = ("C-u", "BSpace") * CLEARED_LINES
# `@file` at the end of a message opens a list that takes the Enter for itself.
completes = "@"
# `!` opens its shell, `#` its memory (2.0), `/` its commands, also behind blanks and invisible
# characters in 2.1.325: there only a blank of another script (U+2800) keeps a text a text.
guards: dict[str, str] = {"!": " ", "#": " ", "/": "\u2800"}
marks_pastes = False
# It is not kept open; the event that starts a conversation names it.
record_pattern = ""
tested_versions: tuple[tuple[int, ...], ...] = (
    (1, 0, 100),
    (2, 0, 67),
    (2, 1, 105),
    (2, 1, 325),
)

#   ⏸ manual mode on · esc to interrupt · ← for agents        … · esc to interr…
BUSY_FOOTER_PATTERN = r"(?:^ +|· )esc to interr"
#   ⏵⏵ bypass permissions on · 1 shell · ← for agents · ↓ to manage          2 local agents · ↓ to …
#   1 shell                                 ● high · /effort        with a text in the input box
BACKGROUND_FOOTER_PATTERN = (
    r"^  (?:\S.* · )?\d+ (?:(?:background|local|remote) )?"
    r"(?:shell|bash|task|agent|monitor)(?:e?s)?(?: ·| {2}|$)"
)
# What a person has opened:   ! for shell mode      ❯ /model     Set the AI model      ❯ + file1.txt
COVERED_FOOTER_PATTERN = (
    r"^  ! for (?:bash|shell) mode|^(?:  ❯ |    )?(?:/[\w:-]+ {2,}|\+ )\S|^  No commands match \""
)
# ❯⍽Fix the failing test        !⍽ls (its shell, also while it is empty)
DRAFT_PATTERN = r"^(?:│\xa0)?(?:[❯>]\xa0 *[^ │]|[!#]\xa0)"
# ◐ Claude Code        ⠂ Fix the tests
TITLE_BUSY_PATTERN = r"^[◐◓◑◒⠁-⣿] "
#   ⎿ ⍽Interrupted · What should Claude do instead?        ⎿ ⍽No (tell Claude what to do …
INTERRUPTED_PATTERN = r"^  ⎿ \xa0(?:Interrupted\b|No \(tell Claude)"
#   ⎿ ⍽API Error: 400 {"type":"error"…        ⎿ ⍽Not logged in · Please run /login
FAILED_NOTICE_PATTERN = (
    r"^  ⎿ \xa0(?:API Error|Credit balance is too low|You've hit your\b"
    r"|.*\blimit reached\b|.* · Please run /login$)"
)
# ● API Error: 500 overloaded        ● Please run /login · API Error: 401 no        ● API Error:
# Request rejected (429) · too many
FAILED_ANSWER_PATTERN = (
    r"^[●⏺] (?:Please run /login · )?API Error: (?:\d{3}\b|Request rejected \(\d{3}\)|Connection )"
)
# ESC[7mT ESC[0;2mry "fix lint errors": the cursor stands on the first letter of a placeholder
CURSOR_ON_PLACEHOLDER_PATTERN = r"\x1b\[7m(?:\x1b\[[\d;]*m)*[^\x1b\s](?=\x1b\[0;2m)"


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    """Return what the visible screen, and the pane's title if it is known, say."""
    return read_marks(screen).status(title_status(title) if title else None)


def read_marks(text: str) -> Marks:
    """Return what can be seen."""
    lines = screen_lines(text)
    box = find_box(lines)
    footer = lines[box.end + 1 :] if box else []
    cells = conversation(lines, box)
    turn = [cell for cell in last_turn(cells) if cell.kind is not Kind.DONE]
    return Marks(
        asks=has_question(lines, cells),
        ready=box is not None and not is_covered(footer),
        drafted=box is not None and bool(find(DRAFT_PATTERN, lines[box.row])),
        working=is_busy(footer) or is_working(cells),
        interrupted=is_interrupted(turn),
        failed=has_failed(turn),
        replied=has_reply(last_turn(cells)),
    )


def title_status(title: str) -> TerminalStatus | None:
    """Return PROCESSING for a title with a spinner; no other title says anything."""
    return TerminalStatus.PROCESSING if find(TITLE_BUSY_PATTERN, title) else None


def has_question(lines: Sequence[str], cells: Sequence[Cell]) -> bool:
    """Does something stand in the place of the input box that a person must answer or close?

    A transcript that a person has opened is no question as long as a turn runs in it.
    """
    if is_transcript(lines):
        return not is_working(cells)
    return is_dialog(lines) or find_startup_dialog(lines) is not None


def is_busy(footer: Sequence[str]) -> bool:
    """Does it say below the input box that a turn can be stopped, or that something runs on?"""
    text = "\n".join(footer)
    return bool(find(BUSY_FOOTER_PATTERN, text) or find(BACKGROUND_FOOTER_PATTERN, text))


def is_covered(footer: Sequence[str]) -> bool:
    """Does a help or a list stand below the input box, where it would be told what runs on?"""
    return bool(find(COVERED_FOOTER_PATTERN, "\n".join(footer)))


def is_working(cells: Sequence[Cell]) -> bool:
    """Is a spinner the last thing above the input box?"""
    return bool(cells) and cells[-1].kind is Kind.SPINNER


def is_interrupted(turn: Sequence[Cell]) -> bool:
    """Is "interrupted" the last word of the turn?"""
    said = [line for cell in turn for line in cell.lines if line]
    return bool(said) and bool(find(INTERRUPTED_PATTERN, said[-1]))


def has_failed(turn: Sequence[Cell]) -> bool:
    """Is an error the last word of the turn?

    An answer may begin like an error: an error is a single paragraph.
    """
    if not turn:
        return False
    last = turn[-1]
    if last.kind is Kind.NOTICE:
        return bool(find(FAILED_NOTICE_PATTERN, last.head))
    return last.is_one_paragraph and bool(find(FAILED_ANSWER_PATTERN, last.head))


def has_reply(turn: Sequence[Cell]) -> bool:
    """Has the agent said or done something in the turn?

    A screen that begins in the middle of a text, with no banner above it, shows an answer too.
    """
    kinds = [cell.kind for cell in turn]
    if Kind.ANSWER in kinds or Kind.DONE in kinds:
        return True
    return Kind.REST in kinds and Kind.OTHER not in kinds and Kind.NOTICE not in kinds


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question on the screen, if there is one.

    The keys are one step. What to press next is asked again with the next screen.
    """
    return find_startup_dialog(screen_lines(screen))


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text in the input box row by row, None when it cannot be seen.

    In its shell or memory mode the mark of that mode is part of the text: it has to be cleared too.
    """
    lines = screen_lines(ansi_screen)
    box = find_box(lines)
    if box is None:
        return None
    glyph = find(BOX_PATTERN, lines[box.row])
    assert glyph is not None
    while cursor := find(CURSOR_ON_PLACEHOLDER_PATTERN, ansi_screen):
        ansi_screen = ansi_screen[: cursor.end() - 1] + " " + ansi_screen[cursor.end() :]
    rows = without_dim(ansi_screen).split("\n")[box.row : box.end]
    text = dedent_cell([row.rstrip(" \r│") for row in rows], glyph.end())
    return (glyph["mode"] or "") + text.strip()


def last_answer(scrollback: str) -> str:
    """Return what the agent said last in the newest turn, without what it did."""
    lines = screen_lines(scrollback)
    cells = last_turn(conversation(lines, find_box(lines)))
    said = [cell for cell in cells if cell.kind is Kind.ANSWER and not cell.is_tool]
    return dedent_cell(said[-1].lines, 2).strip() if said else ""


def read_signal(line: str) -> AgentSignal | None:
    """Return what one line of the event file or session record says, None if nothing."""
    return read_line(line)


SANDBOX_SINCE = (2, 1, 325)
"""In older versions the sandbox was seen to fail every command, depending on the machine."""
PERMISSION_FLAGS = {
    Permissions.WORKSPACE: (
        *("--permission-mode", "acceptEdits"),
        *("--allowedTools", "Bash,Read,Glob,Grep"),
    ),
    Permissions.FULL: ("--dangerously-skip-permissions",),
    Permissions.ASK: ("--permission-mode", "default"),
}


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts Claude Code with its profile and our hooks.

    `workspace` lets it edit files in its folder and run any command without asking. From 2.1.325
    commands run in Claude Code's own sandbox where the machine has one (macOS; Linux with
    bubblewrap and socat): they write only below the folder, and a person is asked about the
    network. Elsewhere nothing holds a command back. `full` skips every question; `ask` leaves
    them all to a person. `--settings` among the user's own arguments would replace our hooks.
    """
    settings: dict[str, Any] = {"hooks": hook_settings(request.version, request.event_file)}
    env = {"CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN": "1"}
    if request.permissions is Permissions.WORKSPACE and request.version >= SANDBOX_SINCE:
        settings["sandbox"] = {"enabled": True, "allowUnsandboxedCommands": False}
    if request.permissions is Permissions.FULL:
        settings["skipDangerousModePermissionPrompt"] = True
        # It refuses this mode to root unless it is told that it is in a sandbox.
        env["IS_SANDBOX"] = "1"
    profile = request.profile.prompt.strip()
    return Launch(
        (
            *("env", "-u", "TMUX", "-u", "TMUX_PANE", request.program),
            *(("--append-system-prompt", profile) if profile else ()),
            *PERMISSION_FLAGS[request.permissions],
            # Not last: --allowedTools takes all words up to the next option.
            *("--settings", json.dumps(settings)),
            *request.args,
        ),
        env,
    )
