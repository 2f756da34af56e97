"""Wakes a page that waits for news of runs by what agents do, too."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress

from cli_agent_orchestrator._internal.api.backend import Terminals
from cli_agent_orchestrator._internal.dashboard.news import Listening
from cli_agent_orchestrator._internal.models import TerminalEvent


@asynccontextmanager
async def woken_by_agents(
    listening: Listening, terminals: Terminals, is_ours: Callable[[TerminalEvent], bool]
) -> AsyncGenerator[None, None]:
    """Wake who listens whenever something happens to an agent that is his."""

    async def hear() -> None:
        async with aclosing(terminals.subscribe()) as events:
            async for event in events:
                if is_ours(event):
                    listening.wake()

    async with beside(hear()):
        yield


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None, None]:
    """Let something be done for as long as the page is looked at."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
