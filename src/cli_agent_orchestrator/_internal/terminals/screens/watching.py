"""Watches one screen, with its colors, for as long as somebody looks on."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.terminals.live_terminal import LiveTerminal, wait_for_change
from cli_agent_orchestrator._internal.terminals.tmux import Tmux
from cli_agent_orchestrator.errors import TmuxError

LOOK_SECONDS = 0.25
"""The least time between two looks."""
UNTOLD_SECONDS = 1.0
"""The longest: nobody tells of a screen of which nothing but a color has changed."""


async def watch_screen(
    live: LiveTerminal, tmux: Tmux, clock: Clock, is_there: Callable[[], bool]
) -> AsyncGenerator[str, None]:
    """Yield what a terminal shows, at once and whenever it has changed, until it is removed."""
    shown = None
    while is_there():
        changed, began = live.changed, clock.monotonic()
        screen = await _look(live, tmux)
        if screen is not None and screen != shown:
            shown = screen
            yield screen
        await wait_for_change(changed, UNTOLD_SECONDS)
        await asyncio.sleep(max(0.0, began + LOOK_SECONDS - clock.monotonic()))


async def _look(live: LiveTerminal, tmux: Tmux) -> str | None:
    """Return what a terminal shows; None while tmux does not say."""
    if live.pane is None:
        return live.text
    try:
        return await tmux.read_ansi(live.pane)
    except TmuxError:
        return None
