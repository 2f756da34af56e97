"""`cao server`."""

import asyncio
import logging
import os
import signal

import click
from msgspec.structs import replace

from ..core.sockets import server_url
from ..errors import FolderTaken, UsageError
from ..hosting.server import serve_terminals
from ..hosting.user import read_server_config
from ..runs.log import OneLine
from ..runs.record import short_name
from ..runs.view import find_live_run
from ..server.app import run
from ..settings.config import ServerConfig

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1, or CAO_HOST]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: 9889, or CAO_PORT]")
@click.option("--no-auth", is_flag=True, help="Ask for no token: for clients that know none.")
def server(host: str | None, port: int | None, no_auth: bool) -> None:
    """Run the server that owns the terminals.

    It listens on this machine only, and asks for the token in its state folder. Ctrl-C ends the
    server; the agents go on in tmux, and the next start finds them again.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    config = read_server_config(os.environ)
    config = replace(config, host=host or config.host, port=config.port if port is None else port)
    if no_auth and config.host not in LOOPBACK:
        raise UsageError(f"--no-auth on {config.host} would let everybody in; use 127.0.0.1")
    if no_auth:
        click.echo("Warning: no token is asked for; any program of any user here may drive it.")
    try:
        run(_serve_until_signal(config, auth=not no_auth))
    except FolderTaken as taken:
        name = find_live_run(config.state_dir, pid=taken.pid)
        raise FolderTaken(taken.folder, taken.pid, short_name(name) if name else "") from None


async def _serve_until_signal(config: ServerConfig, *, auth: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def ready(port: int) -> None:
        click.echo(f"Listening on {server_url(config.host, port)}  (Ctrl-C ends it; agents go on)")
        if config.host not in LOOPBACK:
            click.echo(
                f"Warning: {config.host} can be reached from outside, and nothing is encrypted."
            )
        if auth:
            click.echo(f"Token: {config.state_dir / 'token'}")
        click.echo("In the browser: cao dashboard")

    await serve_terminals(config, ready, stop, auth=auth)
