"""Follows the files that agents write: event files of their hooks, session records.

A watcher thread reports which file has changed; it is read in the event loop, a piece at a time.
Nothing is polled. An agent may put anything in place of its file: only a plain file is read, and
never so much at once that others have to wait.

An event file is ours and there from the start. A session record is the agent's: it comes with the
first prompt of a session, and a person may begin or resume another session at any time. So a record
is looked for after every message of ours, whenever an agent is seen at work that no record reports,
and when there is a new file beside a record. A record that was found is followed from then on.
"""

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from ..core.clock import Clock
from ..core.models import TerminalStatus
from ..core.watch import FolderWatch
from ..providers.base import SignalKind
from .board import Board, LiveTerminal
from .programs import open_files
from .tracker import SignalSource

logger = logging.getLogger(__name__)

PIECE = 1024 * 1024
"""Bytes that are read in one turn of the loop."""
MAX_LINE = 16 * 1024 * 1024
"""A longer line is no signal: it is skipped instead of kept in memory."""

LineReader = Callable[[str, float, bool], None]
"""Takes one line, the unix time at which it became known, and whether it was there before."""


class _Followed(Struct):
    read_line: LineReader
    when_caught_up: Callable[[], None]
    offset: int = 0
    rest: bytearray = field(default_factory=bytearray)
    skips: bool = False
    caught_up: bool = False

    def take(self, data: bytes) -> list[bytes]:
        self.offset += len(data)
        first, *others = data.split(b"\n")
        self.rest += first
        if not others:
            self.skips = self.skips or len(self.rest) > MAX_LINE
            if self.skips:
                self.rest.clear()
            return []
        lines = [] if self.skips else [bytes(self.rest)]
        *whole, rest = others
        self.rest, self.skips = bytearray(rest), False
        return [*lines, *whole]


class SignalFiles:
    def __init__(
        self, clock: Clock, appeared: Callable[[Path], None] = lambda folder: None
    ) -> None:
        """`appeared` gets the folder of a new file beside one that is followed."""
        self._clock = clock
        self._appeared = appeared
        self._files: dict[Path, _Followed] = {}
        self._others: set[Path] = set()
        self._folders = FolderWatch(self._changed)
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        self._loop = None
        self._folders.close()

    def follow(
        self,
        path: Path,
        read_line: LineReader,
        when_caught_up: Callable[[], None] = lambda: None,
        *,
        only_new: bool = False,
    ) -> None:
        """Read the lines that are there, unless only new ones are wanted, then all that come."""
        self._loop = asyncio.get_running_loop()
        path = path.absolute()
        offset = path.stat().st_size if only_new and path.exists() else 0
        self._files[path] = _Followed(read_line, when_caught_up, offset)
        self._folders.watch(other.parent for other in self._files)
        self._read(path)

    def forget(self, path: Path) -> None:
        self._files.pop(path.absolute(), None)
        self._folders.watch(other.parent for other in self._files)

    def _changed(self, _: object, path: Path) -> None:
        """Called in the watcher's thread."""
        if path in self._files:
            self._in_loop(self._read, path)
        elif path not in self._others:
            self._others.add(path)
            self._in_loop(self._appeared, path.parent)

    def _in_loop(self, call: Callable[[Path], None], path: Path) -> None:
        if self._loop is not None:
            # The loop may just have ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call, path)

    def _read(self, path: Path) -> None:
        followed = self._files.get(path)
        if followed is None:
            return
        try:
            data = _read_piece(path, followed)
        except FileNotFoundError:
            followed.caught_up = True
            return
        except OSError as error:
            logger.warning("%s cannot be read: %s", path.name, error.strerror)
            return
        now = self._clock.now()
        for line in followed.take(data):
            followed.read_line(line.decode("utf-8", "replace"), now, not followed.caught_up)
        if len(data) == PIECE and self._loop is not None:
            self._loop.call_soon(self._read, path)
        elif not followed.caught_up:
            followed.caught_up = True
            followed.when_caught_up()


def _read_piece(path: Path, followed: _Followed) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            return b""
        if state.st_size < followed.offset:
            followed.offset = 0
            followed.rest.clear()
            followed.skips = followed.caught_up = False
        file.seek(followed.offset)
        return file.read(PIECE)


def remove_signal_file(path: Path) -> None:
    """Remove a file, or the folder that an agent has made in its place."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder, which some systems call a forbidden deletion
        shutil.rmtree(path, ignore_errors=True)


LOOKS = (0.0, *(0.02,) * 25, *(0.1,) * 25)
"""Pauses between looks: Codex opens its record within 30 ms of a prompt, or later under load."""
TURN = (TerminalStatus.PROCESSING, TerminalStatus.COMPLETED, TerminalStatus.ERROR)


class RecordFinder:
    def __init__(self, board: Board, signals: SignalFiles) -> None:
        self._board = board
        self._signals = signals
        self._searches: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        for search in self._searches.values():
            search.cancel()

    def forget(self, live: LiveTerminal) -> None:
        search = self._searches.pop(live.row.id, None)
        if search is not None:
            search.cancel()
        for record in live.records:
            self._signals.forget(record)

    def told(self, live: LiveTerminal) -> None:
        """A status was reported: if it is one of a turn and not from a record, look for one."""
        reported = live.track.signal_source, live.track.signal_status
        if live.status in TURN and reported != (SignalSource.RECORD, live.status):
            self.look(live)

    def appeared(self, folder: Path) -> None:
        """A new file in a folder may be another session of an agent that writes there.

        A short turn in it may be over before the screen was read.
        """
        for live in self._board:
            if any(record.parent == folder for record in live.records):
                self.look(live)

    def look(self, live: LiveTerminal) -> None:
        if not live.alive or live.transcript in live.records:
            return
        if not (live.transcript or live.provider.record_pattern):
            return
        if live.row.id in self._searches:
            self._searches[live.row.id].cancel()
        self._searches[live.row.id] = asyncio.create_task(self._search(live))

    async def _search(self, live: LiveTerminal) -> None:
        began = self._board.now()
        for pause in LOOKS:
            await asyncio.sleep(pause)
            found = await asyncio.to_thread(_records_of, live)
            own = False
            for path in found:
                if path not in live.records:
                    live.records.add(path)
                    # What hooks have told is newer than the older part of a record they named.
                    named = live.transcript is not None
                    own |= self.follow(live, path, SignalSource.RECORD, only_new=named)
            if own:
                return
            signal = live.track.signal
            if signal is not None and signal.source == SignalSource.RECORD and signal.at >= began:
                return

    def follow(
        self,
        live: LiveTerminal,
        path: Path,
        source: SignalSource = SignalSource.HOOK,
        *,
        only_new: bool = False,
    ) -> bool:
        """Fold in the lines of a file; return whether it is one of this agent's own sessions.

        Lines that were there before are history: they are not published.
        """
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
                self._board.signal(live, source, found, min(at, found.at or at), old=True)

        refresh = partial(self._board.refresh, live)
        self._signals.follow(path, read_line, refresh, only_new=only_new)
        return own


def _records_of(live: LiveTerminal) -> list[Path]:
    if live.transcript is not None:
        return [live.transcript] if live.transcript.is_file() else []
    return open_files(live.pid, live.provider.record_pattern) if live.pid is not None else []
