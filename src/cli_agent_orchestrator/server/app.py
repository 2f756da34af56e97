"""The HTTP application: operations, access and problems put together."""

import asyncio
import contextlib
import errno
import socket
import struct
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import Any, TypeVar

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..core.clock import SystemClock
from ..errors import ServerConflict, UsageError
from ..terminals.service import TerminalService
from .access import OVER_SOCKET, Access, AccessRules, PageRequest, allowed_names
from .answers import HEARTBEAT_SECONDS, PROBLEM_HANDLERS
from .openapi import describe
from .operations import Backend, Runs, route_of
from .routes import OPERATIONS
from .schemas import Json


def create_app(
    service: TerminalService,
    runs: Runs | None = None,
    *,
    token: str | None,
    allowed_hosts: Iterable[str] = (),
    heartbeat: float = HEARTBEAT_SECONDS,
) -> Starlette:
    """Return the application for one terminal service, and for runs if they are given.

    With a token of None everybody on the machine may use it. `allowed_hosts` are names under which
    the server may be addressed besides the loopback ones.
    """
    rules = AccessRules(token, allowed_names(allowed_hosts), from_agent=service.has_client)
    app = Starlette(
        routes=[*map(route_of, OPERATIONS), Route("/openapi.json", document)],
        middleware=[Middleware(Access, rules=rules)],
        exception_handlers=PROBLEM_HANDLERS,
    )
    app.router.redirect_slashes = False
    app.state.rules = rules
    app.state.backend = Backend(service, SystemClock(), heartbeat, asyncio.Event(), runs)
    return app


def serve_page(
    app: Starlette,
    is_open: Callable[[str, str], bool],
    is_signed_in: Callable[[PageRequest], bool],
    routes: Iterable[Route],
) -> Starlette:
    """Let an application that answers nobody yet show a page in the browser, too."""
    rules = replace(app.state.rules, is_open=is_open, is_signed_in=is_signed_in)
    app.user_middleware = [Middleware(Access, rules=rules)]
    app.router.routes.extend(routes)
    return app


async def document(_: Request) -> Json:
    # Made when it is asked for, which is seldom, and not at every start.
    return Json(describe(OPERATIONS))


GRACE_SECONDS = 5
"""How long requests in progress may go on after the server was told to stop."""
KEEP_ALIVE_SECONDS = 60
"""Longer than clients keep an unused connection, so that they never use one that just closed."""
DATE_SECONDS = 1.0
"""How exact the time in answers is."""
MOST_CONNECTIONS = 100
"""Each takes a file of this process, which may have to do with 256, and anybody may connect."""
TWINS = {"127.0.0.1": "::1", "localhost": "::1", "0.0.0.0": "::1", "::1": "127.0.0.1"}
"""The other address that `localhost` may mean."""
SOL_LOCAL, LOCAL_PEERPID = 0, 2
"""How macOS is asked which process is at the other end of a Unix socket."""

Result = TypeVar("Result")
Main = Callable[[Callable[[int], None], asyncio.Event], Coroutine[Any, Any, None]]
"""A server to be run: calls the function with its port when it is ready, ends after the event."""


class Http(HttpToolsProtocol):
    """uvicorn's HTTP, which knows who is at the other end of a Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.gone = asyncio.Event()
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if peer.family == socket.AF_UNIX:
            self.client = (OVER_SOCKET, _process_of(peer))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()


def _process_of(peer: socket.socket) -> int:
    """Return the process that opened a connection; 0 if the system does not tell."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", told)[0])
        return peer.getsockopt(SOL_LOCAL, LOCAL_PEERPID)
    return 0


class HttpServer(uvicorn.Server):
    """A uvicorn server that waits for an event to stop, and leaves signals to the caller."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections; uvicorn's own takes every socket for one of TCP."""
        loop = asyncio.get_running_loop()

        def connection() -> Http:
            return Http(self.config, self.server_state, {}, loop)

        self.servers = []
        for listener in sockets or []:
            is_unix = listener.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix else loop.create_server
            self.servers.append(await create(connection, sock=listener))
        self.started = True

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
        connections = [one for one in self.server_state.connections if isinstance(one, Http)]
        for connection in connections:
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                for connection in connections:
                    await connection.gone.wait()
                # Who has hung up may have left something to be done.
                if self.server_state.tasks:
                    await asyncio.wait(self.server_state.tasks)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: Starlette, listeners: Sequence[socket.socket], *, stop: asyncio.Event) -> None:
    """Serve until `stop` is set.

    Stopping ends event streams at once and lets other requests finish for a few seconds.
    """
    config = uvicorn.Config(
        app,
        http=Http,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )

    async def close() -> None:
        await stop.wait()
        app.state.backend.closing.set()

    closing = asyncio.create_task(close())
    try:
        await HttpServer(config, stop).serve(sockets=list(listeners))
    finally:
        closing.cancel()


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen, see `listen`; port 0 takes a free one.

    Raises ServerConflict if the port is taken.
    """
    try:
        (_, _, _, _, address), *_ = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return listen(str(address[0]), port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ServerConflict(
                f"port {port} on {error.filename or host} is taken by another program; "
                "stop it, or choose another port"
            ) from error
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at an address, and at the other one that `localhost` may mean.

    Another user could take that one: `ssh -L 9889:localhost:9889` would lead to him. Raises OSError
    with EADDRINUSE, and the address as its `filename`, if the port is not free at both.
    """
    listeners: list[socket.socket] = []
    for address in filter(None, (host, TWINS.get(host))):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        number = listeners[0].getsockname()[1] if listeners else port
        try:
            listeners.append(socket.create_server((address, number), family=family, backlog=512))
        except OSError as error:
            if listeners and error.errno != errno.EADDRINUSE:
                break  # this machine has but one of them
            for listener in listeners:
                listener.close()
            if listeners and port == 0:
                return listen(host, 0)  # any other will do
            error.filename = address
            raise
    return listeners


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in the event loop that suits the server best."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


class BackgroundServer:
    """Runs a server in a thread with an event loop of its own, from `start` to `stop`."""

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
