"""Sends notices beside a run, which never waits for them.

Each channel has a thread of its own, so that a slow one keeps no other waiting.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from ..core.clock import Retry
from ..events import RunEvent
from .channels import Channel, NotSent
from .decide import NoticeKind, Noticing, RunNotice

RETRY_SECONDS = 30.0
"""For how long a notice is tried that does not arrive."""
LAST_SECONDS = 5.0
"""What is under way when the run has ended gets this long."""
MOST_WAITING = 50
"""Notices for one channel; who gets no more than these is not listening."""


class Outbox:
    """What waits for one channel."""

    def __init__(self, channel: Channel, warn: Callable[[str], None], retry_seconds: float) -> None:
        self.channel = channel
        self._warn = warn
        self._retry_seconds = retry_seconds
        self._waiting: SimpleQueue[RunNotice | None] = SimpleQueue()
        self._aborted = threading.Event()
        self._problem = ""
        """Why the last try of what is under way has failed."""
        self._has_warned = False
        self._thread: threading.Thread | None = None

    def put(self, notice: RunNotice) -> None:
        """Let a notice be sent."""
        if self._waiting.qsize() >= MOST_WAITING:
            self._fail("too many wait already")
            return
        self._waiting.put(notice)
        if self._thread is None:
            name = f"notices by {self.channel.name}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Let the thread end when all is sent."""
        self._waiting.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until all is sent; what is not by then is given up."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))
            if self._thread.is_alive():
                self._fail(self._problem or "it took too long at the end of the run")

    def abort(self) -> None:
        """Give up what is not sent."""
        self._aborted.set()
        self.channel.abort()

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None and not self._aborted.is_set():
            try:
                self._deliver(notice)
            except Exception as fault:  # noqa: BLE001 - the thread would end, and say so elsewhere
                self._fail(_of_ours(fault))

    def _deliver(self, notice: RunNotice) -> None:
        """Send one, again and again with growing pauses if that may help."""
        self._problem = ""
        retry = Retry(time.monotonic(), limit=self._retry_seconds)
        while not self._aborted.is_set():
            try:
                self.channel.send(notice)
            except NotSent as failure:
                self._problem = str(failure)
                retry = retry.after_failure()
                now = time.monotonic()
                if not failure.again or retry.is_over(now):
                    self._fail(self._problem)
                    return
                self._aborted.wait(retry.next_try(now) - now)
            else:
                return

    def _fail(self, why: str) -> None:
        """Say it once in a run, and not of what is given up on purpose."""
        if not self._has_warned and not self._aborted.is_set():
            self._has_warned = True
            self._warn(
                f"no notice by {self.channel.name}: {why}; `cao notify test` tries all channels"
            )


class Sender:
    """Tells the channels what happens in a run."""

    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: Collection[NoticeKind] = frozenset(NoticeKind),
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._noticing = Noticing(kinds)
        self._has_warned = False
        self._warnings: SimpleQueue[str] = SimpleQueue()
        self._boxes = [Outbox(channel, self._warnings.put, retry_seconds) for channel in channels]

    def tell(self, event: RunEvent) -> None:
        """Send a notice of an event if it is worth one; this waits for nothing."""
        try:
            notice = self._noticing.hear(event)
        except Exception as fault:  # noqa: BLE001 - a notice that fails must not end the run
            if not self._has_warned:
                self._has_warned = True
                self._warnings.put(f"no notices: {_of_ours(fault)}")
            return
        if notice is not None:
            for box in self._boxes:
                box.put(notice)

    def pop_warnings(self) -> list[str]:
        """Return what went wrong since this was asked last."""
        found = []
        with suppress(Empty):
            while True:
                found.append(self._warnings.get_nowait())
        return found

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Wait so long for what is under way, and give up the rest."""
        try:
            until = time.monotonic() + seconds
            for box in self._boxes:
                box.finish()
            for box in self._boxes:
                box.wait(until - time.monotonic())
        finally:
            for box in self._boxes:
                box.abort()


def _of_ours(fault: Exception) -> str:
    """Name a fault; what it says may be an address or a token."""
    return f"a fault in cao, {type(fault).__name__}"
