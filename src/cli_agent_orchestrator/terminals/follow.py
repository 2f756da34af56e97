"""Follows what the agents write down about themselves: their hooks' events and session records.

An event file is ours and there from the start. A session record is the agent's: it comes with the
first prompt of a session, whoever typed it, and a person may begin or resume another session at any
time. So it is looked for after every message of ours, whenever an agent is seen at work of which no
record tells, and when there is a new file beside a record. One that was found is followed from then
on, for its session may be resumed.
"""

import asyncio
from pathlib import Path

from ..core.models import TerminalStatus
from ..providers.base import SignalKind
from .board import Board, LiveTerminal
from .programs import open_files
from .signals import SignalFiles
from .tracker import SignalSource

LOOKS = (0.0, *(0.02,) * 25, *(0.1,) * 25)
"""Pauses between looks: Codex opens its record within 30 ms of a prompt, or later under load."""
TURN = (TerminalStatus.PROCESSING, TerminalStatus.COMPLETED, TerminalStatus.ERROR)
"""What is told of an agent that was given a prompt."""


class RecordFinder:
    """Finds the files of all agents and hands what they say to the board."""

    def __init__(self, board: Board, signals: SignalFiles) -> None:
        self._board = board
        self._signals = signals
        self._searches: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Stop looking."""
        for search in self._searches.values():
            search.cancel()

    def follow_events(self, live: LiveTerminal, path: Path) -> None:
        """Fold in what an agent's hooks say."""
        self._follow(live, path, SignalSource.HOOK)

    def forget(self, live: LiveTerminal) -> None:
        """Follow nothing of an agent any more but its event file."""
        search = self._searches.pop(live.row.id, None)
        if search is not None:
            search.cancel()
        for record in live.records:
            self._signals.forget(record)

    def told(self, live: LiveTerminal) -> None:
        """A status was told: if it is one of a turn, and no record told it, there may be one."""
        signal = live.track.signal
        recorded = signal is not None and signal.source == SignalSource.RECORD
        if live.status in TURN and not (recorded and signal and signal.status is live.status):
            self.look(live)

    def appeared(self, folder: Path) -> None:
        """There is a new file in a folder: it may be another session of an agent that writes there.

        A short turn in it may be over before the screen was read.
        """
        for live in self._board:
            if any(record.parent == folder for record in live.records):
                self.look(live)

    def look(self, live: LiveTerminal) -> None:
        """Look for a record that is new, for a while."""
        if not live.alive or live.heard.transcript in live.records:
            return
        if not (live.heard.transcript or live.provider.record_pattern):
            return
        running = self._searches.get(live.row.id)
        if running is not None:
            running.cancel()
        search = asyncio.create_task(self._search(live))
        self._searches[live.row.id] = search

    async def _search(self, live: LiveTerminal) -> None:
        began = self._board.now()
        for pause in LOOKS:
            await asyncio.sleep(pause)
            found = await asyncio.to_thread(_records_of, live)
            new = [path for path in found if path not in live.records]
            own = [path for path in new if self._follow_record(live, path)]
            if own:
                return
            signal = live.track.signal
            if signal is not None and signal.source == SignalSource.RECORD and signal.at >= began:
                return

    def _follow_record(self, live: LiveTerminal, path: Path) -> bool:
        """Follow a record; tell whether it is one of this agent's own sessions."""
        live.records.add(path)
        # What hooks have told is newer than the older part of a record they named.
        return self._follow(
            live, path, SignalSource.RECORD, only_new=live.heard.transcript is not None
        )

    def _follow(
        self, live: LiveTerminal, path: Path, source: SignalSource, *, only_new: bool = False
    ) -> bool:
        """Fold in what a file says. What was there before is history: it is not told."""
        own = True

        def read_line(line: str, at: float, old: bool) -> None:
            nonlocal own
            found = live.provider.read_signal(line) if own else None
            if found is None:
                return
            if found.kind is SignalKind.FOREIGN:
                own = False
                self._signals.forget(path)
            elif not old:
                self._board.signal(live, source, found, at)
            elif found.at is None or found.at >= live.row.created_at:
                self._board.remember(live, source, found, min(at, found.at or at))

        def judge() -> None:
            self._board.refresh(live)

        self._signals.follow(path, read_line, judge, only_new=only_new)
        return own


def _records_of(live: LiveTerminal) -> list[Path]:
    """Return the records that an agent names, or else those it has open."""
    if live.heard.transcript is not None:
        return [live.heard.transcript] if live.heard.transcript.is_file() else []
    return open_files(live.pid, live.provider.record_pattern) if live.pid is not None else []
