"""The events of a run in its folder: added one by one, read as a whole or as they come.

A line is added by a single write, so whoever reads sees whole lines only, or the beginning of one
that is not counted yet. A process that was killed may leave such a beginning for good; it is taken
away when the log is next opened to be gone on with.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from errno import ENOSPC
from typing import Self

from ..core import codec
from ..core.files import Folder
from ..events import RunEnded, RunEvent, from_line, to_line
from ..settings.layout import EVENTS_FILE
from .record import read_record

LARGEST_PIECE = 8 * 1024 * 1024
"""What is read at a time; a longer line is none of ours."""
LAST_PIECE = 256 * 1024


class EventLog:
    """The log of a run that this process conducts."""

    def __init__(self, folder: Folder) -> None:
        self._file = folder.append(EVENTS_FILE)
        try:
            self.last_seq = _mend(folder, self._file.fileno())
        except OSError:
            self._file.close()
            raise
        self._torn = False

    def append(self, event: RunEvent) -> RunEvent:
        """Add an event and return it with its number, which is given even if OSError is raised."""
        self.last_seq += 1
        numbered = replace(event, seq=self.last_seq)
        # What was left of one that did not fit must not run into this one.
        data = b"\n" * self._torn + to_line(numbered).encode() + b"\n"
        self._torn = True
        if os.write(self._file.fileno(), data) < len(data):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._torn = False
        return numbered

    def close(self) -> None:
        self._file.close()


class EventReader:
    """Reads the events of a log as they come; the file may not be there yet."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self._folder = folder
        self._after = after
        self._position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def read(self) -> Iterator[RunEvent]:
        try:
            file = self._folder.open_to_read(EVENTS_FILE)
        except FileNotFoundError:
            return
        with file:
            while piece := os.pread(file.fileno(), LARGEST_PIECE, self._position):
                end = piece.rfind(b"\n") + 1
                if not end and len(piece) < LARGEST_PIECE:
                    return
                self._position += end or len(piece)
                yield from self._events(piece[:end])

    def _events(self, lines: bytes) -> Iterator[RunEvent]:
        for line in lines.split(b"\n"):
            event = from_line(line)
            if event is not None and event.seq > self._after:
                self._after = event.seq
                yield event


def read_events(folder: Folder, after: int = 0) -> list[RunEvent]:
    return list(EventReader(folder, after).read())


def last_events(folder: Folder) -> list[RunEvent]:
    """Return the last events of a run, so many as tell how it stands."""
    try:
        with folder.open_to_read(EVENTS_FILE) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_PIECE))
            lines = file.read(LAST_PIECE).split(b"\n")
    except OSError:
        return []
    return [event for event in map(from_line, lines) if event is not None]


def _mend(folder: Folder, file: int) -> int:
    """Take away what a killed process left of a line, and return the last number given."""
    with folder.open_to_read(EVENTS_FILE) as opened:
        data = opened.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.ftruncate(file, whole)
    return max((_seq_of(line) for line in data[:whole].split(b"\n")), default=0)


def _seq_of(line: bytes) -> int:
    try:
        seq = codec.parse(line)["seq"]
    except (ValueError, LookupError, TypeError):
        return 0
    return seq if isinstance(seq, int) else 0


LOOK_SECONDS = 2.0
"""A killed run tells nobody: so often it is asked whether its process is still there."""


class Follower:
    """Yields the events of a run: those it has, then each as it comes, until the run ends."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self._folder = folder
        self._after = after
        from ..core.watch import Waker

        self._waker = Waker()
        self._stopped = False

    def stop(self) -> None:
        """End it; any thread may call this."""
        self._stopped = True
        self._waker.wake()

    def __iter__(self) -> Iterator[RunEvent]:
        from ..core.watch import watch_file

        reader = EventReader(self._folder, self._after)
        last: RunEvent | None = None
        with watch_file(self._folder.path / EVENTS_FILE, self._waker.wake):
            while not self._stopped:
                # Asked first: whatever is written before the end is read after this.
                alive = self._folder.is_locked()
                for event in reader.read():
                    last = event
                    yield event
                if not alive or (isinstance(last, RunEnded) and self._is_over()):
                    return
                self._waker.wait(LOOK_SECONDS)

    def _is_over(self) -> bool:
        """Has it ended for good? A run that was resumed has ended before."""
        record = read_record(self._folder)
        return record is None or not record.status.is_open
