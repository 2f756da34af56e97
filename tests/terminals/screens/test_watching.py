"""A screen over time, in color, for somebody who looks on: with real tmux."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import NotFound
from tests.terminals.conftest import Ground
from tests.terminals.test_service import reached
from tests.terminals.tmux.rig import PATIENCE

pytestmark = pytest.mark.tmux


async def until(screens: AsyncIterator[str], text: str) -> str:
    async with asyncio.timeout(PATIENCE):
        async for screen in screens:
            if text in screen:
                return screen
    raise AssertionError(text)


async def test_a_screen_is_shown_at_once_and_with_its_changes_and_its_history_can_be_read(
    ground: Ground,
) -> None:
    async with ground.service("[[rule]]\nturn = 2\nmisbehave = { lines = 60 }") as service:
        terminal = await service.create_session(ground.new())
        async with aclosing(service.watch_screen(terminal.id)) as screens:
            assert "\x1b[" in await until(screens, "ready")
            for turn in (1, 2):
                await service.send(terminal.id, "work")
                await until(screens, f"turn {turn} over")
                # Its screen may show that sooner than it is known.
                await reached(service, terminal, TerminalStatus.COMPLETED)
            visible = await service.scrollback(terminal.id, 0)
            assert "turn 1 over" not in visible
            above = await service.scrollback(terminal.id, 2)
            assert above.count("\n") == visible.count("\n") + 2
            everything = await service.scrollback(terminal.id, 100_000)
            assert "\x1b[32m▣ turn 1 over" in everything
            assert "turn 2 over" in everything
            await service.delete(terminal.id)
            async with asyncio.timeout(PATIENCE):
                assert not [screen async for screen in screens if "turn 2 over" not in screen]
        with pytest.raises(NotFound):
            service.watch_screen(terminal.id)
