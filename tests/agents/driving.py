"""A real agent in a real terminal, with a stub for a model: how it is started, told and watched."""

import asyncio
import os
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import (
    Delivery,
    NewTerminal,
    OutputMode,
    Terminal,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.agents.accuracy.score import Told
from tests.agents.installs import AGENTS, FURTHER_AGENTS, LANE_AGENTS
from tests.agents.setups import agent_environment
from tests.stubs import AnthropicStub, ChatStub, GeminiStub, OpenAIStub
from tests.stubs.server import Stub

Found = TypeVar("Found")
Test = TypeVar("Test", bound=Callable[..., object])
PATIENCE = 60.0
"""Upper limit of every wait, in seconds; waits end by what they wait for."""
START_SECONDS = "180"
"""OpenCode installs packages when it is started for the first time."""
REPEAT_SECONDS = 3.0
"""After how long a person presses a key again that did not help."""
LOOK_SECONDS = 0.02
"""Between looks at a screen: screens have no event of their own."""
STILL_SECONDS = 1.0
"""A screen that was the same so long is not being drawn any more."""
TYPING_PAUSE = 0.5
"""Between the last letter and the Enter of a person."""
SEEN_LETTERS = 40
"""As many letters of a text that is typed stand in one line, also of a narrow window."""
LETTERS = "abcdefghij ABC 0123456789\n\t.,;\"'`$\\{}()"
WIDE_LETTERS = "äöü€漢字🙂"
"""Together, everything that is hard to deliver."""


def hard_text(size: int, letters: str = LETTERS + WIDE_LETTERS) -> str:
    """Return a text of so many bytes that is hard to deliver, the same for each size."""
    chosen = random.Random(size).choices(letters, k=size)
    middle = "".join(chosen).encode()[: max(0, size - 2)].decode(errors="ignore")
    # Agents may trim the ends.
    missing = size - 1 - len(middle.encode())
    return "x" + middle + "." * missing


TROUBLES = ("http:401", "http:429", "http:500", "http:529", "limit", "fail", "cut")
AT_WORK = frozenset({TerminalStatus.PROCESSING})


@dataclass(frozen=True, slots=True)
class Manners:
    """How a person deals with one agent, and what model it talks to."""

    stub: Callable[..., Stub]
    allow: str
    """The key that allows what it asks for."""
    stop: str = "Escape"
    """The key that stops its turn."""
    stops_after: str = ""
    """What it shows when it wants that key once more."""
    has_profile: bool = True
    """Can it be given a profile?"""
    has_shell: bool = True
    """Does a `!` open a shell for the person?"""
    signs_in: bool = True
    has_questions: bool = True
    """Has it a tool that asks a person?"""
    runs_commands: bool = True
    """Does it run commands without asking, if it may do anything?"""
    troubles: tuple[str, ...] = TROUBLES
    """After which it gives up."""
    asks: str = "escalate:touch ../asked.txt"
    """What it must not do without a permission."""
    leaves_shell: str = "Escape"
    """The key that leaves its shell, or takes back the `!` that opens one elsewhere."""
    lines: int = 2000
    """Of an answer that it shows whole."""
    bullet: str = "-"
    """What it draws before an item of a list."""


FURTHER: Any = {"allow": "Enter", "asks": "run:touch asked.txt", "lines": 300}
MANNERS = {
    # Older versions of Codex do not hear Esc while they stream.
    "codex": Manners(OpenAIStub, allow="y", stop="C-c"),
    "claude_code": Manners(AnthropicStub, allow="1"),
    "gemini_cli": Manners(GeminiStub, has_profile=False, troubles=("http:401",), **FURTHER),
    "copilot_cli": Manners(ChatStub, stop="C-c", troubles=("http:401",), **FURTHER),
    "opencode": Manners(
        ChatStub, stops_after="esc again", signs_in=False, troubles=("http:400",), **FURTHER
    ),
    "qwen_code": Manners(ChatStub, troubles=("http:401",), **FURTHER),
    # It draws on the alternate screen, and its log does not have what it says.
    "cline": Manners(
        ChatStub,
        has_profile=False,
        leaves_shell="BSpace",
        troubles=("http:401",),
        **FURTHER | {"allow": "y", "lines": 20},
    ),
    "pi": Manners(ChatStub, has_questions=False, troubles=("http:401",), **FURTHER),
    "kilo": Manners(ChatStub, stops_after="esc again", troubles=("http:400",), **FURTHER),
    "aider": Manners(
        ChatStub,
        stop="C-c",
        has_profile=False,
        has_shell=False,
        runs_commands=False,
        troubles=("http:401",),
        bullet="•",
        **FURTHER,
    ),
    "goose": Manners(ChatStub, stop="C-c", has_shell=False, troubles=("http:401",), **FURTHER),
    "kimi_cli": Manners(
        ChatStub, has_profile=False, troubles=("http:401", "limit"), bullet="•", **FURTHER
    ),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """An agent in one version."""

    agent: str
    version: str

    @property
    def manners(self) -> Manners:
        return MANNERS[self.agent]

    def hard_text(self, size: int) -> str:
        """Return a text that is as hard to deliver as this version can take."""
        return hard_text(size, LETTERS) if self in BREAKS_LETTERS else hard_text(size)

    def __str__(self) -> str:
        return f"{self.agent}-{self.version}"


BREAKS_LETTERS = {Kind("claude_code", "2.1.105")}
"""It reads a long paste in pieces, and what is no ASCII may break where two of them meet."""
ASK_NOTHING = {
    *(Kind("codex", "0.101.0"), Kind("aider", "0.86.2"), Kind("goose", "1.52.0")),
    Kind("kimi_cli", "2.1.0"),
}
"""They ask no questions, or not while they plan nothing or may do anything."""
KINDS = [Kind(agent.name, version) for agent in AGENTS.values() for version in agent.versions]
NEWEST = [Kind(agent.name, agent.versions[0]) for agent in AGENTS.values()]
DIFFERENT = [kind for kind in KINDS if kind != Kind("codex", "0.166.0")]
"""Those that the product tells apart: it starts, tells and reads 0.166.0 as it does the newest."""
FURTHER_KINDS = [
    Kind(agent.name, version) for agent in FURTHER_AGENTS.values() for version in agent.versions
]
MEASURED = [*KINDS, *FURTHER_KINDS]
MEASURED += [Kind(agent.name, agent.versions[0]) for agent in LANE_AGENTS.values()]
"""By `make accuracy`."""
TRIED = [Kind(*name.split("-", 1)) for name in os.environ.get("NEWEST_VERSIONS", "").split()]
"""What `make test-agents-newest` tries instead of all these."""
SAVED_SCREENS = Path(__file__).parents[2] / ".cache" / "newest" / "screens"


def step(name: str, kinds: Sequence[Kind]) -> Callable[[Test], Test]:
    """Run a test on these kinds; it is a step of what the newest versions are tried with, too.

    The name may be that of a parameter: `{what}`.
    """

    def mark(test: Test) -> Test:
        of_kinds = pytest.mark.parametrize("kind", TRIED or kinds, ids=str)
        marked: Test = pytest.mark.newest(name)(of_kinds(test))
        return marked

    return mark


@dataclass
class Driven:
    """One agent in its terminal, with everything that was seen of it."""

    ground: "Ground"
    service: TerminalService
    terminal: Terminal
    seen: list[Told] = field(default_factory=list)
    served_at: float = 0.0
    """When the present server was started, if it is not the first."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _listening: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.kind, self.stub = self.ground.kind, self.ground.stub
        self.work, self.socket = self.ground.work, self.ground.socket

    def as_taken(self, message: str) -> str:
        """Return a message as the agent takes it: some make spaces of a pasted tab."""
        return (
            message.replace("\t", "    ") if self.kind.agent in ("claude_code", "pi") else message
        )

    async def send(self, message: str) -> Delivery:
        return await self.service.send(self.terminal.id, message)

    async def says(self, message: str) -> float:
        """Send a message and see it confirmed; return when that began."""
        begun = time.monotonic()
        delivery = await self.send(message)
        assert delivery.confirmed, (message, delivery.detail)
        return begun

    async def completes(self, turn: int, told: Container[TerminalStatus] = AT_WORK) -> float:
        """Wait for the end of a turn, counted from 1; return when it was.

        Until then nothing else may be told than `told`.
        """
        end = await self.finished(turn)
        await self.reached(TerminalStatus.COMPLETED, after=end)
        between = self.told_between(self.stub.turns[turn - 1].started, end)
        assert not [status for status in between if status not in told], self.seen[-8:]
        return end

    async def take(self, turn: int, message: str) -> None:
        """Send a message and wait for the end of its turn."""
        await self.says(message)
        await self.completes(turn)

    async def types(self, text: str) -> None:
        """Type a text as a person does who has the terminal before them, and see it there."""
        await self._tmux("send-keys", "-l", "-t", self._pane, text)
        await self.shows(text[:SEEN_LETTERS])

    async def keys(self, *keys: str) -> None:
        """Press keys as that person does, also those that the server would not press."""
        for key in keys:
            await self._tmux("send-keys", "-t", self._pane, key)

    async def prompts(self, text: str) -> None:
        """Type a prompt or a command and submit it, as a person does."""
        await self.types(text)
        # Codex takes a quick Enter behind letters for a line of a paste.
        await asyncio.sleep(TYPING_PAUSE)
        await self.keys("Enter")

    async def resize(self, columns: int, rows: int) -> None:
        """Make the window so small or large, as that of a person who is attached.

        What an agent at rest draws then may look like the end of a turn, whose record is looked
        for: that is waited for, too.
        """
        rested = self._rests()
        size = ("-x", str(columns), "-y", str(rows))
        await self._tmux("resize-window", "-t", self._pane, *size)
        await self.settles()
        async with asyncio.timeout(PATIENCE):
            while rested and not self._rests():
                self._news.clear()
                await self._news.wait()

    def _rests(self) -> bool:
        return not self.seen or self.seen[-1].status.at_rest

    async def settles(self) -> None:
        """Wait until nothing is drawn any more: Codex hears no paste while it draws anew."""
        async with asyncio.timeout(PATIENCE):
            before = None
            while before != (before := await self._tmux("capture-pane", "-p", "-t", self._pane)):
                await asyncio.sleep(STILL_SECONDS)

    @property
    def _pane(self) -> str:
        return f"={self.terminal.session_name}:={self.terminal.name}"

    async def pid(self) -> int:
        """Return the process that tmux has started for the agent."""
        return int(await self._tmux("display-message", "-p", "-t", self._pane, "#{pane_pid}"))

    async def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self.socket, *words]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=True
        )
        return str(done.stdout)

    async def save_screen(self, case: str = "") -> None:
        """Save what is shown, ready to become one of tests/providers/screens."""
        if not self.ground.step:
            return
        status = self.seen[-1].status if self.seen else TerminalStatus.UNKNOWN
        folder, name = SAVED_SCREENS / self.kind.agent, f"{self.kind.version}-{self.ground.step}"
        shows = ("capture-pane", "-p", "-t", self._pane)
        title = ("display-message", "-p", "-t", self._pane, "#{pane_title}")
        for place, words in {
            f"{status}/{name}{case}.txt": shows,
            f"{status}/{name}{case}.title": title,
            f"drafts/{name}{case}.ansi": (*shows, "-e"),
        }.items():
            with suppress(subprocess.CalledProcessError):  # it has ended
                shown = await self._tmux(*words)
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_text(shown, encoding="utf-8")

    async def started(self, turn: int) -> None:
        """Wait until the model got the request of this turn, counted from 1."""
        await self.until(lambda: self.stub.turns[turn - 1 :])

    async def finished(self, turn: int) -> float:
        """Wait until the model's last byte of this turn is sent; return when that was."""
        return await self.until(
            lambda: [one.finished for one in self.stub.turns[turn - 1 : turn] if one.finished]
        )

    async def answered(self, prompt: str) -> float:
        """Wait until the model's last byte to this prompt is sent; return when that was."""
        turns = self.stub.turns
        return await self.until(
            lambda: [turn.finished for turn in turns if turn.prompt == prompt and turn.finished]
        )

    async def until(self, find: Callable[[], list[Found]], within: float = PATIENCE) -> Found:
        """Wait until something is found in what the model was asked; return the last of it."""
        await asyncio.to_thread(self.stub.ledger.wait_for, lambda ledger: bool(find()), within)
        return find()[-1]

    async def reached(
        self, *statuses: TerminalStatus, after: float = 0.0, within: float = PATIENCE
    ) -> Told:
        """Wait for one of these statuses to be told, not before a given time."""
        async with asyncio.timeout(within):
            while True:
                for seen in self.seen:
                    if seen.at >= after and seen.status in statuses:
                        return seen
                self._news.clear()
                await self._news.wait()

    async def shows(self, text: str) -> None:
        """Wait until a text is on the screen."""
        await self.sees(lambda screen: text in screen)

    async def hides(self, text: str) -> None:
        """Wait until a text is gone from the screen."""
        await self.sees(lambda screen: text not in screen)

    async def sees(self, wanted: Callable[[str], bool], within: float = PATIENCE) -> None:
        """Wait until the screen is as wanted."""
        async with asyncio.timeout(within):
            while not wanted(await self.service.output(self.terminal.id, OutputMode.SCREEN)):
                await asyncio.sleep(LOOK_SECONDS)

    async def sees_in_tmux(self, wanted: Callable[[str], bool]) -> None:
        """Wait until the screen is as wanted, while there is no server that could tell."""
        async with asyncio.timeout(PATIENCE):
            while not wanted(await self._tmux("capture-pane", "-p", "-t", self._pane)):
                await asyncio.sleep(LOOK_SECONDS)

    async def serve(self, service: TerminalService) -> None:
        """Go on with another server, as after a restart; the agent has run all the time."""
        self._listening.cancel()
        await asyncio.wait([self._listening])
        self.service = service
        self.served_at = time.monotonic()
        await service.start()
        self.begin_to_listen()

    async def asks(self) -> None:
        """Wait until a question is drawn: a signal may tell of it before it can be answered."""
        await self.sees(self._is_question)
        await self.save_screen()

    def _is_question(self, screen: str) -> bool:
        status = get_provider(self.kind.agent).detect_status(screen)
        return status is TerminalStatus.WAITING_USER_ANSWER

    async def answer(self, key: str) -> float:
        """Answer the dialog on the screen, as a person would who sees whether it helped.

        Returns when the key was pressed that did. Codex draws no dialog within a second of a key
        press, and what is pressed before a dialog listens is lost.
        """
        await self.asks()
        async with asyncio.timeout(PATIENCE):
            while True:
                pressed = time.monotonic()
                await self.service.press(self.terminal.id, key)
                with suppress(TimeoutError):
                    await self.sees(lambda screen: not self._is_question(screen), REPEAT_SECONDS)
                    return pressed

    async def stop(self) -> float:
        """Stop the turn as a person does; return when the key was pressed that does it."""
        manners = self.kind.manners
        if manners.stops_after:
            await self.service.press(self.terminal.id, manners.stop)
            await self.shows(manners.stops_after)
        pressed = time.monotonic()
        await self.service.press(self.terminal.id, manners.stop)
        return pressed

    async def last_answer(self) -> str:
        """Return what the agent said last."""
        return (await self.service.output(self.terminal.id, OutputMode.LAST)).strip()

    def told_between(self, start: float, end: float) -> set[TerminalStatus]:
        """Return the statuses told in a stretch of time."""
        return {seen.status for seen in self.seen if start <= seen.at < end}

    def told_since(self, start: float) -> list[TerminalStatus]:
        """Return the statuses told from a time on, in their order."""
        return [seen.status for seen in self.seen if seen.at >= start]

    def begin_to_listen(self) -> None:
        """Note every status that is told from now on."""
        self._listening = asyncio.create_task(self._listen())

    async def finish(self) -> None:
        """Listen no more, and end the agent and its server."""
        self._listening.cancel()
        await asyncio.wait([self._listening])
        try:
            # Not left to the end of tmux: some agents outlive their terminal.
            with suppress(NotFound):
                await self.service.delete(self.terminal.id)
        finally:
            await self.service.close()

    async def _listen(self) -> None:
        async for event in self.service.subscribe():
            # What an agent says that it does is no news about its status.
            if event.terminal_id == self.terminal.id and event.kind != "action":
                now = time.monotonic()
                self.seen.append(Told(now, event.status, event.reason, event.kind))
                self._news.set()


@dataclass
class Ground:
    """Where the agents of one test live."""

    kind: Kind
    stub: Stub
    folder: Path
    trusted: bool = True
    """Has a person said before that the agent may work in this folder?"""
    signed_in: bool = True
    step: str = ""
    """What of the newest versions is tried: then screens are saved by this name."""
    term: str | None = None
    """The TERM of whoever starts the server."""
    more_args: tuple[str, ...] = ()
    """The user's own arguments beside those that the stub needs."""

    @asynccontextmanager
    async def agent(
        self, permissions: str = "full", profile: str = "tester"
    ) -> AsyncIterator[Driven]:
        """Start an agent and note what is told about it."""
        service = TerminalService(self.config(permissions), SystemClock())
        await service.start()
        try:
            new = NewTerminal(self.kind.agent, profile, str(self.work))
            terminal = await service.create_session(new)
        except BaseException:
            await service.close()
            raise
        driven = Driven(self, service, terminal)
        driven.begin_to_listen()
        try:
            await driven.reached(*TerminalStatus)  # how it is before anything is done
            yield driven
        finally:
            await driven.save_screen("-end")
            await driven.finish()

    @property
    def work(self) -> Path:
        """The agents' working directory."""
        return self.folder / "work.d"

    @property
    def socket(self) -> str:
        """The name of the private tmux socket."""
        return ServerConfig.from_env({"CAO_STATE_DIR": str(self.folder / "state")}).tmux_socket

    def config(self, permissions: str) -> ServerConfig:
        """Return the settings of a server whose agents talk to the stub."""
        self.work.mkdir(exist_ok=True)
        kept = ("PATH", "LANG", "LC_ALL", "TMUX_TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        environ |= agent_environment(
            self.kind.agent,
            self.kind.version,
            self.stub.url,
            self.folder / "home",
            self.work if self.trusted else None,
            self.more_args,
            signed_in=self.signed_in,
        )
        environ |= {
            "CAO_STATE_DIR": str(self.folder / "state"),
            "CAO_CONFIG_DIR": str(self.folder / "config"),
            "AGENT_PERMISSIONS": permissions,
            "CAO_START_SECONDS": START_SECONDS,
        }
        environ |= {"TERM": self.term} if self.term is not None else {}
        return ServerConfig.from_env(environ)


@contextmanager
def ground_of(kind: Kind, folder: Path) -> Iterator[Ground]:
    """Make a place for an agent; in the end nothing of it runs any more."""
    with kind.manners.stub() as stub:
        ground = Ground(kind, stub, folder)
        try:
            yield ground
        finally:
            end_tmux(ground.socket)


def end_tmux(socket: str) -> None:
    """End the tmux server of a private socket, if there is one, and remove the socket."""
    words = ["tmux", "-L", socket]
    asked = [*words, "display-message", "-p", "#{socket_path}"]
    path = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    subprocess.run([*words, "kill-server"], capture_output=True)
    if path:
        Path(path).unlink(missing_ok=True)
