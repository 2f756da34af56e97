"""Kiro CLI: started in its classic interface, where it talks line by line (see `line_mode.py`).

The newer interface, the default since 2.0, is read as well, as far as it is known:

    Kiro is working · Type to queue              while it works
    ask a question or describe a task            in the input box at rest, and at times during work
    ▸ Credits: 0.24 • Time: 3s                   below an answer
"""

from collections.abc import Sequence

from ..core.models import TerminalStatus
from . import line_mode
from .base import AgentSignal, Dialog, Launch, LaunchRequest
from .line_mode import END_PATTERN, shows
from .screen import screen_lines, tail

name = "kiro_cli"
program = "kiro-cli"
install_hint = "See kiro.dev/cli for how to install it, then log in once with `kiro-cli login`."
exit_keys = line_mode.exit_keys
clear_keys = line_mode.clear_keys
completes = ""
guards: dict[str, str] = {}
marks_pastes = False
record_pattern = ""
# Its screens are known from public recordings.
tested_versions: tuple[tuple[int, ...], ...] = ()

CLASSIC_SINCE = (2,)
"""The version that made the newer interface the default."""
NEAR_THE_BOX = 8
"""How many of the last lines may belong to the input box and its surroundings."""
DIALOG_LINES = 20
"""How many of the last lines may belong to the warning about trusting all tools."""

# ⠹ Kiro is working · Type to queue
BUSY_PATTERN = r"^\W*Kiro is working\s*(?:[·•…]|$)"
# │ ask a question or describe a task        and no line of the banner: 1. Ask a question …
PLACEHOLDER_PATTERN = r"^[^\w\n]*(?i:ask a question or describe a task)\b"
# Yes, single permission        Trust, always allow in this session
APPROVAL_PATTERN = r"^\W*(?:Yes, single permission|Trust, always allow)\b"
# ❯ No, exit
TRUST_ALL_PATTERN = r"^\W*No, exit$"
TRUST_ALL_TEXT_PATTERN = r"^\W*Kiro is running in trust all tools mode\b"

TRUST_ALL_DIALOG = Dialog(
    "trust all tools",
    (),
    "run `kiro-cli chat --trust-all-tools` once and accept for good, "
    "or use AGENT_PERMISSIONS=workspace",
)


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts a chat; its first message is the profile."""
    classic = ("--legacy-ui",) if request.version >= CLASSIC_SINCE else ()
    return Launch((request.program, "chat", *classic, *line_mode.chat_arguments(request)))


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    """Return what the visible screen says; the title says nothing."""
    lines = screen_lines(screen)
    last = tail(lines, NEAR_THE_BOX)
    if shows(last, APPROVAL_PATTERN) or _asks_to_trust_all(lines):
        return TerminalStatus.WAITING_USER_ANSWER
    if shows(last, BUSY_PATTERN):
        return TerminalStatus.PROCESSING
    if shows(last, PLACEHOLDER_PATTERN):
        replied = shows(lines, END_PATTERN)
        return TerminalStatus.COMPLETED if replied else TerminalStatus.IDLE
    return line_mode.detect_status(screen)


def title_status(title: str) -> TerminalStatus | None:
    """Return None: no title is set."""
    return None


def startup_dialog(screen: str) -> Dialog | None:
    """Return the warning about trusting all tools; what is marked in it is to quit."""
    return TRUST_ALL_DIALOG if _asks_to_trust_all(screen_lines(screen)) else None


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text at the prompt, None when no prompt can be seen."""
    if shows(tail(screen_lines(ansi_screen), NEAR_THE_BOX), PLACEHOLDER_PATTERN):
        return ""
    return line_mode.draft(ansi_screen)


def read_signal(line: str) -> AgentSignal | None:
    """Return None: the agent tells nothing of its own accord."""
    return None


def last_answer(scrollback: str) -> str:
    """Return the agent's last answer as far as the scrollback shows it, else an empty text."""
    return line_mode.last_answer(scrollback)


def _asks_to_trust_all(lines: Sequence[str]) -> bool:
    end = tail(lines, DIALOG_LINES)
    return shows(end, TRUST_ALL_TEXT_PATTERN) and shows(end, TRUST_ALL_PATTERN)
