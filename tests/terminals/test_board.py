"""The live picture of terminals: what is told of them, and what is only remembered."""

import asyncio
from dataclasses import replace

import pytest

from cli_agent_orchestrator.clock import SystemClock
from cli_agent_orchestrator.models import TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import Board
from cli_agent_orchestrator.terminals.live_terminal import LiveTerminal
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneInfo, PaneScreen
from cli_agent_orchestrator.terminals.tracker import Source

STARTED = AgentSignal(SignalKind.WORKING, "task_started")
COMPLETE = AgentSignal(SignalKind.FINISHED, "task_complete", answer="Done.")


def board_with_codex() -> tuple[Board, LiveTerminal]:
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", "codex", "cao-s", "tester", "/", 1.0, ready=True)
    return board, board.add(row, get_provider("codex"))


async def test_history_is_not_told_but_how_it_ended_is() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE, STARTED):
        board.remember(live, Source.RECORD, signal, at=5)
        assert live.status is TerminalStatus.UNKNOWN
    board.refresh(live)
    assert live.upkeep.published == (TerminalStatus.PROCESSING, True)
    assert live.heard.answer is None


async def test_history_is_older_than_what_is_known_already() -> None:
    board, live = board_with_codex()
    board.signal(live, Source.STREAM, STARTED, at=10)
    for signal in (STARTED, COMPLETE):
        board.remember(live, Source.RECORD, signal, at=9)
    board.refresh(live)
    assert live.status is TerminalStatus.PROCESSING


async def test_an_answer_is_not_that_to_a_message_that_was_taken_after_it() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE):
        board.signal(live, Source.RECORD, signal, at=5)
    board.submitted(live, "its input box is empty", at=6)
    assert live.heard.answer is None


async def test_an_answer_that_was_there_before_its_message_was_confirmed_stays() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE):
        board.signal(live, Source.RECORD, signal, at=5)
    board.submitted(live, "its record tells of it", at=5)
    assert live.heard.answer == "Done."


PANE = PaneInfo("%1", "@1", "cao-s", "tester-1", "t1", pid=7, dead=False, exit_code=None)
QUESTION = """
  Would you like to run the following command?

› 1. Yes, proceed (y)
  2. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel
"""


@pytest.mark.parametrize("provider", ["codex", "scripted"])
async def test_a_screen_that_was_there_before_the_server_is_read_when_it_connects(
    provider: str,
) -> None:
    """An agent at rest writes nothing more: without this look it would be unknown for good."""
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", provider, "cao-s", "tester", "/", 1.0, ready=True)
    live = board.add(row, get_provider(provider))
    text = QUESTION if provider == "codex" else "│ scripted ❯ │"
    board.connected([PANE], {"%1": PaneScreen("%1", text, "", in_mode=False)})
    assert live.text == text
    assert live.track.screen is not None
    assert live.status is live.track.screen.status is not TerminalStatus.UNKNOWN
    assert live.alive


async def test_a_terminal_that_is_not_ready_yet_is_told_to_nobody() -> None:
    board, other = board_with_codex()
    row = replace(other.row, id="t2", ready=False)
    live = board.add(row, get_provider("codex"))
    events = board.log.subscribe("1-0")
    board.signal(live, Source.RECORD, STARTED, at=5)
    assert live.status is TerminalStatus.PROCESSING
    board.remove(live)
    board.signal(other, Source.RECORD, STARTED, at=6)
    board.remove(other)
    async with asyncio.timeout(60):
        seen = [await anext(events), await anext(events)]
    await events.aclose()
    assert [(event.kind, event.terminal_id) for event in seen] == [
        ("status", "t1"),
        ("removed", "t1"),
    ]
