"""The live picture of all terminals: what tmux and the agents tell is folded in here.

Everything runs in one event loop and nothing waits: each report updates one terminal, its status
is judged anew, and a change is published. Who wants to wait for something waits for the next
change of a terminal.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.models import Evidence, TerminalEvent, TerminalStatus
from cli_agent_orchestrator._internal.providers.base import AgentSignal, Provider
from cli_agent_orchestrator._internal.providers.stream_state import read_states
from cli_agent_orchestrator._internal.terminals import tracker
from cli_agent_orchestrator._internal.terminals.event_log import EventFeed
from cli_agent_orchestrator._internal.terminals.live_terminal import LiveTerminal, hear
from cli_agent_orchestrator._internal.terminals.store import TerminalRow
from cli_agent_orchestrator._internal.terminals.tmux import PaneInfo, PaneScreen
from cli_agent_orchestrator._internal.terminals.tracker import SignalSource, Track
from cli_agent_orchestrator.errors import NotFound

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
        """`told` is called after each change of a status."""
        self._clock = clock
        self._when_told = told
        self._terminals: dict[str, LiveTerminal] = {}
        self._by_pane: dict[str, LiveTerminal] = {}
        self.log = EventFeed(start_id, self._snapshot)

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

    def mark_ready(self, live: LiveTerminal) -> TerminalRow:
        """Note that a terminal can be given work; return what is to be remembered of it."""
        live.row = replace(live.row, ready=True)
        return live.row

    def publish(self, live: LiveTerminal) -> None:
        """Tell everyone about a terminal as it is now."""
        self.log.publish(self._event("status", live))

    def remove(self, live: LiveTerminal) -> None:
        """Take a terminal off the board."""
        if self._terminals.pop(live.row.id, None) is None:
            return
        self._forget_pane(live)
        for timer in (live.upkeep.decay, live.upkeep.action):
            if timer is not None:
                timer.cancel()
        if live.row.ready:
            self.log.publish(self._event("removed", live))
        live.notify()

    def signal(
        self, live: LiveTerminal, source: SignalSource, signal: AgentSignal, at: float
    ) -> None:
        """Fold in a signal of the agent's own."""
        live.track = tracker.observe_signal(live.track, source, signal, at)
        live.heard = hear(live.heard, signal, at)
        self.refresh(live)

    def remember(
        self, live: LiveTerminal, source: SignalSource, signal: AgentSignal, at: float
    ) -> None:
        """Fold in a signal that was there before, without judging anew: more is about to come."""
        is_found = signal.at is None
        live.track = tracker.observe_signal(live.track, source, signal, at, found=is_found)
        live.heard = hear(live.heard, signal, at)

    def pressed(self, live: LiveTerminal) -> None:
        """Note that a key was pressed: what is asked from now on is another question."""
        live.asked += 1

    def answered(self, live: LiveTerminal, fingerprint: str) -> None:
        """Note which question was answered."""
        live.answered = fingerprint

    def submitted(self, live: LiveTerminal, detail: str, at: float) -> None:
        """Fold in that the agent took our message."""
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
            signals, live.upkeep.unread = read_states(live.upkeep.unread + data)
            for signal in signals:
                self.signal(live, SignalSource.STREAM, signal, self.now())

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
        logger.warning("the connection to tmux ended (%s); reconnecting", reason)

    def _see(self, live: LiveTerminal, screen: PaneScreen) -> None:
        now = self.now()
        changed = live.screen is None or live.screen.text != screen.text
        status = live.provider.detect_status(screen.text, screen.title)
        by_title = live.provider.title_status(screen.title)
        # A new agent is seen before it is ready.
        found = live.screen is None and live.row.ready
        live.screen = screen
        live.track = tracker.observe_screen(
            live.track,
            Evidence(SignalSource.SCREEN, status, _screen_detail(status), now, found),
            Evidence(SignalSource.TITLE, by_title, screen.title, now, found) if by_title else None,
            changed,
        )

    def _end(self, live: LiveTerminal, exit_code: int | None, detail: str) -> None:
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
        if live.upkeep.decay:
            live.upkeep.decay.cancel()
            live.upkeep.decay = None
        if live.verdict.until is not None:
            loop = asyncio.get_running_loop()
            wait = live.verdict.until - now + 0.001
            live.upkeep.decay = loop.call_later(wait, self.refresh, live)
        asks_aloud = live.status is TerminalStatus.WAITING_USER_ANSWER and tracker.asks_aloud(
            live.track
        )
        state = (live.status, live.alive, asks_aloud)
        if live.upkeep.published != state:
            live.asked += _begins_to_ask(live)
            live.upkeep.published = state
            live.last_active = now
            if live.row.ready:
                self.publish(live)
            self._when_told(live)
        self._tell_action(live)
        live.notify()

    def _tell_action(self, live: LiveTerminal) -> None:
        """Publish what an agent does if that is news, but no more often than people can read."""
        upkeep = live.upkeep
        if upkeep.action is not None or upkeep.told_action == live.heard.action:
            return
        upkeep.told_action = live.heard.action
        if live.row.ready:
            self.log.publish(self._event("action", live))
        loop = asyncio.get_running_loop()
        upkeep.action = loop.call_later(ACTION_SECONDS, self._go_on_telling, live)

    def _go_on_telling(self, live: LiveTerminal) -> None:
        live.upkeep.action = None
        self._tell_action(live)

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


def _begins_to_ask(live: LiveTerminal) -> bool:
    """Does it ask since it was told last?"""
    waiting = TerminalStatus.WAITING_USER_ANSWER
    return live.status is waiting and live.upkeep.published[0] is not waiting


def _ended(exit_code: int | None) -> str:
    return "the program ended" + ("" if exit_code is None else f" with code {exit_code}")


def _screen_detail(status: TerminalStatus) -> str:
    if status is TerminalStatus.UNKNOWN:
        return "matches nothing that is known of this agent"
    return f"looks {status.replace('_', ' ')}"
