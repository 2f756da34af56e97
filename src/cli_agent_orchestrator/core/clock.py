"""Time as something that is passed in, so that tests can move it."""

import time
from typing import NamedTuple, Protocol

from ..errors import ApiError, ApiRefused, ApiUnreachable


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring."""
        ...


class SystemClock:
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


class Stopwatch(NamedTuple):
    """Counts the seconds in which an agent works: not those of waiting, nor of a stopped run."""

    worked: float
    at: float
    waiting: bool = False

    def see(self, at: float, waiting: bool) -> "Stopwatch":
        return Stopwatch(self.worked_by(at), max(at, self.at), waiting)

    def worked_by(self, at: float) -> float:
        return self.worked if self.waiting else self.worked + max(at - self.at, 0.0)


FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0
# Timed out, too early, too many requests.
NOT_NOW = {408, 425, 429}


def is_transient(error: ApiError) -> bool:
    if isinstance(error, ApiRefused):
        return error.status_code >= 500 or error.status_code in NOT_NOW
    return isinstance(error, ApiUnreachable)


class Retry(NamedTuple):
    """Tries in a row, all of which have failed so far."""

    since: float
    failures: int = 0
    limit: float = GIVE_UP_SECONDS

    def after_failure(self) -> "Retry":
        return self._replace(failures=self.failures + 1)

    @property
    def pause(self) -> float:
        return min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE_SECONDS)

    def seconds(self, now: float) -> float:
        return now - self.since

    def is_over(self, now: float) -> bool:
        return now >= self.since + self.limit

    def next_try(self, now: float, longest_pause: float = LONGEST_PAUSE_SECONDS) -> float:
        return min(now + min(self.pause, longest_pause), self.since + self.limit)
