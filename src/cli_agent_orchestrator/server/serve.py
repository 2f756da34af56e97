"""Runs the application: one uvicorn server in the loop of the caller, until it is told to stop."""

import asyncio
import contextlib
import errno
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from http.client import HTTPConnection, HTTPException
from itertools import count
from typing import Any, TypeVar

import uvicorn
import uvloop
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..errors import ServerConflict, UsageError
from .backend import Backend
from .schemas import SERVICE_NAME

GRACE_SECONDS = 5
"""How long requests in progress may go on after the server was told to stop."""
KEEP_ALIVE_SECONDS = 60
"""Longer than clients keep an unused connection, so that they never use one that just closed."""
HEAD_LIMIT = 1024 * 1024
"""Bytes of request line and headers, roughly: the parser itself would take any number."""
REQUEST_SECONDS = 30.0
"""How long a whole request may take to come, from its first byte or from the connection on."""
LATE_HEAD = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n"
)
DATE_SECONDS = 1.0
"""How exact the time in answers is."""
MOST_CONNECTIONS = 100
"""Each takes a file of this process, which may have to do with 256, and anybody may connect."""
UNREAD_SECONDS = 1.0
"""How long a client may leave answers unread before it has to make room for others."""
MOST_AHEAD = 16
"""Requests that a client may send before the one under way was answered."""
PROBE_SECONDS = 2.0
PROBE_LIMIT = 64 * 1024

Result = TypeVar("Result")
Main = Callable[[Callable[[int], None], asyncio.Event], Coroutine[Any, Any, None]]
"""A server to be run: calls the function with its port when it is ready, ends after the event."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP, which gives up on a request that does not end.

    Nor does it keep any number of connections. Those whose clients do not read their answers have
    to go first, then those on which no whole request has come, the oldest of each first.
    """

    request_seconds = REQUEST_SECONDS
    """How long a whole request may take."""
    unread_seconds = UNREAD_SECONDS
    """How long answers may be left unread."""
    most_connections = MOST_CONNECTIONS
    _head = 0
    _numbers = count()
    _limit: asyncio.TimerHandle | None = None
    _is_coming = False
    """Has a request begun that has not come whole?"""
    _is_ended = False
    """Had it to make room for another?"""
    _unread_since: float | None = None
    """The time at which the client had left more unread than the system keeps for it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._number = next(self._numbers)
        self.gone = asyncio.Event()
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_is_there()
        super().connection_lost(exc)
        self.gone.set()

    def _make_room(self) -> None:
        # Also one that is closing has its file, for as long as its client reads nothing.
        ours = (one for one in self.connections if isinstance(one, BoundedHttp))
        held = [one for one in ours if not one._is_ended]
        if len(held) <= self.most_connections:
            return
        others = [one for one in held if one is not self and (one.is_unread or one.is_unused)]
        end = min(others, key=lambda one: (not one.is_unread, one._number), default=self)
        end._is_ended = True
        end.transport.abort()

    @property
    def is_unused(self) -> bool:
        """Is no request in progress that has come whole, or are there more than one?

        No client that means well asks again before it was answered.
        """
        cycle = self.cycle
        return not cycle or cycle.response_complete or cycle.more_body or bool(self.pipeline)

    @property
    def is_unread(self) -> bool:
        """Has the client left answers unread for longer than it takes to read them?"""
        since = self._unread_since
        return since is not None and self.loop.time() - since >= self.unread_seconds

    def pause_writing(self) -> None:
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        # Most requests come in one piece, and need no limit.
        if self._is_coming:
            self._await_request()
        if self._head > HEAD_LIMIT and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        # All of what came in one piece would be kept, request by request.
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("a client asks again and again without waiting for its answers")
        self._is_coming = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_coming = False
        self._request_is_there()
        super().on_message_complete()

    def _await_request(self) -> None:
        """Give a request its time; the one that a new connection is for has begun with it."""
        if self._limit is None:
            self._limit = self.loop.call_later(self.request_seconds, self._give_up)

    def _request_is_there(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        """End a connection on which a request did not come whole in its time."""
        cycle = self.cycle
        if cycle is None or not cycle.response_started or not cycle.more_body:
            text = f"the whole request must come within {self.request_seconds:g} seconds"
            body = json.dumps({"detail": text}).encode()
            self.transport.write(LATE_HEAD % len(body) + body)
        self.transport.close()

    def on_headers_complete(self) -> None:
        self._head = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head = 0
        super().on_body(body)


class HttpServer(uvicorn.Server):
    """A uvicorn server that waits for an event to stop, and leaves signals to the caller."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def main_loop(self) -> None:
        """Keep the Date header right, until the event is set.

        uvicorn's own loop wakes up ten times a second to see whether it is to stop.
        """
        while not self._stop.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was asked, and end as soon as that is done.

        uvicorn's own sleeps for a tenth of a second even if there is nothing to be done.
        """
        for listener in self.servers:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._answer_all()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()

    async def _answer_all(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedHttp):
                await connection.gone.wait()
        # Who has hung up may have left something to be done.
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: Starlette,
    host: str,
    port: int,
    *,
    ready: Callable[[int], None] | None = None,
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set. Port 0 takes a free one; `ready` is told the real one.

    Stopping ends event streams at once and lets other requests finish for a few seconds.
    """
    with await bind(host, port) as listener:
        server = HttpServer(configure(app), stop)
        watch = asyncio.create_task(_watch(server, app.state.backend, stop))
        try:
            # The socket listens already: who connects from now on is answered.
            if ready is not None:
                ready(listener.getsockname()[1])
            await server.serve(sockets=[listener])
        finally:
            watch.cancel()


def configure(app: Starlette, http: type[BoundedHttp] = BoundedHttp) -> uvicorn.Config:
    """Return the settings of a server whose connections are of a kind."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


async def _watch(server: HttpServer, backend: Backend, stop: asyncio.Event) -> None:
    await stop.wait()
    backend.closing.set()
    server.should_exit = True


async def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises ServerConflict if the port is taken, and says by what.
    """
    try:
        (family, _, _, _, address), *_ = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            owner = await asyncio.to_thread(find_owner, host, port)
            raise ServerConflict(
                f"port {port} on {host} is taken by {owner}; "
                "use that, stop it, or choose another port"
            ) from error
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def find_owner(host: str, port: int) -> str:
    """Return, in words, what answers on a port that is taken."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    # Not by httpx: it would lengthen every start of the server by a tenth.
    connection = HTTPConnection(name, port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/health")
        health = json.loads(connection.getresponse().read(PROBE_LIMIT))
    except (OSError, HTTPException, ValueError):
        return "another program"
    finally:
        connection.close()
    if not isinstance(health, dict) or health.get("service") != SERVICE_NAME:
        return "another program"
    return f"another {SERVICE_NAME} server, version {health.get('version', 'unknown')}"


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in the event loop that suits the server best."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


class BackgroundServer:
    """Runs a server in a thread with an event loop of its own.

    server = BackgroundServer(lambda ready, stop: serve(app, host, 0, ready=ready, stop=stop))
    port = server.start()
    server.stop()
    """

    def __init__(self, main: Main) -> None:
        self._main = main
        self._port: Future[int] = Future()
        self._ended: Future[None] = Future()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="cao-server", daemon=True)

    def start(self) -> int:
        """Return the port once the server is ready; what it raises before that is raised here."""
        self._thread.start()
        either: list[Future[Any]] = [self._port, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if not self._port.done():
            self._ended.result()
        return self._port.result()

    def stop(self) -> None:
        """End the server and wait for it. Raises what had ended it, if it was not us."""
        self._stop()
        self._thread.join()
        if self._port.done():
            self._ended.result()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:  # noqa: BLE001 - belongs to the thread that started us
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(stop.set)

        self._stop = end
        await self._main(self._port.set_result, stop)
