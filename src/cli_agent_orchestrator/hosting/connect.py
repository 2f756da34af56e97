"""The server of a command: the one that `client.find` finds, or one that lasts as long as it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import httpx

from ..client.client import ApiClient, socket_transport
from ..client.find import Found, Named, find_server, name_server
from ..core.clock import Clock, SystemClock
from ..core.programs import ask
from ..core.sockets import FOLDER, LASTING
from ..errors import FolderTaken, OrchestratorError, ServerConflict, ServerSilent
from ..runs.request import ServerLink
from ..settings.config import RunConfig, state_folder

ABSENCE_SECONDS = 2.0
"""How long a server that was found may be away, to be restarted for example."""
PATIENCE_SECONDS = 10.0
"""How long a server that another command starts may take until it can be found."""
LOOKS = 10
"""How often it is looked for in that time even if nothing is told of it: who was about to start it
may have been killed."""
PS_SECONDS = 5.0

logger = logging.getLogger(__name__)

Importing = Callable[[], AbstractContextManager[None]]
"""What surrounds the import of heavy modules that are seldom needed."""


class OwnServer(httpx.BaseTransport):
    """Reaches the user's own server; when it has been away for a while, one in its place."""

    def __init__(self, path: Path, succeed: Callable[[], Path], clock: Clock) -> None:
        """`succeed` finds or starts a server and returns its socket; it may raise an
        `OrchestratorError`, and is tried again."""
        self._transport = socket_transport(path)
        self._succeed = succeed
        self._clock = clock
        self._lock = threading.Lock()
        self._missing_since: float | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = self._transport.handle_request(request)
        except httpx.ConnectError:
            # The request itself still fails; its sender knows how to send it again.
            self._notice_absence()
            raise
        self._missing_since = None
        return response

    def _notice_absence(self) -> None:
        with self._lock:
            now = self._clock.monotonic()
            if self._missing_since is None:
                self._missing_since = now
            if now < self._missing_since + ABSENCE_SECONDS:
                return
            try:
                self._transport = socket_transport(self._succeed())
            except OrchestratorError as error:
                logger.warning("there is no server in place of the lost one: %s", error)
                self._missing_since = now
            else:
                self._missing_since = None

    def close(self) -> None:
        self._transport.close()


@contextmanager
def client_for(
    environ: Mapping[str, str], api: str | None, *, importing: Importing = nullcontext
) -> Iterator[ApiClient]:
    """Yield a client of the server that a command is to use; `api` is the one named by option.

    A server of our own ends with the command; terminals outlive it in tmux.
    """
    named = name_server(environ, api)
    with ExitStack() as stack:
        found = find_or_start(
            lambda lasting: find_server(environ, named),
            lambda: stack.enter_context(run_own_server(environ, importing, lasting=False)),
            state_folder(environ),
        )
        client = ApiClient(found.url, token=found.token, transport=found.transport)
        yield stack.enter_context(client)


def find_or_start(
    find: Callable[[bool], Found | None],
    start: Callable[[], Found],
    folder: Path,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Found:
    """Return the server that is found, else one of our own.

    Another command may start its own at the same moment, and have the state folder. Its server is
    found as soon as it listens. One that soon ends, which `find` finds if it need not be a lasting
    one, is used only if it does not end in time.
    """
    found = find(True)
    if found is not None:
        return found
    try:
        return start()
    except ServerConflict as conflict:
        taken = conflict
    pid = taken.pid if isinstance(taken, FolderTaken) else None
    if isinstance(taken, FolderTaken) and pid is not None and is_stopped(pid):
        raise ServerSilent(taken, is_stopped=True)
    with _told_of(folder / FOLDER / LASTING) as wait:
        deadline = time.monotonic() + patience
        while (found := find(True)) is None:
            try:
                return start()
            except ServerConflict as conflict:
                left = deadline - time.monotonic()
                if left <= 0 and (passing := find(False)) is not None:
                    return passing
                if left <= 0 and isinstance(conflict, FolderTaken):
                    raise ServerSilent(conflict, is_stopped=False) from None
                if left <= 0:
                    raise
            wait(min(left, patience / LOOKS))
    return found


def is_stopped(pid: int) -> bool:
    """Has a process been stopped, so that it does nothing until it is continued?"""
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
    importing: Importing = nullcontext,
    *,
    lasting: bool = True,
    gone: int = 0,
) -> Iterator[Found]:
    with importing():  # heavy, and not needed where a server runs
        from .server import own_server

    with own_server(environ, lasting=lasting, gone=gone) as (url, path):
        yield Found(url, "its own, as long as it runs", path)


@contextmanager
def server_for(
    config: RunConfig,
    environ: Mapping[str, str],
    on_warning: Callable[[str], None],
    *,
    importing: Importing = nullcontext,
) -> Iterator[ServerLink]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    named = Named(config.api, config.api_named_by) if config.api_given else None
    with ExitStack() as stack:

        def find(gone: int = 0) -> Found:
            return find_or_start(
                lambda lasting: find_server(environ, named, lasting=lasting),
                lambda: stack.enter_context(run_own_server(environ, importing, gone=gone)),
                state_folder(environ),
            )

        def succeed() -> Path:
            found = find(gone=httpx.URL(first.url).port or 0)
            assert found.socket is not None, "no server was named"
            on_warning(f"the server has gone; this run goes on with {found.url} ({found.how})")
            return found.socket

        first = find()
        transport = first.transport
        if named is None and first.socket is not None:
            transport = OwnServer(first.socket, succeed, SystemClock())
        client = ApiClient(
            first.url,
            provider=config.provider,
            working_directory=str(config.wd),
            token=first.token,
            transport=transport,
        )
        client.permissions = config.permissions
        stack.callback(client.close)
        yield ServerLink(client, first.url, first.how, first.socket is not None)
