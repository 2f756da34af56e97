"""Errors as HTTP answers: one table from error class to status, `{"detail": …}` as the body."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import errors
from ..terminals.tmux import drop_error
from .operations import Backend, Json, to_json

logger = logging.getLogger(__name__)

STATUS_CODES: Mapping[type[Exception], int] = {
    errors.UsageError: 400,
    errors.NotSteerable: 409,
    errors.NotFound: 404,
    errors.InputRefused: 409,
    errors.QuestionGone: 409,
    errors.RunError: 409,
    errors.MessageTooLarge: 413,
    errors.StartError: 422,
    errors.StepFailed: 502,
    errors.StepTimeout: 504,
    errors.TmuxError: 503,
    errors.ServerEnding: 503,
    errors.OrchestratorError: 500,
}
"""The nearest ancestor of an error counts."""

PROBLEMS: Mapping[int, str] = {
    400: "What was asked for cannot be right, an unknown provider for example.",
    401: "The token is missing or wrong.",
    403: "A web page of another origin asked, or an agent that may only look.",
    404: "There is no such terminal, session or run.",
    409: "The terminal cannot take input now, or does not ask this any more, or the run cannot "
    "start or do it.",
    413: "The message is too large.",
    415: "The body is not JSON.",
    421: "The Host header names another server.",
    422: "A parameter is missing or malformed, or an agent could not be started.",
    502: "The agent gave no answer.",
    503: "tmux does not answer, or the server ends or is full.",
    504: "The agent did not end its work in time.",
}


class ProblemBody(Struct):
    detail: str
    """What went wrong and what to do."""


class Problem(Json):
    def __init__(
        self, status_code: int, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__({"detail": detail}, status_code, headers)


def status_code_of(error: Exception) -> int:
    return next((STATUS_CODES[c] for c in type(error).__mro__ if c in STATUS_CODES), 500)


async def _own_error(request: Request, error: Exception) -> Response:
    status_code = status_code_of(error)
    where = f"{request.method} {request.url.path}"
    if isinstance(error, errors.StepFailed):
        logger.warning("%s: %s", where, error.summary)
    elif isinstance(error, errors.ServerEnding):
        logger.warning("%s: given up, because the server ends", where)
    elif status_code >= 500:
        logger.error("%s: %s", where, error)
    # When the server ends, nothing was done, and the client may ask again.
    retry = {"Retry-After": "1"} if isinstance(error, errors.ServerEnding) else None
    return Problem(status_code, str(error), retry)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, error.detail, error.headers)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)


async def _unexpected(_: Request, error: Exception) -> Response:
    """Answer for a fault of ours; it is raised again after that, so the log has the traceback."""
    return Problem(500, "internal error; the log of the server says more")


PROBLEM_HANDLERS: Mapping[Any, Any] = {  # Any: what Starlette calls for
    errors.OrchestratorError: _own_error,
    HTTPException: _refused,
    ClientDisconnect: _gone,
    Exception: _unexpected,
}


Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def waiting_for_end(
    receive: Receive, backend: Backend
) -> AsyncGenerator[tuple[asyncio.Task[None], asyncio.Task[Any]], None]:
    """Yield two tasks: one ends when the client hangs up, the other when the server is to end."""

    async def hang_up() -> None:
        # What the client still sends is thrown away.
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.create_task(hang_up()), asyncio.create_task(backend.closing.wait())
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def while_connected(
    request: Request,
    work: Coroutine[Any, Any, Result],
    take_back: Callable[[Result], Awaitable[None]],
) -> Result:
    """Return what the work returns, or undo it when the client hangs up or the server ends.

    For work whose result no other client would ever learn of. `take_back` undoes what was done all
    the same. When the server ends, the service waits for the undoing.
    """
    doing = asyncio.create_task(work)
    async with waiting_for_end(request.receive, request.app.state.backend) as ends:
        hang_up, _ = ends
        try:
            await asyncio.wait({doing, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if hang_up.done():
                doing.cancel()
                await asyncio.wait({doing})
                if not doing.cancelled():
                    await take_back(doing.result())
                raise ClientDisconnect
            if not doing.done():
                raise errors.ServerEnding
        finally:
            if not doing.done():
                doing.cancel()
                doing.add_done_callback(drop_error)
    return doing.result()


HEARTBEAT_SECONDS = 15.0
EVENT_STREAM = "text/event-stream"

Happening = TypeVar("Happening")


def sse_bytes(kind: str, number: str, data: object) -> bytes:
    """Return an event as it is sent; neither JSON nor the others have line breaks."""
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
        upcoming = asyncio.create_task(self._next_event())
        async with waiting_for_end(receive, self._backend) as ends:
            try:
                while True:
                    await asyncio.wait(
                        {*ends, upcoming},
                        timeout=self._backend.heartbeat,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if any(end.done() for end in ends):
                        break
                    chunk = b": ping\n\n"
                    if upcoming.done():
                        event = upcoming.result()
                        if event is None:
                            break
                        chunk = self._encode(event)
                        upcoming = asyncio.create_task(self._next_event())
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                upcoming.cancel()
                await asyncio.wait({upcoming})
                await self._events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next_event(self) -> Happening | None:
        return await anext(self._events, None)
