"""Terminals that are none, for tests without tmux."""

from typing import Any

from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.board import LiveTerminal
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneInfo, PaneScreen

PANE = PaneInfo("%1", "@1", "cao-s", "tester-1", "t1", pid=7, dead=False, exit_code=None)


def row(provider: str = "scripted", **more: Any) -> TerminalRow:  # other fields of a row
    usual = {"id": "t1", "session_name": "cao-s", "created_at": 1.0, "ready": True}
    fields = {**usual, "agent_profile": "tester", "working_directory": "/", **more}
    return TerminalRow(name="tester-1", provider=provider, **fields)


def live_terminal(provider: str = "scripted", pane: str | None = "%1") -> LiveTerminal:
    return LiveTerminal(row(provider), get_provider(provider), last_active=1.0, pane=pane)


def screen(text: str, title: str = "", pane: str = "%1") -> PaneScreen:
    return PaneScreen(pane, text, title, in_mode=False)
