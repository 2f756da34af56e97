"""Codex: what its screen shows, how it is started, what its session record reports.

Codex draws its own marks at the left edge and indents all prose by two columns. So a cell is a line
at the left edge and the indented lines below it. Below the transcript is the composer (`›`, with a
placeholder or a draft in it) over a footer; a dialog takes the place of both.

Only the form and the place of a line count, never its words: an answer may quote any sign of the
interface. The newest turn is what is between the last message of the user and the composer; in it,
a row that only a working Codex draws means work, and a failure counts if nothing follows it. While
an answer streams, the screen of every version looks like a finished one: the title tells.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, takewhile
from typing import Any

from msgspec.structs import replace

from ..core.codec import object_of, toml_value
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
    Kind,
    action_line,
    dedent_cell,
    find,
    first_match,
    last_turn,
    rows_like,
    screen_lines,
    without_dim,
)

# • Working (3s • esc to interrupt)        • Exploring
ACTIVE_WORK_UI_PATTERN = r"esc to interrupt|•\s+Exploring\b"
# › Fix the failing test
USER_PREFIX_PATTERN = r"^›[ \t]+\S"

# ◦ Reconnecting... 2/5 (8s • esc to interrupt)        also with another sign, or in other words
TIMED_PATTERN = r"^\S .*\((?:\d+[hm] )*\d+s • [^()]+\)(?: ·.*)?$"
# esc to interrupt
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
#   Tip: Use /status to see the current model (below the banner, unless the screen was cleared)
TIP_PATTERN = r"^  Tip: "
#   ? for shortcuts
BARE_FOOTER_PATTERN = r"^ +\? for shortcuts$"

TITLES = {
    # [ ! ] Action Required | my-project
    TerminalStatus.WAITING_USER_ANSWER: r"^\[ [!.] \] Action Required\b",
    # ⠹ Working
    TerminalStatus.PROCESSING: r"^[⠁-⣿]|^(?:Starting|Working|Thinking)$",
    TerminalStatus.IDLE: r"^Ready$",
}
title_status = partial(first_match, TITLES)

SHELL_MARK = "!"
#   gpt-5.1-codex default · /home/me        Shell mode
SHELL_FOOTER_PATTERN = r"\b(?:Bash|Shell) mode\b"
#   ? for shortcuts        100% context left        gpt-5.1-codex default · 100% left · /home/me
FOOTER_PATTERN = r"\? for shortcuts|\d% (?:context )?left\b"
#   gpt-5.1-codex default · /home/me        Press enter to insert or esc to close
KNOWN_FOOTER_PATTERN = (
    rf"{FOOTER_PATTERN}|^\s+\S.* · (?:~|/[^\s/]+/)|^ +(?:Press )?enter (?:to )?insert\b"
)
# │ >_ OpenAI Codex (v0.125.0)        │
BANNER_PATTERN = r"^[│ ]*(?:>_ )?OpenAI Codex\b"
#   └ Read slow.fifo        ↳ queued message
DETAIL_PATTERN = r"^\s+[└↳]|^ {4}"
# › 1. Yes, proceed (y)        > 1. Sign in with ChatGPT
OPTION_PATTERN = r"^ {0,2}[›>] \d+\. \S"
# › Fix the failing test        and no option of a list, such as: › [x] Use theme colors
COMPOSER_PATTERN = r"^›(?!\S| \[[ x]\] )"
#   2. No, and tell Codex what to do differently (esc)
OTHER_OPTION_PATTERN = r"^ {2,4}\d+\. \S"
#   Press enter to confirm or esc to cancel        enter continue · esc quit
CONFIRM_PATTERN = r"\b[Ee]nter (?:to )?(?:confirm|continue|submit|select)\b"
#   tab to add notes | enter to submit answer | esc to interrupt
SUBMIT_ANSWER_PATTERN = r"\benter to submit\b"
#   space toggle · enter save · esc save/close        Press enter to confirm or esc to go back
# enter resume   ^a archive   esc exit        q to quit        Press space … or enter to save for …
# and no list beside the composer: enter insert · esc close
MENU_PATTERN = (
    r"(?:^ +|(?<!insert )[·;] | {2}|(?<!insert )\bor )(?:esc|q) (?:to )?"
    r"(?:back|cancel|close|dismiss|exit|go back|quit|save)\b|\bor enter to save\b"
)

# • Added notes.txt (+2 -0)        • Questions 1/1 answered
TOOL_PATTERN = (
    r"^• (?:\S.*\(\+\d+ -\d+\)$|Questions \d+/\d+ answered|Messages to be submitted"
    r"|Model interrupted to submit|Context compacted|Updated Plan)"
)
# • Ran make test        • Explored        the details below it start with one of these
TOOL_BODY_PATTERN = r"^  [│└]"

MARKS = {
    "›": Kind.MESSAGE,
    "•": Kind.ANSWER,
    # The blinking form of a mark.
    "◦": Kind.WORKING,
    "■": Kind.ERROR,
    **dict.fromkeys("⚠✔✗─╭│╰", Kind.NOTE),
}


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    covered = is_dialog(lines)
    told = title_status(title or "")
    # What a person has opened is no question as long as a turn runs behind it.
    asks = covered and (told is not TerminalStatus.PROCESSING or is_question(lines))
    composer = None if covered else composer_row(lines)
    end = composer
    if end is None and lines and find(FOOTER_PATTERN, lines[-1]):
        end = len(lines) - 1
    cells = conversation(lines[:end])
    turn = last_turn(cells, USER_PREFIX_PATTERN)
    return status_of(
        asks=asks,
        ready=composer is not None
        and not is_loading(cells, lines[composer + 1 :])
        and not may_be_question(lines, composer),
        working=is_working(turn),
        failed=has_failed(turn),
        replied=has_reply(turn, asked=len(turn) < len(cells)),
        told=told,
    )


def conversation(lines: Sequence[str]) -> list[Cell]:
    """Return the cells since the last banner with a tip: a new conversation begins with one."""
    cells = split_cells(lines)
    tips = [row for row, cell in enumerate(cells) if rows_like(TIP_PATTERN, cell.lines)]
    return cells[max(tips, default=0) :]


def is_loading(cells: Sequence[Cell], footer: Sequence[str]) -> bool:
    """Is this the first frame, in which no model is known yet?

    From 0.149 on it has an input box, and the questions of the start come after it.
    """
    kinds = [cell.kind for cell in cells if cell.kind is not Kind.NOTE]
    if not kinds or kinds[-1] is not Kind.BANNER:
        return False
    models = [found[1] for cell in cells if (found := find(MODEL_PATTERN, cell.lines[0]))]
    return models[-1:] == ["loading"] or bool(find(BARE_FOOTER_PATTERN, "".join(footer)))


def is_working(turn: Sequence[Cell]) -> bool:
    """Is there a row in the turn that Codex draws only while it works?"""
    if any(map(is_busy_row, turn)):
        return True
    known = [cell for cell in turn if cell.kind is not Kind.OTHER or cell.is_like(TIMED_PATTERN)]
    last = known[-1] if known else Cell(("",))
    # The last cell may be `• Exploring this or that`, with nothing said below it.
    explores = last.is_like(EXPLORING_PHRASE_PATTERN) and has_details(last.lines[1:])
    return explores or last.is_like(TIMED_PATTERN)


def is_busy_row(cell: Cell) -> bool:
    """Is this a status row, or the head of an exploration that goes on?"""
    if cell.kind is Kind.WORKING:
        return True
    if not cell.is_like(ACTIVE_WORK_UI_PATTERN):
        return False
    is_row = cell.is_like(BUSY_ROW_PATTERN) or cell.is_like(EXPLORING_PATTERN)
    return is_row and has_details(takewhile(bool, cell.lines[1:]))


def has_details(rows: Iterable[str]) -> bool:
    return all(find(DETAIL_PATTERN, row) for row in rows if row)


def has_failed(turn: Sequence[Cell]) -> bool:
    said = [cell for cell in turn if cell.kind is not Kind.NOTE]
    return bool(said) and said[-1].kind is Kind.ERROR and not said[-1].is_like(INTERRUPTED_PATTERN)


def has_reply(turn: Sequence[Cell], asked: bool) -> bool:
    kinds = [cell.kind for cell in turn if cell.kind not in (Kind.NOTE, Kind.MESSAGE)]
    if not kinds or kinds[-1] is Kind.ERROR:
        return False
    if Kind.ANSWER in kinds:
        return True
    # with the message scrolled away, only indented text can be the rest of an answer
    return Kind.BANNER not in kinds and (asked or Kind.REST in kinds)


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
    return [Cell(tuple(part), _kind(part)) for part in parts]


def _kind(part: Sequence[str]) -> Kind:
    head, *body = part
    if find(BANNER_PATTERN, head or body[0]):
        return Kind.BANNER
    if not head:
        return Kind.REST
    if head[0] in MARKS:
        return MARKS[head[0]]
    # warnings of the start may stand right above the banner
    return Kind.BANNER if find(BANNER_PATTERN, "\n".join(body)) else Kind.OTHER


def is_indented(line: str) -> bool:
    return not line[:1].strip()


def is_dialog(lines: Sequence[str]) -> bool:
    """Is there a question, or a menu, in the place of the composer?"""
    # A later version may have other rows below the hint.
    parts = blocks(lines)[-2:]
    if any(find(KNOWN_FOOTER_PATTERN, row) for row in chain(*parts[1:])):
        parts = parts[1:]
    hints = ["\n".join(part[-2:]) for part in parts]
    is_menu = any(find(MENU_PATTERN, hint) and not find("^›", hint) for hint in hints)
    return is_menu or is_question(lines)


def is_question(lines: Sequence[str]) -> bool:
    rows = next(reversed(blocks(lines)), [])
    # A narrow window breaks the hint into a few rows.
    hint = " ".join(row.strip() for row in (rows if len(rows) <= 4 else rows[-1:]))
    if find(CONFIRM_PATTERN, hint):
        return bool(find(SUBMIT_ANSWER_PATTERN, hint) or find(OPTION_PATTERN, "\n".join(lines)))
    # A later version may have other rows below the hint.
    row = marked_option(lines)
    below = [] if row is None else blocks(lines[row + 1 :])
    hints = [block for block in below if not any(find(OTHER_OPTION_PATTERN, r) for r in block)]
    return any(find(CONFIRM_PATTERN, " ".join(map(str.strip, block))) for block in hints)


def marked_option(lines: Sequence[str]) -> int | None:
    """Return the row of the marked option in a list at the end of the screen.

    A draft may be such a list as well.
    """
    for row, line in reversed(list(enumerate(lines))):
        if find(OPTION_PATTERN, line):
            around = lines[max(row - 6, 0) :]
            return row if rows_like(OTHER_OPTION_PATTERN, around) else None
        if not is_indented(line):
            return None
    return None


def may_be_question(lines: Sequence[str], composer: int) -> bool:
    """May what looks like a message in the composer be a question whose hint is not known?"""
    below = lines[composer + 1 :]
    known = rows_like(KNOWN_FOOTER_PATTERN, below)
    return not known and (len(blocks(lines[composer:])) > 2 or marked_option(lines) is not None)


def blocks(lines: Sequence[str]) -> list[list[str]]:
    parts = "\n".join(lines).split("\n\n")
    return [part.strip("\n").split("\n") for part in parts if part.strip()]


def composer_row(lines: Sequence[str]) -> int | None:
    """Return the row of the composer's `›`: below it are only a draft and the footer.

    Without a footer below it, `› text` is a message that was sent.
    """
    for row, line in reversed(list(enumerate(lines))):
        if find(COMPOSER_PATTERN, line):
            return row if line == "›" or footer_row(lines, row) < len(lines) else None
        if line.startswith(SHELL_MARK) and find(SHELL_FOOTER_PATTERN, lines[-1]):
            return row
        if not is_indented(line) and not find(FOOTER_PATTERN, line):
            return None
    return None


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

    A row of a known form begins it, else all rows behind the last blank one are the footer; without
    a blank one its words tell.
    """
    below = range(composer + 1, len(lines))
    starts = [row for row in below if not lines[row - 1]]
    if starts:
        return next((row for row in starts if find(KNOWN_FOOTER_PATTERN, lines[row])), starts[-1])
    return next((row for row in below if find(FOOTER_PATTERN, lines[row])), len(lines))


STARTUP_QUESTIONS = (
    Dialog(
        "trust this folder",
        "run codex in the folder once and trust it",
        # Do you trust the contents of this directory?        Trust this folder? Codex can read
        sign=r"^ +(?:Do you trust the contents of this directory|Trust this folder)\?",
        choice=r"Yes, continue$|Trust and continue$",
    ),
    Dialog(
        "update notice",
        "update codex, or set check_for_update_on_startup = false in its config.toml",
        #   ✨ Update available! 0.101.0 -> 0.166.0
        sign=r"^ +(?:✨\W*)?Update available\b",
        choice=r"Skip$",
    ),
    Dialog(
        "new model",
        "choose a model with -m in CAO_CODEX_ARGS or in codex's config.toml",
        #   Choose how you'd like Codex to proceed.
        sign=r"^ +Choose how you'd like Codex to proceed\b",
        choice=r"Use existing model$",
    ),
    Dialog(
        SIGN_IN,
        "run `codex login` once",
        # > 1. Sign in with ChatGPT
        sign=r"^[›> ] 1\. Sign in with ChatGPT$",
    ),
    Dialog(
        "review of hooks",
        "run codex once and decide about its hooks",
        #   Hooks need review
        sign=r"^ +Hooks need review$",
    ),
    Dialog(
        "approaching rate limits",
        "set notice.hide_rate_limit_model_nudge = true in codex's config.toml",
        #   Approaching rate limits
        sign=r"^ +Approaching rate limits$",
        choice=r"Keep current model$",
        anytime=True,
    ),
)


def startup_dialog(screen: str) -> Dialog | None:
    """Return the start-up question at the end of the screen.

    The key is the number of the option as the screen shows it: what is preselected is never chosen,
    and in a composer the number would be text that is not submitted.
    """
    lines = screen_lines(screen)
    if not is_question(lines):
        return None
    text = "\n".join(lines)
    # Of the dialog at the end, as blank lines part it: none of them are words of an answer.
    *_, heading, options, _ = ["", "", *map("\n".join, blocks(lines))]
    for question in STARTUP_QUESTIONS:
        if find(question.sign, heading if question.anytime else text):
            shown = options if question.anytime else text
            found = find(rf"^[›> ] (\d)\. (?:{question.choice})", shown)
            keys = (found[1],) if found and question.choice else ()
            return replace(question, keys=keys)
    return None


def draft(ansi_screen: str) -> str | None:
    lines = screen_lines(ansi_screen)
    row = None if is_dialog(lines) else composer_row(lines)
    if row is None:
        return None
    typed = without_dim(ansi_screen).split("\n")[row : footer_row(lines, row)]
    mode = SHELL_MARK if lines[row].startswith(SHELL_MARK) else ""
    return mode + dedent_cell([line.rstrip() for line in typed], 2)


def last_answer(scrollback: str) -> str:
    lines = screen_lines(scrollback)
    cells = conversation(lines[: transcript_end(lines)])
    said = [
        cell
        for cell in last_turn(cells, USER_PREFIX_PATTERN)
        if cell.kind is Kind.ANSWER and not is_tool(cell) and not is_busy_row(cell)
    ]
    if not said:
        return ""
    text = dedent_cell(said[-1].lines, 2)
    worked = find(WORKED_PATTERN, text)
    return text[: worked.start()].rstrip() if worked else text.rstrip()


def is_tool(cell: Cell) -> bool:
    return cell.is_like(TOOL_PATTERN) or bool(find(TOOL_BODY_PATTERN, "".join(cell.lines[1:2])))


def read_signal(line: str) -> AgentSignal | None:
    """Return what one line of the session record (`rollout-….jsonl`) reports.

    The record begins with the first turn, not with the program, so its head does not mean "ready";
    but it tells a sub-agent's record, and that of a Codex which this one runs, from its own.
    """
    record = object_of(line)
    match record:
        case {"type": "session_meta", "payload": {"source": {"subagent": _} | "exec" | "mcp"}}:
            return AgentSignal(SignalKind.FOREIGN, "session_meta")
        case {"type": "response_item", "payload": {"type": str(kind)} as call}:
            if kind not in TOOL_CALLS:
                return None
            signal = AgentSignal(SignalKind.ACTING, kind, action=action_of(call))
        case {"type": "event_msg", "payload": dict(event)}:
            match event:
                case {"type": "task_started" | "turn_started"}:
                    signal = AgentSignal(SignalKind.WORKING, "task_started")
                case {"type": "user_message"} | {
                    "type": "item_completed",
                    "item": {"type": "UserMessage"},
                }:
                    signal = AgentSignal(SignalKind.SUBMITTED, "user_message")
                case {"type": "task_complete" | "turn_complete"}:
                    signal = _end_of_turn(event)
                case {"type": "turn_aborted"}:
                    reason = event.get("reason")
                    signal = AgentSignal(SignalKind.INTERRUPTED, f"turn_aborted: {reason}")
                case {"type": "error"}:
                    signal = AgentSignal(SignalKind.FAILED, f"error: {event.get('message')}")
                case _:
                    return None
        case _:
            return None
    try:
        # 2026-11-15T06:34:26.123Z
        at = datetime.fromisoformat(str(record.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return signal
    return replace(signal, at=at)


def _end_of_turn(event: dict[str, Any]) -> AgentSignal:  # whatever JSON holds
    """Distinguish a finished turn from a failed one, as far as the record allows.

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


TOOL_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
# *** Update File: src/basket.py
PATCHED_FILE_PATTERN = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"


def action_of(call: dict[str, Any]) -> str:  # whatever JSON holds
    match call:
        case {"name": "apply_patch", "input": str(patch)}:
            file = re.search(PATCHED_FILE_PATTERN, patch)
            return action_line("apply_patch", {"path": file[1] if file else ""})
        case {"name": str(name), "arguments": str(text)}:
            arguments = {key: _inner(value) for key, value in object_of(text).items()}
            return action_line(name, arguments)
        case {"action": {"command": command}}:
            return action_line("shell", {"command": _inner(command)})
    return action_line(str(call.get("name") or call["type"]), {})


def _inner(command: object) -> object:
    """Return the command that a shell is to run: the last of `["bash", "-lc", "make test"]`."""
    is_shell = isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c")
    return command[2] if isinstance(command, list) and is_shell else command


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


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts Codex with its profile, in a folder that is trusted.

    An unknown version counts as a new one.
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
    version = request.version or (999,)
    if version >= (0, 156):
        # Without it a daemon outlives the terminal and copies the program into CODEX_HOME.
        argv.append("--no-daemon")
    if version >= (0, 117):
        settings.append('tui.terminal_title=["spinner","status"]')
    if request.prompt.strip():
        # Comes on top of Codex's own instructions; `model_instructions_file` would replace them.
        settings.append(f"developer_instructions={toml_value(request.prompt)}")
    if not request.has_any(OWN_PERMISSION_FLAGS):
        argv += PERMISSION_FLAGS[request.permissions]
    for setting in settings:
        argv += ["-c", setting]
    return Launch((*argv, *request.args), raw_output=version >= (0, 150))


PROVIDER = Provider(
    name="codex",
    program="codex",
    install_hint="npm install -g @openai/codex",
    # One empties a draft or stops a turn, the next one quits; with an empty composer the first.
    exit_keys=("C-c", "C-c"),
    # Each takes a line or a line end, before the cursor and behind it: after a command that it does
    # not know the cursor stands before the text. The last leaves the shell mode. Ctrl-C would quit
    # if the composer were empty.
    clear_keys=(*("C-u",) * 32, *("C-k",) * 32, "BSpace"),
    # `$skill` and `@file` at the end of a message open a list that takes the Enter for itself.
    completes="$@",
    idle_mark=TIP_PATTERN + r"(?![\s\S]*^[•■])",
    # A blank is cut off before `!` is looked at, and the text would be run: this one is no blank.
    guards={"!": "\u2800", "/": " "},
    # ~/.codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-0190….jsonl
    record_pattern=r"/sessions/\d+/\d+/\d+/rollout-[^/]+\.jsonl$",
    tested_versions=((0, 101, 0), (0, 125, 0), (0, 149, 1), (0, 166, 0), (0, 169, 0)),
    launch=launch,
    detect_status=detect_status,
    title_status=title_status,
    startup_dialog=startup_dialog,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
