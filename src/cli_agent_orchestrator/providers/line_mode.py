"""Agents that talk line by line, like a shell: Kiro CLI in its classic interface, and Q CLI.

    [builder] 16% > Fix the failing test         the prompt, and what was typed at it
                                                 a spinner until the answer comes
    > The test passes now.                       the answer begins with a green mark
    [builder] 17% >                              at rest: the prompt is the last line

Nothing marks work but the missing prompt, so a sign of an answer is asked for as well. What has
neither is unknown: a text that fills the screen may be an answer that goes on, or a long draft.
The two agents are one program under two names; what differs is in their own modules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.models import TerminalStatus
from .base import LaunchRequest, Permissions
from .screen import find, find_all, screen_lines, tail

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

# Ctrl-D quits at an empty prompt; some versions want it twice.
exit_keys: tuple[str, ...] = ("C-u", "C-d", "C-d")
CLEARED_LINES = 32
# Each pair takes a line and the line end before it.
clear_keys: tuple[str, ...] = ("C-u", "BSpace") * CLEARED_LINES


@dataclass(frozen=True, slots=True)
class Screen:
    """What can be seen of an agent that talks line by line."""

    asks: bool
    """A permission is asked for, and nothing was answered yet."""
    ready: bool
    """A prompt is the last line."""
    working: bool
    failed: bool
    replied: bool

    @classmethod
    def read(cls, text: str) -> "Screen":
        lines = _lines(text)
        prompt = prompt_row(lines)
        ready = prompt is not None and prompt == len(lines) - 1
        turn = below_prompt(lines[:-1] if ready else lines)
        return cls(
            asks=bool(find(PERMISSION_PATTERN, "".join(tail(turn, 1)))),
            ready=ready,
            working=not ready and is_working(lines, turn),
            failed=has_failed(turn),
            replied=shows(turn, ANSWER_PATTERN, END_PATTERN),
        )


def detect_status(screen: str) -> TerminalStatus:
    """Return what the visible screen says."""
    seen = Screen.read(screen)
    if seen.asks:
        return TerminalStatus.WAITING_USER_ANSWER
    if seen.working:
        return TerminalStatus.PROCESSING
    if not seen.ready:
        return TerminalStatus.UNKNOWN
    if seen.failed:
        return TerminalStatus.ERROR
    return TerminalStatus.COMPLETED if seen.replied else TerminalStatus.IDLE


def prompt_row(lines: Sequence[str]) -> int | None:
    """Return the row of the last prompt; a bare one counts only as the very last line."""
    if lines and find(BARE_PROMPT_PATTERN, lines[-1]):
        return len(lines) - 1
    rows = range(len(lines) - 1, -1, -1)
    return next((row for row in rows if find(NAMED_PROMPT_PATTERN, lines[row])), None)


def below_prompt(lines: Sequence[str]) -> list[str]:
    """Return what stands below the last prompt that something was typed at, or all of it."""
    row = prompt_row(lines)
    return list(lines if row is None else lines[row + 1 :])


def is_working(lines: Sequence[str], turn: Sequence[str]) -> bool:
    """Is there a sign of an answer that has not ended?

    Without a named prompt on the screen, `> text` in the last line may be a draft.
    """
    maybe_draft = len(turn) == len(lines) and shows(lines[-1:], ANSWER_PATTERN)
    return not maybe_draft and shows(turn, ANSWER_PATTERN, SPINNER_PATTERN, TOOL_PATTERN)


def has_failed(turn: Sequence[str]) -> bool:
    """Is an error the last word of the turn, with nothing but its details below it?"""
    said = [line for line in turn if line[:1].strip()]
    return bool(said) and bool(find(FAILED_PATTERN, said[-1]))


def shows(lines: Sequence[str], *patterns: str) -> bool:
    """Has one of the lines one of these forms?"""
    return any(find(pattern, line) for line in lines for pattern in patterns)


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text at the prompt, None when no prompt can be seen.

    A text that fills the screen without any sign of an answer is a draft, too: its prompt has
    left the screen.
    """
    lines = _lines(ansi_screen)
    raw = ansi_screen.replace("\r\n", "\n").split("\n")[: len(lines)]
    row = _draft_row(lines, raw)
    start = row + 1 if row is not None else 0
    answered = shows(raw[start:], GREEN_MARK_PATTERN)
    if not lines or answered or shows(lines[start:], SPINNER_PATTERN, TOOL_PATTERN):
        return None
    if row is None:
        return "\n".join(lines).strip()
    mark = find(NAMED_PROMPT_PATTERN, lines[row]) or find(r"^!?>", lines[row])
    first = lines[row][mark.end() :] if mark else ""
    return "\n".join([first, *lines[start:]]).strip()


def _draft_row(lines: Sequence[str], raw: Sequence[str]) -> int | None:
    """Return the row of the prompt; a plain one may have a text if its mark is not green."""
    row = prompt_row(lines)
    if row is None and shows(lines[-1:], r"^!?> ") and not shows(raw[-1:], GREEN_MARK_PATTERN):
        return len(lines) - 1
    return row


def last_answer(scrollback: str) -> str:
    """Return what follows the last mark of an answer, up to the prompt below it."""
    lines = _lines(scrollback)
    ready = prompt_row(lines) == len(lines) - 1
    text = "\n".join(below_prompt(lines[:-1] if ready else lines))
    marks = [mark.start() for mark in find_all(ANSWER_PATTERN, text)]
    if not marks:
        return ""
    answer = text[marks[-1] + 2 :]
    ends = [
        end.start() for pattern in (END_PATTERN, TOOL_PATTERN) if (end := find(pattern, answer))
    ]
    return answer[: min(ends, default=len(answer))].strip()


PERMISSION_FLAGS: dict[Permissions, tuple[str, ...]] = {
    # There is no sandbox: what these tools do is not held within the folder.
    Permissions.WORKSPACE: ("--trust-tools=fs_read,fs_write,execute_bash",),
    Permissions.FULL: ("--trust-all-tools",),
    Permissions.ASK: (),
}


def chat_arguments(request: LaunchRequest) -> tuple[str, ...]:
    """Return the options of a chat, with the profile as the first message of the conversation.

    No option carries a profile: agents are files in the user's or the project's own folder, and
    neither is ours to write into. So the first turn is spent on it.
    """
    options = (*PERMISSION_FLAGS[request.permissions], *request.args)
    profile = request.profile.prompt.strip()
    if not profile:
        return options
    wait = "Do nothing yet. Answer with the word READY and wait for the first task."
    return (*options, "--", f"{profile}\n\n{wait}")


def _lines(screen: str) -> list[str]:
    """Return the lines of a screen without blanks at their ends; the last one is not empty."""
    return [line.rstrip() for line in screen_lines(screen)]
