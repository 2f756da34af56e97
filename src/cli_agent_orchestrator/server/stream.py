"""Streams of server-sent events, and the events of terminals as such."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import ServerEnding
from .backend import Backend
from .problems import Problem, status_code_of
from .schemas import to_json

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


HEARTBEAT_SECONDS = 15.0
EVENT_STREAM = "text/event-stream"
SIGN_OF_LIFE = b": ping\n\n"

Happening = TypeVar("Happening")


def sse_bytes(kind: str, number: str, data: object) -> bytes:
    """Return an event as it goes over the wire; JSON has no line breaks, and nor have the others.

    A client that was cut off names the number of the last event it heard.
    """
    head = f"event: {kind}\n" + (f"id: {number}\n" if number else "")
    return head.encode() + b"data: " + to_json(data) + b"\n\n"


class EventStream(Response, Generic[Happening]):
    """Sends events until the client hangs up, the server closes, or there are no more.

    When nothing happens a comment is sent now and then, so that both ends notice a dead connection.
    """

    media_type = EVENT_STREAM

    def __init__(
        self,
        events: AsyncGenerator[Happening, None],
        backend: Backend,
        encode: Callable[[Happening], bytes],
    ) -> None:
        # Not by the inherited constructor: it would announce a length.
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events = events
        self._backend = backend
        self._encode = encode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        hang_up = asyncio.create_task(wait_for_hang_up(receive))
        closing = asyncio.create_task(self._backend.closing.wait())
        upcoming = asyncio.create_task(self._next_event())
        try:
            while True:
                await asyncio.wait(
                    {hang_up, closing, upcoming},
                    timeout=self._backend.heartbeat,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if hang_up.done() or closing.done():
                    break
                chunk = SIGN_OF_LIFE
                if upcoming.done():
                    event = upcoming.result()
                    if event is None:
                        break
                    chunk = self._encode(event)
                    upcoming = asyncio.create_task(self._next_event())
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            for task in (hang_up, closing, upcoming):
                task.cancel()
            await asyncio.wait({hang_up, closing, upcoming})
            await self._events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next_event(self) -> Happening | None:
        return await anext(self._events, None)
