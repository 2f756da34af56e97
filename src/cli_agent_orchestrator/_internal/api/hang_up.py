"""Noticing that a client is gone, or that the server is about to be."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cli_agent_orchestrator._internal.api.backend import Backend
from cli_agent_orchestrator._internal.api.problems import Problem, status_code_of
from cli_agent_orchestrator.errors import ServerEnding

Result = TypeVar("Result")


async def wait_for_hang_up(receive: Receive) -> None:
    """Return when the client has hung up; what it still sends is thrown away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(
    request: Request,
    work: Coroutine[Any, Any, Result],
    take_back: Callable[[Result], Awaitable[None]],
) -> Result:
    """Return what the work returns, or undo it when the client hangs up or the server ends.

    For work whose result nobody else would ever learn of. `take_back` undoes what was done all the
    same. When the server ends, the service waits for the undoing.
    """
    backend: Backend = request.app.state.backend
    doing = asyncio.create_task(work)
    hang_up = asyncio.create_task(wait_for_hang_up(request.receive))
    closing = asyncio.create_task(backend.closing.wait())
    try:
        await asyncio.wait({doing, hang_up, closing}, return_when=asyncio.FIRST_COMPLETED)
        if hang_up.done():
            doing.cancel()
            await asyncio.wait({doing})
            if not doing.cancelled():
                await take_back(doing.result())
            raise ClientDisconnect
        if not doing.done():
            raise ServerEnding
    finally:
        hang_up.cancel()
        closing.cancel()
        if not doing.done():
            doing.cancel()
            doing.add_done_callback(_take_notice)
    return doing.result()


def _take_notice(done: asyncio.Task[Any]) -> None:
    # asyncio complains about errors that nobody has looked at.
    if not done.cancelled():
        done.exception()


class LastWords:
    """Tells those whose requests are given up because the server ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered = False

        async def note(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except asyncio.CancelledError:
            # Nobody else but the server itself ends a request.
            if not answered:
                ending = ServerEnding()
                await Problem(status_code_of(ending), str(ending))(scope, receive, send)
