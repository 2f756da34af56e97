"""`cao server`, and the same server inside another command."""

import asyncio
import logging
import os
import secrets
import signal
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli_agent_orchestrator.api.app import create_app
from cli_agent_orchestrator.api.serving import run, serve
from cli_agent_orchestrator.clock import SystemClock
from cli_agent_orchestrator.config import ServerConfig, config_folder
from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.terminals.service import TerminalService

Ready = Callable[[int], None]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def read_server_config(environ: Mapping[str, str]) -> ServerConfig:
    """Return the server's settings: the environment, and the user's own configuration file."""
    file = config_folder(environ) / "config.toml"
    user_file: dict[str, Any] = {}
    if file.exists():
        try:
            user_file = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(str(file), "not readable", f"a TOML file ({error})") from None
    return ServerConfig.from_env(environ, user_file)


def make_token(state_dir: Path) -> str:
    """Return the token of a state folder; it is made at the first start, for its owner alone."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = state_dir / "token"
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_urlsafe(32))
    except FileExistsError:
        file.chmod(0o600)
    return file.read_text(encoding="utf-8").strip()


async def serve_terminals(
    config: ServerConfig, token: str | None, ready: Ready, stop: asyncio.Event
) -> None:
    """Own the terminals and serve them until `stop` is set; the agents outlive it."""
    service = TerminalService(config, SystemClock())
    await service.start()
    try:
        app = create_app(service, token=token, allowed_hosts={config.host})
        await serve(app, config.host, config.port, ready=ready, stop=stop)
    finally:
        await service.close()


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1, or CAO_HOST]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: 9889, or CAO_PORT]")
@click.option("--no-auth", is_flag=True, help="Ask for no token: for clients that know none.")
def server(host: str | None, port: int | None, no_auth: bool) -> None:
    """Run the server that owns the terminals.

    It listens on this machine only, and asks for the token in its state folder, which `cao`
    finds by itself. Ctrl-C ends the server; the agents go on in tmux, and the next start finds
    them again.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    config = read_server_config(os.environ)
    config = replace(config, host=host or config.host)
    config = replace(config, port=config.port if port is None else port)
    if no_auth and config.host not in LOOPBACK:
        raise UsageError(f"--no-auth on {config.host} would let everybody in; use 127.0.0.1")
    token = None if no_auth else make_token(config.state_dir)
    if no_auth:
        click.echo("Warning: no token is asked for; any program of any user here may drive it.")
    run(_serve_until_signal(config, token))


async def _serve_until_signal(config: ServerConfig, token: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def ready(port: int) -> None:
        click.echo(f"Listening on http://{config.host}:{port}  (Ctrl-C ends it; agents go on)")
        if token is not None:
            click.echo(f"Token: {config.state_dir / 'token'}")

    await serve_terminals(config, token, ready, stop)
