"""OpenCode: what its screen says, how it is started, what its plugin tells.

Everything is drawn in columns. Frames (`┃`) hold messages, what tools did, dialogs and the input
box; what the agent says stands between them. Only the rows around the input box decide:

         Done.
         ▣  Build · GPT · 6.5s            the turn is over, was stopped, or is still going on

      ┃
      ┃  draft
      ┃
      ┃  Build · GPT OpenAI
      ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
       ⬝⬝⬝■■■■■  esc interrupt            the last row tells work from rest

The signals come from a plugin that lies beside this module and is named in
OPENCODE_CONFIG_CONTENT, on top of the user's own settings. It writes to the file that
CAO_EVENT_FILE names and adds the profile, from CAO_SESSION_CONTEXT, to the system prompt. The
program draws on the alternate screen, where a long answer cannot be read back: the plugin tells it.
Its HTTP port is not used.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..core.codec import object_of
from ..core.models import TerminalStatus
from .base import AgentSignal, Launch, LaunchRequest, Permissions, Provider, SignalKind, status_of
from .screen import action_line, find, rows_like, screen_lines

PLUGIN = Path(__file__).parent / "opencode_plugin" / "signals.mjs"

#   ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀
BOX_END_PATTERN = r"^ *╹▀{10,}$"
#   ┃  draft
FRAME_PATTERN = r"^ *┃"
#    ⬝⬝⬝■■■■■  esc interrupt
BUSY_PATTERN = r"^ +[⬝■]{4,} "
#      ▣  Build · GPT · 6.5s        ▣  Build · GPT · 1m 2s        ▣  Build · GPT · 577ms
DONE_PATTERN = r"^ {5}▣  .* · (?:\d+h ?)?(?:\d+m ?)?\d+(?:\.\d+)?m?s$"
#      ▣  Build · GPT · interrupted
INTERRUPTED_PATTERN = r"^ {5}▣  .* · interrupted$"
#      ▣  Build · GPT
TURN_PATTERN = r"^ {5}▣  \S"
#   ┃   Allow once      ⇆ select  enter confirm        ┃  ↑↓ select  enter submit  esc dismiss
DIALOG_PATTERN = r"^ *┃ .*  enter \w+(?:  |$)"
#   ┃  Shell
SHELL_PATTERN = r"^ *┃  Shell\b"
# ESC[38;5;8m·ESC[38;5;15m ESC[38;5;255mM1: a dot in the color of placeholders, a name in another
MUTED_PATTERN = r"(\x1b\[[\d;]+m)·(?:\x1b\[[\d;]+m)? (?!\1)\x1b"

KIND_OF_EVENT = {
    "submitted": SignalKind.SUBMITTED,
    "working": SignalKind.WORKING,
    "retrying": SignalKind.WORKING,
    "asks": SignalKind.WAITING,
    "finished": SignalKind.FINISHED,
    "interrupted": SignalKind.INTERRUPTED,
    "failed": SignalKind.FAILED,
}


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    box = find_box(lines)
    above = lines[: box.start] if box else []
    last = next((line for line in reversed(above) if line), "")
    return status_of(
        # The screen ends with a frame in which something is to be chosen. Below an input box there
        # is always a row that is no frame.
        asks=bool(rows_like(DIALOG_PATTERN, lines[frame_start(lines, len(lines)) :])),
        ready=box is not None,
        working=box is not None and bool(find(BUSY_PATTERN, lines[-1])),
        interrupted=bool(find(INTERRUPTED_PATTERN, last)),
        # The turn has ended, and nothing says how long it took.
        failed=bool(find(TURN_PATTERN, last)) and not find(DONE_PATTERN, last),
        replied=bool(find(DONE_PATTERN, last)),
    )


def find_box(lines: Sequence[str]) -> range | None:
    """Return the input box: the last frame that has a lower edge, with no frame below it."""
    ends = rows_like(BOX_END_PATTERN, lines)
    if not ends or rows_like(FRAME_PATTERN, lines[ends[-1] + 1 :]):
        return None
    start = frame_start(lines, ends[-1])
    return range(start, ends[-1]) if ends[-1] - start > 3 else None


def frame_start(lines: Sequence[str], end: int) -> int:
    row = end
    while row > 0 and find(FRAME_PATTERN, lines[row - 1]):
        row -= 1
    return row


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text in the input box row by row, None when it cannot be seen.

    The box has a blank row above the text, a blank row and the row of the agent below it. What has
    the color of the dot in that row is a placeholder. In a shell the draft begins with `!`, also
    when nothing is typed: a message would be run.
    """
    lines = screen_lines(ansi_screen)
    box = find_box(lines)
    if box is None:
        return None
    mode = "!" if find(SHELL_PATTERN, lines[box.stop - 1]) else ""
    rows = ansi_screen.split("\n")
    typed = "\n".join(rows[box.start + 1 : box.stop - 2])
    if muted := find(MUTED_PATTERN, rows[box.stop - 1]):
        typed = re.sub(re.escape(muted[1]) + r"[^\x1b\n]*", "", typed)
    text = [line.lstrip(" ").removeprefix("┃")[2:] for line in screen_lines(typed)]
    return mode + "\n".join(text).strip()


def last_answer(scrollback: str) -> str:
    lines = screen_lines(scrollback)
    box = find_box(lines)
    rows = list(lines[: box.start if box else None])
    while rows and not rows[-1]:
        rows.pop()
    if not rows or not find(TURN_PATTERN, rows.pop()):
        return ""
    said: list[str] = []
    while rows and not find(FRAME_PATTERN, rows[-1]):
        said.append(rows.pop()[5:])
    return "\n".join(reversed(said)).strip()


def read_signal(line: str) -> AgentSignal | None:
    match object_of(line):
        case {"event": "finished", "answer": str(answer)}:
            return AgentSignal(SignalKind.FINISHED, "finished", answer=answer)
        case {"event": "failed", "message": str(message)}:
            return AgentSignal(SignalKind.FAILED, f"failed: {message}")
        case {"event": "acts", "tool": str(tool), **more}:
            action = action_line(tool, {"told": more.get("told")})
            return AgentSignal(SignalKind.ACTING, "acts", action=action)
        case {"event": "asks", "what": str(what)}:
            return AgentSignal(SignalKind.WAITING, f"asks: {what}")
        case {"event": str(event)} if event in KIND_OF_EVENT:
            return AgentSignal(KIND_OF_EVENT[event], event)
        case _:
            return None


PERMISSIONS = {
    Permissions.WORKSPACE: {"*": "allow", "external_directory": "deny"},
    Permissions.FULL: {"*": "allow"},
    Permissions.ASK: {"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"},
}


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts OpenCode with its profile and our plugin.

    `workspace` lets it do anything in its folder and keeps its file tools there; nothing holds a
    command back.
    """
    settings = {
        "plugin": [PLUGIN.as_uri()],
        "permission": PERMISSIONS[request.permissions],
        "autoupdate": False,
    }
    return Launch(
        (request.program, *request.args),
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
            "CAO_EVENT_FILE": request.event_file,
            "CAO_SESSION_CONTEXT": request.prompt.strip(),
        },
    )


PROVIDER = Provider(
    name="opencode",
    program="opencode",
    install_hint="npm install -g opencode-ai",
    # One empties a draft, or quits if there is none.
    exit_keys=("C-c", "C-c"),
    # Each takes a word or a folded paste. Ctrl-C would quit if the box were empty.
    clear_keys=("C-w",) * 64,
    # `@file` at the end of a message opens a list that takes the Enter for itself.
    completes="@",
    # `/compact` and the like are its commands.
    guards={"/": " "},
    tested_versions=((1, 18, 18), (1, 18, 33)),
    launch=launch,
    detect_status=detect_status,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
