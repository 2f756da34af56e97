"""The server of a run: the one that was named, else one that is there, else one of our own.

A server that was merely found may be ended by whoever started it. Its agents live on in tmux, so
the run starts a server in its place, which finds them again.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx

from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.client import (
    IDLE_CONNECTION_SECONDS,
    ApiClient,
    find_server,
    find_token,
)
from cli_agent_orchestrator.clock import Clock, SystemClock
from cli_agent_orchestrator.config import DEFAULT_PORT, read_int
from cli_agent_orchestrator.errors import ApiError, OrchestratorError
from cli_agent_orchestrator.run_config import RunConfig

PATIENCE_SECONDS = 2.0
"""How long a server that was found may be away, to be restarted for example."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and what it wants to see."""

    url: str
    token: str | None


class Lifeline(httpx.BaseTransport):
    """Reaches a server; when nothing has listened there for a while, one that takes its place."""

    def __init__(self, start: Callable[[], Address], clock: Clock) -> None:
        """`start` starts a server; it may raise an `OrchestratorError`, and is tried again."""
        limits = httpx.Limits(keepalive_expiry=IDLE_CONNECTION_SECONDS)
        self._transport = httpx.HTTPTransport(trust_env=False, limits=limits)
        self._start = start
        self._clock = clock
        self._lock = threading.Lock()
        self._missing_since: float | None = None
        self._successor: Address | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._successor is not None:
            _redirect(request, self._successor)
        try:
            response = self._transport.handle_request(request)
        except httpx.ConnectError:
            # The request itself still fails; whoever made it knows how to make it again.
            self._notice_absence()
            raise
        self._missing_since = None
        return response

    def close(self) -> None:
        self._transport.close()

    def _notice_absence(self) -> None:
        with self._lock:
            now = self._clock.monotonic()
            if self._missing_since is None:
                self._missing_since = now
            if self._successor is not None or now < self._missing_since + PATIENCE_SECONDS:
                return
            try:
                self._successor = self._start()
            except OrchestratorError as error:
                logger.warning("no server could be started in place of the lost one: %s", error)
                self._missing_since = now


def _redirect(request: httpx.Request, address: Address) -> None:
    url = httpx.URL(address.url)
    request.url = request.url.copy_with(scheme=url.scheme, host=url.host, port=url.port)
    request.headers["Host"] = url.netloc.decode()
    if address.token is not None:
        request.headers["Authorization"] = f"Bearer {address.token}"


@contextmanager
def server_for(
    config: RunConfig, environ: Mapping[str, str], on_warning: Callable[[str], None]
) -> Iterator[ApiClient]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    with ExitStack() as stack:

        def connect(url: str, transport: httpx.BaseTransport | None = None) -> ApiClient:
            client = ApiClient(
                url,
                provider=config.provider,
                working_directory=str(config.wd),
                token=find_token(environ, url),
                transport=transport,
            )
            stack.callback(client.close)
            return client

        def start_own() -> str:
            with importing():  # heavy, and not always needed
                from cli_agent_orchestrator.cli.serve import own_server

            return stack.enter_context(own_server(environ))

        def succeed() -> Address:
            url = start_own()
            on_warning(f"the server has gone; this run goes on with one of its own at {url}")
            return Address(url, find_token(environ, url))

        if config.api_given:
            client = connect(config.api)
            client.features()
        elif (url := find_running_server(environ)) is not None:
            client = connect(url, Lifeline(succeed, SystemClock()))
        else:
            client = connect(start_own())
        yield client


def find_running_server(environ: Mapping[str, str]) -> str | None:
    """Return the address of a server that lets us in: of our state folder, or at the usual port."""
    port = read_int(environ, "CAO_PORT", DEFAULT_PORT, 0)
    usual = f"http://localhost:{port}" if port else None
    candidates = (find_server(environ), usual)
    return next((url for url in candidates if url and _lets_us_in(url, environ)), None)


def _lets_us_in(url: str, environ: Mapping[str, str]) -> bool:
    with ApiClient(url, token=find_token(environ, url)) as client:
        try:
            client.health()
            # Everybody may ask for the health, also of a server that is somebody else's.
            client.list_sessions()
        except ApiError:
            return False
    return True
