"""Watches one response file and posts what happens to it."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver

from cli_agent_orchestrator.handoff.mailbox import Change, FileSignal, Post

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
                InotifyConstants.IN_MODIFY
                | InotifyConstants.IN_CLOSE_WRITE
                | InotifyConstants.IN_MOVED_TO
                | InotifyConstants.IN_DELETE_SELF
            )
            return cast("Mask", mask)

else:
    from watchdog.observers import Observer

TELLS_OF_CLOSING = sys.platform == "linux"

Watch = Callable[[Path, Post], AbstractContextManager[None]]

logger = logging.getLogger(__name__)


class _Handler(FileSystemEventHandler):
    """Turns what the system says about one file into signals."""

    def __init__(self, path: Path, post: Post) -> None:
        self._path = path
        self._post = post

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.is_directory:
            return
        # By name alone: some systems tell the real path of a folder that was given by a link.
        arrived = event.dest_path if event.event_type == "moved" else event.src_path
        if Path(_text(arrived)).name != self._path.name:
            return
        change = _CHANGES.get(event.event_type) if TELLS_OF_CLOSING else Change.TOUCHED
        if change is not None:
            self._post(FileSignal(self._path, change))


_CHANGES = {"modified": Change.WRITING, "closed": Change.CLOSED, "moved": Change.CLOSED}


def _text(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode(errors="surrogateescape")


@contextmanager
def watch_file(path: Path, post: Post) -> Iterator[None]:
    """Post what happens to a file while the context lasts; its folder must be there.

    A system that allows no more watches is only slower: the file is still looked for.
    """
    with ExitStack() as watching:
        try:
            observer = _observer()
            watching.callback(observer.stop)
            observer.schedule(_Handler(path, post), str(path.parent))
            observer.start()
            watching.callback(_end, observer)
        except OSError as error:
            logger.warning("%s cannot be watched and will be polled: %s", path.parent, error)
        yield


def _end(observer: BaseObserver) -> None:
    observer.stop()
    observer.join()


def _observer() -> BaseObserver:
    if sys.platform == "linux":
        return BaseObserver(_Emitter)
    else:
        return Observer()
