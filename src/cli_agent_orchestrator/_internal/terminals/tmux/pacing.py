"""When which pane is read again.

The rules:

- The first output of a quiet pane is looked at 10 ms later; what a program writes in one go is then
  complete. After a look the next one comes a pause later at the earliest, however much is written:
  30 ms, then twice as long each time, up to the interval. So what is drawn in a few goes is known
  soon, a spinner that never rests is reported steadily, and nothing is lost at its end.
- The interval is a quarter of a second, and grows with the number of busy panes up to one second.
- A pane is busy when it wrote three times within an interval. tmux is then asked to say nothing
  more of it (its program does not notice), and it is looked at every interval, until a look shows
  nothing new. Then tmux speaks again, and one more look makes sure that nothing was missed. So a
  spinner costs looks and no messages. Panes whose raw output is wanted are never paused.
- Panes that are due soon are looked at together: waking up costs tmux more than one pane more.
- A pane whose last look has not been answered yet is not asked again.

The clock is passed in; nothing here waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

LEADING_EDGE = 0.010
FIRST_PAUSE = 0.030
SHORTEST_INTERVAL = 0.25
LONGEST_INTERVAL = 1.0
BUSY_PANES_PER_SECOND = 200
"""How many busy panes make the interval one second."""
BUSY_OUTPUTS = 3
"""Outputs within an interval that make a pane busy."""
COMPANY = 0.25
"""The part of an interval by which a busy pane may be looked at early, together with others."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now: first resume, then look."""

    look: tuple[str, ...]
    resume: tuple[str, ...]


@dataclass(slots=True)
class _Pane:
    pausable: bool
    looked: float = -inf
    pause: float = 0.0
    """The least time from the last look to the next."""
    due: float | None = None
    asked: bool = False
    outputs: int = 0
    busy: bool = False
    paused: bool = False
    still: bool = False
    """Did the last look at it, while it was paused, show nothing new?"""


class PaneWatch:
    """Decides when each of many panes is looked at."""

    def __init__(self) -> None:
        self._panes: dict[str, _Pane] = {}
        self._pauses: list[str] = []
        self.interval = SHORTEST_INTERVAL
        """The least time between two looks at a pane that does not rest."""

    def add(self, pane: str, *, pausable: bool = True) -> None:
        self._panes[pane] = _Pane(pausable)

    def remove(self, pane: str) -> None:
        self._panes.pop(pane, None)

    def output(self, pane: str, now: float) -> float | None:
        """Note that a program wrote; return when to look if that was not scheduled before."""
        state = self._panes.get(pane)
        if state is None:
            return None
        if now - state.looked > 2 * self.interval and state.due is None:
            state.busy = False
        state.outputs += 1
        state.busy = state.busy or state.outputs >= BUSY_OUTPUTS
        if state.busy and state.pausable and not state.paused:
            state.paused, state.still = True, False
            self._pauses.append(pane)
        return self._schedule(state, now)

    def touch(self, pane: str, now: float) -> float | None:
        """Note a change that is no output; return when to look if that was not scheduled before."""
        state = self._panes.get(pane)
        return self._schedule(state, now) if state else None

    def _schedule(self, state: _Pane, now: float) -> float | None:
        if state.due is not None:
            return None
        if now - state.looked > self.interval:
            state.pause = 0.0
        state.due = max(now + LEADING_EDGE, state.looked + state.pause)
        return state.due

    def take_pauses(self) -> tuple[str, ...]:
        """Return the panes to be paused at once."""
        pauses, self._pauses = tuple(self._pauses), []
        return pauses

    def take(self, now: float) -> Due:
        """Return the work that is due; its panes count as asked until `answered`."""
        soon = now + COMPANY * self.interval
        look, resume = [], []
        for pane, state in self._panes.items():
            if state.due is None or state.asked or state.due > (soon if state.busy else now):
                continue
            look.append(pane)
            if state.paused and state.still:
                resume.append(pane)
                state.paused = state.busy = False
            state.pause = min(max(2 * state.pause, FIRST_PAUSE), self.interval)
            state.looked, state.due = now, None
            state.asked, state.outputs = True, 0
        self.interval = self._fitting_interval(now)
        return Due(tuple(look), tuple(resume))

    def answered(self, pane: str, *, changed: bool) -> None:
        """Note that a look came back, and whether it showed something new."""
        state = self._panes.get(pane)
        if state is None:
            return
        state.asked = False
        if state.paused:
            state.still = not changed
            state.due = state.looked + (self.interval if changed else 0)

    def next_at(self) -> float | None:
        """Return when there is work again, None if nothing is to be done before the next output."""
        return min(self._waiting(), default=None)

    def _waiting(self) -> Iterator[float]:
        for state in self._panes.values():
            if state.due is not None and not state.asked:
                yield state.due

    def _fitting_interval(self, now: float) -> float:
        recent = now - 2 * self.interval
        busy = sum(state.busy and state.looked >= recent for state in self._panes.values())
        return min(max(busy / BUSY_PANES_PER_SECOND, SHORTEST_INTERVAL), LONGEST_INTERVAL)
