"""How often a screen is looked at, and what of it is passed on, without tmux and without time."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any, cast

from cli_agent_orchestrator.errors import TmuxError
from cli_agent_orchestrator.terminals.screens import watch_screen
from cli_agent_orchestrator.terminals.tmux import Tmux
from tests.terminals.samples import live_terminal
from tests.terminals.samples import screen as pane_screen
from tests.virtual_time import VirtualClock, run_at_once

SECONDS = 10
MOST = 4
"""Looks in a second, however much happens."""
LEAST = 1
"""Looks in a second in which nobody tells of anything."""


class CountedScreen:
    """Stands for tmux: it shows something, and knows how often it was looked at."""

    def __init__(self, text: Callable[[int], str | None]) -> None:
        """Of no text it is said that it cannot be read now."""
        self._text = text
        self.looks = 0

    async def read_ansi(self, pane: str) -> str:
        self.looks += 1
        shown = self._text(self.looks)
        if shown is None:
            raise TmuxError("it is away")
        return shown


def seen(screen: CountedScreen, told_every: float, pane: str | None = "%1") -> list[str]:
    """Return what somebody sees who looks on for some seconds."""

    async def look() -> list[str]:
        live, shown = live_terminal(pane=pane), []
        live.screen = pane_screen("the last words")

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


def test_a_screen_that_cannot_be_read_for_a_while_is_shown_later() -> None:
    screen = CountedScreen(lambda look: None if look < 5 else "here")
    assert seen(screen, told_every=0.01) == ["here"]


def test_of_a_window_that_is_gone_its_last_text_is_shown() -> None:
    assert seen(CountedScreen(str), told_every=0.01, pane=None) == ["the last words"]
