"""The one queue a waiting handoff listens to, and what may lie in it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from cli_agent_orchestrator.models import TerminalStatus

LONGEST_WAIT = 3600.0
"""Seconds after which one looks again in any case; the system knows no end of the larger ones."""


class Change(Enum):
    """What a file watch can tell about a file."""

    WRITING = "writing"
    """Somebody writes to it and has not closed it."""
    CLOSED = "closed"
    """It was closed after writing, or moved to its place."""
    TOUCHED = "touched"
    """Something happened to it; this system cannot say what."""


@dataclass(frozen=True, slots=True)
class FileSignal:
    """Something happened to a response file."""

    path: Path
    change: Change


@dataclass(frozen=True, slots=True)
class StatusSignal:
    """The server told the status of a terminal."""

    terminal_id: str
    status: TerminalStatus


@dataclass(frozen=True, slots=True)
class WakeSignal:
    """Reason enough to look: the stream broke, a terminal was removed, a stop was asked for."""


Signal = FileSignal | StatusSignal | WakeSignal
Post = Callable[[Signal], None]


class Mailbox(Protocol):
    """Where signals wait to be read."""

    def post(self, signal: Signal) -> None:
        """Add a signal; any thread may, and a signal handler too."""
        ...

    def wait(self, seconds: float) -> Signal | None:
        """Return the next signal, or None when none has come after so many seconds."""
        ...


class QueueMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        # SimpleQueue, because its put may interrupt its get: signal handlers post too.
        self._signals: SimpleQueue[Signal] = SimpleQueue()

    def post(self, signal: Signal) -> None:
        self._signals.put(signal)

    def wait(self, seconds: float) -> Signal | None:
        try:
            return self._signals.get(timeout=min(max(seconds, 0), LONGEST_WAIT))
        except Empty:
            return None
