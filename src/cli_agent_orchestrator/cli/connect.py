"""Finds the server for a command, or runs one inside the command for as long as it takes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.client import ApiClient, find_server, find_token
from cli_agent_orchestrator.config import DEFAULT_API
from cli_agent_orchestrator.errors import ApiError


@contextmanager
def connected(environ: Mapping[str, str]) -> Iterator[ApiClient]:
    """Yield a client of the server at API, else of one that runs here, else of our own.

    One that runs here is that of the state folder, or one at the default address. Our own ends
    with the command; terminals outlive it in tmux.
    """
    given = environ.get("API")
    url = given or find_server(environ) or DEFAULT_API
    client = ApiClient(url, token=find_token(environ, url))
    try:
        client.health()
    except ApiError:
        client.close()
        if given:
            raise
    else:
        try:
            yield client
        finally:
            client.close()
        return
    with importing():  # heavy, and seldom needed
        from cli_agent_orchestrator.cli.serve import own_server

    with own_server(environ) as url, ApiClient(url, token=find_token(environ, url)) as client:
        yield client
