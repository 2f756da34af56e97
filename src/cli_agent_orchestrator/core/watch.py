"""Watches one file, or some folders, and reports what happens there."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, cast

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, ObservedWatch

from .models import FileChange

if sys.platform == "linux":
    from watchdog.observers.inotify import InotifyFullEmitter
    from watchdog.observers.inotify_c import InotifyConstants

    if TYPE_CHECKING:
        from watchdog.observers.inotify_c import Mask

    class _Emitter(InotifyFullEmitter):
        """Asks the kernel only for what is needed.

        Above all not for files that are moved away: watchdog holds such an event, and all that
        come after it, for half a second, and we move a file away at the end of every turn.
        """

        def get_event_mask_from_filter(self) -> "Mask":
            mask = (
                InotifyConstants.IN_CREATE
                | InotifyConstants.IN_MODIFY
                | InotifyConstants.IN_CLOSE_WRITE
                | InotifyConstants.IN_MOVED_TO
                | InotifyConstants.IN_DELETE_SELF
            )
            return cast("Mask", mask)

else:
    from watchdog.observers import Observer

REPORTS_CLOSE = sys.platform == "linux"

logger = logging.getLogger(__name__)

OnChange = Callable[[FileChange], None]
WatchFile = Callable[[Path, OnChange], AbstractContextManager[None]]


class Waker:
    """Lets one thread wait until a watch, another thread or a signal handler wakes it."""

    def __init__(self) -> None:
        # SimpleQueue, because its put may interrupt its get.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def wake(self, change: FileChange | None = None) -> None:
        """End a `wait`, the present or the next one; it can be what a watch calls."""
        self._wakes.put(None)

    def wait(self, seconds: float) -> None:
        with suppress(Empty):
            self._wakes.get(timeout=max(seconds, 0))


class _Handler(FileSystemEventHandler):
    def __init__(self, on_event: Callable[[FileSystemEvent, Path], None]) -> None:
        self._on_event = on_event

    def on_any_event(self, event: FileSystemEvent) -> None:
        path = event.dest_path if event.event_type == "moved" else event.src_path
        self._on_event(event, Path(os.fsdecode(path)))


CHANGES = {
    "created": FileChange.TOUCHED,
    "modified": FileChange.WRITING,
    "closed": FileChange.CLOSED,
    "moved": FileChange.CLOSED,
}


@contextmanager
def watch_file(path: Path, on_change: OnChange) -> Iterator[None]:
    """Report what happens to a file while the context lasts; its folder must be there.

    `on_change` is called in a thread of its own. A system that allows no more watches is only
    slower: whoever waits looks at the file now and then.
    """

    def on_event(event: FileSystemEvent, arrived: Path) -> None:
        # By name alone: some systems report the real path of a folder that was given by a link.
        if event.is_directory or arrived.name != path.name:
            return
        is_plain = arrived.is_file() and not arrived.is_symlink()
        if event.event_type == "created" and REPORTS_CLOSE and is_plain:
            # It will be closed; a link or a pipe will not.
            return
        change = CHANGES.get(event.event_type) if REPORTS_CLOSE else FileChange.TOUCHED
        if change is not None:
            on_change(change)

    with closing(FolderWatch(on_event)) as watch:
        watch.watch([path.parent])
        yield


class FolderWatch:
    """Reports what changes in some folders, which come and go; for one thread at a time."""

    def __init__(self, on_event: Callable[[FileSystemEvent, Path], None]) -> None:
        self._handler = _Handler(on_event)
        if sys.platform == "linux":
            self._observer = BaseObserver(_Emitter)
        else:
            self._observer = Observer()
        self._watches: dict[Path, ObservedWatch | None] = {}

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders and no others; where that cannot be, nothing is reported."""
        wanted = set(folders)
        if not self._observer.is_alive():
            self._observer.start()
        for folder in self._watches.keys() - wanted:
            watch = self._watches.pop(folder)
            # One whose folder was removed has ended by itself.
            with suppress(KeyError):
                if watch is not None:
                    self._observer.unschedule(watch)
        for folder in wanted - self._watches.keys():
            try:
                self._watches[folder] = self._observer.schedule(self._handler, str(folder))
            except OSError as error:
                logger.warning("%s cannot be watched and will be polled: %s", folder, error)
                self._watches[folder] = None

    def close(self) -> None:
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join()
