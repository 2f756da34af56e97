"""The live picture of all terminals: reports of tmux and of the agents are folded in here.

Everything runs in one event loop and nothing waits: a report updates one terminal, its status is
judged anew, and a change is published.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.clock import Clock
from ..core.models import Evidence, Terminal, TerminalEvent, TerminalFacts, TerminalStatus
from ..errors import NotFound
from ..providers.base import AgentSignal, Provider, SignalKind, read_states
from ..providers.screen import find
from . import tracker
from .sending import BoxMemory
from .store import TerminalRow
from .tmux import PaneInfo, PaneScreen
from .tracker import SignalSource, Track, Verdict

KEPT_EVENTS = 10_000


class EventFeed:
    """Numbers events and passes them to every subscriber; `start_id` names this server start."""

    def __init__(self, start_id: str, snapshot: Callable[[], Iterable[TerminalEvent]]) -> None:
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
        """Yield the events since `after` (or the state of all terminals), then new ones."""
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


class LiveTerminal(Struct):
    row: TerminalRow
    provider: Provider
    last_active: float
    pane: str | None = None
    """None before the window is open and after it is gone."""
    pid: int | None = None
    exit_code: int | None = None
    screen: PaneScreen | None = None
    track: Track = field(default_factory=Track)
    verdict: Verdict = field(
        default_factory=lambda: Verdict(TerminalStatus.UNKNOWN, "nothing has been seen yet")
    )
    taken: AgentSignal | None = None
    """The agent's last signal that it took a message or works."""
    taken_at: float = 0.0
    prompts: int = 0
    answer: str | None = None
    transcript: Path | None = None
    action: str = ""
    asked: int = 0
    """How often it began to ask or was pressed a key: it asks another question since then."""
    answered: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next report. Take it before you look, so that nothing is missed in between."""
    typing: asyncio.Lock = field(default_factory=asyncio.Lock)
    unread: bytes = b""
    decay: asyncio.TimerHandle | None = None
    quiet: asyncio.TimerHandle | None = None
    """Runs while no more of the agent's actions are published."""
    told_action: str = ""
    published: tuple[TerminalStatus, bool, bool, str] = (TerminalStatus.UNKNOWN, True, False, "")
    """What was last published: status, life, a question of its own report, when it goes on."""
    box: BoxMemory = BoxMemory()
    pieces: Callable[[str], list[str]] | None = None
    records: set[Path] = field(default_factory=set)
    """The session records that were found; a person may go back to an older one."""

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
    def wakes(self) -> str:
        return self.provider.wakes(self.text) or ""

    @property
    def known_records(self) -> list[str]:
        named = {self.transcript} if self.transcript is not None else set()
        return sorted(map(str, self.records | named))

    def hear(self, signal: AgentSignal, at: float) -> None:
        if signal.kind in (SignalKind.SUBMITTED, SignalKind.WORKING):
            self.taken, self.taken_at = signal, at
        if signal.kind in (SignalKind.SUBMITTED, SignalKind.WORKING, SignalKind.CLEARED):
            self.answer = None
        self.prompts += signal.kind is SignalKind.SUBMITTED
        if signal.answer is not None:
            self.answer = signal.answer
        if signal.transcript is not None:
            self.transcript = Path(signal.transcript)
        # After these it may still be doing what it reported last.
        may_go_on = (SignalKind.WORKING, SignalKind.WAITING, SignalKind.CONSULTED)
        if signal.kind not in (*may_go_on, SignalKind.SHORTENED):
            self.action = signal.action

    def remember(self, box: BoxMemory) -> None:
        self.box, self.track = box, replace(self.track, by_rest=box.by_rest)

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def public(self) -> Terminal:
        return Terminal(
            **{fact: getattr(self.row, fact) for fact in TerminalFacts.__struct_fields__},
            status=self.status,
            last_active=datetime.fromtimestamp(self.last_active, UTC).isoformat(),
            alive=self.alive,
            exit_code=self.exit_code,
            action=self.action,
            wakes=self.wakes,
        )


async def wait_for_change(changed: asyncio.Event, seconds: float) -> bool:
    # Before Python 3.12 `asyncio.wait_for` lets who is cancelled in the moment of a report go on as
    # if nothing had been; with `asyncio.timeout` who has waited long enough looks cancelled.
    report = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait({report}, timeout=seconds)
    finally:
        report.cancel()
    return changed.is_set()


async def reached(
    live: LiveTerminal, clock: Clock, done: Callable[[], bool], seconds: float
) -> bool:
    """Wait until reports about a terminal make `done` true; False if that takes too long."""
    deadline = clock.monotonic() + seconds
    while not done():
        left = deadline - clock.monotonic()
        if left <= 0:
            return False
        await wait_for_change(live.changed, left)
    return True


logger = logging.getLogger(__name__)


class Board:
    """All terminals, kept up to date: the `TmuxListener` of the engine."""

    def __init__(
        self, clock: Clock, start_id: str, told: Callable[[LiveTerminal], None] = lambda live: None
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
        track = Track(keeps_record=bool(provider.record_pattern))
        live = LiveTerminal(row, provider, last_active=row.created_at, track=track)
        live.remember(BoxMemory(by_rest=provider.by_rest))
        self._terminals[row.id] = live
        return live

    def opened(self, live: LiveTerminal, pane: PaneInfo) -> None:
        live.pane = pane.pane
        live.pid = pane.pid
        self._by_pane[pane.pane] = live

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
        """Fold in a signal of the agent. After `old` ones, more follow before it is judged."""
        found = old and signal.at is None
        live.track = tracker.observe_signal(live.track, source, signal, at, found=found)
        live.hear(signal, at)
        if not old:
            self.refresh(live)

    def submitted(self, live: LiveTerminal, detail: str, at: float) -> None:
        live.track = tracker.observe_submission(live.track, detail, at)
        live.last_active = self.now()
        if live.taken_at < at:
            live.answer = None
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
                is_first = live.screen is None
                if pane.pane in screens:
                    self._see(live, screens[pane.pane])
                if is_first and pane.wrote_at:
                    # tmux counts in whole seconds.
                    live.track = replace(live.track, screen_changed_at=pane.wrote_at + 1)
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
            status is TerminalStatus.IDLE and bool(find(live.provider.idle_mark, screen.text)),
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
        now = self.now()
        live.verdict = tracker.judge(live.track, now)
        if live.decay:
            live.decay.cancel()
            live.decay = None
        if live.verdict.until is not None:
            wait = live.verdict.until - now + 0.001
            live.decay = asyncio.get_running_loop().call_later(wait, self.refresh, live)
        waiting = TerminalStatus.WAITING_USER_ANSWER
        asks_aloud = live.status is waiting and tracker.asks_aloud(live.track)
        state = (live.status, live.alive, asks_aloud, live.wakes)
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
        """Publish what an agent does if it changed, but no more often than people can read."""
        if live.quiet is not None or live.told_action == live.action:
            return
        live.told_action = live.action
        if live.row.ready:
            self.log.publish(self._event("action", live))

        def end_quiet() -> None:
            live.quiet = None
            self._publish_action(live)

        live.quiet = asyncio.get_running_loop().call_later(0.25, end_quiet)

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
            action=live.action,
            wakes=live.wakes,
        )
