"""What happened to terminals, in order, for everyone who listens.

Events are numbered within one server start; the last ones are kept so that a listener who was
cut off goes on where it was. A listener with an unknown resume point gets the state of every
terminal first, so nobody ever has to ask.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.models import TerminalEvent

KEPT_EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    event: TerminalEvent


class EventFeed:
    """Numbers events and hands them to every subscriber."""

    def __init__(self, start_id: str, snapshot: Callable[[], Iterable[TerminalEvent]]) -> None:
        """`start_id` names this server start; `snapshot` tells how all terminals are now."""
        self._start_id = start_id
        self._snapshot = snapshot
        self._kept: deque[_Numbered] = deque(maxlen=KEPT_EVENTS)
        self._last = 0
        self._more = asyncio.Event()

    def publish(self, event: TerminalEvent) -> None:
        """Number an event and wake every subscriber."""
        self._last += 1
        self._kept.append(_Numbered(self._last, replace(event, id=self._id(self._last))))
        self._more.set()
        self._more = asyncio.Event()

    async def subscribe(self, after: str | None) -> AsyncGenerator[TerminalEvent, None]:
        """Yield what was missed since `after` (or the state of all terminals), then what comes."""
        seen = self._number_of(after)
        while True:
            more = self._more
            if seen is None or not self._has_all_after(seen):
                seen = self._last
                state = list(self._snapshot())
                for event in state[:-1]:
                    yield event
                for event in state[-1:]:
                    # Only who has seen all of the state can go on from here.
                    yield replace(event, id=self._id(seen))
            for item in self._after(seen):
                yield item.event
                seen = item.number
            if seen == self._last:
                await more.wait()

    def _id(self, number: int) -> str:
        return f"{self._start_id}-{number}"

    def _number_of(self, event_id: str | None) -> int | None:
        """Return the number behind a resume point, None if it is not of this server start."""
        start, _, number = (event_id or "").rpartition("-")
        if start != self._start_id or not number.isdecimal():
            return None
        return int(number)

    def _has_all_after(self, number: int) -> bool:
        oldest = self._kept[0].number if self._kept else self._last + 1
        return oldest - 1 <= number <= self._last

    def _after(self, number: int) -> list[_Numbered]:
        missed: list[_Numbered] = []
        for item in reversed(self._kept):
            if item.number <= number:
                break
            missed.append(item)
        missed.reverse()
        return missed
