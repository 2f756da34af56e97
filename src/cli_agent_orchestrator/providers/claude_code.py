"""Claude Code: what its screen says, and how it is started; `claude_hooks.py` reads its signals.

Only marks at the left edge count, and what stands below the input box: an answer is always
indented, so nothing in it can change the status. The newest turn is what stands below the last
message of the user. The input box is a glyph and a no-break space; a message that was sent has an
ordinary space there. A dialog takes the place of the box.

The title of 2.1 tells work from rest while the program does not know that it runs in tmux
(`◐ Claude Code`, `✳ Claude Code`), so it is not told. Where it knows, the title never changes:
`✳` alone says nothing.
"""

import json
from collections.abc import Sequence
from typing import Any

from ..core.models import TerminalStatus
from .base import (
    SIGN_IN,
    Dialog,
    Launch,
    LaunchRequest,
    Marks,
    Permissions,
    Provider,
    StartupQuestion,
)
from .claude_hooks import hook_settings, read_signal
from .screen import (
    Box,
    Cell,
    Kind,
    dedent_cell,
    find,
    last_turn,
    screen_lines,
    tail,
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
# Below the input box: a turn can be stopped, or something runs on in the background.
#   ⏸ manual mode on · esc to interrupt · ← for agents        … · esc to interr…
#   ⏵⏵ bypass permissions on · 1 shell · ← for agents · ↓ to manage          2 local agents · ↓ to …
#   1 shell                                 ● high · /effort        with a text in the input box
BUSY_FOOTER_PATTERN = (
    r"(?:^ +|· )esc to interr"
    r"|^  (?:\S.* · )?\d+ (?:(?:background|local|remote) )?"
    r"(?:shell|bash|task|agent|monitor)(?:e?s)?(?: ·| {2}|$)"
)
# What a person has opened, where it would be told what runs on:
#   ! for shell mode      ❯ /model     Set the AI model      ❯ + file1.txt
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

HEADS = (
    (USER_PATTERN, Kind.MESSAGE),
    (ANSWER_PATTERN, Kind.ANSWER),
    (DONE_PATTERN, Kind.DONE),
    (SPINNER_PATTERN, Kind.WORKING),
    (NOTICE_PATTERN, Kind.NOTE),
)


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    box = find_box(lines)
    footer = "\n".join(lines[box.end + 1 :]) if box else ""
    cells = conversation(lines, box)
    turn = last_turn(cells, USER_PATTERN)
    said = [cell for cell in turn if cell.kind is not Kind.DONE]
    last_line = next((line for cell in reversed(said) for line in reversed(cell.lines) if line), "")
    spins = bool(cells) and cells[-1].kind is Kind.WORKING
    marks = Marks(
        # A transcript that a person has opened is no question as long as a turn runs in it.
        asks=not spins if is_transcript(lines) else is_dialog(lines),
        ready=box is not None and not find(COVERED_FOOTER_PATTERN, footer),
        drafted=box is not None and bool(find(DRAFT_PATTERN, lines[box.row])),
        working=spins or bool(find(BUSY_FOOTER_PATTERN, footer)),
        interrupted=bool(find(INTERRUPTED_PATTERN, last_line)),
        failed=has_failed(said),
        replied=has_reply(turn),
    )
    return marks.status(title_status(title or ""))


def title_status(title: str) -> TerminalStatus | None:
    return TerminalStatus.PROCESSING if find(TITLE_BUSY_PATTERN, title) else None


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
    if find(DIALOG_FOOTER_PATTERN, footer) or find(OPTION_PATTERN, options):
        return True
    return _startup_question(lines) is not None


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
    return [Cell(tuple(part), kind) for kind, part in parts]


def conversation(lines: Sequence[str], box: Box | None) -> list[Cell]:
    """Return the cells above the input box, without the hint that may stand right above it."""
    if box is None:
        ends = [row for row, line in enumerate(lines) if find(RULE_PATTERN, line)]
        return split_cells(lines[: ends[-1]] if is_transcript(lines) and ends else lines)
    end = box.row - 1
    if end and find(HINT_PATTERN, lines[end - 1]):
        end -= 1
    return split_cells(lines[:end])


def _kind_of_head(line: str, above: str, current: Kind | None) -> Kind | None:
    """Return the kind of cell that begins with a line, None if the line goes on with one.

    A notice is indented like text: it counts below a message, another notice or an empty line.
    In 2.0 all lines of a message but the first stand at the edge, without a mark.
    """
    kind = next((kind for pattern, kind in HEADS if find(pattern, line)), None)
    if kind is Kind.NOTE:
        return kind if not above or current in (Kind.MESSAGE, Kind.NOTE, Kind.OTHER) else None
    if kind is not None or line[:1] in ("", " "):
        return kind
    return Kind.OTHER


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


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question on the screen, if there is one.

    The keys are one step, and each step has a name of its own. What to press next is asked again
    with the next screen.
    """
    lines = screen_lines(screen)
    known = _startup_question(lines)
    if known is None:
        return None
    # ❯ No, exit          Yes, I trust this folder        │ ❯ 1. Yes, proceed        │
    wanted = rf"^(?:│ )? *(?:❯ +)?(?:\d+\. )?{known.choice}"
    marked = [row for row, line in enumerate(lines) if find(r"^(?:│ )? {0,4}❯ \S", line)]
    offered = [row for row, line in enumerate(lines) if known.choice and find(wanted, line)]
    if not marked or not offered:
        return Dialog(known.name, (), known.advice)
    if marked[-1] == offered[-1]:
        return Dialog(known.name, ("Enter",), known.advice)
    key = "End" if marked[-1] < offered[-1] else "Home"
    return Dialog(f"{known.name} (choosing yes)", (key,), known.advice)


def _startup_question(lines: Sequence[str]) -> StartupQuestion | None:
    if find_box(lines) is not None:
        return None
    text = "\n".join(lines)
    return next((known for known in STARTUP_QUESTIONS if find(known.sign, text)), None)


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
    lines = screen_lines(scrollback)
    turn = last_turn(conversation(lines, find_box(lines)), USER_PATTERN)
    said = [cell for cell in turn if cell.kind is Kind.ANSWER and not is_tool(cell)]
    return dedent_cell(said[-1].lines, 2).strip() if said else ""


def is_tool(cell: Cell) -> bool:
    """Is this something the agent did, as opposed to something it said?"""
    first = cell.lines[: cell.lines.index("")] if "" in cell.lines else cell.lines
    return any(find(RESULT_PATTERN, line) for line in first[1:])


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
    # `!` opens its shell, `#` its memory (2.0), `/` its commands, also behind blanks and invisible
    # characters in 2.1.325: there only a blank of another script (U+2800) keeps a text a text.
    guards={"!": " ", "#": " ", "/": "\u2800"},
    tested_versions=((1, 0, 100), (2, 0, 67), (2, 1, 105), (2, 1, 325)),
    launch=launch,
    detect_status=detect_status,
    title_status=title_status,
    startup_dialog=startup_dialog,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
