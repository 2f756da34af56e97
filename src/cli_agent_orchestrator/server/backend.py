"""What the handlers work with: the terminals as they need them, and a few things beside."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request

from ..core.clock import Clock
from ..core.models import (
    Delivery,
    Explanation,
    NewTerminal,
    OutputMode,
    Question,
    RunAgents,
    Session,
    Step,
    StepAnswer,
    Terminal,
    TerminalEvent,
)
from ..errors import UsageError
from ..events import RunEvent


class Terminals(Protocol):
    """The verbs of the terminal service that HTTP offers."""

    async def create_session(
        self, new: NewTerminal, session_name: str | None = None
    ) -> Terminal: ...
    async def create_terminal(self, session_name: str, new: NewTerminal) -> Terminal: ...
    def sessions(self) -> list[Session]: ...
    def session(self, name: str) -> Session: ...
    async def delete_session(self, name: str) -> None: ...
    def terminal(self, terminal_id: str) -> Terminal: ...
    async def send(self, terminal_id: str, message: str, key: str | None = None) -> Delivery: ...
    async def run_step(self, step: Step) -> StepAnswer: ...
    async def press(self, terminal_id: str, key: str) -> None: ...
    def question(self, terminal_id: str) -> Question | None: ...
    async def answer(
        self, terminal_id: str, key: str, *, fingerprint: str | None = None
    ) -> bool: ...
    def watch_screen(self, terminal_id: str) -> AsyncGenerator[str, None]: ...
    async def scrollback(self, terminal_id: str, lines: int) -> str: ...
    async def output(self, terminal_id: str, mode: OutputMode) -> str: ...
    def records(self, terminal_id: str) -> list[str]: ...
    def explain(self, terminal_id: str) -> Explanation: ...
    async def exit(self, terminal_id: str) -> None: ...
    async def delete(self, terminal_id: str) -> None: ...
    def subscribe(self, after: str | None = None) -> AsyncGenerator[TerminalEvent, None]: ...
    def has_client(self, client: int, port: int | None) -> bool: ...


class Following(Protocol):
    """Yields the events of a run until it ends or is told to stop."""

    def __iter__(self) -> Iterator[RunEvent]: ...
    def stop(self) -> None: ...


# Any: JSON
class Runs(Protocol):
    """What HTTP offers of runs; all of it may take its time."""

    def list(self) -> Sequence[Mapping[str, Any]]: ...
    def get(self, name: str) -> Mapping[str, Any]: ...
    def turn(self, name: str, sequence: int) -> Mapping[str, Any]: ...
    def follow(self, name: str, after: int) -> Following: ...
    def start(
        self, wd: str, options: Mapping[str, str], *, replace_terminals: bool = False
    ) -> Mapping[str, Any]: ...
    def agents(self, name: str, role: str | None = None) -> RunAgents: ...
    def steer(self, name: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def note_answer(self, session: str, terminal_id: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Backend:
    """Everything a handler may use."""

    terminals: Terminals
    clock: Clock
    heartbeat: float
    """Seconds between two signs of life on an event stream where nothing happens."""
    closing: asyncio.Event
    """Set when the server is about to end: event streams end at once."""
    runs: Runs | None = None


def backend_of(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def terminals_of(request: Request) -> Terminals:
    return backend_of(request).terminals


def runs_of(request: Request) -> Runs:
    runs = backend_of(request).runs
    if runs is None:
        raise UsageError("this server serves no runs")
    return runs
