"""Listeners get every event once, in order, also after they were cut off."""

import asyncio
from collections.abc import Iterator

from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from cli_agent_orchestrator.terminals.board import KEPT_EVENTS, EventFeed


def event(kind: str, name: str) -> TerminalEvent:
    return TerminalEvent("", kind, name, "cao-x", TerminalStatus.IDLE, "because", 1.0)


def snapshot() -> Iterator[TerminalEvent]:
    yield event("snapshot", "a")
    yield event("snapshot", "b")


async def take(log: EventFeed, after: str | None, count: int) -> list[TerminalEvent]:
    stream = log.subscribe(after)
    async with asyncio.timeout(60):
        taken = [await anext(stream) for _ in range(count)]
    await stream.aclose()
    return taken


async def test_a_new_listener_gets_how_everything_is_and_then_what_comes() -> None:
    log = EventFeed("s", snapshot)
    log.publish(event("status", "old"))
    task = asyncio.create_task(take(log, None, 3))
    await asyncio.sleep(0)
    log.publish(event("status", "new"))
    assert [e.terminal_id for e in await task] == ["a", "b", "new"]


async def test_a_listener_goes_on_where_it_was_cut_off() -> None:
    log = EventFeed("s", snapshot)
    for name in "abcd":
        log.publish(event("status", name))
    assert [(e.id, e.terminal_id) for e in await take(log, "s-2", 2)] == [
        ("s-3", "c"),
        ("s-4", "d"),
    ]


async def test_only_the_last_event_of_a_snapshot_is_a_resume_point() -> None:
    log = EventFeed("s", snapshot)
    log.publish(event("status", "before"))
    first, last = await take(log, None, 2)
    log.publish(event("status", "after"))
    assert [e.terminal_id for e in await take(log, last.id, 1)] == ["after"]
    assert first.id == ""


async def test_an_unknown_resume_point_gets_a_snapshot() -> None:
    log = EventFeed("s", snapshot)
    log.publish(event("status", "x"))
    for unknown in ("t-1", "s-99", "s-", "nonsense", "s-²"):
        assert [e.kind for e in await take(log, unknown, 2)] == ["snapshot", "snapshot"]


async def test_a_listener_who_is_too_far_behind_gets_a_snapshot() -> None:
    log = EventFeed("s", snapshot)
    for _ in range(KEPT_EVENTS + 2):
        log.publish(event("status", "x"))
    assert [e.kind for e in await take(log, "s-1", 2)] == ["snapshot", "snapshot"]
    assert [e.id for e in await take(log, "s-2", 1)] == ["s-3"]
