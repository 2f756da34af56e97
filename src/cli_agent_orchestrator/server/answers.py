"""Errors as HTTP answers: one table from error class to status, `{"detail": …}` as the body."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import (
    InputRefused,
    MessageTooLarge,
    NotFound,
    NotSteerable,
    OrchestratorError,
    QuestionGone,
    RunError,
    ServerEnding,
    StartError,
    StepFailed,
    StepTimeout,
    TmuxError,
    UsageError,
)
from .operations import Backend
from .schemas import Json, to_json

logger = logging.getLogger(__name__)

STATUS_CODES: Mapping[type[Exception], int] = {
    UsageError: 400,
    NotSteerable: 409,
    NotFound: 404,
    InputRefused: 409,
    QuestionGone: 409,
    RunError: 409,
    MessageTooLarge: 413,
    StartError: 422,
    StepFailed: 502,
    StepTimeout: 504,
    TmuxError: 503,
    ServerEnding: 503,
    OrchestratorError: 500,
}
"""The nearest ancestor of an error counts."""

LINGER_SECONDS = 3.0
NOT_DONE = {"Retry-After": "1"}
"""Tells a client that nothing was done, and that it may ask again."""

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


class Problem(Json):
    """Says what went wrong."""

    def __init__(
        self, status_code: int, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__({"detail": detail}, status_code, headers)


class EarlyProblem(Problem):
    """A problem that is told before the request was read to its end.

    The answer goes out at once. Then the rest of the request is thrown away for a moment: closing
    while the client still sends would reset the connection, and the client would not see why.
    """

    def __init__(
        self, status_code: int, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status_code, detail, {**(headers or {}), "Connection": "close"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await receive()).get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def status_code_of(error: Exception) -> int:
    return next((STATUS_CODES[c] for c in type(error).__mro__ if c in STATUS_CODES), 500)


async def _own_error(request: Request, error: Exception) -> Response:
    status_code = status_code_of(error)
    where = f"{request.method} {request.url.path}"
    if isinstance(error, StepFailed):
        logger.warning("%s: %s", where, error.summary)
    elif isinstance(error, ServerEnding):
        logger.warning("%s: given up, because the server ends", where)
    elif status_code >= 500:
        logger.error("%s: %s", where, error)
    # What is too large has perhaps not been read to its end.
    kind = EarlyProblem if status_code == 413 else Problem
    return kind(status_code, str(error), NOT_DONE if isinstance(error, ServerEnding) else None)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer for what is no operation of ours, or was asked for in the wrong way."""
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, error.detail, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """Return something for nobody: the client hung up while it was sending."""
    return Response(status_code=400)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answer for a fault of ours; it is raised again after that, so the log has the traceback."""
    return Problem(500, "internal error; the log of the server says more")


PROBLEM_HANDLERS: Mapping[Any, Any] = {  # Any: what Starlette calls for
    OrchestratorError: _own_error,
    HTTPException: _refused,
    ClientDisconnect: _gone,
    Exception: _unexpected,
}


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
