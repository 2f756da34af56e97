"""Streams of server-sent events, and the events of terminals as such."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cli_agent_orchestrator._internal.api.backend import Backend
from cli_agent_orchestrator._internal.api.hang_up import wait_for_hang_up
from cli_agent_orchestrator._internal.api.problems import Problem
from cli_agent_orchestrator._internal.api.schemas import event_fields
from cli_agent_orchestrator._internal.models import TerminalEvent

HEARTBEAT_SECONDS = 15.0
EVENT_STREAM = "text/event-stream"
MOST_STREAMS = 80
"""Open at once: some of the connections of a server are left to those who ask for something."""
TOO_MANY = f"{MOST_STREAMS} event streams are open on this server, and that is all it has room for"
SIGN_OF_LIFE = b": ping\n\n"

Happening = TypeVar("Happening")


def sse_bytes(kind: str, number: str, data: Any) -> bytes:  # Any: JSON
    """Return an event as it goes over the wire; JSON has no line breaks, and nor have the others.

    A client that was cut off names the number of the last event it heard.
    """
    fields = [f"event: {kind}", f"data: {json.dumps(data, separators=(',', ':'))}"]
    fields += [f"id: {number}"] if number else []
    return "\n".join([*fields, "\n"]).encode()


def event_bytes(event: TerminalEvent) -> bytes:
    return sse_bytes(event.kind, event.id, event_fields(event))


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
        async with contextlib.aclosing(self._events):
            if self._backend.streams.locked():
                await Problem(503, TOO_MANY)(scope, receive, send)
                return
            async with self._backend.streams:
                await self._send(receive, send)

    async def _send(self, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        over = asyncio.create_task(self._end(receive))
        try:
            await self._send_events(send, over)
        finally:
            await _cancel(over)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _end(self, receive: Receive) -> None:
        """Return when the client has hung up or the server is closing."""
        hang_up = asyncio.create_task(wait_for_hang_up(receive))
        closing = asyncio.create_task(self._backend.closing.wait())
        try:
            await asyncio.wait({hang_up, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hang_up.cancel()
            closing.cancel()

    async def _send_events(self, send: Send, over: asyncio.Task[None]) -> None:
        upcoming = self._next_event()
        try:
            while True:
                await asyncio.wait(
                    {upcoming, over},
                    timeout=self._backend.heartbeat,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if over.done():
                    return
                chunk = SIGN_OF_LIFE
                if upcoming.done():
                    event = upcoming.result()
                    if event is None:
                        return
                    chunk = self._encode(event)
                    upcoming = self._next_event()
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            await _cancel(upcoming)

    def _next_event(self) -> asyncio.Task[Happening | None]:
        return asyncio.create_task(_next_or_none(self._events))


async def _next_or_none(events: AsyncGenerator[Happening, None]) -> Happening | None:
    return await anext(events, None)


async def _cancel(task: asyncio.Task[Any]) -> None:  # Any: whatever it would have returned
    task.cancel()
    await asyncio.wait({task})
