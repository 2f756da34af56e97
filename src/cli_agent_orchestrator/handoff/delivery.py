"""Gets a message into a terminal, once.

A message is sent again only if it is certain that it did not arrive: the server was not reached,
or it refused because the terminal cannot take input now. A server that knows messages by their key
can be asked again in every case. Where nobody knows, the message counts as handed over without
certainty; whoever waits for the reply finds out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    HandoffError,
    TurnFailed,
)
from cli_agent_orchestrator.handoff.lookout import in_words, is_passing
from cli_agent_orchestrator.handoff.progress import Narrator
from cli_agent_orchestrator.handoff.wait import SILENCE_SECONDS, backoff
from cli_agent_orchestrator.models import Delivery, TerminalStatus

# A busy agent may be free at any moment, and not every server tells.
LONGEST_BUSY_PAUSE_SECONDS = 2.0


class Verdict(Enum):
    """What a failed attempt to deliver a message means."""

    AGAIN = "again"
    """It did not arrive, or a second copy does no harm."""
    BUSY = "busy"
    """The terminal cannot take input now; nothing was typed."""
    UNCERTAIN = "uncertain"
    """Nobody knows whether it arrived."""
    FINAL = "final"
    """It did not arrive and never will."""


def judge(error: ApiError, knows_keys: bool) -> Verdict:
    """Return what a failed attempt means to a server that knows messages by key, or does not."""
    match error:
        case ApiRefused(status_code=409):
            return Verdict.BUSY
        case ApiUnreachable(maybe_received=False):
            return Verdict.AGAIN
    if not is_passing(error):
        return Verdict.FINAL
    return Verdict.AGAIN if knows_keys else Verdict.UNCERTAIN


@dataclass(frozen=True, slots=True)
class Letter:
    """A message for a terminal."""

    terminal_id: str
    message: str
    key: str
    """Names this message, so that a server that knows keys types it only once."""


@dataclass(frozen=True, slots=True)
class Handover:
    """How a letter was delivered."""

    certain: bool
    """Does the agent have it, as far as the server can say?"""
    detail: str


class Inbox(Protocol):
    """The part of the server that takes messages."""

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery: ...

    def get_status(self, terminal_id: str) -> TerminalStatus: ...


def advice(error: ApiError, terminal_id: str) -> str:
    """Return what a person can do about a message that cannot be delivered."""
    match error:
        case ApiUnreachable():
            return "see that the server runs (`cao server` starts one)"
        case ApiRefused(status_code=409):
            return f"look at it with `cao attach {terminal_id}`"
    return "see to it at the server"


class Messenger:
    """Delivers letters, patiently."""

    def __init__(
        self, inbox: Inbox, clock: Clock, pause: Callable[[float], None], narrator: Narrator
    ) -> None:
        """Take how to pause, and whom to tell what is waited for."""
        self._inbox = inbox
        self._clock = clock
        self._pause = pause
        self._narrator = narrator

    def deliver(self, letter: Letter, knows_keys: bool) -> Handover:
        """Return how the letter was delivered; raise why it was not after five minutes in vain.

        `knows_keys` if the server types a letter only once and says whether the agent took it. The
        time a terminal refuses because its agent waits for a person does not count.
        """
        failing_since = self._clock.monotonic()
        failures = 0
        while True:
            try:
                delivery = self._inbox.send_input(
                    letter.terminal_id, letter.message, idempotency_key=letter.key
                )
                return Handover(delivery.confirmed or not knows_keys, delivery.detail)
            except ApiError as error:
                verdict = judge(error, knows_keys)
                if verdict is Verdict.UNCERTAIN:
                    return Handover(False, str(error))
                if verdict is Verdict.BUSY and self._waits_for_person(letter.terminal_id):
                    failing_since = self._clock.monotonic()
                if verdict is Verdict.FINAL:
                    raise
                self._be_patient(letter, error, self._clock.monotonic() - failing_since)
            failures += 1
            pause = backoff(failures)
            busy = verdict is Verdict.BUSY
            self._pause(min(pause, LONGEST_BUSY_PAUSE_SECONDS) if busy else pause)

    def _be_patient(self, letter: Letter, error: ApiError, seconds: float) -> None:
        """Tell what is waited for, or raise it if it has been waited for too long."""
        remedy = advice(error, letter.terminal_id)
        if seconds >= SILENCE_SECONDS:
            raise HandoffError(
                f"terminal {letter.terminal_id} could not be given its message for {seconds:.0f} "
                f"s: {in_words(error)}; {remedy}, then `cao run` goes on with it"
            ) from error
        self._narrator.delay(seconds, f"{in_words(error)}; {remedy}")

    def _waits_for_person(self, terminal_id: str) -> bool:
        try:
            status = self._inbox.get_status(terminal_id)
        except ApiError as error:
            if not is_passing(error):
                raise
            return False
        self._narrator.status(status)
        if status is TerminalStatus.ERROR:
            raise TurnFailed(
                f"terminal {terminal_id} takes no input: it is in the error state. Look at it with "
                f"`cao attach {terminal_id}`, or ask a new agent with `cao run --replace-terminals`"
            )
        return status is TerminalStatus.WAITING_USER_ANSWER
