"""Codex: what its screen says, how it is started, what its session record tells.

Only the form and the place of a line count, never its words: an answer may quote any sign of the
interface without changing the status. The newest turn is what stands between the last message of
the user and the composer; in it, a row that only a working Codex draws means work, and a failure
counts if nothing follows it. Without a composer and a sign of work nothing can be said.

While an answer streams, the screen of every version looks like a finished one: the title tells.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..core.codec import toml_value
from ..core.models import TerminalStatus
from .base import AgentSignal, Dialog, Launch, LaunchRequest, Marks, Permissions, SignalKind
from .codex_screen import (
    SHELL_MARK,
    TOOL_CALLS,
    Cell,
    Kind,
    action_of,
    composer_row,
    find_startup_dialog,
    footer_row,
    footer_start,
    is_dialog,
    split_cells,
    transcript_end,
)
from .screen import dedent_cell, find, screen_lines, without_dim

name = "codex"
program = "codex"
install_hint = "npm install -g @openai/codex"
# One empties a draft or stops a turn, the next one quits; with an empty composer the first quits.
exit_keys: tuple[str, ...] = ("C-c", "C-c")
CLEARED_LINES = 32
# Each takes a line or a line end, before the cursor and behind it: after a command that it does not
# know the cursor stands before the text. The last leaves the shell mode. Ctrl-C would quit if the
# composer were empty.
clear_keys: tuple[str, ...] = (*("C-u",) * CLEARED_LINES, *("C-k",) * CLEARED_LINES, "BSpace")

# `$skill` and `@file` at the end of a message open a list that takes the Enter for itself.
completes = "$@"
# A blank is cut off before `!` is looked at, and the text would be run: this one is no blank.
guards: dict[str, str] = {"!": "\u2800", "/": " "}
marks_pastes = False
# ~/.codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-0190….jsonl
record_pattern = r"/sessions/\d+/\d+/\d+/rollout-[^/]+\.jsonl$"
tested_versions: tuple[tuple[int, ...], ...] = (
    (0, 101, 0),
    (0, 125, 0),
    (0, 149, 1),
    (0, 166, 0),
    (0, 169, 0),
)

# • Working (3s • esc to interrupt)        • Exploring
ACTIVE_WORK_UI_PATTERN = r"esc to interrupt|•\s+Exploring\b"
# › Fix the failing test
USER_PREFIX_PATTERN = r"^›[ \t]+\S"

# ◦ Reconnecting... 2/5 (8s • esc to interrupt)        esc to interrupt
BUSY_ROW_PATTERN = r"(?:^|[(•◦·|…]\s*)esc to interrupt\)?(?:\s*[·•].*|…)?$"
# • Exploring
EXPLORING_PATTERN = r"^•\s+Exploring$"
# • Exploring the source tree        and no sentence such as: • Exploring it was fun.
EXPLORING_PHRASE_PATTERN = r"^•\s+Exploring\b.*(?:[^.!?:;,]|\.\.\.)$"
# ■ Conversation interrupted - use /feedback if something went wrong
INTERRUPTED_PATTERN = r"^■ Conversation interrupted"
#   Worked for 3s • 00:08
WORKED_PATTERN = r"^Worked for \S+(?: \S+)* • \d\d:\d\d\Z"

# │ model:     loading   /model to change │
MODEL_PATTERN = r"^│ model: +(\S+)"
#   ? for shortcuts
BARE_FOOTER_PATTERN = r"^ +\? for shortcuts$"

# ⠹ Working
TITLE_BUSY_PATTERN = r"^[⠁-⣿]|^(?:Starting|Working|Thinking)$"
# [ ! ] Action Required | my-project
TITLE_WAITING_PATTERN = r"^\[ [!.] \] Action Required\b"
# Ready
TITLE_REST_PATTERN = r"^Ready$"


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    """Return what the visible screen, and the pane's title if it is known, say."""
    return read_marks(screen).status(title_status(title) if title else None)


def read_marks(text: str) -> Marks:
    """Return what can be seen."""
    lines = screen_lines(text)
    asks = is_dialog(lines)
    composer = None if asks else composer_row(lines)
    cells = split_cells(lines[: footer_start(lines) if composer is None else composer])
    turn = last_turn(cells)
    return Marks(
        asks=asks,
        ready=composer is not None and not is_loading(cells, lines[composer + 1 :]),
        working=is_working(turn),
        failed=has_failed(turn),
        replied=has_reply(turn, asked=len(turn) < len(cells)),
    )


def title_status(title: str) -> TerminalStatus | None:
    """Return what the title alone says, None if it says nothing."""
    if find(TITLE_WAITING_PATTERN, title):
        return TerminalStatus.WAITING_USER_ANSWER
    if find(TITLE_BUSY_PATTERN, title):
        return TerminalStatus.PROCESSING
    return TerminalStatus.IDLE if find(TITLE_REST_PATTERN, title) else None


def is_loading(cells: Sequence[Cell], footer: Sequence[str]) -> bool:
    """Is this the first frame, in which no model is known yet?

    From 0.149 on it has an input box, and the questions of the start come after it.
    """
    kinds = [cell.kind for cell in cells if cell.kind is not Kind.NOTE]
    if not kinds or kinds[-1] is not Kind.BANNER:
        return False
    models = [found[1] for cell in cells if (found := find(MODEL_PATTERN, cell.head))]
    return models[-1:] == ["loading"] or bool(find(BARE_FOOTER_PATTERN, "".join(footer)))


def last_turn(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells below the last message of the user; all of them if there is none."""
    asked = [row for row, cell in enumerate(cells) if find(USER_PREFIX_PATTERN, cell.head)]
    return list(cells[asked[-1] + 1 :]) if asked else list(cells)


def is_working(turn: Sequence[Cell]) -> bool:
    """Is there a row in the turn that Codex draws only while it works?"""
    return any(map(is_busy_row, turn)) or (bool(turn) and is_exploring(turn[-1]))


def is_busy_row(cell: Cell) -> bool:
    """Is this a status row, or the head of an exploration that goes on?"""
    if cell.kind is Kind.LIVE:
        return True
    if not find(ACTIVE_WORK_UI_PATTERN, cell.head) or not cell.has_only_details:
        return False
    return bool(find(BUSY_ROW_PATTERN, cell.head) or find(EXPLORING_PATTERN, cell.head))


def is_exploring(last: Cell) -> bool:
    """Is the last cell `• Exploring this or that`, with nothing said below it?"""
    return bool(find(EXPLORING_PHRASE_PATTERN, last.head)) and last.has_only_details


def has_failed(turn: Sequence[Cell]) -> bool:
    """Is an error the last word of the turn?"""
    said = [cell for cell in turn if cell.kind is not Kind.NOTE]
    if not said or said[-1].kind is not Kind.ERROR:
        return False
    return not find(INTERRUPTED_PATTERN, said[-1].head)


def has_reply(turn: Sequence[Cell], asked: bool) -> bool:
    """Has the agent said or done something in the turn, and was not stopped?"""
    kinds = [cell.kind for cell in turn if cell.kind not in (Kind.NOTE, Kind.PROMPT)]
    if not kinds or kinds[-1] is Kind.ERROR:
        return False
    if Kind.ANSWER in kinds:
        return True
    # with the message scrolled away, only indented text can be the rest of an answer
    return Kind.BANNER not in kinds and (asked or Kind.REST in kinds)


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question on the screen, if there is one."""
    return find_startup_dialog(screen_lines(screen))


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text in the composer row by row, None when it cannot be seen."""
    lines = screen_lines(ansi_screen)
    row = None if is_dialog(lines) else composer_row(lines)
    if row is None:
        return None
    typed = without_dim(ansi_screen).split("\n")[row : footer_row(lines, row)]
    mode = SHELL_MARK if lines[row].startswith(SHELL_MARK) else ""
    return mode + dedent_cell([line.rstrip() for line in typed], 2)


def last_answer(scrollback: str) -> str:
    """Return what the agent said last in the newest turn, without what it did."""
    lines = screen_lines(scrollback)
    said = [
        cell
        for cell in last_turn(split_cells(lines[: transcript_end(lines)]))
        if cell.is_prose and not is_busy_row(cell)
    ]
    if not said:
        return ""
    text = dedent_cell([said[-1].head, *said[-1].body], 2)
    worked = find(WORKED_PATTERN, text)
    return text[: worked.start()].rstrip() if worked else text.rstrip()


def read_signal(line: str) -> AgentSignal | None:
    """Return what one line of the session record (`rollout-….jsonl`) says, None if nothing.

    The record begins with the first turn, not with the program, so its head is no sign of being
    ready; but it tells a sub-agent's record, and that of a Codex which this one runs, from its own.
    The text of a message is left out of what is told.
    """
    when, event = _event(line)
    signal = _signal_of(event)
    return replace(signal, at=when) if signal else None


def _signal_of(event: dict[str, Any]) -> AgentSignal | None:  # whatever JSON holds
    match event:
        case {"type": "session_meta", "source": {"subagent": _} | "exec" | "mcp"}:
            return AgentSignal(SignalKind.FOREIGN, "session_meta")
        case {"type": "task_started" | "turn_started"}:
            return AgentSignal(SignalKind.WORKING, "task_started")
        case {"type": "user_message"} | {"type": "item_completed", "item": {"type": "UserMessage"}}:
            return AgentSignal(SignalKind.SUBMITTED, "user_message")
        case {"type": "task_complete" | "turn_complete"}:
            return _end_of_turn(event)
        case {"type": "turn_aborted"}:
            return AgentSignal(SignalKind.INTERRUPTED, f"turn_aborted: {event.get('reason')}")
        case {"type": "error"}:
            return AgentSignal(SignalKind.FAILED, f"error: {event.get('message')}")
        case {"type": str(kind)} if kind in TOOL_CALLS:
            return AgentSignal(SignalKind.ACTING, kind, action=action_of(event))
        case _:
            return None


def _event(line: str) -> tuple[float | None, dict[str, Any]]:  # whatever JSON holds
    """Return an event and when it happened, as far as the line says."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None, {}
    match record:
        case {"type": "event_msg", "payload": dict(event)}:
            return _unix_time(record.get("timestamp")), event
        case {"type": "response_item", "payload": dict(item)} if item.get("type") in TOOL_CALLS:
            return _unix_time(record.get("timestamp")), item
        case {"type": "session_meta", "payload": dict(head)}:
            return None, {**head, "type": "session_meta"}
        case _:
            return None, {}


def _unix_time(stamp: object) -> float | None:
    # 2026-11-15T06:34:26.123Z
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except (ValueError, OverflowError):
        return None


def _end_of_turn(event: dict[str, Any]) -> AgentSignal:  # whatever JSON holds
    """Tell a finished turn from a failed one, as far as the record says.

    Before 0.149 a failed turn and one without a last message end alike, and neither has a
    `started_at`: an `error` before it, or the screen, has to tell.
    """
    match event:
        case {"error": {"message": message}}:
            return AgentSignal(SignalKind.FAILED, f"task_complete: {message}")
        case {"last_agent_message": str(answer)}:
            return AgentSignal(SignalKind.FINISHED, "task_complete", answer=answer)
        case {"started_at": _}:
            return AgentSignal(SignalKind.FINISHED, "task_complete without a message")
        case _:
            return AgentSignal(SignalKind.STOPPED, "task_complete without a message")


PERMISSION_FLAGS = {
    Permissions.WORKSPACE: ("-a", "never", "-s", "workspace-write"),
    Permissions.FULL: ("-a", "never", "-s", "danger-full-access"),
    Permissions.ASK: ("-a", "on-request", "-s", "workspace-write"),
}
# Codex refuses to start when one of these is given twice, or together with ours.
OWN_PERMISSION_FLAGS = {
    *("-a", "--ask-for-approval", "-s", "--sandbox"),
    *("--full-auto", "--yolo", "--dangerously-bypass-approvals-and-sandbox"),
}
NO_DAEMON_SINCE = (0, 156)
TITLE_SINCE = (0, 117)
STATE_SINCE = (0, 150)


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts Codex with its profile, in a folder that is trusted.

    A version that is not known counts as a new one.
    """
    folder = toml_value(request.working_directory)
    argv = [request.program, "--no-alt-screen", "-C", request.working_directory]
    settings = [
        "check_for_update_on_startup=false",
        # A question that comes up in the middle of everything.
        "notice.hide_rate_limit_model_nudge=true",
        # The dotted form would cut the folder at its dots.
        f'projects={{{folder}={{trust_level="trusted"}}}}',
    ]
    if not request.version or request.version >= NO_DAEMON_SINCE:
        # Without it a daemon outlives the terminal and copies the program into CODEX_HOME.
        argv.append("--no-daemon")
    if not request.version or request.version >= TITLE_SINCE:
        settings.append('tui.terminal_title=["spinner","status"]')
    if request.profile.prompt.strip():
        # Comes on top of Codex's own instructions; `model_instructions_file` would replace them.
        settings.append(f"developer_instructions={toml_value(request.profile.prompt)}")
    if not any(argument.split("=")[0] in OWN_PERMISSION_FLAGS for argument in request.args):
        argv += PERMISSION_FLAGS[request.permissions]
    for setting in settings:
        argv += ["-c", setting]
    reports_state = not request.version or request.version >= STATE_SINCE
    return Launch((*argv, *request.args), raw_output=reports_state)
