"""Gets a message into a terminal, once.

A message is sent again only if it is certain that it did not arrive: the server was not reached,
or it refused because the terminal cannot take input now. A server that knows messages by their key
can be asked again in every case. Where nobody knows, the message counts as delivered without
certainty; whoever waits for the reply finds out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.handoff.turn_watch import TurnAgent, TurnReporter
from cli_agent_orchestrator._internal.models import Delivery, TerminalStatus
from cli_agent_orchestrator._internal.retry import LONGEST_PAUSE_SECONDS, Retry, is_transient
from cli_agent_orchestrator.errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    HandoffError,
    TurnFailed,
)

# A busy agent may be free at any moment, and not every server says so.
LONGEST_BUSY_PAUSE_SECONDS = 2.0


class SendFailure(Enum):
    """What a failed attempt to deliver a message means."""

    AGAIN = "again"
    """It did not arrive, or a second copy does no harm."""
    BUSY = "busy"
    """The terminal cannot take input now; nothing was typed."""
    UNCERTAIN = "uncertain"
    """Nobody knows whether it arrived."""
    FINAL = "final"
    """It did not arrive and never will."""


def judge_failure(error: ApiError, knows_keys: bool) -> SendFailure:
    """Return what a failed attempt means to a server that knows messages by key, or does not."""
    match error:
        case ApiRefused(status_code=409):
            return SendFailure.BUSY
        case ApiUnreachable(maybe_received=False):
            return SendFailure.AGAIN
    if not is_transient(error):
        return SendFailure.FINAL
    return SendFailure.AGAIN if knows_keys else SendFailure.UNCERTAIN


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message for a terminal."""

    agent: TurnAgent
    text: str
    key: str
    """Names this message, so that a server that knows keys types it only once."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """How a message was delivered."""

    certain: bool
    """Does the agent have it, as far as the server can say?"""
    detail: str


class Inbox(Protocol):
    """The part of the server that takes messages."""

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery: ...

    def get_status(self, terminal_id: str) -> TerminalStatus: ...


def advice(error: ApiError, agent: TurnAgent) -> str:
    """Return what a person can do about a message that cannot be delivered."""
    match error:
        case ApiUnreachable():
            return "check that the server is running (`cao server` starts one)"
        case ApiRefused(status_code=409):
            return f"look at it with `{agent.attach}`"
    return "check the server"


class MessageSender:
    """Delivers messages, patiently."""

    def __init__(
        self, inbox: Inbox, clock: Clock, pause: Callable[[float], None], reporter: TurnReporter
    ) -> None:
        """Take how to pause, and who reports what is waited for."""
        self._inbox = inbox
        self._clock = clock
        self._pause = pause
        self._reporter = reporter

    def deliver(self, message: OutgoingMessage, knows_keys: bool) -> DeliveryResult:
        """Return how the message was delivered; raise why it was not after five minutes in vain.

        `knows_keys` if the server types a message only once and says whether the agent took it.
        The time a terminal refuses because its agent waits for a person does not count.
        """
        retry = Retry(self._clock.monotonic())
        while True:
            try:
                delivery = self._inbox.send_input(
                    message.agent.terminal_id, message.text, idempotency_key=message.key
                )
                return DeliveryResult(delivery.confirmed or not knows_keys, delivery.detail)
            except ApiError as error:
                failure = judge_failure(error, knows_keys)
                if failure is SendFailure.UNCERTAIN:
                    return DeliveryResult(False, str(error))
                if failure is SendFailure.FINAL:
                    raise
                retry = retry.after_failure()
                if failure is SendFailure.BUSY and self._waits_for_person(message.agent):
                    retry = retry.counted_from(self._clock.monotonic())
                self._be_patient(message, error, retry)
            now = self._clock.monotonic()
            busy = failure is SendFailure.BUSY
            longest = LONGEST_BUSY_PAUSE_SECONDS if busy else LONGEST_PAUSE_SECONDS
            self._pause(retry.next_try(now, longest) - now)

    def _be_patient(self, message: OutgoingMessage, error: ApiError, retry: Retry) -> None:
        """Report what is waited for, or raise it if it has been waited for too long."""
        now = self._clock.monotonic()
        remedy = advice(error, message.agent)
        if retry.is_over(now):
            raise HandoffError(
                f"{message.agent} could not be sent its message for "
                f"{retry.seconds(now):.0f} s: {error.summary}\n  First: {remedy}\n"
                f"  Then:  {message.agent.resume}",
                to_resume=message.agent.resume,
            ) from error
        self._reporter.on_delay(retry.seconds(now), f"{error.summary}; {remedy}")

    def _waits_for_person(self, agent: TurnAgent) -> bool:
        try:
            status = self._inbox.get_status(agent.terminal_id)
        except ApiError as error:
            if not is_transient(error):
                raise
            return False
        self._reporter.on_status(status)
        if status is TerminalStatus.ERROR:
            raise TurnFailed(
                f"{agent} takes no input: it is in the error state{agent.ways_on}",
                to_resume=agent.resume_anew,
            )
        return status is TerminalStatus.WAITING_USER_ANSWER
