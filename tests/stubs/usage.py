"""What a stub says that calls took: each something else, so that a sum shows which it counts."""

import itertools
from dataclasses import dataclass, field


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
    """Says what each call took, and keeps what was said of those that a conversation made."""

    said: list[Used] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def take(self, *, side: bool) -> Used:
        """Return what the present call takes; one that is the agent's own business is not kept."""
        number = next(self._numbers)
        used = Used(1000 + number, 500 + number, 100 + number, 10 + number)
        if not side:
            self.said.append(used)
        return used
