"""The further agents: each with a stub for a model and a home of its own, in a real terminal."""

import asyncio
import json
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cli_agent_orchestrator.clock import SystemClock
from cli_agent_orchestrator.config import ServerConfig
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.models import NewTerminal, OutputMode, TerminalEvent, TerminalStatus
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents.installs import FURTHER_AGENTS, install
from tests.stubs.chat_completions import ChatStub
from tests.stubs.gemini_content import GeminiStub
from tests.stubs.server import Stub

PATIENCE = 90.0
"""Upper limit of every wait, in seconds; waits end by what they wait for."""
KEY = "stub-key"


@dataclass(frozen=True, slots=True)
class Setup:
    """What one agent needs to talk to a stub."""

    args: tuple[str, ...]
    env: dict[str, str]


def _gemini_cli(url: str, home: Path) -> Setup:
    folder = home / ".gemini"
    folder.mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}
    return Setup(("-m", "gemini-2.5-flash"), env)


def _copilot_cli(url: str, home: Path) -> Setup:
    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }
    return Setup((), env)


def _opencode(url: str, home: Path) -> Setup:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"m1": {"name": "M1"}},
    }
    settings = {"provider": {"stub": stub}, "model": "stub/m1", "share": "disabled"}
    (folder / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    return Setup((), {"OPENCODE_DISABLE_MODELS_FETCH": "1"})


@dataclass(frozen=True, slots=True)
class Kind:
    """How one agent is set up, and how it differs from the others."""

    name: str
    stub: Callable[[], Stub]
    setup: Callable[[str, Path], Setup]
    has_profile: bool
    """Can it be given a profile?"""
    stop: str = "Escape"
    """What stops its turn."""
    stops_after: str = ""
    """What it shows when it wants that key once more."""
    refusal: int = 401
    """An HTTP status after which it gives up."""

    def __str__(self) -> str:
        return self.name


KINDS = (
    Kind("gemini_cli", GeminiStub, _gemini_cli, has_profile=False),
    Kind("copilot_cli", ChatStub, _copilot_cli, has_profile=True, stop="C-c"),
    Kind("opencode", ChatStub, _opencode, has_profile=True, stops_after="esc again", refusal=400),
)


@dataclass
class Agent:
    """One agent in its terminal, and what was told of it."""

    kind: Kind
    stub: Stub
    service: TerminalService
    id: str
    work: Path
    told: list[TerminalEvent] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, message: str) -> None:
        """Send a message and see it confirmed."""
        self.told.clear()
        delivery = await self.service.send(self.id, message)
        assert delivery.confirmed, delivery.detail

    async def started(self, turn: int) -> None:
        """Wait until the model got the request of this turn, counted from 1."""
        await asyncio.to_thread(self.stub.wait_for_turns, turn, PATIENCE)

    async def finished(self, turn: int) -> None:
        """Wait until the model's last byte of this turn is sent, counted from 1."""
        await asyncio.to_thread(self.stub.wait_for_finish, turn, PATIENCE)

    @property
    def statuses(self) -> list[TerminalStatus]:
        """The statuses told since the last message was sent."""
        return [event.status for event in self.told if event.kind == "status"]

    async def reached(self, *wanted: TerminalStatus) -> None:
        """Wait for one of these statuses to be told, since the last message was sent."""
        async with asyncio.timeout(PATIENCE):
            while not any(status in wanted for status in self.statuses):
                self._news.clear()
                await self._news.wait()

    async def asks(self) -> None:
        """Wait until a question is drawn: a hook tells of it before it can be answered."""
        status = get_provider(self.kind.name).detect_status
        await self._see(lambda screen: status(screen) is TerminalStatus.WAITING_USER_ANSWER)

    async def _see(self, wanted: Callable[[str], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not wanted(await self.service.output(self.id, OutputMode.SCREEN)):
                # Screens have no event of their own; the limit above is what ends the wait.
                await asyncio.sleep(0.05)

    async def press(self, key: str) -> None:
        """Press a key."""
        await self.service.press(self.id, key)

    async def stop(self) -> None:
        """Stop the turn as a person does."""
        await self.press(self.kind.stop)
        if self.kind.stops_after:
            await self._see(lambda screen: self.kind.stops_after in screen)
            await self.press(self.kind.stop)

    async def answer(self) -> str:
        """Return the last answer."""
        return (await self.service.output(self.id, OutputMode.LAST)).strip()

    async def listen(self) -> None:
        """Note every status until cancelled."""
        async for event in self.service.subscribe():
            if event.terminal_id == self.id:
                self.told.append(event)
                self._news.set()


@dataclass
class Ground:
    """Where the agent of one test lives."""

    kind: Kind
    stub: Stub
    folder: Path

    @asynccontextmanager
    async def agent(self, permissions: str = "full") -> AsyncIterator[Agent]:
        """Start the agent and note what is told about it."""
        service = TerminalService(self.config(permissions), SystemClock())
        await service.start()
        try:
            work = self.folder / "work"
            terminal = await service.create_session(
                NewTerminal(self.kind.name, "tester", str(work))
            )
            agent = Agent(self.kind, self.stub, service, terminal.id, work)
            listening = asyncio.create_task(agent.listen())
            try:
                yield agent
            finally:
                listening.cancel()
                await asyncio.wait([listening])
                # Not left to the end of tmux: some agents outlive their terminal.
                with suppress(NotFound):
                    await service.delete(terminal.id)
        finally:
            await service.close()

    def config(self, permissions: str) -> ServerConfig:
        """Return the settings of a server whose agent talks to the stub."""
        home = self.folder / "home"
        home.mkdir()
        (self.folder / "work").mkdir()
        program = install(self.kind.name, FURTHER_AGENTS[self.kind.name].versions[0]).program
        setup = self.kind.setup(self.stub.url, home)
        kept = ("PATH", "LANG", "LC_ALL", "TMUX_TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        prefix = f"CAO_{self.kind.name.upper()}"
        environ |= setup.env
        environ |= {
            "HOME": str(home),
            f"{prefix}_COMMAND": str(program),
            f"{prefix}_ARGS": shlex.join(setup.args),
            "CAO_STATE_DIR": str(self.folder / "state"),
            "CAO_CONFIG_DIR": str(self.folder / "config"),
            "AGENT_PERMISSIONS": permissions,
        }
        return ServerConfig.from_env(environ)


@contextmanager
def ground_of(kind: Kind, folder: Path) -> Iterator[Ground]:
    """Make a place for an agent; in the end nothing of it runs any more."""
    with kind.stub() as stub:
        yield Ground(kind, stub, folder)
    socket = ServerConfig.from_env({"CAO_STATE_DIR": str(folder / "state")}).tmux_socket
    words = ["tmux", "-L", socket]
    asked = [*words, "display-message", "-p", "#{socket_path}"]
    path = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    subprocess.run([*words, "kill-server"], capture_output=True)
    if path:
        Path(path).unlink(missing_ok=True)
