"""When to try again, and when to give up: one schedule for everything that asks the server.

1.  Only a transient failure is worth another try: no answer, or one that means "not now".
2.  The pause is a quarter of a second after the first failure, twice as long after each further
    one, and never longer than ten seconds.
3.  After five minutes of failures in a row it is time to give up, or sooner for who has less time.
    The last try is made right then.
"""

from dataclasses import dataclass, replace

from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0
# Timed out, too early, too many requests.
NOT_NOW = frozenset({408, 425, 429})


def is_transient(error: ApiError) -> bool:
    """May the same request succeed later?"""
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
        """Return the row with one more failure."""
        return replace(self, failures=self.failures + 1)

    def counted_from(self, now: float) -> "Retry":
        """Return the row with its time counted from now on: what was before shall not count."""
        return replace(self, since=now)

    @property
    def pause(self) -> float:
        """How long to wait before the next try."""
        return pause_after(self.failures)

    def seconds(self, now: float) -> float:
        """Return for how long it has been failing."""
        return now - self.since

    def is_over(self, now: float) -> bool:
        """Is it time to give up?"""
        return now >= self.since + self.limit

    def next_try(self, now: float, longest_pause: float = LONGEST_PAUSE_SECONDS) -> float:
        """Return when to try again: after the pause, or when it is time to give up."""
        return min(now + min(self.pause, longest_pause), self.since + self.limit)
