"""The live picture of terminals: what is told of them, and what is only remembered."""

import asyncio
from dataclasses import replace

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import Board, LiveTerminal, wait_for_change
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneInfo, PaneScreen
from cli_agent_orchestrator.terminals.tracker import SignalSource

STARTED = AgentSignal(SignalKind.WORKING, "task_started")
COMPLETE = AgentSignal(SignalKind.FINISHED, "task_complete", answer="Done.")


def board_with_codex() -> tuple[Board, LiveTerminal]:
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", "codex", "cao-s", "tester", "/", 1.0, ready=True)
    return board, board.add(row, get_provider("codex"))


async def test_history_is_not_told_but_how_it_ended_is() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE, STARTED):
        board.signal(live, SignalSource.RECORD, signal, at=5, old=True)
        assert live.status is TerminalStatus.UNKNOWN
    board.refresh(live)
    assert live.published == (TerminalStatus.PROCESSING, True, False)
    assert live.heard.answer is None


async def test_history_is_older_than_what_is_known_already() -> None:
    board, live = board_with_codex()
    board.signal(live, SignalSource.STREAM, STARTED, at=10)
    for signal in (STARTED, COMPLETE):
        board.signal(live, SignalSource.RECORD, signal, at=9, old=True)
    board.refresh(live)
    assert live.status is TerminalStatus.PROCESSING


async def test_an_answer_is_not_that_to_a_message_that_was_taken_after_it() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE):
        board.signal(live, SignalSource.RECORD, signal, at=5)
    board.submitted(live, "its input box is empty", at=6)
    assert live.heard.answer is None


async def test_an_answer_that_was_there_before_its_message_was_confirmed_stays() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE):
        board.signal(live, SignalSource.RECORD, signal, at=5)
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
    assert live.track.screen.found, "nobody knows since when"


def test_nobody_knows_when_what_was_told_before_the_server_began_unless_it_says_so() -> None:
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", "scripted", "cao-s", "tester", "/", 1.0, ready=True)
    live = board.add(row, get_provider("scripted"))
    for at, is_found in ((None, True), (7.0, False)):
        signal = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit", at=at)
        board.signal(live, SignalSource.HOOK, signal, 7.0, old=True)
        assert live.track.signal is not None
        assert live.track.signal.found is is_found


async def test_a_screen_of_an_agent_that_is_being_started_is_not_found() -> None:
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", "scripted", "cao-s", "tester", "/", 1.0)
    live = board.add(row, get_provider("scripted"))
    board.opened(live, PANE)
    board.screen_changed(PaneScreen("%1", "│ scripted ❯ │", "", in_mode=False))
    assert live.track.screen is not None
    assert not live.track.screen.found


async def test_an_agent_that_ended_while_no_server_looked_has_ended() -> None:
    """Its window is kept: without this look it would be as its last screen says for good."""
    board, live = board_with_codex()
    dead = replace(PANE, dead=True, exit_code=3)
    board.connected([dead], {"%1": PaneScreen("%1", QUESTION, "", in_mode=False)})
    assert (live.status, live.alive, live.exit_code) == (TerminalStatus.ERROR, False, 3)
    assert "the program ended with code 3" in live.verdict.reason


async def test_the_window_of_a_terminal_that_was_removed_tells_nothing_any_more() -> None:
    board, live = board_with_codex()
    board.opened(live, PANE)
    events = board.log.subscribe("1-0")
    board.remove(live)
    board.exited("%1", 0)
    row = replace(live.row, id="t2")
    other = board.add(row, get_provider("codex"))
    board.signal(other, SignalSource.RECORD, STARTED, at=5)
    async with asyncio.timeout(60):
        seen = [await anext(events), await anext(events)]
    await events.aclose()
    assert [(event.kind, event.terminal_id) for event in seen] == [
        ("removed", "t1"),
        ("status", "t2"),
    ]
    board.remove(other)


async def test_a_terminal_that_is_not_ready_yet_is_told_to_nobody() -> None:
    board, other = board_with_codex()
    row = replace(other.row, id="t2", ready=False)
    live = board.add(row, get_provider("codex"))
    events = board.log.subscribe("1-0")
    board.signal(live, SignalSource.RECORD, STARTED, at=5)
    assert live.status is TerminalStatus.PROCESSING
    board.remove(live)
    board.signal(other, SignalSource.RECORD, STARTED, at=6)
    board.remove(other)
    async with asyncio.timeout(60):
        seen = [await anext(events), await anext(events)]
    await events.aclose()
    assert [(event.kind, event.terminal_id) for event in seen] == [
        ("status", "t1"),
        ("removed", "t1"),
    ]


async def test_a_report_that_comes_in_two_pieces_is_heard() -> None:
    board, live = board_with_codex()
    board.opened(live, PANE)
    board.output("%1", b"text \x1b]7501;state=wor")
    board.output("%1", b"king:app=codex\x07")
    assert live.status is TerminalStatus.PROCESSING


async def test_a_window_that_a_terminal_had_before_tells_nothing_of_it_any_more() -> None:
    """A new tmux server may give its name to the window of another terminal."""
    board, live = board_with_codex()
    board.opened(live, PANE)
    board.connected([replace(PANE, pane="%2", window="@2")], {})
    board.screen_changed(PaneScreen("%1", QUESTION, "", in_mode=False))
    assert live.text == ""
    board.screen_changed(PaneScreen("%2", QUESTION, "", in_mode=False))
    assert live.text == QUESTION


async def test_an_agent_whose_window_is_gone_while_it_starts_has_ended() -> None:
    board, other = board_with_codex()
    live = board.add(replace(other.row, id="t2", ready=False), get_provider("codex"))
    board.opened(live, replace(PANE, tag="t2"))
    board.connected([], {})
    assert not live.alive
    assert live.verdict.reason == "its tmux window is gone"


async def test_who_is_not_ready_yet_is_given_to_nobody() -> None:
    board, other = board_with_codex()
    board.add(replace(other.row, id="t2", ready=False), get_provider("codex"))
    assert board.get("t1") is other
    with pytest.raises(NotFound, match="t1"):
        board.get("t2")


async def test_the_end_of_an_agent_that_was_in_error_already_is_told() -> None:
    board, live = board_with_codex()
    board.opened(live, PANE)
    board.signal(live, SignalSource.RECORD, AgentSignal(SignalKind.FAILED, "limit"), at=5)
    assert live.status is TerminalStatus.ERROR
    events = board.log.subscribe("1-1")
    board.exited("%1", 3)
    async with asyncio.timeout(60):
        told = await anext(events)
    await events.aclose()
    assert (told.alive, told.exit_code) == (False, 3)


async def test_what_is_asked_is_told_although_the_question_was_seen_before() -> None:
    board = Board(SystemClock(), start_id="1")
    row = TerminalRow("t1", "tester-1", "scripted", "cao-s", "tester", "/", 1.0, ready=True)
    live = board.add(row, get_provider("scripted"))
    board.opened(live, PANE)
    events = board.log.subscribe("1-0")
    board.screen_changed(PaneScreen("%1", "", "[ ! ] Action Required", in_mode=False))
    asks = AgentSignal(SignalKind.WAITING, "PermissionRequest: Go on?")
    for at in (board.now(), board.now() + 1):
        board.signal(live, SignalSource.HOOK, asks, at)
    board.remove(live)
    async with asyncio.timeout(60):
        seen = [await anext(events) for _ in range(3)]
    await events.aclose()
    assert [(event.kind, event.reason) for event in seen] == [
        ("status", "screen: looks waiting user answer"),
        ("status", "hook: PermissionRequest: Go on?"),
        ("removed", "hook: PermissionRequest: Go on?"),
    ]


async def test_a_session_that_was_cleared_has_no_answer() -> None:
    board, live = board_with_codex()
    for signal in (STARTED, COMPLETE, AgentSignal(SignalKind.CLEARED, "/clear")):
        board.signal(live, SignalSource.RECORD, signal, at=5)
    assert live.heard.answer is None


async def test_a_terminal_that_was_removed_is_not_judged_any_more() -> None:
    board, live = board_with_codex()
    board.opened(live, PANE)
    for text in (QUESTION, "a frame that is half drawn"):
        board.screen_changed(PaneScreen("%1", text, "", in_mode=False))
    assert live.decay is not None
    board.remove(live)
    assert live.decay.cancelled()


async def test_who_is_given_up_in_the_moment_of_a_change_does_not_go_on() -> None:
    _, live = board_with_codex()
    waiting = asyncio.create_task(wait_for_change(live.changed, 600))
    await asyncio.sleep(0)
    live.notify()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_has_waited_long_enough_does_not_look_given_up() -> None:
    _, live = board_with_codex()
    waiting = asyncio.create_task(wait_for_change(live.changed, 0))
    while not waiting.done():
        assert not waiting.cancelling()
        await asyncio.sleep(0)


def acts(what: str) -> AgentSignal:
    return AgentSignal(SignalKind.ACTING, "PreToolUse", action=what)


async def test_what_an_agent_does_is_told_when_it_changes_and_not_too_often() -> None:
    board, live = board_with_codex()
    events = board.log.subscribe("1-0")
    board.signal(live, SignalSource.HOOK, STARTED, at=5)
    for what in ("read", "read", "edit", "test"):
        board.signal(live, SignalSource.HOOK, acts(what), at=6)
    assert live.public().action == "test"
    async with asyncio.timeout(60):
        seen = [await anext(events) for _ in range(3)]
    await events.aclose()
    assert [(event.kind, event.action) for event in seen] == [
        ("status", ""),
        ("action", "read"),
        ("action", "test"),
    ]
    board.remove(live)


async def test_what_an_agent_does_leaves_its_status_alone() -> None:
    board, live = board_with_codex()
    waits = AgentSignal(SignalKind.WAITING, "PermissionRequest", agent="")
    for signal in (STARTED, waits, acts("read")):
        board.signal(live, SignalSource.HOOK, signal, at=5)
    assert live.status is TerminalStatus.WAITING_USER_ANSWER
    board.remove(live)
