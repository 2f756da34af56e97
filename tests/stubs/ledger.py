"""The ground truth of a test: which turns a stub saw, when each began and ended, what was said."""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .script import Request, Responder, Script


@dataclass(slots=True)
class Turn:
    """One turn as the model sees it; times are those of `time.monotonic()`."""

    conversation: str
    prompt: str
    """The person's text, exactly as it arrived."""
    system: str = field(repr=False)
    script: Script
    started: float
    """When the first request of the turn had come in."""
    requests: int = 0
    refusals: int = 0
    last_byte: float | None = None
    """When the last piece of the newest response was sent."""
    finished: float | None = None
    """When the last piece of the last response was sent: no tool call is open."""


@dataclass(slots=True)
class Aside:
    """A request of the agent's own: a title, a summary."""

    started: float
    finished: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """What one call took, in tokens."""

    input: int
    """With what was cached."""
    cached_input: int
    output: int
    """With reasoning."""
    reasoning: int


@dataclass(slots=True)
class Meter:
    """Gives each call other numbers, so that a sum shows which calls it counts."""

    said: list[Used] = field(default_factory=list)
    """What the calls of conversations took."""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def take(self, *, side: bool) -> Used:
        """Return what the present call takes; a request of the agent's own is not kept."""
        number = next(self._numbers)
        used = Used(1000 + number, 500 + number, 100 + number, 10 + number)
        if not side:
            self.said.append(used)
        return used


@dataclass(slots=True)
class _Conversation:
    users: tuple[str, ...] = ()
    turn: Turn | None = None


@dataclass(slots=True)
class Ledger:
    """Keeps the turns of all conversations at one stub; safe to use from many threads."""

    turns: list[Turn] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    """Everything people said, in the order of arrival: a text that is sent twice stands twice."""
    asides: list[Aside] = field(default_factory=list)
    _conversations: dict[str, _Conversation] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def record(self, request: Request, responder: Responder) -> Turn:
        """Note a request and return its turn; the responder is asked once in a turn."""
        with self._changed:
            known = self._conversations.setdefault(request.conversation, _Conversation())
            self.prompts.extend(_news(known.users, request.users))
            turn = known.turn
            if turn is None or not _continues(known, turn, request):
                turn = Turn(
                    request.conversation,
                    request.prompt,
                    request.system,
                    responder(request),
                    time.monotonic(),
                )
                self.turns.append(turn)
                known.turn = turn
            known.users = request.users
            turn.requests += 1
            self._changed.notify_all()
            return turn

    def record_aside(self) -> Aside:
        with self._changed:
            aside = Aside(time.monotonic())
            self.asides.append(aside)
            self._changed.notify_all()
            return aside

    def sent_aside(self, aside: Aside, at: float) -> None:
        with self._changed:
            aside.finished = at
            self._changed.notify_all()

    def sent(self, turn: Turn, at: float, *, final: bool) -> None:
        """Note that a response has been sent, whole or as far as it goes, and when it ended."""
        with self._changed:
            turn.last_byte = at
            if final:
                turn.finished = at
            self._changed.notify_all()

    def refuse(self, turn: Turn) -> None:
        """Note that a request is about to be answered with an error."""
        with self._changed:
            turn.refusals += 1
            self._changed.notify_all()

    def wait_for(self, condition: Callable[["Ledger"], bool], timeout: float = 60.0) -> None:
        """Return as soon as the condition holds for this ledger.

        Raises:
            TimeoutError: it does not hold after `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise TimeoutError(f"not within {timeout} s; {len(self.turns)} turns so far")


def _news(known: tuple[str, ...], users: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was said after the common beginning: agents may drop what was interrupted."""
    same = 0
    while same < min(len(known), len(users)) and known[same] == users[same]:
        same += 1
    return users[same:]


def _continues(known: _Conversation, turn: Turn, request: Request) -> bool:
    """Is a request part of the turn, as a tool output or a retry is?"""
    if request.users != known.users:
        return False
    return turn.finished is None or request.outputs > 0
