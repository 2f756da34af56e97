"""The live picture of terminals: what is told of them, and what is only remembered."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.providers.base import AgentSignal, SignalKind
from cli_agent_orchestrator.terminals.board import (
    KEPT_EVENTS,
    Board,
    EventFeed,
    LiveTerminal,
    wait_for_change,
)
from cli_agent_orchestrator.terminals.sending import BoxMemory
from cli_agent_orchestrator.terminals.tracker import SignalSource
from tests.providers.samples import capture
from tests.terminals.samples import PANE, row, screen

STARTED = AgentSignal(SignalKind.WORKING, "task_started")
COMPLETE = AgentSignal(SignalKind.FINISHED, "task_complete", answer="Done.")


def board_with(provider: str = "codex", ready: bool = True) -> tuple[Board, LiveTerminal]:
    board = Board(SystemClock(), start_id="1")
    return board, board.add(row(provider, ready=ready), get_provider(provider))


async def take(events: AsyncGenerator[TerminalEvent, None], count: int) -> list[TerminalEvent]:
    async with asyncio.timeout(60), aclosing(events):
        return [await anext(events) for _ in range(count)]


async def test_history_is_not_told_but_how_it_ended_is() -> None:
    board, live = board_with()
    for signal in (STARTED, COMPLETE, STARTED):
        board.signal(live, SignalSource.RECORD, signal, at=5, old=True)
        assert live.status is TerminalStatus.UNKNOWN
    board.refresh(live)
    assert live.published == (TerminalStatus.PROCESSING, True, False, "")
    assert live.answer is None


@pytest.mark.parametrize(
    ("told", "confirmed_at", "answer"),
    [
        ((STARTED, COMPLETE), 6, None),
        # It was there before its message was confirmed.
        ((STARTED, COMPLETE), 5, "Done."),
        ((STARTED, COMPLETE, AgentSignal(SignalKind.CLEARED, "/clear")), None, None),
    ],
)
async def test_an_answer_is_that_to_the_last_message_of_this_conversation(
    told: tuple[AgentSignal, ...], confirmed_at: float | None, answer: str | None
) -> None:
    board, live = board_with()
    for signal in told:
        board.signal(live, SignalSource.RECORD, signal, at=5)
    if confirmed_at is not None:
        board.submitted(live, "its input box is empty", at=confirmed_at)
    assert live.answer == answer


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
    board, live = board_with(provider)
    text = QUESTION if provider == "codex" else "│ scripted ❯ │"
    board.connected([PANE], {"%1": screen(text)})
    assert live.text == text
    assert live.track.screen is not None
    assert live.status is live.track.screen.status is not TerminalStatus.UNKNOWN
    assert live.alive
    assert live.track.screen.found, "nobody knows since when"


async def test_rest_counts_from_before_the_server_was_there() -> None:
    board, live = board_with()
    live.remember(BoxMemory(by_rest=True))
    pane = replace(PANE, wrote_at=board.now() - 9)
    board.connected([pane], {"%1": screen("nothing that is known")})
    assert live.status is TerminalStatus.IDLE


async def test_only_what_was_there_before_the_server_and_has_no_time_is_found() -> None:
    board, live = board_with("scripted", ready=False)
    board.opened(live, PANE)
    board.screen_changed(screen("│ scripted ❯ │"))
    assert live.track.screen is not None
    assert not live.track.screen.found, "it is being started"
    for at, is_found in ((None, True), (7.0, False)):
        signal = AgentSignal(SignalKind.SUBMITTED, "UserPromptSubmit", at=at)
        board.signal(live, SignalSource.HOOK, signal, 7.0, old=True)
        assert live.track.signal is not None
        assert live.track.signal.found is is_found


async def test_an_agent_that_ended_while_no_server_looked_has_ended() -> None:
    """Its window is kept: without this look it would be as its last screen says for good."""
    board, live = board_with()
    dead = replace(PANE, dead=True, exit_code=3)
    board.connected([dead], {"%1": screen(QUESTION)})
    assert (live.status, live.alive, live.exit_code) == (TerminalStatus.ERROR, False, 3)
    assert "the program ended with code 3" in live.verdict.reason


async def test_the_window_of_a_terminal_that_was_removed_tells_nothing_any_more() -> None:
    board, live = board_with()
    board.opened(live, PANE)
    for text in (QUESTION, "a frame that is half drawn"):
        board.screen_changed(screen(text))
    assert live.decay is not None
    events = board.log.subscribe("1-1")
    board.remove(live)
    assert live.decay.cancelled()
    board.exited("%1", 0)
    other = board.add(replace(live.row, id="t2"), get_provider("codex"))
    board.signal(other, SignalSource.RECORD, STARTED, at=5)
    seen = await take(events, 2)
    assert [(event.kind, event.terminal_id) for event in seen] == [
        ("removed", "t1"),
        ("status", "t2"),
    ]
    board.remove(other)


async def test_a_terminal_that_is_not_ready_yet_is_told_and_given_to_nobody() -> None:
    board, other = board_with()
    live = board.add(replace(other.row, id="t2", ready=False), get_provider("codex"))
    assert board.get("t1") is other
    with pytest.raises(NotFound, match="t1"):
        board.get("t2")
    events = board.log.subscribe("1-0")
    board.signal(live, SignalSource.RECORD, STARTED, at=5)
    assert live.status is TerminalStatus.PROCESSING
    board.remove(live)
    board.signal(other, SignalSource.RECORD, STARTED, at=6)
    board.remove(other)
    seen = await take(events, 2)
    assert [(event.kind, event.terminal_id) for event in seen] == [
        ("status", "t1"),
        ("removed", "t1"),
    ]


async def test_a_report_that_comes_in_two_pieces_is_heard() -> None:
    board, live = board_with()
    board.opened(live, PANE)
    board.output("%1", b"text \x1b]7501;state=wor")
    board.output("%1", b"king:app=codex\x07")
    assert live.status is TerminalStatus.PROCESSING


async def test_an_agent_is_where_a_new_tmux_server_has_its_window_or_has_ended() -> None:
    """The new server may give the name of its window to that of another terminal."""
    board, live = board_with(ready=False)
    board.opened(live, PANE)
    board.connected([replace(PANE, pane="%2", window="@2")], {})
    board.screen_changed(screen(QUESTION))
    assert live.text == ""
    board.screen_changed(screen(QUESTION, pane="%2"))
    assert live.text == QUESTION
    board.connected([], {})
    assert not live.alive
    assert live.verdict.reason == "its tmux window is gone"


async def test_the_end_of_an_agent_that_was_in_error_already_is_told() -> None:
    board, live = board_with()
    board.opened(live, PANE)
    board.signal(live, SignalSource.RECORD, AgentSignal(SignalKind.FAILED, "limit"), at=5)
    assert live.status is TerminalStatus.ERROR
    events = board.log.subscribe("1-1")
    board.exited("%1", 3)
    [told] = await take(events, 1)
    assert (told.alive, told.exit_code) == (False, 3)


async def test_it_is_told_when_an_agent_goes_on_by_itself_after_a_limit() -> None:
    board, live = board_with("claude_code")
    board.opened(live, PANE)
    events = board.log.subscribe("1-0")
    limit = AgentSignal(SignalKind.FAILED, "StopFailure: limit", revocable=True)
    board.signal(live, SignalSource.HOOK, limit, board.now())
    shown = capture("claude_code/processing/2.1.326-limit_continues.txt")
    board.screen_changed(screen(shown))
    assert live.public().wakes == "12:30pm"
    board.screen_changed(screen(shown.replace("Continuing", "Stopped continuing")))
    assert live.public().wakes == ""
    board.remove(live)
    seen = await take(events, 3)
    assert [event.wakes for event in seen] == ["", "12:30pm", ""]
    assert {event.status for event in seen} == {TerminalStatus.PROCESSING}


async def test_what_is_asked_is_told_although_the_question_was_seen_before() -> None:
    board, live = board_with("scripted")
    board.opened(live, PANE)
    events = board.log.subscribe("1-0")
    board.screen_changed(screen("", "[ ! ] Action Required"))
    asks = AgentSignal(SignalKind.WAITING, "PermissionRequest: Go on?")
    for at in (board.now(), board.now() + 1):
        board.signal(live, SignalSource.HOOK, asks, at)
    board.remove(live)
    seen = await take(events, 3)
    assert [(event.kind, event.reason) for event in seen] == [
        ("status", "screen: looks waiting user answer"),
        ("status", "hook: PermissionRequest: Go on?"),
        ("removed", "hook: PermissionRequest: Go on?"),
    ]


async def test_who_is_given_up_in_the_moment_of_a_change_does_not_go_on() -> None:
    _, live = board_with()
    waiting = asyncio.create_task(wait_for_change(live.changed, 600))
    await asyncio.sleep(0)
    live.notify()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_has_waited_long_enough_does_not_look_given_up() -> None:
    _, live = board_with()
    waiting = asyncio.create_task(wait_for_change(live.changed, 0))
    while not waiting.done():
        assert not waiting.cancelling()
        await asyncio.sleep(0)


def acts(what: str) -> AgentSignal:
    return AgentSignal(SignalKind.ACTING, "PreToolUse", action=what)


async def test_what_an_agent_does_is_told_when_it_changes_and_not_too_often() -> None:
    board, live = board_with()
    events = board.log.subscribe("1-0")
    board.signal(live, SignalSource.HOOK, STARTED, at=5)
    for what in ("read", "read", "edit", "test"):
        board.signal(live, SignalSource.HOOK, acts(what), at=6)
    live.last_active = 1.5
    shown = live.public()
    assert (shown.action, shown.last_active) == ("test", "1970-01-01T00:00:01.500000+00:00")
    seen = await take(events, 3)
    assert [(event.kind, event.action) for event in seen] == [
        ("status", ""),
        ("action", "read"),
        ("action", "test"),
    ]
    board.remove(live)


def feed(*names: str) -> EventFeed:
    """Return a feed with an event for each of these terminals; its snapshot has `a` and `b`."""
    feed = EventFeed("s", lambda: [event("snapshot", "a"), event("snapshot", "b")])
    for name in names:
        feed.publish(event("status", name))
    return feed


def event(kind: str, name: str) -> TerminalEvent:
    return TerminalEvent("", kind, name, "cao-x", TerminalStatus.IDLE, "because", 1.0)


async def heard(feed: EventFeed, after: str | None, count: int) -> list[tuple[str, str]]:
    """Return ids and terminals of the next events."""
    return [(e.id, e.terminal_id) for e in await take(feed.subscribe(after), count)]


async def test_a_new_listener_gets_how_everything_is_and_then_what_comes() -> None:
    log = feed("old")
    task = asyncio.create_task(heard(log, None, 3))
    await asyncio.sleep(0)
    log.publish(event("status", "new"))
    # Only who has seen all of the snapshot can go on from there.
    assert await task == [("", "a"), ("s-1", "b"), ("s-2", "new")]


@pytest.mark.parametrize("unknown", ["t-1", "s-99", "s-", "nonsense", "s-²"])
async def test_a_listener_goes_on_where_it_was_cut_off_or_gets_a_snapshot(unknown: str) -> None:
    assert await heard(feed(*"abcd"), "s-2", 2) == [("s-3", "c"), ("s-4", "d")]
    assert await heard(feed("x"), unknown, 2) == [("", "a"), ("s-1", "b")]


async def test_a_listener_who_is_too_far_behind_gets_a_snapshot() -> None:
    log = feed(*["x"] * (KEPT_EVENTS + 2))
    assert [name for _, name in await heard(log, "s-1", 2)] == ["a", "b"]
    assert await heard(log, "s-2", 1) == [("s-3", "x")]
