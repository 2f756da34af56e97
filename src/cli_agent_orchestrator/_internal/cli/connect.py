"""The server of a command, and what is said about others that are not used."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import click

from cli_agent_orchestrator._internal.cli.importing import importing
from cli_agent_orchestrator._internal.cli.printable import printable
from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.hosting.connect import client_for


def connected(
    environ: Mapping[str, str], api: str | None = None
) -> AbstractContextManager[ApiClient]:
    """Return a client of the server to use, for as long as the context lasts."""
    return client_for(environ, api, _tell, importing=importing)


def _tell(remark: str) -> None:
    click.echo(printable(f"cao: {remark}"), err=True)
