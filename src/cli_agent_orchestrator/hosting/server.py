"""The server that owns the terminals: as a command of its own, and inside another process."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

from ..core.clock import SystemClock
from ..core.files import Folder
from ..core.sockets import (
    ADDRESS_FILE,
    LASTING,
    NOWHERE,
    PASSING,
    find_socket,
    listening,
    server_url,
)
from ..page.app import Fetch, Watch, mount
from ..page.stream import News, PageContext
from ..runs.screens import recording_folder
from ..runs.service import RunService, launch_run
from ..server.app import bind, create_app, in_background, serve
from ..settings.config import ServerConfig
from ..settings.table import BY_NAME
from ..terminals.service import TerminalService
from .user import make_token, read_server_config, startable_agents


async def serve_terminals(
    config: ServerConfig,
    ready: Callable[[int], None],
    stop: asyncio.Event,
    *,
    auth: bool = True,
    lasting: bool = True,
    any_port: bool = False,
) -> None:
    """Own the terminals and serve them until `stop` is set; the agents outlive it.

    A server that is not `lasting` ends with a short command: it serves no browser and has no port.
    `ready` gets the port; with `any_port` it is another one if that of the settings is taken.
    Without `auth` no token is needed there.
    """
    token = make_token(config.state_dir)
    clock = SystemClock()
    service = TerminalService(config, clock, partial(recording_folder, config.state_dir.absolute()))
    await service.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        environ = environment_of_runs(config)
        runs = RunService(config.state_dir, partial(launch_run, environ=environ), environ)
        app = create_app(service, runs, token=token if auth else None, allowed_hosts={config.host})
        port, listeners = 0, []
        if lasting:
            agents = partial(startable_agents, config)
            news = News(config.state_dir)
            context = PageContext(
                service, runs, config.state_dir, news, clock, config.environ, agents
            )
            mount(app, context, token, _load_views)
            bound = await bind(config.host, config.port, or_any=any_port)
            listeners += [stack.enter_context(one) for one in bound]
            port = listeners[0].getsockname()[1]
            folder = Folder(config.state_dir)
            folder.remove(ADDRESS_FILE)
            folder.replace(ADDRESS_FILE, server_url(config.host, port).encode(), mode=0o600)
            stack.callback(folder.remove, ADDRESS_FILE)
        # Last: when the socket is there, so is the address.
        name = LASTING if lasting else PASSING
        own = listening(config.state_dir, name, config.environ)
        listeners.append(stack.enter_context(own))
        ready(port)
        await serve(app, listeners, stop=stop)


def _load_views() -> tuple[Watch, Fetch]:
    # Heavy, and most servers show no page.
    from ..page.follow import fragment, watched

    return watched, fragment


def environment_of_runs(config: ServerConfig) -> dict[str, str]:
    own = {
        name: value
        for name, value in config.environ.items()
        if name not in BY_NAME and name != "CAO_API"
    }
    return {**own, "CAO_STATE_DIR": str(config.state_dir.absolute())}


@contextmanager
def own_server(environ: Mapping[str, str], *, lasting: bool = True) -> Iterator[tuple[str, Path]]:
    """Run a server in a thread, at its usual port if that is free; yield its address and socket.

    Raises ServerConflict if another one has the state folder.
    """
    config = read_server_config(environ)
    with in_background(partial(serve_terminals, config, lasting=lasting, any_port=True)) as port:
        url = server_url(config.host, port) if lasting else NOWHERE
        path = find_socket(config.state_dir, LASTING if lasting else PASSING)
        assert path is not None, "it listens"
        yield url, path
