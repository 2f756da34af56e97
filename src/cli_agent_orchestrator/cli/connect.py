"""Finds the server for a command, or runs one inside the command for as long as it takes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from cli_agent_orchestrator.api.serving import BackgroundServer
from cli_agent_orchestrator.cli.serve import make_token, read_server_config, serve_terminals
from cli_agent_orchestrator.client import ApiClient, find_token
from cli_agent_orchestrator.config import DEFAULT_API
from cli_agent_orchestrator.errors import ApiError, ServerConflict


@contextmanager
def connected(environ: Mapping[str, str]) -> Iterator[ApiClient]:
    """Yield a client of the server at API, else of the one at the default address, else of our own.

    Our own ends with the command; terminals outlive it in tmux.
    """
    given = environ.get("API")
    url = given or DEFAULT_API
    client = ApiClient(url, token=find_token(environ))
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
    with own_server(environ) as url, ApiClient(url, token=find_token(environ)) as client:
        yield client


@contextmanager
def own_server(environ: Mapping[str, str]) -> Iterator[str]:
    """Run a server in a thread, at the default address if it is free, and yield its URL."""
    config = read_server_config(environ)
    token = make_token(config.state_dir)
    server = BackgroundServer(lambda ready, stop: serve_terminals(config, token, ready, stop))
    try:
        port = server.start()
    except ServerConflict:
        free = replace(config, port=0)
        server = BackgroundServer(lambda ready, stop: serve_terminals(free, token, ready, stop))
        port = server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()
