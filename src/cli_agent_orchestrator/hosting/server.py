"""The server that owns the terminals: as a command of its own, and inside another process."""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ..core.clock import SystemClock
from ..core.files import Folder
from ..core.identity import ADDRESS_FILE, PASSING, Found, server_url
from ..page.app import Views, mount
from ..page.context import House
from ..page.news import News
from ..providers import PROVIDERS, scripted
from ..providers.base import Provider
from ..runs.launch import RunLauncher, run_command
from ..runs.replay import recording_folder
from ..runs.service import RunService
from ..server.app import create_app, serve_runs
from ..server.serve import BackgroundServer, serve
from ..settings.config import DEFAULT_PORT, ServerConfig
from ..settings.table import BY_NAME
from ..terminals.service import TerminalService
from .user import make_token, read_server_config


def find_program(
    provider: Provider, config: ServerConfig, environ: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return by which name the program of an agent is looked for, and where it is, if it is."""
    wanted = config.provider(provider.name).command or provider.program
    return wanted, shutil.which(str(Path(wanted).expanduser()), path=environ.get("PATH"))


def startable_agents(config: ServerConfig) -> list[str]:
    """Return the agents whose programs are there, and the one that is built in."""
    return [
        name
        for name, provider in PROVIDERS.items()
        if name == scripted.name or find_program(provider, config, config.environ)[1]
    ]


Ready = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The token of a server, by which it proves whose it is."""

    token: str = field(repr=False)
    wanted: bool = True
    """Must requests show it?"""


async def serve_terminals(
    config: ServerConfig,
    keys: ServerKeys,
    ready: Ready,
    stop: asyncio.Event,
    *,
    lasting: bool = True,
) -> None:
    """Own the terminals and serve them until `stop` is set; the agents outlive it.

    One that is not `lasting` ends with a short command, and says so.
    """
    clock = SystemClock()
    service = TerminalService(config, clock, partial(recording_folder, config.state_dir.absolute()))
    await service.start()
    folder = Folder(config.state_dir)

    def announce(port: int) -> None:
        """Tell our own commands where to find us."""
        folder.remove(ADDRESS_FILE)
        words = [str(os.getpid()), server_url(config.host, port), *([] if lasting else [PASSING])]
        folder.replace(ADDRESS_FILE, " ".join(words).encode(), mode=0o600)
        ready(port)

    try:
        app = create_app(
            service,
            token=keys.token if keys.wanted else None,
            identity=keys.token,
            allowed_hosts={config.host},
        )
        launcher = RunLauncher(run_command(sys.executable), environment_of_runs(config))
        runs = RunService(config.state_dir, launcher)
        serve_runs(app, runs)
        news = News(config.state_dir)
        agents = partial(startable_agents, config)
        house = House(service, runs, config.state_dir, news, clock, config.environ, agents)
        mount(app, house, keys.token, _load_views)
        await serve(app, config.host, config.port, ready=announce, stop=stop)
    finally:
        folder.remove(ADDRESS_FILE)
        await service.close()


def _load_views() -> Views:
    # Heavy, and most servers show no page.
    from ..page.follow import fragment, watched

    return Views(watched, fragment)


def environment_of_runs(config: ServerConfig) -> dict[str, str]:
    """Return the environment of runs that a server starts: they find it by its state folder.

    What a run is to do is said by who asks for it, and not by how the server was started.
    """
    own = {
        name: value
        for name, value in config.environ.items()
        if name not in BY_NAME and name != "CAO_API"
    }
    if own.get("CAO_PORT"):
        # That port is ours; should they need a server of their own, it takes another.
        own["CAO_PORT"] = "0"
    return {**own, "CAO_STATE_DIR": str(config.state_dir.absolute())}


@contextmanager
def own_server(
    environ: Mapping[str, str],
    default_port: int = DEFAULT_PORT,
    *,
    lasting: bool = True,
    gone: int = 0,
) -> Iterator[Found]:
    """Run a server in a thread, at the usual address if it is free, and yield where it is.

    `gone` is the port of a server that has ended and in whose place it comes.
    Raises ServerConflict if another one has the state folder, or took the port in this moment.
    """
    config = read_server_config(environ)
    usual = config.port if environ.get("CAO_PORT") else default_port
    # An open page, and whoever has named it, finds the one that takes the place of another.
    left = port_left_in(config.state_dir) if usual in (0, default_port) else 0
    wanted = gone or left or usual
    # Before it is tried: whoever has the port would be asked who he is, and may not answer.
    config = replace(config, port=wanted if _is_free(config.host, wanted) else 0)
    keys = ServerKeys(make_token(config.state_dir))
    server = BackgroundServer(
        lambda ready, stop: serve_terminals(config, keys, ready, stop, lasting=lasting)
    )
    port = server.start()
    try:
        yield Found(server_url(config.host, port), keys.token, "its own, as long as it runs")
    finally:
        server.stop()


def port_left_in(state_dir: Path) -> int:
    """Return the port of a server that was killed, as its state folder still tells it; else 0."""
    try:
        _, url, *_ = Folder(state_dir).read(ADDRESS_FILE).decode().split()
        return urlsplit(url).port or 0
    except (OSError, ValueError):
        return 0


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError:
        return False
    return True
