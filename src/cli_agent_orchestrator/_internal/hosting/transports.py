"""How requests reach a server that may go away: nobody else gets them, and another takes its place.

A server that was merely found may be ended by whoever started it. Its agents live on in tmux, so
the run starts a server in its place, which finds them again. Another run that has lost the same
server may be faster: then that one's server is used, and may be succeeded in turn. One that a short
command hosts is not: it ends at once.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from cli_agent_orchestrator._internal.address import Found
from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.discovery import is_still_ours
from cli_agent_orchestrator._internal.transport import TimedTransport
from cli_agent_orchestrator.errors import OrchestratorError

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
