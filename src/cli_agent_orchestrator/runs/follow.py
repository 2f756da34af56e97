"""The events of a run as they come, until it ends."""

from collections.abc import Iterator

from ..core.files import Folder
from ..core.watch import Waker, watch_file
from ..events import RunEnded, RunEvent
from ..settings.layout import EVENTS_FILE
from .event_log import EventReader
from .record import read_record

LOOK_SECONDS = 2.0
"""A killed run tells nobody: so often it is asked whether its process is still there."""


class Follower:
    """Yields the events of a run: those it has, then each as it comes, until the run ends."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self._folder = folder
        self._after = after
        self._waker = Waker()
        self._stopped = False

    def stop(self) -> None:
        """End it; any thread may call this."""
        self._stopped = True
        self._waker.wake()

    def __iter__(self) -> Iterator[RunEvent]:
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
