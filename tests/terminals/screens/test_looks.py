"""How often a screen is looked at, and what of it is passed on, without tmux and without time."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any, cast

from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.board import LiveTerminal
from cli_agent_orchestrator.terminals.screens import watch_screen
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import Tmux
from tests.virtual_time import VirtualClock, run_at_once

SECONDS = 10
MOST = 4
"""Looks in a second, however much happens."""
LEAST = 1
"""Looks in a second in which nobody tells of anything."""


class CountedScreen:
    """Stands for tmux: it shows something, and knows how often it was looked at."""

    def __init__(self, text: Callable[[int], str]) -> None:
        self._text = text
        self.looks = 0

    async def read_ansi(self, pane: str) -> str:
        self.looks += 1
        return self._text(self.looks)


def a_live_terminal() -> LiveTerminal:
    row = TerminalRow("t1", "tester-1", "scripted", "cao-s", "tester", "/", 1.0, ready=True)
    return LiveTerminal(row, get_provider("scripted"), last_active=1.0, pane="%1")


def seen(screen: CountedScreen, told_every: float) -> list[str]:
    """Return what somebody sees who looks on for some seconds."""

    async def look() -> list[str]:
        live, shown = a_live_terminal(), []

        async def tell() -> None:
            while True:
                await asyncio.sleep(told_every)
                live.notify()

        telling = asyncio.create_task(tell())
        tmux = cast("Any", screen)  # what is asked of it, it has
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                watched = watch_screen(live, cast("Tmux", tmux), VirtualClock(), lambda: True)
                async with aclosing(watched) as screens:
                    async for text in screens:
                        shown.append(text)
        telling.cancel()
        return shown

    return run_at_once(look)


def test_a_restless_screen_is_looked_at_at_most_four_times_a_second() -> None:
    screen = CountedScreen(str)
    shown = seen(screen, told_every=0.01)
    assert len(shown) == screen.looks
    assert SECONDS * (MOST - 1) <= screen.looks <= SECONDS * MOST + 1


def test_a_calm_screen_is_looked_at_once_a_second() -> None:
    screen = CountedScreen(str)
    seen(screen, told_every=2.0 * SECONDS)
    assert SECONDS * LEAST - 1 <= screen.looks <= SECONDS * LEAST + 1


def test_a_screen_that_has_not_changed_is_not_sent_again() -> None:
    screen = CountedScreen(lambda look: "same" if look < 5 else "other")
    assert seen(screen, told_every=0.01) == ["same", "other"]
    assert screen.looks > 5
