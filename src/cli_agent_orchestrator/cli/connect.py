"""The server of a command: the one that `discovery` finds, or one that lasts as long as it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import click
import httpx

from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.config import DEFAULT_PORT
from cli_agent_orchestrator.discovery import Found, discover, is_still_ours, name_server
from cli_agent_orchestrator.transport import TimedTransport

CONNECTED = "connection.connect_tcp.complete"
"""What `httpcore` calls the moment before anything is sent."""


class Guarded(httpx.BaseTransport):
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
            raise httpx.ConnectError("what answers there does not prove to be your server")


@contextmanager
def connected(
    environ: Mapping[str, str], api: str | None = None, *, default_port: int = DEFAULT_PORT
) -> Iterator[ApiClient]:
    """Yield a client of the server to use; `api` is the one named by option.

    A server of our own ends with the command; terminals outlive it in tmux.
    """
    discovery = discover(environ, name_server(environ, api), default_port=default_port)
    for remark in discovery.remarks:
        click.echo(printable(f"cao: {remark}"), err=True)
    with ExitStack() as stack:
        found = discovery.found
        if found is None:
            found = stack.enter_context(run_own_server(environ, default_port))
        transport = Guarded(lambda: is_still_ours(found)) if found.proved else None
        yield stack.enter_context(ApiClient(found.url, token=found.token, transport=transport))


@contextmanager
def run_own_server(environ: Mapping[str, str], default_port: int) -> Iterator[Found]:
    """Run a server in this process, at the usual port if that is free."""
    with importing():  # heavy, and seldom needed
        from cli_agent_orchestrator.cli.serve import own_server

    with own_server(environ, default_port) as found:
        yield found
