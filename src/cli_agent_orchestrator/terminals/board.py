"""The live picture of all terminals: what tmux and the agents tell is folded in here.

Everything runs in one event loop and nothing waits: each report updates one terminal, its status
is judged anew, and a change is published. Who wants to wait for something waits for the next
change of a terminal.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.models import (
    Evidence,
    Terminal,
    TerminalEvent,
    TerminalStatus,
)
from cli_agent_orchestrator.providers.base import AgentSignal, Provider, SignalKind
from cli_agent_orchestrator.providers.stream_state import read_states
from cli_agent_orchestrator.terminals import tracker
from cli_agent_orchestrator.terminals.event_log import EventLog
from cli_agent_orchestrator.terminals.store import TerminalRow
from cli_agent_orchestrator.terminals.tmux import PaneInfo, PaneScreen
from cli_agent_orchestrator.terminals.tracker import Source, Track, Verdict

LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class LiveTerminal:
    """One terminal as it is now."""

    row: TerminalRow
    provider: Provider
    last_active: float
    pane: str | None = None
    """tmux's name for it; None before the window is open and after it is gone."""
    pid: int | None = None
    screen: PaneScreen | None = None
    track: Track = field(default_factory=Track)
    verdict: Verdict = field(
        default_factory=lambda: Verdict(TerminalStatus.UNKNOWN, "nothing has been seen yet")
    )
    taken: AgentSignal | None = None
    """The agent's last signal that it took a message."""
    taken_at: float = 0.0
    heard: int = 0
    """How many messages it has told to have taken."""
    answer: str | None = None
    """The last answer as the agent's own record has it."""
    unread: bytes = b""
    """The beginning of a report that goes on in the next piece of output."""
    transcript: Path | None = None
    """Where the agent says that its session record is."""
    records: set[Path] = field(default_factory=set)
    """The session records of the agent that were found; a person may go back to an older one."""
    alive: bool = True
    exit_code: int | None = None
    leftover: bool = False
    """May a message of ours that was not confirmed still be in the input box?"""
    unsettled: bool = False
    """Has the store a last message of which nobody knows what became?"""
    last_draft: str = ""
    """What was submitted last, as the input box showed it: agents may put it back there."""
    typing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever types into it."""
    decay: asyncio.TimerHandle | None = None
    """Judges it anew when its verdict runs out."""
    told: tuple[TerminalStatus, bool] = (TerminalStatus.UNKNOWN, True)
    """The status and liveness that were last published."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next report. Take it before you look, so that nothing is missed in between."""

    @property
    def status(self) -> TerminalStatus:
        return self.verdict.status

    @property
    def text(self) -> str:
        """What is on its screen."""
        return self.screen.text if self.screen else ""

    def notify(self) -> None:
        """Wake everyone who waits for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def public(self) -> Terminal:
        """Return what others may see."""
        row = self.row
        return Terminal(
            id=row.id,
            name=row.name,
            provider=row.provider,
            session_name=row.session_name,
            agent_profile=row.agent_profile,
            working_directory=row.working_directory,
            status=self.status,
            last_active=self.last_active,
            alive=self.alive,
            exit_code=self.exit_code,
            permissions=row.permissions,
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


class Board:
    """All terminals, kept up to date by what tmux and the agents report."""

    def __init__(
        self,
        clock: Clock,
        start_id: str,
        told: Callable[[LiveTerminal], None] = lambda live: None,
    ) -> None:
        """`told` is called after each change of a status."""
        self._clock = clock
        self._when_told = told
        self._terminals: dict[str, LiveTerminal] = {}
        self._by_pane: dict[str, LiveTerminal] = {}
        self.log = EventLog(start_id, self._snapshot)

    def now(self) -> float:
        """Return the time that evidence is stamped with."""
        return self._clock.now()

    def __iter__(self) -> Iterator[LiveTerminal]:
        return iter(list(self._terminals.values()))

    def get(self, terminal_id: str) -> LiveTerminal:
        """Return a terminal that is ready for work, or was."""
        live = self._terminals.get(terminal_id)
        if live is None or not live.row.ready:
            known = [live.row.id for live in self if live.row.ready]
            raise NotFound("terminal", terminal_id, known)
        return live

    def has(self, live: LiveTerminal) -> bool:
        """Is a terminal still on the board?"""
        return self._terminals.get(live.row.id) is live

    def add(self, row: TerminalRow, provider: Provider) -> LiveTerminal:
        """Put a terminal on the board; its window is told by `opened` or `connected`."""
        track = Track(keeps_record=bool(provider.record_pattern))
        live = LiveTerminal(row, provider, last_active=row.created_at, track=track)
        self._terminals[row.id] = live
        return live

    def opened(self, live: LiveTerminal, pane: PaneInfo) -> None:
        """Note the window of a terminal."""
        live.pane = pane.pane
        live.pid = pane.pid
        self._by_pane[pane.pane] = live

    def publish(self, live: LiveTerminal) -> None:
        """Tell everyone about a terminal as it is now."""
        self.log.publish(self._event("status", live))

    def remove(self, live: LiveTerminal) -> None:
        """Take a terminal off the board."""
        if self._terminals.pop(live.row.id, None) is None:
            return
        self._forget_pane(live)
        if live.decay:
            live.decay.cancel()
        if live.row.ready:
            self.log.publish(self._event("removed", live))
        live.notify()

    def signal(self, live: LiveTerminal, source: Source, signal: AgentSignal, at: float) -> None:
        """Fold in a signal of the agent's own."""
        self.remember(live, source, signal, at)
        self.refresh(live)

    def remember(self, live: LiveTerminal, source: Source, signal: AgentSignal, at: float) -> None:
        """Fold in a signal without judging anew: more is about to come."""
        live.track = tracker.observe_signal(live.track, source, signal, at)
        if signal.kind in (SignalKind.SUBMITTED, SignalKind.WORKING):
            live.taken, live.taken_at, live.answer = signal, at, None
        live.heard += signal.kind is SignalKind.SUBMITTED
        if signal.kind is SignalKind.CLEARED:
            live.answer = None
        if signal.transcript is not None:
            live.transcript = Path(signal.transcript)
        if signal.answer is not None:
            live.answer = signal.answer

    def submitted(self, live: LiveTerminal, detail: str, at: float) -> None:
        """Fold in that the agent took our message."""
        live.track = tracker.observe_submission(live.track, detail, at)
        live.last_active = self.now()
        live.answer = None if live.taken_at < at else live.answer
        self.refresh(live)

    # What tmux reports (TmuxListener).

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
                self.signal(live, Source.STREAM, signal, self.now())

    def exited(self, pane: str, exit_code: int | None) -> None:
        live = self._by_pane.get(pane)
        if live is not None:
            self._end(live, exit_code, _ended(exit_code))

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
                    self._end(live, pane.exit_code, _ended(pane.exit_code))
                self.refresh(live)
            elif live.row.ready or live.pane is not None:
                self._forget_pane(live)
                self._end(live, None, "its tmux window is gone")

    def disconnected(self, reason: str) -> None:
        LOGGER.warning("the connection to tmux ended (%s); reconnecting", reason)

    def _see(self, live: LiveTerminal, screen: PaneScreen) -> None:
        now = self.now()
        changed = live.screen is None or live.screen.text != screen.text
        status = live.provider.detect_status(screen.text, screen.title)
        by_title = live.provider.title_status(screen.title)
        live.screen = screen
        live.track = tracker.observe_screen(
            live.track,
            Evidence(Source.SCREEN, status, _screen_detail(status), now),
            Evidence(Source.TITLE, by_title, screen.title, now) if by_title else None,
            changed,
        )

    def _end(self, live: LiveTerminal, exit_code: int | None, detail: str) -> None:
        live.alive = False
        live.exit_code = exit_code
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
            live.decay = loop.call_later(live.verdict.until - now + 0.001, self.refresh, live)
        if live.told != (live.status, live.alive):
            live.told = (live.status, live.alive)
            live.last_active = now
            if live.row.ready:
                self.publish(live)
            self._when_told(live)
        live.notify()

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
        )


def _ended(exit_code: int | None) -> str:
    return "the program ended" + ("" if exit_code is None else f" with code {exit_code}")


def _screen_detail(status: TerminalStatus) -> str:
    if status is TerminalStatus.UNKNOWN:
        return "matches nothing that is known of this agent"
    return f"looks {status.replace('_', ' ')}"
