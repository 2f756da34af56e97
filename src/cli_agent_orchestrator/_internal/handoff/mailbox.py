"""What wakes a waiting turn: signals, the mailbox they wait in, and the stream that posts them.

The file watch posts what happens to the response file, the status stream what the server says.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.models import FileChange, TerminalEvent, TerminalStatus
from cli_agent_orchestrator._internal.retry import Retry, is_transient
from cli_agent_orchestrator.errors import ApiError, Stopped
from cli_agent_orchestrator.events import EventKind

LONGEST_WAIT = 3600.0
"""Seconds after which one looks again in any case; the system knows no end of the larger ones."""
END_SECONDS = 5.0
END_TRIES = 50
STEADY_SECONDS = 10.0
"""A connection that lasted for so long was a good one: the next pause is a short one again."""
STATUS_KINDS = frozenset({"snapshot", "status"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileSignal:
    """Something happened to a response file."""

    path: Path
    change: FileChange


@dataclass(frozen=True, slots=True)
class StatusSignal:
    """The server reported the status of a terminal."""

    terminal_id: str
    status: TerminalStatus
    reason: str = field(default="", compare=False)
    """Why, as the server says it: `hook: PermissionRequest: May I run make?`."""


@dataclass(frozen=True, slots=True)
class ActionSignal:
    """The server reported what an agent does."""

    terminal_id: str
    action: str


@dataclass(frozen=True, slots=True)
class WakeSignal:
    """Reason enough to look: the stream broke, a terminal was removed, a stop was asked for."""


Signal = FileSignal | StatusSignal | ActionSignal | WakeSignal
Post = Callable[[Signal], None]


class Mailbox(Protocol):
    """Where signals wait to be read."""

    def post(self, signal: Signal) -> None:
        """Add a signal; any thread may, and a signal handler too."""
        ...

    def wait(self, seconds: float) -> Signal | None:
        """Return the next signal, or None when none has come after so many seconds."""
        ...


class QueueMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        # SimpleQueue, because its put may interrupt its get: signal handlers post too.
        self._signals: SimpleQueue[Signal] = SimpleQueue()

    def post(self, signal: Signal) -> None:
        self._signals.put(signal)

    def wait(self, seconds: float) -> Signal | None:
        try:
            return self._signals.get(timeout=min(max(seconds, 0), LONGEST_WAIT))
        except Empty:
            return None


def heed_nothing() -> None:
    """Do nothing about what people ask for meanwhile."""


class StoppableMailbox:
    """A mailbox that is listened to until a stop is asked for."""

    def __init__(
        self, mailbox: Mailbox, clock: Clock, heed: Callable[[], None] = heed_nothing
    ) -> None:
        """`heed` is called at every look; what it raises ends the wait."""
        self.post = mailbox.post
        self._heed = heed
        self._mailbox = mailbox
        self._clock = clock
        self._stopping = False

    def stop(self) -> None:
        """Let every present and later `listen` raise `Stopped`."""
        self._stopping = True
        self._mailbox.post(WakeSignal())

    def wake(self) -> None:
        """Let a present `listen` heed what people ask for."""
        self._mailbox.post(WakeSignal())

    def listen(self, until: float) -> Signal | None:
        """Return the next signal, or None if none has come by a certain time."""
        self._attend()
        signal = self._mailbox.wait(until - self._clock.monotonic())
        self._attend()
        return signal

    def forget(self) -> None:
        """Drop every signal that has come so far."""
        while self._mailbox.wait(0) is not None:
            pass

    def check_stop(self) -> None:
        """Raise `Stopped` if a stop was asked for."""
        if self._stopping:
            raise Stopped("the handoff was stopped")

    def _attend(self) -> None:
        self.check_stop()
        self._heed()


class EventSource(Protocol):
    """The part of the server that reports what happens."""

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


class StatusStream:
    """Listens to the server in a thread of its own, and connects again when the stream breaks.

    A broken stream is posted too, so that the status is asked for; after the next connection the
    server reports what happened meanwhile, or else the status of every terminal. The stream counts
    as lost when the first attempt to connect again has failed.
    """

    def __init__(self, source: EventSource, post: Post, clock: Clock) -> None:
        self._source = source
        self._post = post
        self._clock = clock
        self._closing = threading.Event()
        self._last_id: str | None = None
        self._lost = ""
        """Why there is no stream; empty if there is one."""
        self._reported = ""
        """What `take_news` last said of that."""
        self._thread = threading.Thread(target=self._run, name="status-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the stream."""
        self._closing.set()
        for _ in range(END_TRIES):
            # Again, because the thread may have been about to open another stream.
            self._source.close_events()
            self._thread.join(END_SECONDS / END_TRIES)
            if not self._thread.is_alive():
                return

    def take_news(self, poll_seconds: float) -> tuple[EventKind, str] | None:
        """Return that the stream is lost, or back, in words too; None if that is no news."""
        lost, reported = self._lost, self._reported
        self._reported = lost
        if lost and not reported:
            text = f"the event stream is lost ({lost}); polling every {poll_seconds:g} s"
            return EventKind.STREAM_LOST, text
        if reported and not lost:
            return EventKind.STREAM_BACK, "the event stream is back"
        return None

    def _run(self) -> None:
        retry = Retry(self._clock.monotonic())
        while not self._closing.is_set():
            began = self._clock.monotonic()
            reason, for_good = self._listen()
            if self._closing.is_set():
                return
            if self._clock.monotonic() - began >= STEADY_SECONDS:
                retry = Retry(began)
            retry = retry.after_failure()
            if retry.failures > 1 or for_good:
                self._lose(reason)
            self._post(WakeSignal())
            if for_good:
                return
            self._closing.wait(retry.pause)

    def _listen(self) -> tuple[str, bool]:
        """Post events until the stream ends; return why it did, and whether it has to stay so."""
        try:
            for event in self._source.events(self._last_id, self._open):
                if self._closing.is_set():
                    break
                self._last_id = event.id or self._last_id
                self._pass_on(event)
        except ApiError as error:
            logger.info("the status stream broke: %s", error)
            return error.summary, not is_transient(error)
        return "the server ended it", False

    def _lose(self, reason: str) -> None:
        if not self._lost:
            logger.warning("no status stream, the status will be polled: %s", reason)
        self._lost = reason

    def _open(self) -> None:
        if self._lost:
            self._lost = ""
            self._post(WakeSignal())

    def _pass_on(self, event: TerminalEvent) -> None:
        if event.kind in STATUS_KINDS:
            self._post(StatusSignal(event.terminal_id, event.status, event.reason))
        elif event.kind == "action":
            self._post(ActionSignal(event.terminal_id, event.action))
        elif event.kind == "removed":
            self._post(WakeSignal())
