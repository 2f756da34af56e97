"""The live picture of terminals: what is told of them, and what is only remembered."""

from cli_agent_orchestrator.clock import SystemClock
from cli_agent_orchestrator.models import TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import Board, LiveTerminal
from cli_agent_orchestrator.terminals.store import TerminalRow
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
    assert live.told == (TerminalStatus.PROCESSING, True)
    assert live.answer is None


async def test_history_is_older_than_what_is_known_already() -> None:
    board, live = board_with_codex()
    board.signal(live, Source.STREAM, STARTED, at=10)
    for signal in (STARTED, COMPLETE):
        board.remember(live, Source.RECORD, signal, at=9)
    board.refresh(live)
    assert live.status is TerminalStatus.PROCESSING
