"""The server of a command: the one that `client.find` finds, or one that lasts as long as it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from ..client.client import ApiClient, socket_transport
from ..client.find import Found, Named, find_server, name_server
from ..core.clock import Clock, SystemClock
from ..core.sockets import FOLDER, LASTING
from ..errors import FolderTaken, OrchestratorError, ServerConflict
from ..settings.config import RunConfig
from ..settings.layout import state_folder

ABSENCE_SECONDS = 2.0
"""How long a server may be away, to be restarted for example."""
PATIENCE_SECONDS = 10.0
"""How long another command may take to start its server."""
LOOK_SECONDS = 1.0
"""How often one looks for it: the end of the other command is not reported."""

logger = logging.getLogger(__name__)


class OwnServer(httpx.BaseTransport):
    """Reaches the user's own server; if it is away for a while, a successor."""

    def __init__(self, path: Path, succeed: Callable[[], Path], clock: Clock) -> None:
        self._transport = socket_transport(path)
        self._succeed = succeed
        self._clock = clock
        self._lock = threading.Lock()
        self._missing_since: float | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = self._transport.handle_request(request)
        except httpx.ConnectError:
            # The request itself still fails; its sender tries again.
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
def client_for(environ: Mapping[str, str], api: str | None) -> Iterator[ApiClient]:
    """Yield a client of the server that a command is to use; `api` is the one named by option.

    A server of our own ends with the command; terminals outlive it in tmux.
    """
    named = name_server(environ, api)
    with ExitStack() as stack:
        found = find_or_start(
            lambda lasting: find_server(environ, named),
            lambda: stack.enter_context(run_own_server(environ, lasting=False)),
            state_folder(environ),
        )
        client = ApiClient(found.url, token=found.token, transport=found.transport)
        yield stack.enter_context(client)


def find_or_start(
    find: Callable[[bool], Found | None],
    start: Callable[[], Found],
    state_dir: Path,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Found:
    """Return the server that is found, else one of our own.

    Another command may start its own at the same moment, and hold the state folder. Its server is
    found as soon as it listens. A server that ends with a short command, which `find(False)` finds,
    is used only if it does not end in time.
    """
    found = find(True)
    if found is not None:
        return found
    try:
        return start()
    except ServerConflict:
        pass  # it may still be about to listen
    # Heavy, and seldom needed.
    from ..core.watch import Waker, watch_file

    deadline, waker = time.monotonic() + patience, Waker()
    with watch_file(state_dir / FOLDER / LASTING, waker.wake):
        while (found := find(True)) is None:
            try:
                return start()
            except ServerConflict as conflict:
                if (left := deadline - time.monotonic()) <= 0:
                    if (passing := find(False)) is not None:
                        return passing
                    if not isinstance(conflict, FolderTaken):
                        raise
                    pid = conflict.pid or "PID"
                    raise ServerConflict(
                        f"the server (process {pid}) that has the state folder {conflict.folder} "
                        f"does not answer; if it was stopped, `kill -CONT {pid}` lets it go on, "
                        f"and `kill -9 {pid}` ends it (the agents go on without it)"
                    ) from None
            waker.wait(min(left, LOOK_SECONDS))
    return found


@contextmanager
def run_own_server(environ: Mapping[str, str], *, lasting: bool = True) -> Iterator[Found]:
    # Heavy, and not needed where a server runs.
    from .server import own_server

    with own_server(environ, lasting=lasting) as (url, path):
        yield Found(url, "its own, as long as it runs", path)


@contextmanager
def server_for(
    config: RunConfig, environ: Mapping[str, str], on_warning: Callable[[str], None]
) -> Iterator[tuple[ApiClient, Found]]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    named = Named(config.api, config.api_named_by) if config.api_given else None
    with ExitStack() as stack:

        def find() -> Found:
            return find_or_start(
                lambda lasting: find_server(environ, named, lasting=lasting),
                lambda: stack.enter_context(run_own_server(environ)),
                state_folder(environ),
            )

        def succeed() -> Path:
            found = find()
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
        yield client, first
