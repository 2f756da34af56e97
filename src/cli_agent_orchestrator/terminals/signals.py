"""Reads the agents' own signals: event files that hooks append to, and session records.

One watcher thread tells which file has changed; the reading is done in the event loop, a piece at
a time, each file from where it was left. Nothing is polled. An agent may make anything of its file:
only a plain file is read, and never so much at once that others have to wait.
"""

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.events import (
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

from ..core.clock import Clock

logger = logging.getLogger(__name__)

PIECE = 1024 * 1024
"""Bytes that are read in one turn of the loop."""
MAX_LINE = 16 * 1024 * 1024
"""A line longer than this is not a signal: it is skipped instead of kept in memory."""

LineReader = Callable[[str, float, bool], None]
"""Takes one line, the unix time at which it became known, and whether it was there before."""


@dataclass(slots=True)
class _Followed:
    """One file and how far it has been read."""

    read_line: LineReader
    when_caught_up: Callable[[], None]
    offset: int = 0
    rest: bytearray = field(default_factory=bytearray)
    """The beginning of a line that is not complete yet."""
    skips: bool = False
    """Is it in the middle of a line that is too long?"""
    caught_up: bool = False
    """Has all been read that was there before?"""

    def restart(self) -> None:
        """Begin anew: the file is not the one that was read."""
        self.offset = 0
        self.rest.clear()
        self.skips = self.caught_up = False

    def take(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete with this piece."""
        self.offset += len(data)
        first, *others = data.split(b"\n")
        self.rest += first
        if not others:
            if len(self.rest) > MAX_LINE:
                self.skips = True
            if self.skips:
                self.rest.clear()
            return []
        lines = [] if self.skips else [bytes(self.rest)]
        *whole, rest = others
        self.rest, self.skips = bytearray(rest), False
        return [*lines, *whole]


class SignalFiles:
    """Follows files and hands every complete new line to its reader."""

    def __init__(
        self, clock: Clock, appeared: Callable[[Path], None] = lambda folder: None
    ) -> None:
        """`appeared` is told the folder when there is a new file beside one that is followed."""
        self._clock = clock
        self._appeared = appeared
        self._files: dict[Path, _Followed] = {}
        self._watches: dict[Path, ObservedWatch] = {}
        self._observer = Observer()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to watch; call it inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._observer.start()

    def close(self) -> None:
        """Stop watching."""
        self._loop = None
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join()

    def follow(
        self,
        path: Path,
        read_line: LineReader,
        when_caught_up: Callable[[], None] = lambda: None,
        *,
        only_new: bool = False,
    ) -> None:
        """Read the lines that are there, unless only new ones are wanted, then all that come."""
        path = path.absolute()
        offset = path.stat().st_size if only_new and path.exists() else 0
        self._files[path] = _Followed(read_line, when_caught_up, offset)
        self._watch(path.parent)
        self._read(path)

    def forget(self, path: Path) -> None:
        """Stop following a file."""
        path = path.absolute()
        self._files.pop(path, None)
        if not any(other.parent == path.parent for other in self._files):
            watch = self._watches.pop(path.parent, None)
            if watch is not None:
                self._observer.unschedule(watch)

    def _watch(self, folder: Path) -> None:
        if folder not in self._watches:
            self._watches[folder] = self._observer.schedule(
                _Changes(self._changed, self._created),
                str(folder),
                event_filter=[FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileMovedEvent],
            )

    def _changed(self, path: Path) -> None:
        """Called in the watcher's thread."""
        if path in self._files:
            self._in_loop(self._read, path)

    def _created(self, path: Path) -> None:
        """Called in the watcher's thread."""
        if path not in self._files:
            self._in_loop(self._appeared, path.parent)

    def _in_loop(self, call: Callable[[Path], None], path: Path) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(call, path)
            except RuntimeError:
                logger.debug("the loop ended before %s was read", path.name)

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
    """Return what comes next in a file. Neither a link nor a pipe in its place is followed."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            return b""
        if state.st_size < followed.offset:
            followed.restart()
        file.seek(followed.offset)
        return file.read(PIECE)


def remove_signal_file(path: Path) -> None:
    """Remove a file, whatever an agent has made of it."""
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a folder, which some systems call a forbidden deletion
        shutil.rmtree(path, ignore_errors=True)


class _Changes(FileSystemEventHandler):
    """Names the file of every change, and those that are new."""

    def __init__(self, changed: Callable[[Path], None], created: Callable[[Path], None]) -> None:
        self._changed_file = changed
        self._created_file = created

    def on_any_event(self, event: FileSystemEvent) -> None:
        for name in (event.src_path, event.dest_path):
            if name:
                self._changed_file(Path(os.fsdecode(name)))
                if isinstance(event, FileCreatedEvent):
                    self._created_file(Path(os.fsdecode(name)))
