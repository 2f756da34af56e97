"""The HTTP application: operations, access and problems put together."""

import asyncio
import errno
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
import uvloop
from msgspec import Raw
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ..core.clock import SystemClock
from ..errors import ServerConflict, UsageError
from ..terminals.service import TerminalService
from .access import OVER_SOCKET, Access, AccessRules, allowed_names
from .answers import HEARTBEAT_SECONDS, PROBLEM_HANDLERS
from .operations import Backend, Json, Runs, route_of
from .routes import OPERATIONS


def create_app(
    service: TerminalService,
    runs: Runs | None = None,
    *,
    token: str | None,
    allowed_hosts: Iterable[str] = (),
    heartbeat: float = HEARTBEAT_SECONDS,
) -> Starlette:
    """Return the application; with a token of None every user of the machine may use it.

    `allowed_hosts` are names of the server besides the loopback ones.
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
    is_signed_in: Callable[[str, str], bool],
    routes: Iterable[Route],
) -> Starlette:
    rules = replace(app.state.rules, is_open=is_open, is_signed_in=is_signed_in)
    app.user_middleware = [Middleware(Access, rules=rules)]
    app.router.routes.extend(routes)
    return app


async def document(_: Request) -> Json:
    return Json(Raw(Path(__file__).with_name("openapi.json").read_bytes()))


GRACE_SECONDS = 5
"""For requests in progress when the server is to stop."""
KEEP_ALIVE_SECONDS = 60
"""Longer than clients keep an unused connection, so that they never use one that just closed."""
MOST_CONNECTIONS = 100
"""Each takes a file of this process, which may have only 256, and any local program may connect.

Only the user's own programs can open the Unix socket: they are never too many."""
TWINS = {"127.0.0.1": "::1", "localhost": "::1", "0.0.0.0": "::1", "::1": "127.0.0.1"}
"""The other address that `localhost` may mean."""
SOL_LOCAL, LOCAL_PEERPID = 0, 2
"""Of macOS, for the process at the other end of a Unix socket."""

Result = TypeVar("Result")
Main = Callable[[Callable[[int], None], asyncio.Event], Coroutine[Any, Any, None]]
"""A server to be run: calls the function with its port when it is ready, ends after the event."""


class Http(HttpToolsProtocol):
    """uvicorn's HTTP, which knows the process at the other end of a Unix socket."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.gone = asyncio.Event()
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if peer.family == socket.AF_UNIX:
            self.client = (OVER_SOCKET, _process_of(peer))
            self.limit_concurrency = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()


def _process_of(peer: socket.socket) -> int:
    with suppress(OSError):
        if sys.platform == "linux":
            told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", told)[0])
        return peer.getsockopt(SOL_LOCAL, LOCAL_PEERPID)
    return 0


async def serve(
    app: Starlette,
    listeners: Sequence[socket.socket],
    *,
    stop: asyncio.Event,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Serve until `stop` is set: then event streams end at once, other requests in some seconds.

    In place of `uvicorn.Server`: it takes every socket for one of TCP, looks ten times a second
    whether it is to stop, handles signals, and sleeps before it ends.
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
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()

    def connection() -> Http:
        return Http(config, state, {}, loop)

    servers = []
    for listener in listeners:
        is_unix = listener.family == socket.AF_UNIX
        create = loop.create_unix_server if is_unix else loop.create_server
        servers.append(await create(connection, sock=listener))
    await stop.wait()
    app.state.backend.closing.set()
    for server in servers:
        server.close()
    connections = [one for one in state.connections if isinstance(one, Http)]
    for one in connections:
        one.shutdown()
    try:
        async with asyncio.timeout(grace_seconds):
            for one in connections:
                await one.gone.wait()
            # A client that has hung up may have left work.
            if state.tasks:
                await asyncio.wait(state.tasks)
    except TimeoutError:
        for task in state.tasks:
            task.cancel()


async def bind(host: str, port: int, *, or_any: bool = False) -> list[socket.socket]:
    """Return sockets that listen, see `listen`; port 0, or one that is taken, may be any."""
    try:
        (_, _, _, _, address), *_ = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return listen(str(address[0]), port)
    except OSError as error:
        if or_any and port:
            return await bind(host, 0)
        if error.errno == errno.EADDRINUSE:
            raise ServerConflict(
                f"port {port} on {error.filename or host} is taken by another program; "
                "stop it, or choose another port"
            ) from error
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at an address, and at the other one that `localhost` may mean.

    Another user could take that one: `ssh -L 9889:localhost:9889` would lead there. Raises OSError
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
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@contextmanager
def in_background(main: Main) -> Iterator[int]:
    """Run a server in a thread with an event loop of its own; yield its port.

    Raises what ended it, if it was not us.
    """
    started: Future[tuple[int, Callable[[], object]]] = Future()

    async def serving() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        end = partial(loop.call_soon_threadsafe, stop.set)
        await main(lambda port: started.set_result((port, end)), stop)

    with ThreadPoolExecutor(1, "cao-server") as threads:
        ended = threads.submit(lambda: run(serving()))
        either: list[Future[Any]] = [started, ended]
        wait(either, return_when=FIRST_COMPLETED)
        if not started.done():
            ended.result()
        port, end = started.result()
        try:
            yield port
        finally:
            with suppress(RuntimeError):  # it has ended by itself
                end()
            ended.result()
