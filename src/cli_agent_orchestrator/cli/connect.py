"""The server of a command: the one that `discovery` finds, or one that lasts as long as it."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import click

from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.config import DEFAULT_PORT
from cli_agent_orchestrator.discovery import Found, discover, name_server


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
        yield stack.enter_context(ApiClient(found.url, token=found.token))


@contextmanager
def run_own_server(environ: Mapping[str, str], default_port: int) -> Iterator[Found]:
    """Run a server in this process, at the usual port if that is free."""
    with importing():  # heavy, and seldom needed
        from cli_agent_orchestrator.cli.serve import own_server

    with own_server(environ, default_port) as found:
        yield found
