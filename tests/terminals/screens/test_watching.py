"""A screen over time, in color, for somebody who looks on: with real tmux."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import NewTerminal
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.board import LiveTerminal
from cli_agent_orchestrator.terminals.screens import watch_screen
from cli_agent_orchestrator.terminals.service import TerminalService
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneScreen
from tests.terminals.conftest import Ground
from tests.terminals.tmux.rig import LONG_SLEEP, PATIENCE, Rig

pytestmark = pytest.mark.tmux

CHANGES_COLOR = r"""
import os, sys, tty
tty.setraw(0)
os.write(1, b"\x1b[31mword\x1b[0m")
os.read(0, 1)
os.write(1, b"\r\x1b[32mword\x1b[0m")
os.read(0, 1)
"""


def live_in(pane: str | None) -> LiveTerminal:
    row = TerminalRow("t1", "tester-1", "scripted", "cao-s", "tester", "/", 1.0, ready=True)
    return LiveTerminal(row, get_provider("scripted"), last_active=1.0, pane=pane)


def watched(rig: Rig, live: LiveTerminal) -> AsyncGenerator[str, None]:
    return watch_screen(live, rig.tmux, SystemClock(), lambda: live.row.ready)


async def rest(service: TerminalService, terminal_id: str) -> None:
    """Wait until an agent is known to be at rest, which its screen may show sooner."""
    async with asyncio.timeout(60), aclosing(service.subscribe()) as events:
        async for event in events:
            if event.terminal_id == terminal_id and event.status.at_rest:
                return


async def until(screens: AsyncIterator[str], text: str) -> str:
    async with asyncio.timeout(PATIENCE):
        async for screen in screens:
            if text in screen:
                return screen
    raise AssertionError(text)


async def test_what_is_there_is_shown_at_once_and_then_what_changes(
    service: TerminalService, ground: Ground
) -> None:
    terminal = await service.create_session(NewTerminal("scripted", "tester", str(ground.work)))
    async with aclosing(service.watch_screen(terminal.id)) as screens:
        first = await until(screens, "ready")
        assert "\x1b[" in first
        await service.send(terminal.id, "work")
        await until(screens, "turn 1 over")
        await service.delete(terminal.id)
        async with asyncio.timeout(PATIENCE):
            assert [screen async for screen in screens] == []
    with pytest.raises(NotFound):
        service.watch_screen(terminal.id)


async def test_a_change_of_color_alone_is_seen(rig: Rig) -> None:
    pane = await rig.python(CHANGES_COLOR)
    async with aclosing(watched(rig, live_in(pane))) as screens:
        await until(screens, "\x1b[31mword")
        await rig.tmux.press(pane, ["y"])
        await until(screens, "\x1b[32mword")


async def test_a_screen_that_cannot_be_read_for_a_while_is_shown_later(rig: Rig) -> None:
    live = live_in("%999")
    async with aclosing(watched(rig, live)) as screens:
        first = asyncio.ensure_future(anext(screens))
        live.pane = await rig.run("sh", "-c", "echo here; sleep 1000")
        live.notify()
        async with asyncio.timeout(PATIENCE):
            assert "here" in await first or "here" in await until(screens, "here")


async def test_of_a_window_that_is_gone_its_last_text_is_shown(rig: Rig) -> None:
    live = live_in(None)
    live.screen = PaneScreen("%1", "the last words", "", in_mode=False)
    async with aclosing(watched(rig, live)) as screens:
        assert await anext(screens) == "the last words"


async def test_nobody_looks_when_nobody_looks_on(rig: Rig) -> None:
    live = live_in(await rig.run(*LONG_SLEEP))
    screens = watched(rig, live)
    await anext(screens)
    await screens.aclose()
    assert not [task for task in asyncio.all_tasks() if "wait" in str(task.get_coro())]


async def test_the_last_lines_are_read_in_color(service: TerminalService, ground: Ground) -> None:
    ground.script("[[rule]]\nturn = 2\nmisbehave = { lines = 60 }")
    terminal = await service.create_session(NewTerminal("scripted", "tester", str(ground.work)))
    async with aclosing(service.watch_screen(terminal.id)) as screens:
        for turn in (1, 2):
            await service.send(terminal.id, "work")
            await until(screens, f"turn {turn} over")
            await rest(service, terminal.id)
    visible = await service.scrollback(terminal.id, 0)
    assert "turn 1 over" not in visible
    above = await service.scrollback(terminal.id, 2)
    assert above.count("\n") == visible.count("\n") + 2
    everything = await service.scrollback(terminal.id, 100_000)
    assert "\x1b[32m▣ turn 1 over" in everything
    assert "turn 2 over" in everything
