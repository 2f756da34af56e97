"""Q CLI: one of the agents that talk line by line; see `line_mode.py`."""

from ..core.models import TerminalStatus
from . import line_mode
from .base import AgentSignal, Dialog, Launch, LaunchRequest

name = "q_cli"
program = "q"
install_hint = "Q CLI has become Kiro CLI: see kiro.dev/cli, and use the provider kiro_cli."
exit_keys = line_mode.exit_keys
clear_keys = line_mode.clear_keys
completes = ""
guards: dict[str, str] = {}
marks_pastes = False
record_pattern = ""
# Its screens are known from public recordings.
tested_versions: tuple[tuple[int, ...], ...] = ()


def launch(request: LaunchRequest) -> Launch:
    """Return the command that starts a chat; its first message is the profile."""
    return Launch((request.program, "chat", *line_mode.chat_arguments(request)))


def detect_status(screen: str, title: str | None = None) -> TerminalStatus:
    """Return what the visible screen says; the title says nothing."""
    return line_mode.detect_status(screen)


def title_status(title: str) -> TerminalStatus | None:
    """Return None: no title is set."""
    return None


def startup_dialog(screen: str) -> Dialog | None:
    """Return None: no question comes before the first prompt."""
    return None


def draft(ansi_screen: str) -> str | None:
    """Return the unsent text at the prompt, None when no prompt can be seen."""
    return line_mode.draft(ansi_screen)


def read_signal(line: str) -> AgentSignal | None:
    """Return None: the agent tells nothing of its own accord."""
    return None


def last_answer(scrollback: str) -> str:
    """Return the agent's last answer as far as the scrollback shows it, else an empty text."""
    return line_mode.last_answer(scrollback)
