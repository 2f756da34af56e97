"""Real agent programs in real terminals, with a stub for a model; run by `make test-agents`."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli_agent_orchestrator.clock import SystemClock
from cli_agent_orchestrator.config import ServerConfig
from cli_agent_orchestrator.models import (
    Delivery,
    NewTerminal,
    OutputMode,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents.installs import AGENTS
from tests.agents.setups import agent_environment

# Named twice because it is a fixture: what uses it is not seen here.
from tests.e2e.conftest import machine as machine
from tests.stubs import AnthropicStub, OpenAIStub

STUBS: dict[str, Callable[[], OpenAIStub | AnthropicStub]] = {
    "codex": OpenAIStub,
    "claude_code": AnthropicStub,
}
PATIENCE = 60.0
"""Upper limit of every wait, in seconds; waits end by what they wait for."""


@dataclass(frozen=True, slots=True)
class Kind:
    """An agent in one version."""

    agent: str
    version: str

    def __str__(self) -> str:
        return f"{self.agent}-{self.version}"


KINDS = [Kind(agent.name, version) for agent in AGENTS.values() for version in agent.versions]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what installs programs unless it is asked for: `pytest -m agents`."""
    if "agents" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("agents")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@dataclass(frozen=True, slots=True)
class Seen:
    """A status as the event stream told it."""

    status: TerminalStatus
    reason: str
    at: float
    """In the time of `time.monotonic()`, as the stub's ledger has it."""


@dataclass
class Driven:
    """One agent in its terminal, with everything that was seen of it."""

    kind: Kind
    stub: OpenAIStub | AnthropicStub
    service: TerminalService
    terminal: Terminal
    work: Path
    seen: list[Seen] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def codex(self) -> bool:
        """Is it Codex?"""
        return self.kind.agent == "codex"

    async def send(self, message: str) -> Delivery:
        """Send a message."""
        return await self.service.send(self.terminal.id, message)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            await self.service.press(self.terminal.id, key)

    async def started(self, turn: int) -> None:
        """Wait until the model got the request of this turn, counted from 1."""
        await asyncio.to_thread(self.stub.wait_for_turns, turn, PATIENCE)

    async def finished(self, turn: int) -> float:
        """Wait until the model's last byte of this turn is sent; return when that was."""
        done = await asyncio.to_thread(self.stub.wait_for_finish, turn, PATIENCE)
        assert done.finished is not None
        return done.finished

    async def reached(self, *statuses: TerminalStatus, after: float = 0.0) -> Seen:
        """Wait for one of these statuses to be told, not before a given time."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for seen in self.seen:
                    if seen.at >= after and seen.status in statuses:
                        return seen
                self._news.clear()
                await self._news.wait()

    async def shows(self, text: str) -> None:
        """Wait until a text is on the screen."""
        async with asyncio.timeout(PATIENCE):
            while text not in await self.service.output(self.terminal.id, OutputMode.SCREEN):
                # Screens have no event of their own; the limit above is what ends the wait.
                await asyncio.sleep(0.02)

    async def answer(self, key: str) -> None:
        """Answer the dialog on the screen, as a person would who sees whether it helped.

        Codex draws no dialog within a second of a key press, and what is pressed before a
        dialog listens is lost.
        """
        async with asyncio.timeout(PATIENCE):
            await self._asking(True)
            while True:
                await self.press(key)
                with suppress(TimeoutError):
                    async with asyncio.timeout(3):
                        return await self._asking(False)

    async def _asking(self, wanted: bool) -> None:
        """Wait until there is a dialog on the screen, or none."""
        provider = get_provider(self.kind.agent)
        while True:
            screen = await self.service.output(self.terminal.id, OutputMode.SCREEN)
            waits = provider.detect_status(screen) is TerminalStatus.WAITING_USER_ANSWER
            if waits is wanted:
                return
            await asyncio.sleep(0.02)

    def told_between(self, start: float, end: float) -> set[TerminalStatus]:
        """Return the statuses told in a stretch of time."""
        return {seen.status for seen in self.seen if start <= seen.at < end}

    async def listen(self) -> None:
        """Note every status of the terminal until cancelled."""
        async for event in self.service.subscribe():
            if event.terminal_id == self.terminal.id:
                self.seen.append(Seen(event.status, event.reason, time.monotonic()))
                self._news.set()


@dataclass
class Ground:
    """Where the agents of one test live."""

    kind: Kind
    stub: OpenAIStub | AnthropicStub
    folder: Path

    @asynccontextmanager
    async def agent(
        self, permissions: str = "full", profile: str = "tester"
    ) -> AsyncIterator[Driven]:
        """Start an agent and note what is told about it."""
        config = self.config(permissions)
        service = TerminalService(config, SystemClock())
        await service.start()
        try:
            new = NewTerminal(self.kind.agent, profile, str(self.work))
            terminal = await service.create_session(new)
            driven = Driven(self.kind, self.stub, service, terminal, self.work)
            listening = asyncio.create_task(driven.listen())
            try:
                yield driven
            finally:
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening
                await service.delete(terminal.id)
        finally:
            await service.close()

    @property
    def work(self) -> Path:
        """The agents' working directory."""
        return self.folder / "work.d"

    def config(self, permissions: str) -> ServerConfig:
        """Return the settings of a server whose agents talk to the stub."""
        self.work.mkdir(exist_ok=True)
        setup = agent_environment(
            self.kind.agent, self.kind.version, self.stub.url, self.folder / "home", self.work
        )
        kept = ("PATH", "LANG", "LC_ALL", "TMUX_TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        environ |= setup.server_environ()
        environ |= {
            "CAO_STATE_DIR": str(self.folder / "state"),
            "CAO_CONFIG_DIR": str(self.folder / "config"),
            "AGENT_PERMISSIONS": permissions,
        }
        return ServerConfig.from_env(environ)


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def ground(kind: Kind, tmp_path: Path) -> Iterator[Ground]:
    with STUBS[kind.agent]() as stub:
        ground = Ground(kind, stub, tmp_path)
        yield ground
        socket = ground.config("full").tmux_socket
        words = ["tmux", "-L", socket]
        path = subprocess.run(
            [*words, "display-message", "-p", "#{socket_path}"], capture_output=True, text=True
        ).stdout.strip()
        subprocess.run([*words, "kill-server"], capture_output=True)
        if path:
            Path(path).unlink(missing_ok=True)
