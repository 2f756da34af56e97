"""A clock whose unix time never goes back, whatever is done to the machine's own.

Newer evidence has the later time: that is how the tracker tells old news. When the machine's clock
is set back, time goes on from where it was. When it is set forward, or the machine slept, time
follows.
"""

from cli_agent_orchestrator._internal.clock import Clock


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
