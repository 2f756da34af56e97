"""A real server on a free port, with a fake service behind it."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette

from cli_agent_orchestrator.core.sockets import ADDRESS_FILE, LASTING, PASSING, listening
from cli_agent_orchestrator.server.app import bind, create_app, in_background, serve
from tests.fakes import FakeService

TOKEN = "0123456789abcdef-secret"
WAIT_SECONDS = 60.0

Result = TypeVar("Result")


@dataclass
class RunningApi:
    """A server that answers on `url`."""

    service: FakeService
    port: int
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = TOKEN) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=WAIT_SECONDS, trust_env=False
        )

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run something in the server's own loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(WAIT_SECONDS)

    def call(self, action: Callable[[], Result]) -> Result:
        """Call something in the server's own loop and wait for it."""

        async def act() -> Result:
            return action()

        return self.run(act())

    def wait_until(self, condition: Callable[[], bool]) -> None:
        wait_in(self.loop, condition)


def wait_in(loop: asyncio.AbstractEventLoop, condition: Callable[[], bool]) -> None:
    """Let the loop of a server turn until something is so."""

    async def turn() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.001)

    asyncio.run_coroutine_threadsafe(turn(), loop).result(WAIT_SECONDS)


async def serve_at(
    port: int,
    app: Starlette,
    ready: Callable[[int], None],
    stop: asyncio.Event,
    state: Path | None = None,
    *,
    lasting: bool = True,
    grace: float = WAIT_SECONDS,
) -> None:
    """Serve at a port of the loopback address until `stop` is set."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in await bind("127.0.0.1", port)]
        real = listeners[0].getsockname()[1]
        if state is not None:
            (state / ADDRESS_FILE).write_text(f"http://127.0.0.1:{real}", encoding="utf-8")
            name = LASTING if lasting else PASSING
            listeners.append(stack.enter_context(listening(state, name, {})))
        ready(real)
        await serve(app, listeners, stop=stop, grace_seconds=grace)


@contextlib.contextmanager
def running_api(
    service: FakeService | None = None,
    *,
    token: str | None = TOKEN,
    state: Path | None = None,
    lasting: bool = True,
    grace: float = WAIT_SECONDS,
    **settings: Any,
) -> Iterator[RunningApi]:
    """Serve until the block is left, also over the socket of a state folder.

    `settings` go to `create_app`.
    """
    fake = service or FakeService()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        loops.append(asyncio.get_running_loop())
        app = create_app(fake, token=token, **settings)
        await serve_at(0, app, ready, stop, state, lasting=lasting, grace=grace)

    with contextlib.ExitStack() as stack:
        port = stack.enter_context(in_background(main))
        yield RunningApi(fake, port, loops[0], stack.close)
