"""Stand-ins for the outside world, passed in where the product takes it as an argument."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from cli_agent_orchestrator.core.models import (
    Delivery,
    Evidence,
    Explanation,
    NewTerminal,
    OutputMode,
    Question,
    Session,
    Step,
    StepAnswer,
    Terminal,
    TerminalEvent,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import NotFound, QuestionGone, UnknownName
from cli_agent_orchestrator.terminals.board import EventFeed
from cli_agent_orchestrator.terminals.service import TerminalService

CONFIRMED = Delivery(True, "the agent started to work", enter_presses=1)
LONG_AGO = 1_700_000_000.5


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as it reached the service."""

    terminal_id: str
    message: str
    key: str | None


@dataclass
class FakeService(TerminalService):
    """A terminal service without terminals: it remembers what it was asked for.

    Whatever is put into `failure` is raised by every verb.
    """

    delivery: Delivery = CONFIRMED
    failure: Exception | None = None
    outputs: dict[OutputMode, str] = field(default_factory=dict)
    kept_records: list[str] = field(default_factory=list)
    known: dict[str, Terminal] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    pressed: list[tuple[str, str]] = field(default_factory=list)
    created: list[NewTerminal] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    is_answered: bool = True
    """Does an agent cease to ask when a key is pressed?"""
    asked: Question | None = None
    """What every agent asks."""
    screens: list[str] = field(default_factory=list)
    """What is shown to those who watch a screen, one after the other."""
    more_screens: asyncio.Queue[str] | None = None
    """What they are shown after that, as it comes."""
    listeners: int = 0
    is_agent: bool = False
    """Do requests come from an agent's terminal?"""
    clients: list[tuple[int, int | None]] = field(default_factory=list)
    """Of whom it was asked whether they are there."""

    def __post_init__(self) -> None:
        self.log = EventFeed("start", self._snapshot)

    def add(self, terminal_id: str = "a1b2c3d4", session_name: str = "cao-shop") -> Terminal:
        """Put a terminal there without starting anything."""
        terminal = Terminal(
            id=terminal_id,
            name="programmer-1",
            provider="codex",
            session_name=session_name,
            agent_profile="programmer",
            working_directory="/home/ada/shop",
            status=TerminalStatus.IDLE,
            last_active="2023-11-14T22:13:20.500000+00:00",
        )
        self.known[terminal_id] = terminal
        return terminal

    def change(self, terminal_id: str, status: TerminalStatus) -> None:
        """Give a terminal another status and tell all listeners."""
        terminal = replace(self.known[terminal_id], status=status)
        self.known[terminal_id] = terminal
        self.log.publish(_event("status", terminal))

    async def create_session(self, new: NewTerminal, session_name: str | None = None) -> Terminal:
        return self._make(new, f"cao-{session_name or 'unnamed'}")

    async def create_terminal(self, session_name: str, new: NewTerminal) -> Terminal:
        self.session(session_name)
        return self._make(new, session_name)

    def sessions(self) -> list[Session]:
        self._fail()
        grouped: dict[str, list[Terminal]] = {}
        for terminal in self.known.values():
            grouped.setdefault(terminal.session_name, []).append(terminal)
        return [Session(name, tuple(terminals)) for name, terminals in grouped.items()]

    def session(self, name: str) -> Session:
        found = {session.name: session for session in self.sessions()}
        if name not in found:
            raise NotFound("session", name, found)
        return found[name]

    async def delete_session(self, name: str) -> None:
        for terminal in self.session(name).terminals:
            await self.delete(terminal.id)

    def terminal(self, terminal_id: str) -> Terminal:
        self._fail()
        if terminal_id not in self.known:
            raise NotFound("terminal", terminal_id, self.known)
        return self.known[terminal_id]

    async def send(self, terminal_id: str, message: str, key: str | None = None) -> Delivery:
        self.terminal(terminal_id)
        self.sent.append(Sent(terminal_id, message, key))
        return self.delivery

    async def run_step(self, step: Step) -> StepAnswer:
        self._fail()
        self.steps.append(step)
        return StepAnswer("0badcafe", "done", TerminalStatus.COMPLETED)

    async def press(self, terminal_id: str, key: str) -> None:
        self.terminal(terminal_id)
        if key not in ("Enter", "Escape"):
            raise UnknownName("key", key, ("Enter", "Escape"))
        self.pressed.append((terminal_id, key))

    def question(self, terminal_id: str) -> Question | None:
        self.terminal(terminal_id)
        return self.asked

    async def answer(
        self, terminal_id: str, key: str, *, fingerprint: str | None = None, within: float = 0.0
    ) -> bool:
        if fingerprint is not None and (
            self.asked is None or self.asked.fingerprint != fingerprint
        ):
            raise QuestionGone(terminal_id, "is not asked any more")
        await self.press(terminal_id, key)
        return self.is_answered

    async def watch_screen(self, terminal_id: str) -> AsyncGenerator[str, None]:
        self.terminal(terminal_id)
        for screen in self.screens:
            yield screen
        while self.more_screens is not None:
            yield await self.more_screens.get()

    async def scrollback(self, terminal_id: str, lines: int) -> str:
        self.terminal(terminal_id)
        return "\n".join(self.outputs.get(OutputMode.FULL, "").split("\n")[-lines:])

    def records(self, terminal_id: str) -> list[str]:
        self.terminal(terminal_id)
        return self.kept_records

    async def output(self, terminal_id: str, mode: OutputMode) -> str:
        self.terminal(terminal_id)
        return self.outputs.get(mode, "")

    def explain(self, terminal_id: str) -> Explanation:
        terminal = self.terminal(terminal_id)
        evidence = Evidence("title", terminal.status, "⠋ shop", at=LONG_AGO)
        unsaid = Evidence("screen", None, "nothing to be seen", at=LONG_AGO)
        return Explanation(terminal.status, "the title says so", (evidence, unsaid))

    async def exit(self, terminal_id: str) -> None:
        await self.delete(terminal_id)

    async def delete(self, terminal_id: str) -> None:
        self.terminal(terminal_id)
        del self.known[terminal_id]
        self.ended.append(terminal_id)

    async def subscribe(self, after: str | None = None) -> AsyncGenerator[TerminalEvent, None]:
        self.listeners += 1
        try:
            async with contextlib.aclosing(self.log.subscribe(after)) as events:
                async for event in events:
                    yield event
        finally:
            self.listeners -= 1

    def has_client(self, client: int, port: int | None) -> bool:
        self.clients.append((client, port))
        return self.is_agent

    def _make(self, new: NewTerminal, session_name: str) -> Terminal:
        self._fail()
        self.created.append(new)
        terminal = replace(
            self.add(f"{len(self.known):08x}", session_name),
            provider=new.provider,
            agent_profile=new.agent_profile,
            working_directory=new.working_directory or "/",
            permissions=new.permissions,
            role=new.role,
        )
        self.known[terminal.id] = terminal
        return terminal

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _snapshot(self) -> Iterator[TerminalEvent]:
        return (_event("snapshot", terminal) for terminal in self.known.values())


def _event(kind: str, terminal: Terminal) -> TerminalEvent:
    return TerminalEvent(
        id="",
        kind=kind,
        terminal_id=terminal.id,
        session_name=terminal.session_name,
        status=terminal.status,
        reason="the title says so",
        at=LONG_AGO,
    )
