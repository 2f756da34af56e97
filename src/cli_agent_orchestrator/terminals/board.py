"""The live picture of all terminals: what tmux and the agents tell is folded in here.

Everything runs in one event loop and nothing waits: each report updates one terminal, its status
is judged anew, and a change is published. Who wants to wait for something waits for the next
change of a terminal.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path

from ..core.clock import Clock
from ..core.models import Evidence, Terminal, TerminalEvent, TerminalFacts, TerminalStatus
from ..errors import NotFound
from ..providers.base import AgentSignal, Provider, SignalKind, read_states
from . import tracker
from .store import TerminalRow
from .tmux import PaneInfo, PaneScreen
from .tracker import SignalSource, Track, Verdict

KEPT_EVENTS = 10_000


class EventFeed:
    """Numbers events and hands them to every subscriber."""

    def __init__(self, start_id: str, snapshot: Callable[[], Iterable[TerminalEvent]]) -> None:
        """`start_id` names this server start; `snapshot` tells how all terminals are now."""
        self._start_id = start_id
        self._snapshot = snapshot
        self._kept: deque[TerminalEvent] = deque(maxlen=KEPT_EVENTS)
        self._last = 0
        self._more = asyncio.Event()

    def publish(self, event: TerminalEvent) -> None:
        self._last += 1
        self._kept.append(replace(event, id=self._id(self._last)))
        self._more.set()
        self._more = asyncio.Event()

    async def subscribe(self, after: str | None) -> AsyncGenerator[TerminalEvent, None]:
        """Yield what was missed since `after` (or the state of all terminals), then what comes."""
        start, _, number = (after or "").rpartition("-")
        seen = int(number) if start == self._start_id and number.isdecimal() else -1
        while True:
            more = self._more
            if not self._last - len(self._kept) <= seen <= self._last:
                seen = self._last
                state = list(self._snapshot())
                for event in state[:-1]:
                    yield event
                for event in state[-1:]:
                    # Only who has seen all of the state can go on from here.
                    yield replace(event, id=self._id(seen))
            missed = list(islice(reversed(self._kept), self._last - seen))
            for event in reversed(missed):
                yield event
                seen += 1
            if seen == self._last:
                await more.wait()

    def _id(self, number: int) -> str:
        return f"{self._start_id}-{number}"


@dataclass(frozen=True, slots=True)
class ToldByAgent:
    taken: AgentSignal | None = None
    taken_at: float = 0.0
    count: int = 0
    answer: str | None = None
    transcript: Path | None = None
    """Where the agent says that its session record is."""
    action: str = ""
    """What it said last that it does in this turn, on one line."""


LEAVE_ACTION = (SignalKind.WORKING, SignalKind.WAITING, SignalKind.CONSULTED, SignalKind.SHORTENED)
"""Signals after which an agent may still be doing what it said last."""


def hear(heard: ToldByAgent, signal: AgentSignal, at: float) -> ToldByAgent:
    if signal.kind in (SignalKind.SUBMITTED, SignalKind.WORKING):
        heard = replace(heard, taken=signal, taken_at=at, answer=None)
    if signal.kind is SignalKind.CLEARED:
        heard = replace(heard, answer=None)
    return replace(
        heard,
        count=heard.count + (signal.kind is SignalKind.SUBMITTED),
        answer=heard.answer if signal.answer is None else signal.answer,
        transcript=heard.transcript if signal.transcript is None else Path(signal.transcript),
        action=heard.action if signal.kind in LEAVE_ACTION else signal.action,
    )


@dataclass(slots=True)
class LiveTerminal:
    row: TerminalRow
    provider: Provider
    last_active: float
    pane: str | None = None
    """tmux's name for it; None before the window is open and after it is gone."""
    pid: int | None = None
    exit_code: int | None = None
    screen: PaneScreen | None = None
    track: Track = field(default_factory=Track)
    verdict: Verdict = field(
        default_factory=lambda: Verdict(TerminalStatus.UNKNOWN, "nothing has been seen yet")
    )
    heard: ToldByAgent = field(default_factory=ToldByAgent)
    asked: int = 0
    """How often it has begun to ask, or was pressed a key: what it asks since is another question.
    """
    answered: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next report. Take it before you look, so that nothing is missed in between."""
    typing: asyncio.Lock = field(default_factory=asyncio.Lock)
    unread: bytes = b""
    """The beginning of a state in its raw output."""
    decay: asyncio.TimerHandle | None = None
    """Judges it anew when its verdict runs out."""
    quiet: asyncio.TimerHandle | None = None
    """Runs while nothing more is to be told of what the agent does."""
    told_action: str = ""
    published: tuple[TerminalStatus, bool, bool] = (TerminalStatus.UNKNOWN, True, False)
    """What was last published: its status, whether it lives, and says itself what it asks."""
    leftover: bool = False
    """May a message of ours that was not confirmed still be in its input box?"""
    unsettled: bool = False
    """Has the store a last message whose outcome is not known?"""
    last_draft: str = ""
    """What was submitted last, as the box showed it: agents may put it back there."""
    records: set[Path] = field(default_factory=set)
    """The session records of the agent that were found; a person may go back to an older one."""

    @property
    def status(self) -> TerminalStatus:
        return self.verdict.status

    @property
    def alive(self) -> bool:
        return self.track.end is None

    @property
    def text(self) -> str:
        return self.screen.text if self.screen else ""

    @property
    def known_records(self) -> list[str]:
        """The session records of the agent: those that were found, and the one that it names."""
        named = {self.heard.transcript} if self.heard.transcript is not None else set()
        return sorted(map(str, self.records | named))

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def public(self) -> Terminal:
        return Terminal(
            **{fact.name: getattr(self.row, fact.name) for fact in fields(TerminalFacts)},
            status=self.status,
            last_active=self.last_active,
            alive=self.alive,
            exit_code=self.exit_code,
            action=self.heard.action,
        )


async def wait_for_change(changed: asyncio.Event, seconds: float) -> bool:
    """Wait for the next report about a terminal; False if none came in time."""
    # Before Python 3.12 `asyncio.wait_for` lets who is cancelled in the moment of a report go on as
    # if nothing had been; with `asyncio.timeout` who has waited long enough looks cancelled.
    report = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait({report}, timeout=seconds)
    finally:
        report.cancel()
    return changed.is_set()


ACTION_SECONDS = 0.25
"""What an agent does is published no more often."""

logger = logging.getLogger(__name__)


class Board:
    """All terminals, kept up to date by what tmux and the agents report.

    It is the engine's `TmuxListener`.
    """

    def __init__(
        self,
        clock: Clock,
        start_id: str,
        told: Callable[[LiveTerminal], None] = lambda live: None,
    ) -> None:
        self._clock = clock
        self._when_told = told
        self._terminals: dict[str, LiveTerminal] = {}
        self._by_pane: dict[str, LiveTerminal] = {}
        self.log = EventFeed(start_id, self._snapshot)

    def now(self) -> float:
        return self._clock.now()

    def __iter__(self) -> Iterator[LiveTerminal]:
        return iter(list(self._terminals.values()))

    def get(self, terminal_id: str) -> LiveTerminal:
        live = self._terminals.get(terminal_id)
        if live is None or not live.row.ready:
            known = [live.row.id for live in self if live.row.ready]
            raise NotFound("terminal", terminal_id, known)
        return live

    def has(self, live: LiveTerminal) -> bool:
        return self._terminals.get(live.row.id) is live

    def add(self, row: TerminalRow, provider: Provider) -> LiveTerminal:
        """Put a terminal on the board; its window is told by `opened` or `connected`."""
        track = Track(keeps_record=bool(provider.record_pattern))
        live = LiveTerminal(row, provider, last_active=row.created_at, track=track)
        self._terminals[row.id] = live
        return live

    def opened(self, live: LiveTerminal, pane: PaneInfo) -> None:
        live.pane = pane.pane
        live.pid = pane.pid
        self._by_pane[pane.pane] = live

    def mark_ready(self, live: LiveTerminal) -> TerminalRow:
        live.row = replace(live.row, ready=True)
        return live.row

    def publish(self, live: LiveTerminal) -> None:
        self.log.publish(self._event("status", live))

    def remove(self, live: LiveTerminal) -> None:
        if self._terminals.pop(live.row.id, None) is None:
            return
        self._forget_pane(live)
        for timer in (live.decay, live.quiet):
            if timer is not None:
                timer.cancel()
        if live.row.ready:
            self.log.publish(self._event("removed", live))
        live.notify()

    def signal(
        self,
        live: LiveTerminal,
        source: SignalSource,
        signal: AgentSignal,
        at: float,
        *,
        old: bool = False,
    ) -> None:
        """Fold in a signal of the agent's own. After `old` ones, more come before it is judged."""
        found = old and signal.at is None
        live.track = tracker.observe_signal(live.track, source, signal, at, found=found)
        live.heard = hear(live.heard, signal, at)
        if not old:
            self.refresh(live)

    def submitted(self, live: LiveTerminal, detail: str, at: float) -> None:
        live.track = tracker.observe_submission(live.track, detail, at)
        live.last_active = self.now()
        if live.heard.taken_at < at:
            live.heard = replace(live.heard, answer=None)
        self.refresh(live)

    def screen_changed(self, screen: PaneScreen) -> None:
        live = self._by_pane.get(screen.pane)
        if live is not None:
            self._see(live, screen)
            self.refresh(live)

    def output(self, pane: str, data: bytes) -> None:
        live = self._by_pane.get(pane)
        if live is not None:
            signals, live.unread = read_states(live.unread + data)
            for signal in signals:
                self.signal(live, SignalSource.STREAM, signal, self.now())

    def exited(self, pane: str, exit_code: int | None) -> None:
        live = self._by_pane.get(pane)
        if live is not None:
            self._end(live, exit_code)

    def connected(self, panes: list[PaneInfo], screens: dict[str, PaneScreen]) -> None:
        by_tag = {pane.tag: pane for pane in panes}
        for live in self:
            if not live.alive:
                continue
            pane = by_tag.get(live.row.id)
            if pane is not None:
                self._forget_pane(live)
                self.opened(live, pane)
                if pane.pane in screens:
                    self._see(live, screens[pane.pane])
                if pane.dead:
                    self._end(live, pane.exit_code)
                self.refresh(live)
            elif live.row.ready or live.pane is not None:
                self._forget_pane(live)
                self._end(live, None, "its tmux window is gone")

    def disconnected(self, reason: str) -> None:
        logger.warning("the connection to tmux ended (%s); reconnecting", reason)

    def _see(self, live: LiveTerminal, screen: PaneScreen) -> None:
        now = self.now()
        changed = live.screen is None or live.screen.text != screen.text
        status = live.provider.detect_status(screen.text, screen.title)
        by_title = live.provider.title_status(screen.title)
        # A new agent is seen before it is ready.
        found = live.screen is None and live.row.ready
        live.screen = screen
        known = status is not TerminalStatus.UNKNOWN
        looks = f"looks {status.replace('_', ' ')}"
        detail = looks if known else "matches nothing that is known of this agent"
        live.track = tracker.observe_screen(
            live.track,
            Evidence(SignalSource.SCREEN, status, detail, now, found),
            Evidence(SignalSource.TITLE, by_title, screen.title, now, found) if by_title else None,
            changed,
        )

    def _end(self, live: LiveTerminal, exit_code: int | None, detail: str = "") -> None:
        live.exit_code = exit_code
        code = "" if exit_code is None else f" with code {exit_code}"
        detail = detail or f"the program ended{code}"
        live.track = tracker.observe_end(live.track, detail, self.now())
        self.refresh(live)

    def _forget_pane(self, live: LiveTerminal) -> None:
        if live.pane is not None:
            self._by_pane.pop(live.pane, None)
            live.pane = None

    def refresh(self, live: LiveTerminal) -> None:
        """Judge a terminal anew, publish a change, and come back when the verdict runs out."""
        now = self.now()
        live.verdict = tracker.judge(live.track, now)
        if live.decay:
            live.decay.cancel()
            live.decay = None
        if live.verdict.until is not None:
            loop = asyncio.get_running_loop()
            wait = live.verdict.until - now + 0.001
            live.decay = loop.call_later(wait, self.refresh, live)
        waiting = TerminalStatus.WAITING_USER_ANSWER
        asks_aloud = live.status is waiting and tracker.asks_aloud(live.track)
        state = (live.status, live.alive, asks_aloud)
        if live.published != state:
            live.asked += live.status is waiting and live.published[0] is not waiting
            live.published = state
            live.last_active = now
            if live.row.ready:
                self.publish(live)
            self._when_told(live)
        self._publish_action(live)
        live.notify()

    def _publish_action(self, live: LiveTerminal) -> None:
        """Publish what an agent does if that is news, but no more often than people can read."""
        if live.quiet is not None or live.told_action == live.heard.action:
            return
        live.told_action = live.heard.action
        if live.row.ready:
            self.log.publish(self._event("action", live))
        loop = asyncio.get_running_loop()
        live.quiet = loop.call_later(ACTION_SECONDS, self._end_quiet, live)

    def _end_quiet(self, live: LiveTerminal) -> None:
        live.quiet = None
        self._publish_action(live)

    def _snapshot(self) -> Iterator[TerminalEvent]:
        return (self._event("snapshot", live) for live in self if live.row.ready)

    def _event(self, kind: str, live: LiveTerminal) -> TerminalEvent:
        return TerminalEvent(
            id="",
            kind=kind,
            terminal_id=live.row.id,
            session_name=live.row.session_name,
            status=live.status,
            reason=live.verdict.reason,
            at=self.now(),
            alive=live.alive,
            exit_code=live.exit_code,
            action=live.heard.action,
        )
