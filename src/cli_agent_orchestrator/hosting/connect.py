"""The server of a command: the one that `discovery` finds, or one that lasts as long as it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from ..client.client import ApiClient
from ..client.connection import TimedTransport
from ..client.find import Discovery, Named, discover, is_still_ours, name_server
from ..core.clock import Clock, SystemClock
from ..core.identity import ADDRESS_FILE, Found
from ..core.programs import ask
from ..errors import FolderTaken, OrchestratorError, ServerConflict, ServerSilent
from ..runs.environment import ServerLink
from ..settings.config import DEFAULT_PORT, state_folder
from ..settings.run_config import RunConfig

CONNECTED = "connection.connect_tcp.complete"
"""What `httpcore` calls the moment before anything is sent."""
ABSENCE_SECONDS = 2.0
"""How long a server that was found may be away, to be restarted for example."""

logger = logging.getLogger(__name__)


class GuardedTransport(httpx.BaseTransport):
    """Reaches a server that has proved to be ours, and nobody who has taken its port since.

    Whoever takes a new connection must prove it again before a request is sent over it.
    """

    def __init__(self, is_still_ours: Callable[[], bool]) -> None:
        self._transport = TimedTransport()
        self._is_still_ours = is_still_ours

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["trace"] = self._look_at_connection
        return self._transport.handle_request(request)

    def close(self) -> None:
        self._transport.close()

    def _look_at_connection(self, event: str, info: Mapping[str, Any]) -> None:
        if event == CONNECTED and not self._is_still_ours():
            info["return_value"].close()
            raise httpx.ConnectError("your server is not there any more, or does not prove itself")


class FailoverTransport(GuardedTransport):
    """Reaches a server; when it has been away for a while, one that takes its place."""

    def __init__(
        self, succeed: Callable[[], Found], is_still_ours: Callable[[], bool], clock: Clock
    ) -> None:
        """`succeed` finds or starts a server; it may raise an `OrchestratorError`, and is tried
        again."""
        super().__init__(is_still_ours)
        self._succeed = succeed
        self._clock = clock
        self._lock = threading.Lock()
        self._missing_since: float | None = None
        self._successor: Found | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._successor is not None:
            _redirect(request, self._successor)
        try:
            response = super().handle_request(request)
        except httpx.ConnectError:
            # The request itself still fails; whoever made it knows how to make it again.
            self._notice_absence()
            raise
        self._missing_since = None
        return response

    def _notice_absence(self) -> None:
        with self._lock:
            now = self._clock.monotonic()
            if self._missing_since is None:
                self._missing_since = now
            has_own = self._successor is not None and not self._successor.proved
            if has_own or now < self._missing_since + ABSENCE_SECONDS:
                return
            try:
                successor = self._succeed()
            except OrchestratorError as error:
                logger.warning("there is no server in place of the lost one: %s", error)
                self._missing_since = now
                return
            self._successor, self._missing_since = successor, None
            self._is_still_ours = lambda: not successor.proved or is_still_ours(successor)


def _redirect(request: httpx.Request, address: Found) -> None:
    url = httpx.URL(address.url)
    request.url = request.url.copy_with(scheme=url.scheme, host=url.host, port=url.port)
    request.headers["Host"] = url.netloc.decode()
    if address.token is not None:
        request.headers["Authorization"] = f"Bearer {address.token}"


def transport_to(found: Found) -> GuardedTransport | None:
    """Return how a server is reached that has no successor; None: in the usual way."""
    return GuardedTransport(lambda: is_still_ours(found)) if found.proved else None


PATIENCE_SECONDS = 10.0
"""How long a server that another command starts may take until it can be found."""
LOOKS = 10
"""How often it is looked for in that time even if nothing is told of it: who was about to start it
may have been killed."""
PS_SECONDS = 5.0

OnRemark = Callable[[str], None]
Importing = Callable[[], AbstractContextManager[None]]
"""What surrounds the import of heavy modules that are seldom needed."""


@contextmanager
def client_for(
    environ: Mapping[str, str],
    api: str | None,
    on_remark: OnRemark,
    *,
    default_port: int = DEFAULT_PORT,
    importing: Importing = nullcontext,
) -> Iterator[ApiClient]:
    """Yield a client of the server that a command is to use; `api` is the one named by option.

    A server of our own ends with the command; terminals outlive it in tmux.
    """
    named = name_server(environ, api)
    with ExitStack() as stack:
        found = find_or_start(
            lambda: discover(environ, named, default_port=default_port),
            lambda: stack.enter_context(
                run_own_server(environ, default_port, importing, lasting=False)
            ),
            on_remark,
            state_folder(environ),
        )
        client = ApiClient(found.url, token=found.token, transport=transport_to(found))
        yield stack.enter_context(client)


def find_or_start(
    find: Callable[[], Discovery],
    start: Callable[[], Found],
    on_remark: OnRemark,
    folder: Path,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Found:
    """Return the server that is found, else one of our own.

    Another command may start its own at the same moment, and have the state folder. Its server is
    found as soon as it tells there that it listens. One that soon ends is used only if it does not
    end in time.
    """
    discovery = find()
    chosen = discovery.found or _start_if_possible(start)
    for remark in discovery.remarks:
        on_remark(remark)
    if chosen is not None:
        return chosen
    with _told_of(folder / ADDRESS_FILE) as wait:
        deadline = time.monotonic() + patience
        while (discovery := find()).found is None:
            try:
                return start()
            except ServerConflict as conflict:
                left = deadline - time.monotonic()
                if left <= 0 and discovery.passing is not None:
                    return discovery.passing
                if left <= 0 and isinstance(conflict, FolderTaken):
                    raise ServerSilent(conflict, is_stopped=False) from None
                if left <= 0:
                    raise
            wait(min(left, patience / LOOKS))
    return discovery.found


def _start_if_possible(start: Callable[[], Found]) -> Found | None:
    """Return a server of our own, None if there will be another in a moment."""
    try:
        return start()
    except FolderTaken as taken:
        if taken.pid is not None and is_stopped(taken.pid):
            raise ServerSilent(taken, is_stopped=True) from None
    except ServerConflict:
        pass
    return None


def is_stopped(pid: int) -> bool:
    """Has somebody stopped a process, so that it does nothing until it is let go on?"""
    with suppress(OSError):
        # Ts
        return ask(["ps", "-o", "stat=", "-p", str(pid)], None, PS_SECONDS).text[:1] == "T"
    return False


@contextmanager
def _told_of(path: Path) -> Iterator[Callable[[float], None]]:
    """Yield what waits, for so many seconds at most, until something happens to a file."""
    # Heavy, and seldom needed.
    from ..core.watch import Waker, watch_file

    waker = Waker()
    with watch_file(path, waker.wake):
        yield waker.wait


@contextmanager
def run_own_server(
    environ: Mapping[str, str],
    default_port: int,
    importing: Importing = nullcontext,
    *,
    lasting: bool = True,
    gone: int = 0,
) -> Iterator[Found]:
    """Run a server in this process, at the usual port if that is free; see `own_server`."""
    with importing():  # heavy, and not needed where a server runs
        from .server import own_server

    with own_server(environ, default_port, lasting=lasting, gone=gone) as found:
        yield found


@contextmanager
def server_for(
    config: RunConfig,
    environ: Mapping[str, str],
    on_warning: OnRemark,
    *,
    default_port: int = DEFAULT_PORT,
    importing: Importing = nullcontext,
) -> Iterator[ServerLink]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    with ExitStack() as stack:

        def connect(found: Found, transport: httpx.BaseTransport | None) -> ServerLink:
            client = ApiClient(
                found.url,
                provider=config.provider,
                working_directory=str(config.wd),
                token=found.token,
                transport=transport,
            )
            client.permissions = config.permissions
            stack.callback(client.close)
            return ServerLink(client, found.url, found.how, found.proved)

        named = Named(config.api, config.api_named_by) if config.api_given else None

        def find(gone: int = 0) -> Found:
            own = partial(run_own_server, environ, default_port, importing, gone=gone)
            return find_or_start(
                lambda: discover(environ, named, default_port=default_port, lasting=True),
                lambda: stack.enter_context(own()),
                on_warning,
                state_folder(environ),
            )

        def succeed() -> Found:
            found = find(gone=httpx.URL(first.url).port or 0)
            whose = f"the one at {found.url}" if found.proved else f"one of its own at {found.url}"
            on_warning(f"the server has gone; this run goes on with {whose}")
            return found

        first = find()
        if first.proved and not first.named:
            failover = FailoverTransport(succeed, lambda: is_still_ours(first), SystemClock())
            yield connect(first, failover)
        else:
            yield connect(first, transport_to(first))
