"""Claude Code: what its screen shows, and how it is started; `claude_hooks.py` reads its signals.

Only marks at the left edge count, and the rows below the input box: an answer is always indented,
so nothing in it can change the status. The newest turn is what is below the last message of the
user. The input box is a glyph and a no-break space; a message that was sent has an ordinary space
there. A dialog takes the place of the box.

The title of 2.1 tells work from rest only while the program does not know that it runs in tmux
(`◐ Claude Code`, `✳ Claude Code`), so the program is not told.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ..core.models import TerminalStatus
from .base import SIGN_IN, Dialog, Launch, LaunchRequest, Permissions, Provider, status_of
from .claude_hooks import hook_settings, read_signal
from .screen import (
    Cell,
    Kind,
    dedent_cell,
    find,
    find_all,
    first_match,
    last_turn,
    rows_like,
    screen_lines,
    tail,
    text_of_last,
    without_dim,
)

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
# ✻ Waiting for 2 background agents to finish        and with a sign that is not known: ◍ Gusting…
SPINNER_PATTERN = (
    r"^[·✢✳✶✻✽*] \S.*(?:…|Retrying in )|^[^\w\s] "
    r"(?:\S+…(?: \(|$)|.* \d+s · [^·\n]*\d/\d+$|Waiting for \d+ background )"
)
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
#   search prompts: fix        no matching prompt: fox (Ctrl-R: the box shows what it finds)
VIEW_PATTERN = r"^  (?:Showing detailed transcript · ctrl\+o|search prompts:|no matching prompt:)"
#  ❯ 1. Yes        │ ❯ 1. Yes                │
OPTION_PATTERN = r"^(?: ?|│ {1,2})❯ \d+\. \S"
# Below the input box: a turn can be stopped, or something runs on in the background.
#   ⏸ manual mode on · esc to interrupt · ← for agents        … · esc to interr…
#   ⏵⏵ bypass permissions on · 1 shell · ← for agents · ↓ to manage          2 local agents · ↓ to …
#   1 shell                                 ● high · /effort        with a text in the input box
BUSY_FOOTER_PATTERN = (
    r"(?:^ +|· )esc to interr"
    r"|^  (?:\S.* · )?\d+ (?:(?:background|local|remote) )?"
    r"(?:shell|bash|task|agent|monitor)(?:e?s)?(?: ·| {2}|$)"
)
# After a usage limit: it goes on when that is reset.
#     Continuing automatically at 12:30pm · Esc to cancel
WAKES_PATTERN = r"^ {2,}Continuing automatically at (\S.*?) · Esc to cancel"
# What a person has opened, where it would be told what runs on:
#   ! for shell mode      ❯ /model     Set the AI model      ❯ + file1.txt
COVERED_FOOTER_PATTERN = (
    r"^  ! for (?:bash|shell) mode|^(?:  ❯ |    )?(?:/[\w:-]+ {2,}|\+ )\S|^  No commands match \""
)
# ❯⍽Fix the failing test        !⍽ls (its shell, also while it is empty)
DRAFT_PATTERN = r"^(?:│\xa0)?(?:[❯>]\xa0 *[^ │]|[!#]\xa0)"
# ◐ Claude Code        ⠂ Fix the tests
title_status = partial(first_match, {TerminalStatus.PROCESSING: r"^[◐◓◑◒⠁-⣿] "})
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
# Of a box that is taller than the screen only the last rows are in sight, above its rule.
TALL_BOX_PATTERN = r"\A((?:(?:  .*)?\n)+)─+\n(?:  .*\n?){1,2}\s*\Z"
# Twice at most 100 characters, which may be tabs, up to a blank or a line end if there is one.
PIECE_PATTERN = r"(?:[^\n]{0,99}[ \n]|[^\n]{1,100}){1,2}"
MOST_PIECES, MOST_CUT = 250, 40_000
"""A text that would be more pieces, or has more characters, takes the box many seconds."""
# ESC[7mT ESC[0;2mry "fix lint errors": the cursor stands on the first letter of a placeholder
CURSOR_ON_PLACEHOLDER_PATTERN = r"\x1b\[7m(?:\x1b\[[\d;]*m)*[^\x1b\s](?=\x1b\[0;2m)"

HEADS = {
    Kind.MESSAGE: USER_PATTERN,
    Kind.ANSWER: ANSWER_PATTERN,
    Kind.DONE: DONE_PATTERN,
    Kind.WORKING: SPINNER_PATTERN,
    Kind.NOTE: NOTICE_PATTERN,
}


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    box = find_box(lines)
    footer = "\n".join(lines[box.stop + 1 :]) if box else ""
    cells = conversation(lines, box)
    turn = last_turn(cells, USER_PATTERN)
    said = [cell for cell in turn if cell.kind is not Kind.DONE]
    last_line = next((line for cell in reversed(said) for line in reversed(cell.lines) if line), "")
    spins = is_working(cells)
    told = title_status(title or "")
    works = spins or told is TerminalStatus.PROCESSING
    return status_of(
        # What a person has opened to look at is no question as long as a turn runs behind it.
        asks=not works if is_view(lines) else is_dialog(lines),
        ready=box is not None and not find(COVERED_FOOTER_PATTERN, footer),
        drafted=box is not None and bool(find(DRAFT_PATTERN, lines[box.start])),
        working=spins or bool(find(f"{BUSY_FOOTER_PATTERN}|{WAKES_PATTERN}", footer)),
        interrupted=bool(find(INTERRUPTED_PATTERN, last_line)),
        failed=has_failed(said),
        replied=has_reply(turn),
        told=told,
    )


def wakes(screen: str) -> str | None:
    lines = screen_lines(screen)
    box = find_box(lines)
    found = find(WAKES_PATTERN, "\n".join(lines[box.stop + 1 :])) if box else None
    return found[1] if found else None


def is_working(cells: Sequence[Cell]) -> bool:
    """Is there a spinner at the end? A thought of an old version begins like one."""
    known = [cell for cell in cells if cell.kind is not Kind.OTHER]
    if not known or known[-1].kind is not Kind.WORKING:
        return False
    rows = "\n".join(row for row in known[-1].lines[1:] if not find(HINT_PATTERN, row))
    return known[-1] is cells[-1] or bool(find(r"\A\s*(?:⎿|\Z)", rows))


def has_failed(turn: Sequence[Cell]) -> bool:
    """Is an error the last word of the turn?

    An answer may begin like an error: an error is a single paragraph.
    """
    if not turn or turn[-1].kind is Kind.NOTE:
        return bool(turn) and turn[-1].is_like(FAILED_NOTICE_PATTERN)
    is_one_paragraph = "\n\n" not in "\n".join(turn[-1].lines).strip("\n")
    return is_one_paragraph and turn[-1].is_like(FAILED_ANSWER_PATTERN)


def has_reply(turn: Sequence[Cell]) -> bool:
    """Has the agent said or done something in the turn?

    A screen that begins in the middle of a text, with no banner above it, shows an answer too.
    """
    kinds = [cell.kind for cell in turn]
    if Kind.ANSWER in kinds or Kind.DONE in kinds:
        return True
    return Kind.REST in kinds and Kind.OTHER not in kinds and Kind.NOTE not in kinds


def find_box(lines: Sequence[str]) -> range | None:
    for row in range(len(lines) - 1, 0, -1):
        if find(BOX_PATTERN, lines[row]) and find(RULE_PATTERN, lines[row - 1]):
            below = range(row + 1, len(lines))
            end = next((end for end in below if find(RULE_PATTERN, lines[end])), None)
            return None if end is None or is_view(lines) else range(row, end)
    return None


def is_dialog(lines: Sequence[str]) -> bool:
    """Is there a question at the end of the screen, where the input box would be?"""
    if find_box(lines) is not None:
        return False
    footer = "\n".join(tail(lines, 2))
    options = "\n".join(tail(lines, 10))
    if find(DIALOG_FOOTER_PATTERN, footer) or find(OPTION_PATTERN, options):
        return True
    return _startup_question(lines) is not None


def is_view(lines: Sequence[str]) -> bool:
    return bool(find(VIEW_PATTERN, "\n".join(tail(lines, 2))))


def split_cells(lines: Sequence[str]) -> list[Cell]:
    """Return the conversation as cells.

    A notice is indented like text: it counts below a message, another notice or an empty line.
    In 2.0 all lines of a message but the first stand at the edge, without a mark.
    """
    parts: list[tuple[Kind, list[str]]] = []
    above = ""
    for line in lines:
        kind = first_match(HEADS, line)
        if kind is None and line[:1] not in ("", " "):
            kind = Kind.OTHER
        may_have_notice = not above or parts[-1][0] in (Kind.MESSAGE, Kind.NOTE, Kind.OTHER)
        if kind is Kind.NOTE and not may_have_notice:
            kind = None
        if kind is not None:
            parts.append((kind, [line]))
        elif parts:
            parts[-1][1].append(line)
        elif line:
            parts.append((Kind.REST, [line]))
        above = line
    return [Cell(tuple(part), kind) for kind, part in parts]


def conversation(lines: Sequence[str], box: range | None) -> list[Cell]:
    if box is None:
        ends = rows_like(RULE_PATTERN, lines)
        return split_cells(lines[: ends[-1]] if is_view(lines) and ends else lines)
    end = box.start - 1
    if end and find(HINT_PATTERN, lines[end - 1]):
        end -= 1
    return split_cells(lines[:end])


STARTUP_QUESTIONS = (
    Dialog(
        "trust this folder",
        "run claude in the folder once and trust it",
        # │ Do you trust the files in this folder?        Quick safety check: Is this a project
        sign=r"^[│ ] *(?:Do you trust the files in this folder\?|Quick safety check: )",
        # ❯ 1. Yes, proceed        Yes, I trust this folder
        choice=r"Yes, (?:I trust this folder|proceed)\b",
    ),
    Dialog(
        "use this API key",
        "run claude once with the same ANTHROPIC_API_KEY and answer, or take the key away",
        # │ Detected a custom API key in your environment
        sign=r"^[│ ] *Detected a custom API key in your environment",
    ),
    Dialog(
        "accept the risk of skipping permissions",
        "run claude --dangerously-skip-permissions once and accept",
        # │ WARNING: Claude Code running in Bypass Permissions mode
        sign=r"^[│ ] *WARNING: Claude Code running in Bypass Permissions mode",
    ),
    Dialog(
        SIGN_IN,
        "run claude once in a terminal and sign in",
        # Select login method:        below the box: ? for shortcuts     Not logged in · Run /login
        sign=r"^ Select login method|\A(?:.*\n)?.* {9}(?:Not logged|Missing API).* · Run /login$",
    ),
    Dialog(
        "first set-up",
        "run claude once in a terminal and finish its set-up",
        # Choose the text style that looks best with your terminal        Press Enter to continue…
        sign=r"^ (?:Choose the text style that looks best|Press Enter to continue…)",
    ),
    Dialog(
        "settings with errors",
        "mend the settings file that is named on its screen",
        #   Settings Warning        Settings Error
        sign=r"^ +Settings (?:Warning|Error)$",
    ),
    Dialog(
        "new MCP servers",
        "run claude in the folder once and decide about its MCP servers",
        # New MCP server found in .mcp.json: docs
        sign=r"^[│ ] *(?:\d+ )?[Nn]ew MCP servers? found in ",
    ),
)


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question on the screen.

    The keys are one step, and each step has a name of its own: the next screen decides what to
    press next.
    """
    lines = screen_lines(screen)
    known = _startup_question(lines)
    if known is None:
        return None
    # ❯ No, exit          Yes, I trust this folder        │ ❯ 1. Yes, proceed        │
    wanted = rf"^(?:│ )? *(?:❯ +)?(?:\d+\. )?{known.choice}"
    marked = rows_like(r"^(?:│ )? {0,4}❯ \S", lines)
    offered = rows_like(wanted, lines) if known.choice else []
    if not marked or not offered:
        return known
    if marked[-1] == offered[-1]:
        return replace(known, keys=("Enter",))
    key = "End" if marked[-1] < offered[-1] else "Home"
    return replace(known, name=f"{known.name} (choosing yes)", keys=(key,))


def _startup_question(lines: Sequence[str]) -> Dialog | None:
    box = find_box(lines)
    text = "\n".join(lines[box.stop :] if box else lines)
    return next((known for known in STARTUP_QUESTIONS if find(known.sign, text)), None)


def draft(ansi_screen: str) -> str | None:
    lines = screen_lines(ansi_screen)
    box = find_box(lines)
    if box is None:
        tall = find(TALL_BOX_PATTERN, "\n".join(lines))
        return dedent_cell(tall[1].split("\n"), 2).strip() if tall else None
    glyph = find(BOX_PATTERN, lines[box.start])
    assert glyph is not None
    while cursor := find(CURSOR_ON_PLACEHOLDER_PATTERN, ansi_screen):
        ansi_screen = ansi_screen[: cursor.end() - 1] + " " + ansi_screen[cursor.end() :]
    rows = without_dim(ansi_screen).split("\n")[box.start : box.stop]
    text = dedent_cell([row.rstrip(" \r│") for row in rows], glyph.end())
    return (glyph["mode"] or "") + text.strip()


def pieces(text: str) -> list[str]:
    """Cut a text into pastes of at most two line ends and 800 characters, four of them a tab.

    2.1.328 tells its model that more may come from somebody else. 2.1.105 loses some of many.
    """
    cut = [found[0] for found in find_all(PIECE_PATTERN, text)]
    return cut if len(cut) <= MOST_PIECES and len(text) <= MOST_CUT else [text]


def last_answer(scrollback: str) -> str:
    lines = screen_lines(scrollback)
    turn = last_turn(conversation(lines, find_box(lines)), USER_PATTERN)
    said = [cell for cell in turn if cell.kind is Kind.ANSWER and not is_tool(cell)]
    return text_of_last(said, 2)


def is_tool(cell: Cell) -> bool:
    first = cell.lines[: cell.lines.index("")] if "" in cell.lines else cell.lines
    return bool(rows_like(RESULT_PATTERN, first[1:]))


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
    network. Elsewhere nothing holds a command back. `--settings` among the user's own arguments
    would replace our hooks.
    """
    settings: dict[str, Any] = {"hooks": hook_settings(request.version, request.event_file)}
    env = {"CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN": "1"}
    # In older versions the sandbox was seen to fail every command, depending on the machine.
    if request.permissions is Permissions.WORKSPACE and request.version >= (2, 1, 325):
        settings["sandbox"] = {"enabled": True, "allowUnsandboxedCommands": False}
    if request.permissions is Permissions.FULL:
        settings["skipDangerousModePermissionPrompt"] = True
        # It refuses this mode to root unless it is told that it is in a sandbox.
        env["IS_SANDBOX"] = "1"
    profile = request.prompt.strip()
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
        pieces=pieces if request.version >= (2, 1, 328) else None,
    )


PROVIDER = Provider(
    name="claude_code",
    program="claude",
    install_hint="npm install -g @anthropic-ai/claude-code",
    # The first empties a draft or stops a turn, the second one quits.
    exit_keys=("C-c", "C-c"),
    # Each pair takes a line and the line end before it. Ctrl-C would quit if it were pressed twice.
    clear_keys=("C-u", "BSpace") * 32,
    # `@file` at the end of a message opens a list that takes the Enter for itself.
    completes="@",
    continues="\\",
    idle_mark=rf"{INTERRUPTED_PATTERN}(?![\s\S]*{USER_PATTERN})",
    # `!` opens its shell, `#` its memory (2.0), `/` its commands, also behind blanks and invisible
    # characters in 2.1.325: there only a blank of another script (U+2800) keeps a text a text.
    guards={"!": " ", "#": " ", "/": "\u2800"},
    tested_versions=((1, 0, 100), (2, 0, 67), (2, 1, 105), (2, 1, 325)),
    launch=launch,
    detect_status=detect_status,
    title_status=title_status,
    wakes=wakes,
    startup_dialog=startup_dialog,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
