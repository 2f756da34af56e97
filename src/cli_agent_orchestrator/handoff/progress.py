"""What a handoff tells about a turn while it lasts."""

import logging
from collections.abc import Callable

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.events import EventKind, HandoffEvent
from cli_agent_orchestrator.handoff.lookout import Subject
from cli_agent_orchestrator.models import TerminalStatus

logger = logging.getLogger(__name__)

DELAY_SECONDS = 2.0
"""A delivery that takes longer is worth telling."""
DELAY_FACTOR = 3.0
"""It is told again when it has taken so many times as long."""


OnEvent = Callable[[HandoffEvent], None]


def ignore(event: HandoffEvent) -> None:
    """Tell nobody."""


class Narrator:
    """Tells what happens in one turn, each thing once."""

    def __init__(self, subject: Subject, on_event: OnEvent, clock: Clock) -> None:
        self._who = (subject.terminal_id, subject.role)
        self._on_event = on_event
        self._clock = clock
        self._status: TerminalStatus | None = None
        self._silent = False
        self._file_seen = False
        self._delay = ""
        self._delay_told = 0.0

    def tell(self, kind: EventKind, text: str = "", status: TerminalStatus | None = None) -> None:
        self._on_event(HandoffEvent(self._clock.now(), kind, *self._who, text, status))

    def warn(self, text: str) -> None:
        logger.warning("%s %s: %s", *self._who, text)
        self.tell(EventKind.WARNING, text)

    def status(self, status: TerminalStatus) -> None:
        """Tell a status if it is news."""
        if status is self._status and not self._silent:
            return
        self._status = status
        self._silent = False
        self.tell(EventKind.STATUS, status=status)
        if status is TerminalStatus.WAITING_USER_ANSWER:
            command = f"cao attach {self._who[0]}"
            self.tell(EventKind.WAITING_FOR_PERSON, command, status)

    def delay(self, seconds: float, reason: str) -> None:
        """Tell that a message cannot be delivered: after a moment, then more and more seldom.

        Another reason is told at once.
        """
        if seconds < self._delay_told:
            self._delay_told = 0.0
        due = max(DELAY_SECONDS, self._delay_told * DELAY_FACTOR)
        if seconds < DELAY_SECONDS or (seconds < due and reason == self._delay):
            return
        self._delay, self._delay_told = reason, seconds
        logger.warning("%s %s: not delivered: %s", *self._who, reason)
        now = self._clock.now()
        self._on_event(
            HandoffEvent(now, EventKind.DELAYED, *self._who, reason, since=now - seconds)
        )

    def silence(self, error: object) -> None:
        """Tell that the server does not answer, unless that is known."""
        if not self._silent:
            self._silent = True
            self.warn(f"the server does not answer, asking again: {error}")

    def file(self, path: object) -> None:
        """Tell that the response is complete, unless that is known."""
        if not self._file_seen:
            self._file_seen = True
            self.tell(EventKind.FILE_SEEN, str(path))
