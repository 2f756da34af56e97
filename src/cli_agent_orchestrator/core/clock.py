"""Time as something that is passed in, so that tests can move it."""

import time
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import ApiError, ApiRefused, ApiUnreachable
from .models import TerminalStatus


class Clock(Protocol):
    """What a module may ask about time."""

    def now(self) -> float:
        """Return unix time, for people and files."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyClock:
    """The time of another clock, without its steps back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._difference()

    def now(self) -> float:
        self._ahead = max(self._ahead, self._difference())
        return self._clock.monotonic() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def _difference(self) -> float:
        return self._clock.now() - self._clock.monotonic()


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Counts the seconds of a turn, but not those in which its agent waits for a person.

    Nor those in which the run was stopped: the next one begins with what was counted before.
    """

    worked: float
    """Seconds, up to the time `at`."""
    at: float
    """Unix time."""
    waiting: bool = False
    """Does the agent wait for a person since then?"""

    def see(self, status: TerminalStatus, at: float) -> "Stopwatch":
        """Return the watch after the agent was seen to do something at a certain time."""
        return Stopwatch(
            self.worked_by(at), max(at, self.at), status is TerminalStatus.WAITING_USER_ANSWER
        )

    def worked_by(self, at: float) -> float:
        """Return how many seconds will have been worked at a certain time."""
        return self.worked if self.waiting else self.worked + max(at - self.at, 0.0)


FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0
# Timed out, too early, too many requests.
NOT_NOW = frozenset({408, 425, 429})


def is_transient(error: ApiError) -> bool:
    match error:
        case ApiUnreachable():
            return True
        case ApiRefused(status_code=code):
            return code >= 500 or code in NOT_NOW
    return False


def pause_after(failures: int) -> float:
    """Return the pause after so many failures in a row.

    >>> [pause_after(n) for n in (1, 2, 3, 10)]
    [0.25, 0.5, 1.0, 10.0]
    """
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class Retry:
    """Tries in a row, all of which have failed so far."""

    since: float
    """When the first one was made."""
    failures: int = 0
    limit: float = GIVE_UP_SECONDS
    """After how many seconds it is time to give up."""

    def after_failure(self) -> "Retry":
        return replace(self, failures=self.failures + 1)

    def counted_from(self, now: float) -> "Retry":
        """Return the row with its time counted from now on: what was before shall not count."""
        return replace(self, since=now)

    @property
    def pause(self) -> float:
        return pause_after(self.failures)

    def seconds(self, now: float) -> float:
        """Return for how long it has been failing."""
        return now - self.since

    def is_over(self, now: float) -> bool:
        return now >= self.since + self.limit

    def next_try(self, now: float, longest_pause: float = LONGEST_PAUSE_SECONDS) -> float:
        """Return when to try again: after the pause, or when it is time to give up."""
        return min(now + min(self.pause, longest_pause), self.since + self.limit)
