"""Kiro CLI, and Q CLI: one program under two names, which talks line by line like a shell.

    [builder] 16% > Fix the failing test         the prompt, and what was typed at it
                                                 a spinner until the answer comes
    > The test passes now.                       the answer begins with a green mark
    [builder] 17% >                              at rest: the prompt is the last line

Nothing marks work but the missing prompt, so a sign of an answer is asked for as well. What has
neither is unknown: a text that fills the screen may be an answer that goes on, or a long draft.

That is its classic interface, in which it is started. The newer one, the default since 2.0, is read
as well, as far as it is known:

    Kiro is working · Type to queue              while it works
    ask a question or describe a task            in the input box at rest, and at times during work
    ▸ Credits: 0.24 • Time: 3s                   below an answer
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ..core.models import TerminalStatus
from .base import Dialog, Launch, LaunchRequest, Permissions, Provider, status_of
from .screen import find, find_all, screen_lines, tail

NEAR_THE_BOX = 8
DIALOG_LINES = 20

# [builder] 16% λ !> draft        1% > draft
NAMED_PROMPT_PATTERN = r"^(?:\[[^\]\s][^\]]*\] ?(?:\d+% ?)?|\d+% ?)(?:λ ?)?!?>(?: |$)"
# >        !>        known only while it is empty: an answer begins like it
BARE_PROMPT_PATTERN = r"^!?>$"
# > The test passes now.
ANSWER_PATTERN = r"^> \S"
# ESC[38;5;10m> ESC[39mThe test passes now.
GREEN_MARK_PATTERN = r"^(?:\x1b\[[\d;]*m)*\x1b\[(?:\d+;)*(?:32|92|38;5;10|38;5;2)m>"
# ⠋ Thinking...
SPINNER_PATTERN = r"^[⠁-⣿] \S"
# 🛠️  Using tool: execute_bash (trusted)        Reading file: a.py (using tool: read)
TOOL_PATTERN = r"^\S.*\b[Uu]sing tool: \w"
# ▸ Credits: 0.24 • Time: 3s
END_PATTERN = r"^\s*▸ Credits: .*\bTime: "
# Allow this action? Use 't' to trust (always allow) this tool for the session. [y/n/t]:
PERMISSION_PATTERN = r"^Allow this action\?.*\[y/n/t\]:$"
# Kiro is having trouble responding right now:
FAILED_PATTERN = r"^(?:Kiro|Amazon Q) is having trouble responding right now\b"

# ⠹ Kiro is working · Type to queue
BUSY_PATTERN = r"^\W*Kiro is working\s*(?:[·•…]|$)"
# │ ask a question or describe a task        and no line of the banner: 1. Ask a question …
PLACEHOLDER_PATTERN = r"^[^\w\n]*(?i:ask a question or describe a task)\b"
# Yes, single permission        Trust, always allow in this session
APPROVAL_PATTERN = r"^\W*(?:Yes, single permission|Trust, always allow)\b"
# ❯ No, exit
TRUST_ALL_PATTERN = r"^\W*No, exit$"
TRUST_ALL_TEXT_PATTERN = r"^\W*Kiro is running in trust all tools mode\b"


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    lines = screen_lines(screen)
    last = tail(lines, NEAR_THE_BOX)
    if shows(last, APPROVAL_PATTERN) or asks_to_trust_all(lines):
        return TerminalStatus.WAITING_USER_ANSWER
    if shows(last, BUSY_PATTERN):
        return TerminalStatus.PROCESSING
    if shows(last, PLACEHOLDER_PATTERN):
        replied = shows(lines, END_PATTERN)
        return TerminalStatus.COMPLETED if replied else TerminalStatus.IDLE
    # The classic interface.
    ready, turn = _last_turn(lines)
    # Without a named prompt on the screen, `> text` in the last line may be a draft.
    maybe_draft = len(turn) == len(lines) and shows(lines[-1:], ANSWER_PATTERN)
    goes_on = shows(turn, ANSWER_PATTERN, SPINNER_PATTERN, TOOL_PATTERN)
    said = [line for line in turn if line[:1].strip()]
    return status_of(
        # A permission is asked for, and nothing was answered yet.
        asks=shows(tail(turn, 1), PERMISSION_PATTERN),
        ready=ready,
        working=goes_on and not ready and not maybe_draft,
        # Nothing but its details stands below an error.
        failed=shows(said[-1:], FAILED_PATTERN),
        replied=shows(turn, ANSWER_PATTERN, END_PATTERN),
    )


def asks_to_trust_all(lines: Sequence[str]) -> bool:
    end = tail(lines, DIALOG_LINES)
    return shows(end, TRUST_ALL_TEXT_PATTERN) and shows(end, TRUST_ALL_PATTERN)


def startup_dialog(screen: str) -> Dialog | None:
    if not asks_to_trust_all(screen_lines(screen)):
        return None
    return Dialog(
        "trust all tools",
        "run `kiro-cli chat --trust-all-tools` once and accept for good, "
        "or use AGENT_PERMISSIONS=workspace",
    )


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text at the prompt, None when no prompt can be seen.

    A text that fills the screen without any sign of an answer is a draft, too: its prompt has left
    the screen.
    """
    lines = screen_lines(ansi_screen)
    if shows(tail(lines, NEAR_THE_BOX), PLACEHOLDER_PATTERN):
        return ""
    raw = ansi_screen.replace("\r\n", "\n").split("\n")[: len(lines)]
    row = _prompt_row(lines)
    if row is None and shows(lines[-1:], r"^!?> ") and not shows(raw[-1:], GREEN_MARK_PATTERN):
        # A plain prompt may have a text if its mark is not green.
        row = len(lines) - 1
    start = row + 1 if row is not None else 0
    answered = shows(raw[start:], GREEN_MARK_PATTERN)
    if not lines or answered or shows(lines[start:], SPINNER_PATTERN, TOOL_PATTERN):
        return None
    if row is None:
        return "\n".join(lines).strip()
    mark = find(NAMED_PROMPT_PATTERN, lines[row]) or find(r"^!?>", lines[row])
    first = lines[row][mark.end() :] if mark else ""
    return "\n".join([first, *lines[start:]]).strip()


def last_answer(scrollback: str) -> str:
    _, turn = _last_turn(screen_lines(scrollback))
    text = "\n".join(turn)
    marks = [mark.start() for mark in find_all(ANSWER_PATTERN, text)]
    if not marks:
        return ""
    answer = text[marks[-1] + 2 :]
    ends = (find(END_PATTERN, answer), find(TOOL_PATTERN, answer))
    return answer[: min((end.start() for end in ends if end), default=len(answer))].strip()


def shows(lines: Sequence[str], *patterns: str) -> bool:
    return any(find(pattern, line) for line in lines for pattern in patterns)


def _last_turn(lines: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether a prompt is the last line, and the lines below the prompt before it."""
    ready = bool(lines) and _prompt_row(lines) == len(lines) - 1
    above = lines[:-1] if ready else lines
    row = _prompt_row(above)
    return ready, list(above if row is None else above[row + 1 :])


def _prompt_row(lines: Sequence[str]) -> int | None:
    """Return the row of the last prompt; a bare one counts only as the very last line."""
    if lines and find(BARE_PROMPT_PATTERN, lines[-1]):
        return len(lines) - 1
    rows = range(len(lines) - 1, -1, -1)
    return next((row for row in rows if find(NAMED_PROMPT_PATTERN, lines[row])), None)


PERMISSION_FLAGS: dict[Permissions, tuple[str, ...]] = {
    # There is no sandbox: what these tools do is not held within the folder.
    Permissions.WORKSPACE: ("--trust-tools=fs_read,fs_write,execute_bash",),
    Permissions.FULL: ("--trust-all-tools",),
    Permissions.ASK: (),
}
WAIT = "Do nothing yet. Answer with the word READY and wait for the first task."


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts a chat, with the profile as the first message.

    No option carries a profile: agents are files in the user's or the project's own folder, and
    neither is ours to write into. So the first turn is spent on it.
    """
    classic = ("--legacy-ui",) if request.version >= (2,) else ()
    flags = PERMISSION_FLAGS[request.permissions]
    profile = request.prompt.strip()
    message = ("--", f"{profile}\n\n{WAIT}") if profile else ()
    return Launch((request.program, "chat", *classic, *flags, *request.args, *message))


PROVIDER = Provider(
    name="kiro_cli",
    program="kiro-cli",
    install_hint="See kiro.dev/cli for how to install it, then log in once with `kiro-cli login`.",
    # Ctrl-D quits at an empty prompt; some versions want it twice.
    exit_keys=("C-u", "C-d", "C-d"),
    # Each pair takes a line and the line end before it.
    clear_keys=("C-u", "BSpace") * 32,
    # Its screens are known from public recordings.
    tested_versions=(),
    launch=launch,
    detect_status=detect_status,
    startup_dialog=startup_dialog,
    draft=draft,
    last_answer=last_answer,
)
Q_CLI = replace(
    PROVIDER,
    name="q_cli",
    program="q",
    install_hint="Q CLI has become Kiro CLI: see kiro.dev/cli, and use the provider kiro_cli.",
)
