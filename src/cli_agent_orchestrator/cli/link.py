"""The server of a run, which may be succeeded by another.

A server that was merely found may be ended by whoever started it. Its agents live on in tmux, so
the run starts a server in its place, which finds them again. Another run that has lost the same
server may be faster: then that one's server is used, and may be succeeded in turn.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx

from cli_agent_orchestrator.address import Found
from cli_agent_orchestrator.cli.connect import Guarded, find_or_start, run_own_server
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.clock import Clock, SystemClock
from cli_agent_orchestrator.config import DEFAULT_PORT, state_folder
from cli_agent_orchestrator.discovery import Named, discover, is_still_ours
from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.runs.conductor import Link

PATIENCE_SECONDS = 2.0
"""How long a server that was found may be away, to be restarted for example."""

logger = logging.getLogger(__name__)


class Lifeline(Guarded):
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
            if has_own or now < self._missing_since + PATIENCE_SECONDS:
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


@contextmanager
def server_for(
    config: RunConfig,
    environ: Mapping[str, str],
    on_warning: Callable[[str], None],
    *,
    default_port: int = DEFAULT_PORT,
) -> Iterator[Link]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    with ExitStack() as stack:

        def connect(found: Found, transport: httpx.BaseTransport | None = None) -> Link:
            client = ApiClient(
                found.url,
                provider=config.provider,
                working_directory=str(config.wd),
                token=found.token,
                transport=transport,
            )
            client.permissions = config.permissions
            stack.callback(client.close)
            return Link(client, found.url, found.how)

        def start_own() -> Found:
            return stack.enter_context(run_own_server(environ, default_port))

        named = Named(config.api, config.api_named_by) if config.api_given else None
        find = partial(
            find_or_start,
            lambda: discover(environ, named, default_port=default_port),
            start_own,
            on_warning,
            state_folder(environ),
        )

        def succeed() -> Found:
            found = find(patience=PATIENCE_SECONDS)
            whose = f"the one at {found.url}" if found.proved else f"one of its own at {found.url}"
            on_warning(f"the server has gone; this run goes on with {whose}")
            return found

        found = find()
        if not found.proved:
            yield connect(found)
        elif found.named:
            yield connect(found, Guarded(lambda: is_still_ours(found)))
        else:
            lifeline = Lifeline(succeed, lambda: is_still_ours(found), SystemClock())
            yield connect(found, lifeline)
