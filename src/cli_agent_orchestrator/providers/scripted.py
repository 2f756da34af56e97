"""The scripted agent: the packaged agent of the demo, of dry runs and of the tests.

Its interface is made to be read. Marks stand in column 0; what the agent says stands behind a
gutter on every row, so no answer can look like a mark. Only the last two rows decide.

    ▌ Fix the basket … [4,120 chars]      a message it took
    │ RESULT: FAIL                        its answer; `┆ ` continues a line that was too long
    ▣ turn 1 over · 0.4s                  the row above the input box says the status
    scripted ❯ draft

The program that runs it is the Python interpreter of the server (`sys.executable`), started so that
neither the working directory nor what lies in it can replace a module.
"""

from functools import partial

from ..core.codec import object_of
from ..core.models import TerminalStatus
from .base import AgentSignal, Dialog, Launch, LaunchRequest, Provider, SignalKind
from .screen import action_line, first_match, screen_lines, without_dim

MODULE = "cli_agent_orchestrator.scripted_agent"

# scripted ❯ Say what to do, or /exit
PROMPT = "scripted ❯"
# ▨ 1 yes · 2 no · Enter takes the marked one
QUESTION = "▨ "
# ▖ working · 3s · esc stops
SPINNER = ("▖ ", "▘ ", "▝ ", "▗ ")
# ▌ Fix the basket … [4,120 chars]
MESSAGE = "▌ "
# │ RESULT: FAIL
LINE = "│"
# ┆ the rest of a long line
CONTINUED = "┆ "

STATUS_OF_MARK = {
    "▢ ": TerminalStatus.IDLE,  # ▢ ready
    "▣ ": TerminalStatus.COMPLETED,  # ▣ turn 1 over · 0.4s
    "▧ ": TerminalStatus.ERROR,  # ▧ error: usage limit reached
}
# Rows that are seen last while a frame is only half drawn: ▒▒ scripted agent, ∙ changed basket.py
DRAWING = (MESSAGE, LINE, CONTINUED, "∙ ", "▒▒", *SPINNER, *STATUS_OF_MARK)

STARTUP_DIALOGS = {
    "▨ start-up question": Dialog(
        "may I work in this folder", 'set startup_dialog = "none" in the agent\'s script', ("1",)
    ),
    "▨ sign-in needed": Dialog(
        "sign-in", 'answer it in the terminal, or set startup_dialog = "none" in the script'
    ),
}

TITLES = {
    # ⠋ scripted
    TerminalStatus.PROCESSING: r"^\s*[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]",
    # [ ! ] Action Required
    TerminalStatus.WAITING_USER_ANSWER: r"Action Required\s*$",
    TerminalStatus.IDLE: r"^\s*scripted\s*$",
}
title_status = partial(first_match, TITLES)

KIND_OF_EVENT = {
    "SessionStart": SignalKind.READY,
    "UserPromptSubmit": SignalKind.SUBMITTED,
    "PermissionRequest": SignalKind.WAITING,
    "PreToolUse": SignalKind.ACTING,
    "PostToolUse": SignalKind.WORKING,
    "Stop": SignalKind.FINISHED,
    "StopFailure": SignalKind.FAILED,
    "SessionEnd": SignalKind.ENDED,
}


def launch(request: LaunchRequest) -> Launch:
    return Launch(
        (
            *(request.program, "-P", "-m", MODULE),
            *("--profile", request.profile, "--events", request.event_file),
            *request.args,
        )
    )


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    by_title = title_status(title or "")
    if by_title in (TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER):
        return by_title
    lines = ["", "", *screen_lines(screen)]
    if lines[-1].startswith(QUESTION):
        return TerminalStatus.WAITING_USER_ANSWER
    if lines[-1].startswith(PROMPT):
        lines.pop()
        if lines[-1][:2] in STATUS_OF_MARK:
            return STATUS_OF_MARK[lines[-1][:2]]
    drawing = lines[-1].startswith(DRAWING)
    return TerminalStatus.PROCESSING if drawing else TerminalStatus.UNKNOWN


def startup_dialog(screen: str) -> Dialog | None:
    lines = screen_lines(screen)
    if not lines or not lines[-1].startswith(QUESTION):
        return None
    headings = [line for line in lines[:-1] if line.startswith(QUESTION)]
    return STARTUP_DIALOGS.get(headings[-1]) if headings else None


def draft(ansi_screen: str) -> str | None:
    lines = screen_lines(without_dim(ansi_screen))
    if not lines or not lines[-1].startswith(PROMPT):
        return None
    return lines[-1].removeprefix(PROMPT).strip()


def read_signal(line: str) -> AgentSignal | None:
    """Read one line of the event file: `{"event": "Stop", "message": "…"}`."""
    fields = object_of(line)
    event, message = str(fields.get("event")), fields.get("message")
    kind = KIND_OF_EVENT.get(event)
    if kind is None:
        return None
    text = message if isinstance(message, str) else None
    if kind is SignalKind.ACTING:
        return AgentSignal(kind, event, action=action_line(text or "", {}))
    if kind is SignalKind.FINISHED:
        return AgentSignal(kind, event, answer=text)
    return AgentSignal(kind, f"{event}: {text}" if text else event)


def last_answer(scrollback: str) -> str:
    answer: list[str] = []
    for line in screen_lines(scrollback):
        if line.startswith(MESSAGE):
            answer = []
        elif line.startswith(CONTINUED) and answer:
            answer[-1] += line.removeprefix(CONTINUED)
        elif line.startswith(LINE):
            answer.append(line.removeprefix(LINE).removeprefix(" "))
    return "\n".join(answer)


PROVIDER = Provider(
    name="scripted",
    program="python",
    install_hint=(
        "the scripted agent is part of this package; only its Python interpreter is needed"
    ),
    exit_keys=("C-u", "C-d"),
    clear_keys=("C-u",),
    # It comes with this package: there is no other version of it.
    tested_versions=(),
    launch=launch,
    detect_status=detect_status,
    title_status=title_status,
    startup_dialog=startup_dialog,
    draft=draft,
    read_signal=read_signal,
    last_answer=last_answer,
)
