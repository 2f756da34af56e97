"""What the tests of all agents share: statuses by short names, captures, a request."""

from pathlib import Path
from typing import Any

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import (
    AgentSignal,
    LaunchRequest,
    Permissions,
    SignalKind,
)
from cli_agent_orchestrator.settings.table import AGENTS

PROVIDERS = {name: get_provider(name) for name in AGENTS}

IDLE = TerminalStatus.IDLE
PROCESSING = TerminalStatus.PROCESSING
COMPLETED = TerminalStatus.COMPLETED
WAITING = TerminalStatus.WAITING_USER_ANSWER
ERROR = TerminalStatus.ERROR
UNKNOWN = TerminalStatus.UNKNOWN

SCREENS = Path(__file__).parent / "screens"


def capture(name: str) -> str:
    """Return a captured screen: `codex/idle/0.125.0-idle_fresh.txt`."""
    return (SCREENS / name).read_text(encoding="utf-8")


def signal(kind: str, detail: str, **more: Any) -> AgentSignal:  # what a signal has
    return AgentSignal(SignalKind(kind), detail, **more)


def launch_request(
    program: str,
    permissions: Permissions = Permissions.FULL,
    *args: str,
    version: tuple[int, ...] = (),
    prompt: str = "Test it.",
    folder: str = "/work",
) -> LaunchRequest:
    events = "/state/x.jsonl"
    return LaunchRequest(program, version, args, folder, "tester", prompt, permissions, events)
