"""A stage for one turn: time that is moved, a terminal that follows a script, real files."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import Delivery, FileChange, TerminalEvent, TerminalStatus
from cli_agent_orchestrator.core.watch import OnChange
from cli_agent_orchestrator.errors import ApiError
from cli_agent_orchestrator.events import EventKind, HandoffEvent
from cli_agent_orchestrator.handoff.files import ResponseFiles
from cli_agent_orchestrator.handoff.handoff import Handoff, World
from cli_agent_orchestrator.handoff.wait import Envelope, Reply
from cli_agent_orchestrator.handoff.watch import FileSignal, Mailbox, Signal
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.settings.config import HandoffRules

NAMES = {role.name: role.response_file for role in packaged_flow("loop").roles}
TERMINAL = "a1b2c3d4"
RULES = HandoffRules(
    poll_seconds=2, response_timeout=1800, idle_grace=30, strict=True, max_reminders=0
)


@dataclass
class FakeClock:
    """Time that stands still until it is moved."""

    time: float = 1000.0

    def now(self) -> float:
        return 1_700_000_000 + self.time

    def monotonic(self) -> float:
        return self.time


@dataclass
class FakeMailbox(Mailbox):
    """A mailbox in which waiting moves the clock and lets the script happen."""

    clock: FakeClock
    signals: deque[Signal] = field(default_factory=deque)
    waits: int = 0

    def __post_init__(self) -> None:
        self._begin = self.clock.time
        self._order = itertools.count()
        self._script: list[tuple[float, int, Callable[[], object]]] = []

    def post(self, signal: Signal) -> None:
        self.signals.append(signal)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Let something happen so many seconds after the beginning."""
        heapq.heappush(self._script, (self._begin + seconds, next(self._order), action))

    def wait(self, seconds: float) -> Signal | None:
        self.waits += 1
        assert self.waits < 100_000, "the wait never ends"
        end = self.clock.time + max(seconds, 0)
        while not self.signals:
            if not self._script or self._script[0][0] > end:
                self.clock.time = end
                return None
            due, _, action = heapq.heappop(self._script)
            self.clock.time = max(self.clock.time, due)
            action()
        return self.signals.popleft()


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as it reached the server."""

    message: str
    key: str | None
    at: float


@dataclass
class FakeAgents:
    """A server with one terminal, as its client sees it."""

    clock: FakeClock
    status: TerminalStatus = TerminalStatus.IDLE
    output: str = "what the screen says"
    delivery: Delivery = field(default_factory=lambda: Delivery(True, "the agent took it"))
    down: ApiError | None = None
    """Raised by every request while it is set."""
    refusals: list[ApiError] = field(default_factory=list)
    """Raised by the next attempts to send, one by one."""
    status_refusals: list[ApiError] = field(default_factory=list)
    terminal: dict[str, Any] = field(default_factory=dict)
    """Raised when the status is asked for, one by one."""
    question: dict[str, Any] | None = None
    output_refusals: list[ApiError] = field(default_factory=list)
    """Raised when the output is asked for, one by one."""
    features_named: frozenset[str] = frozenset()
    sent: list[Sent] = field(default_factory=list)
    attempts: int = 0
    asked: int = 0
    """How often the status was asked for."""
    on_send: Callable[[], object] | None = None

    def features(self) -> frozenset[str]:
        self._answer()
        return self.features_named

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery:
        self.attempts += 1
        self._answer()
        if self.refusals:
            raise self.refusals.pop(0)
        self.sent.append(Sent(message, idempotency_key, self.clock.time))
        if self.on_send is not None:
            self.on_send()
        return self.delivery

    def get_status(self, terminal_id: str) -> TerminalStatus:
        self.asked += 1
        self._answer()
        if self.status_refusals:
            raise self.status_refusals.pop(0)
        return self.status

    def get_terminal(self, terminal_id: str) -> dict[str, Any]:
        self._answer()
        return self.terminal

    def get_question(self, terminal_id: str) -> dict[str, Any] | None:
        self._answer()
        return self.question

    def get_last_output(self, terminal_id: str) -> str:
        self._answer()
        if self.output_refusals:
            raise self.output_refusals.pop(0)
        return self.output

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]:
        return iter(())

    def close_events(self) -> None:
        pass

    def _answer(self) -> None:
        if self.down is not None:
            raise self.down


def no_watch(path: Path, on_change: OnChange) -> AbstractContextManager[None]:
    """Watch nothing; the script posts what a watch would have reported."""
    return nullcontext()


# Any: fields of an event
def event_of(
    status: TerminalStatus, why: str = "", kind: str = "status", **more: Any
) -> TerminalEvent:
    """Return what the stream tells of the terminal."""
    return TerminalEvent("s-1", kind, TERMINAL, "cao-x", status, why, 0.0, **more)


class Stage:
    """Everything a handoff needs, with a script instead of an agent."""

    def __init__(self, folder: Path, rules: HandoffRules = RULES, role: str = "analyst") -> None:
        self.clock = FakeClock()
        self.mailbox = FakeMailbox(self.clock)
        self.agents = FakeAgents(self.clock)
        self.files = ResponseFiles(folder, Folder(folder, ("kept",), private=True), NAMES)
        self.files.ensure_response_dir()
        self.role = role
        self.path = self.files.response_path_for(role)
        self.events: list[HandoffEvent] = []
        self.saved: list[object] = []
        """What was to be saved about the prompt."""
        self.handoff = Handoff(
            self.agents,
            self.files,
            rules,
            self.events.append,
            World(self.clock, self.mailbox, no_watch),
        )

    def status(
        self, seconds: float, status: TerminalStatus, told: bool = False, why: str = ""
    ) -> None:
        """Let the terminal have a status from a time on; the stream may tell of it, and why."""

        def change() -> None:
            self.agents.status = status
            if told:
                self.mailbox.post(event_of(status, why))

        self.mailbox.at(seconds, change)

    def file(self, seconds: float, text: str) -> None:
        """Let the agent write its response file and close it."""
        self.mailbox.at(seconds, lambda: self.write(text))

    def finish(self, seconds: float) -> None:
        """Let the agent write its reply and come to rest, as the stream tells."""
        self.file(seconds, "reply")
        self.status(seconds, TerminalStatus.IDLE, told=True)

    def write(self, text: str) -> None:
        self.path.write_text(text, encoding="utf-8")
        self.tell(FileChange.CLOSED)

    def tell(self, change: FileChange) -> None:
        self.mailbox.post(FileSignal(self.path, change))

    def take_turn(self, envelope: Envelope | None = None) -> Reply:
        envelope = envelope or Envelope("turn-1", self.files.next_sequence(), self.clock.now())
        return self.handoff.send_and_wait(TERMINAL, self.role, "do it", envelope, self.saved.append)

    def send(self, envelope: Envelope | None = None) -> str:
        return self.take_turn(envelope).text

    def wait(self) -> str:
        return self.handoff.wait_for_response_file(
            TERMINAL, self.role, self.files.next_sequence()
        ).text

    @property
    def elapsed(self) -> float:
        return self.clock.time - 1000.0

    def told(self, kind: EventKind) -> list[str]:
        """Return the texts of the events of one kind."""
        return [event.text for event in self.events if event.kind is kind]

    def statuses(self) -> list[TerminalStatus | None]:
        return [event.status for event in self.events if event.kind is EventKind.STATUS]
