"""Time as something that is passed in, so that tests can move it."""

import time
from typing import Protocol


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
