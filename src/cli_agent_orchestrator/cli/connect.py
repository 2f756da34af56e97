"""The server of a command: the one that `discovery` finds, or one that lasts as long as it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import httpx

from cli_agent_orchestrator.address import ADDRESS_FILE, Found
from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.config import DEFAULT_PORT, state_folder
from cli_agent_orchestrator.discovery import (
    Discovery,
    discover,
    is_still_ours,
    name_server,
)
from cli_agent_orchestrator.errors import ServerConflict
from cli_agent_orchestrator.transport import TimedTransport

CONNECTED = "connection.connect_tcp.complete"
"""What `httpcore` calls the moment before anything is sent."""

PATIENCE_SECONDS = 10.0
"""How long a server that another command starts may take until it can be found."""
LOOKS = 10
"""How often it is looked for in that time even if nothing is told of it: who was about to start it
may have been killed."""


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
    named = name_server(environ, api)
    with ExitStack() as stack:
        found = find_or_start(
            lambda: discover(environ, named, default_port=default_port),
            lambda: stack.enter_context(run_own_server(environ, default_port)),
            lambda remark: click.echo(printable(f"cao: {remark}"), err=True),
            state_folder(environ),
        )
        transport = Guarded(lambda: is_still_ours(found)) if found.proved else None
        yield stack.enter_context(ApiClient(found.url, token=found.token, transport=transport))


def find_or_start(
    find: Callable[[], Discovery],
    start: Callable[[], Found],
    on_remark: Callable[[str], None],
    folder: Path,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Found:
    """Return the server that is found, else one of our own.

    Another command may start its own at the same moment, and have the state folder. Its server is
    found as soon as it tells there that it listens.
    """
    discovery = find()
    for remark in discovery.remarks:
        on_remark(remark)
    if discovery.found is not None:
        return discovery.found
    with suppress(ServerConflict):
        return start()
    with _told_of(folder / ADDRESS_FILE) as wait:
        deadline = time.monotonic() + patience
        while (found := find().found) is None:
            try:
                return start()
            except ServerConflict:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise
            wait(min(left, patience / LOOKS))
    return found


@contextmanager
def _told_of(path: Path) -> Iterator[Callable[[float], None]]:
    """Yield what waits, for so many seconds at most, until something happens to a file."""
    with importing():  # heavy, and seldom needed
        from cli_agent_orchestrator.file_watch import Waker, watch_file

    waker = Waker()
    with watch_file(path, waker.wake):
        yield waker.wait


@contextmanager
def run_own_server(environ: Mapping[str, str], default_port: int) -> Iterator[Found]:
    """Run a server in this process, at the usual port if that is free."""
    with importing():  # heavy, and seldom needed
        from cli_agent_orchestrator.cli.serve import own_server

    with own_server(environ, default_port) as found:
        yield found
