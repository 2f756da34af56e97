"""Looks at one turn: the status of its terminal and its response file."""

from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable
from cli_agent_orchestrator.handoff.mailbox import (
    Change,
    FileSignal,
    Signal,
    StatusSignal,
    WakeSignal,
)
from cli_agent_orchestrator.handoff.responses import Response, ResponseFiles
from cli_agent_orchestrator.handoff.sighting import Sighting, Signature
from cli_agent_orchestrator.handoff.wait import Observation
from cli_agent_orchestrator.models import TerminalStatus

# Answers that mean "not now", not "no".
PASSING_STATUS_CODES = frozenset({408, 425, 429})


class StatusSource(Protocol):
    """The part of the server that a look needs."""

    def get_status(self, terminal_id: str) -> TerminalStatus: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose turn it is."""

    terminal_id: str
    role: str


class Hint(Enum):
    """What a signal means for the one who waits."""

    NOTHING = "nothing"
    LOOK = "look"


def is_passing(error: ApiError) -> bool:
    """Will the same request perhaps succeed later?"""
    match error:
        case ApiUnreachable():
            return True
        case ApiRefused():
            return error.status_code >= 500 or error.status_code in PASSING_STATUS_CODES
    return False


def in_words(error: ApiError) -> str:
    """Return why a request failed, for people: without its route and number."""
    match error:
        case ApiUnreachable():
            return "the server does not answer"
        case ApiRefused():
            return error.detail or f"the server answered {error.status_code}"
    return str(error)


class Lookout:
    """Sees one turn through the server and the file system."""

    def __init__(
        self,
        subject: Subject,
        source: StatusSource,
        files: ResponseFiles,
        clock: Clock,
        settle_seconds: float,
    ) -> None:
        self.subject = subject
        self.path = files.response_path_for(subject.role)
        self.error: ApiError | None = None
        """Why the server's last answer did not come."""
        self._source = source
        self._files = files
        self._clock = clock
        self._sighting = Sighting(settle_seconds)
        self._warnings: list[str] = []
        self._read: tuple[Signature, Response | None] | None = None

    def look(self) -> Observation:
        """Ask for the status, then look at the file.

        In this order, a file that is read when the agent is at rest is the one it left behind.
        """
        return self.observe(self._status())

    def observe(self, status: TerminalStatus | None) -> Observation:
        """Look at the file; the status is known already."""
        response = self._response()
        text = None if response is None else response.text
        return Observation(self._clock.monotonic(), status, text)

    def hear(self, signal: Signal) -> Observation | Hint:
        """Take in a signal.

        A status other than at rest is as good as seen: it was true a moment ago, and may be over
        before anybody asks. One that could end the turn is asked for again.
        """
        match signal:
            case FileSignal(path, change) if path == self.path:
                self._sighting = self._sighting.told(change)
                # A slow writer tells of every line; none of them ends the turn.
                return Hint.NOTHING if change is Change.WRITING else Hint.LOOK
            case StatusSignal(terminal_id, status) if terminal_id == self.subject.terminal_id:
                if status.at_rest or status is TerminalStatus.ERROR:
                    return Hint.LOOK
                return self.observe(status)
            case WakeSignal():
                return Hint.LOOK
        return Hint.NOTHING

    @property
    def settles_at(self) -> float:
        """When a file that is there becomes complete by itself; infinity if none will."""
        at = self._sighting.complete_at
        return at if at > self._clock.monotonic() else inf

    def take_warnings(self) -> list[str]:
        """Return what had to be mended in the response since this was last asked."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def is_response_there(self) -> bool:
        """Is there a response file, complete or not?"""
        return self._files.signature(self.subject.role) is not None

    def _response(self) -> Response | None:
        """Return the response if it is there, complete and not blank."""
        now = self._clock.monotonic()
        signature = self._files.signature(self.subject.role)
        self._sighting = self._sighting.seen(signature, now)
        if signature is None or now < self._sighting.complete_at:
            return None
        if self._read is None or self._read[0] != signature:
            response = self._files.read(self.subject.role)
            if self._files.signature(self.subject.role) != signature:
                return None
            self._read = (signature, response)
            self._warnings.extend(response.warnings if response else ())
        return self._read[1]

    def _status(self) -> TerminalStatus | None:
        try:
            return self._source.get_status(self.subject.terminal_id)
        except ApiError as error:
            if not is_passing(error):
                raise
            self.error = error
            return None
