"""GitHub Copilot CLI: what its screen says, how it is started, what its hooks tell.

Everything the agent says is indented by three columns, so only marks in the second column count,
and the rows around the input box:

     ❯ Fix the basket            12:30    a message
     ● Done.                              an answer, and every note of the program
     $ Shell Run the tests                what a tool did
     ✗ Authentication failed              a failure

     /home/me/app
    ────────────────────
    ❯ draft
    ────────────────────
     ◎ Working esc esc interrupt          the last row tells work from rest

The hooks come with a plugin that lies beside this module. They write to the file that
CAO_EVENT_FILE names, and hand the profile over at the start of a session, from
CAO_SESSION_CONTEXT. The program draws on the alternate screen, where a long answer cannot be read
back: the hook at the end of a turn copies it from the session record, as soon as the record has
come as far as to name that hook.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..core.codec import object_of
from ..core.models import TerminalStatus
from .base import (
    SIGN_IN,
    AgentSignal,
    Dialog,
    Launch,
    LaunchRequest,
    Permissions,
    Provider,
    SignalKind,
    status_of,
)
from .screen import (
    Cell,
    cells_by_margin,
    dedent_cell,
    find,
    last_frame,
    last_turn,
    rows_like,
    screen_lines,
    tail,
    text_of_last,
    without_dim,
)

PLUGIN = Path(__file__).with_name("copilot_plugin")

# ────────────────────────────
RULE_PATTERN = r"^─{10,}$"
# ❯ draft        ! ls
BOX_PATTERN = r"^[❯!](?: |$)"
SHELL_MARK = "!"
#  ◎ Working · 117 B esc esc interrupt
BUSY_PATTERN = r"^ [○◎◉●] \S"
#    the end of a line            ┃
SCROLLBAR_PATTERN = r" +┃$"
#  [Current]  Sessions   Issues   Pull requests   Gists
TABS_PATTERN = r"^ \[?Current\]? +\[?Sessions\]?"
#   ╰─╯╰─╯  Copilot v1.0.102 uses AI.
BANNER_PATTERN = r"^  ╰─╯╰─╯  Copilot v\d"
#  ❯ Fix the basket            12:30
MESSAGE_PATTERN = r"^ ❯ "
#  ● Done.        $ Shell Run the tests
REPLY_PATTERN = r"^ [●$] "
#  ● Done.
ANSWER_PATTERN = r"^ ● "
#  ● Tip: /help        ● MCP Servers reloaded: 0 servers connected
NOTE_PATTERN = (
    r"^ ● (?:Tip: |MCP Servers reloaded: |Folder \S.* has been added to trusted folders\.$"
    r"|Request failed due to a transient API error\. Retrying\.\.\.$)"
)
#  ● Operation cancelled by user
CANCELLED_PATTERN = r"^ ● Operation cancelled by user *┃?$"
#  ✗ Authentication failed with provider
FAILED_PATTERN = r"^ ✗ "
# │ ❯ 1. Yes        │ ↑/↓ to navigate · enter to select · esc to cancel
CHOICE_PATTERN = r"^│ +❯ +\d+\. |^│ .*\b[Ee]nter to \w+"
#  ↑/↓ select · ctrl+d decline · esc cancel        │ f finished:hidden · esc close           │
MENU_PATTERN = r" · esc (?:to )?(?:back|cancel|close|exit)\b[ │]*$"
# │ Do you trust the files in this folder?
TRUST_PATTERN = r"^│ Do you trust the files in this folder\?"
# │ ❯ 1. Yes
TRUST_ONCE_PATTERN = r"^│ +❯ 1\. Yes +│$"

# Please use /login to sign in to use Copilot
SIGN_IN_PATTERN = r"^Please use /login to sign in"


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    box = find_box(lines)
    cells = cells_by_margin(conversation(lines, box))
    turn = last_turn(cells, MESSAGE_PATTERN)
    last = next((cell for cell in reversed(turn) if not cell.is_like(NOTE_PATTERN)), Cell(("",)))
    # What is opened may end with a rule or a frame.
    *_, hints, end = ["", "", *tail(lines, 2)]
    is_menu = find(MENU_PATTERN, hints if find(RULE_PATTERN, end.strip(" ╰╯")) else end)
    return status_of(
        asks=box is None and bool(is_menu or last_frame(lines, CHOICE_PATTERN)),
        ready=box is not None,
        drafted=box is not None and lines[box.start : box.stop] != ["❯"],
        working=box is not None and bool(find(BUSY_PATTERN, lines[-1])),
        failed=last.is_like(FAILED_PATTERN),
        interrupted=last.is_like(CANCELLED_PATTERN) and not any(last.lines[1:]),
        replied=has_reply(turn, asked=len(turn) < len(cells)),
    )


def find_box(lines: Sequence[str]) -> range | None:
    rules = rows_like(RULE_PATTERN, lines)
    if len(rules) < 2 or rules[-1] != len(lines) - 2:
        return None
    row = rules[-2] + 1
    return range(row, rules[-1]) if find(BOX_PATTERN, lines[row]) else None


def conversation(lines: Sequence[str], box: range | None) -> list[str]:
    """Return the rows between the tabs and the folder's row, without the scroll bar."""
    rows = [re.sub(SCROLLBAR_PATTERN, "", line) for line in lines[: box.start - 1 if box else None]]
    while box and rows and rows[-1]:
        rows.pop()
    return rows[1:] if rows and find(TABS_PATTERN, rows[0]) else rows


def has_reply(turn: Sequence[Cell], asked: bool) -> bool:
    """Has the agent said or done something in the turn?

    With the message scrolled away, and no banner in sight, indented text is the rest of an answer.
    """
    has_banner = any(rows_like(BANNER_PATTERN, cell.lines) for cell in turn)
    if any(cell.is_like(REPLY_PATTERN) and not cell.is_like(NOTE_PATTERN) for cell in turn):
        return asked or not has_banner
    return not asked and bool(turn) and not has_banner and turn[0].is_like(r"^   ")


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question on the screen.

    The safe answer is to trust the folder for this session alone. Without a sign-in there is an
    input box all the same, and a row above it that says so.
    """
    lines = screen_lines(screen)
    box = find_box(lines)
    if box is not None and box.start > 2 and find(SIGN_IN_PATTERN, lines[box.start - 3]):
        return Dialog(SIGN_IN, "Run copilot once by hand and type /login.")
    text = "\n".join(last_frame(lines, CHOICE_PATTERN))
    if not find(TRUST_PATTERN, text):
        return None
    keys = ("1",) if find(TRUST_ONCE_PATTERN, text) else ()
    advice = "Run copilot once by hand in this folder and let it remember the folder."
    return Dialog("trust this folder", advice, keys)


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text in the input box; in shell mode it begins with the `!` of the box."""
    lines = screen_lines(ansi_screen)
    box = find_box(lines)
    if box is None:
        return None
    mode = SHELL_MARK if lines[box.start].startswith(SHELL_MARK) else ""
    typed = without_dim(ansi_screen).split("\n")[box.start : box.stop]
    return mode + dedent_cell([line.rstrip() for line in typed], 2).strip()


def last_answer(scrollback: str) -> str:
    lines = screen_lines(scrollback)
    cells = cells_by_margin(conversation(lines, find_box(lines)))
    said = [
        cell
        for cell in last_turn(cells, MESSAGE_PATTERN)
        if cell.is_like(ANSWER_PATTERN)
        and not cell.is_like(NOTE_PATTERN)
        and not cell.is_like(CANCELLED_PATTERN)
    ]
    return text_of_last(said, 3)


def read_signal(line: str) -> AgentSignal | None:
    """Return what one line of the event file reports.

    It has what the hooks leave, and the last message of each turn, as in the session record.
    """
    match object_of(line):
        case {"hook": "userPromptSubmitted" as hook}:
            return AgentSignal(SignalKind.SUBMITTED, hook)
        case {"hook": "postToolUse" | "postToolUseFailure" | "errorOccurred" as hook}:
            # It tries again after an error; when it gives up, the screen says so.
            return AgentSignal(SignalKind.WORKING, hook)
        case {
            "hook": "notification",
            "input": {"notification_type": "permission_prompt" | "elicitation_dialog" as kind},
        }:
            return AgentSignal(SignalKind.WAITING, f"notification: {kind}")
        case {"hook": "agentStop" as hook}:
            return AgentSignal(SignalKind.FINISHED, hook)
        case {"type": "assistant.message", "data": {"content": str(answer), "toolRequests": []}}:
            return AgentSignal(SignalKind.FINISHED, "assistant.message", answer=answer)
        case _:
            return None


PERMISSION_FLAGS = {
    Permissions.WORKSPACE: ("--allow-all-tools",),
    Permissions.FULL: ("--allow-all",),
    Permissions.ASK: (),
}
OWN_PERMISSION_FLAGS = {"--allow-all-tools", "--allow-all", "--yolo"}


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts Copilot with its profile and our hooks.

    `workspace` lets it run any command without asking; its file tools stay in the folder and the
    system's temporary one, and a person is asked about the network.
    """
    own = request.has_any(OWN_PERMISSION_FLAGS)
    flags = () if own else PERMISSION_FLAGS[request.permissions]
    profile = request.prompt.strip()
    return Launch(
        (request.program, "--plugin-dir", str(PLUGIN), *flags, *request.args),
        {
            "CAO_EVENT_FILE": request.event_file,
            "CAO_SESSION_CONTEXT": json.dumps({"additionalContext": profile}) if profile else "",
        },
    )


PROVIDER = Provider(
    name="copilot_cli",
    program="copilot",
    install_hint="npm install -g @github/copilot",
    # One empties a draft or stops a turn, and announces the end; the next one quits.
    exit_keys=("C-c", "C-c"),
    # Each pair takes a line and the line end before it. Ctrl-C would quit if the box were empty.
    clear_keys=("C-u", "BSpace") * 32,
    # `@file` at the end of a message opens a list that takes the Enter for itself.
    completes="@",
    idle_mark=rf"{CANCELLED_PATTERN}(?![\s\S]*{MESSAGE_PATTERN})",
    # `!` opens its shell, `/` its commands, also behind blanks: this one is no blank.
    guards={"!": "\u2800", "/": "\u2800"},
    tested_versions=((1, 0, 102),),
    launch=launch,
    detect_status=detect_status,
    startup_dialog=startup_dialog,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
