"""Listens to the server's status stream in a thread of its own."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import ApiError
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.lookout import in_words, is_passing
from cli_agent_orchestrator.handoff.mailbox import Post, StatusSignal, WakeSignal
from cli_agent_orchestrator.handoff.progress import Narrator
from cli_agent_orchestrator.handoff.wait import backoff
from cli_agent_orchestrator.models import TerminalEvent

END_SECONDS = 5.0
END_TRIES = 50
STEADY_SECONDS = 10.0
"""A connection that lasted for so long was a good one: the next pause is a short one again."""
STATUS_KINDS = frozenset({"snapshot", "status"})

logger = logging.getLogger(__name__)


class EventSource(Protocol):
    """The part of the server that tells what happens."""

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


class StatusStream:
    """Posts what the server tells, and connects again when the stream breaks.

    A broken stream is posted too, so that the status is asked for; what happened meanwhile the
    server tells after the next connection, or else it tells the status of every terminal. It
    counts as lost when the first attempt to connect again has failed.
    """

    def __init__(self, source: EventSource, post: Post, clock: Clock) -> None:
        self._source = source
        self._post = post
        self._clock = clock
        self._closing = threading.Event()
        self._last_id: str | None = None
        self._failures = 0
        self._lost = ""
        """Why there is no stream; empty if there is one."""
        self._told = ""
        """What of that has been told."""
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

    def report(self, narrator: Narrator, poll_seconds: float) -> None:
        """Tell that the stream is lost, or that it is back, if that is news."""
        lost, told = self._lost, self._told
        self._told = lost
        if lost and not told:
            text = f"the event stream is lost ({lost}); asking every {poll_seconds:g} s"
            narrator.tell(EventKind.STREAM_LOST, text)
        elif told and not lost:
            narrator.tell(EventKind.STREAM_BACK, "the event stream is back")

    def _run(self) -> None:
        while not self._closing.is_set():
            began = self._clock.monotonic()
            reason, for_good = self._listen()
            if self._closing.is_set():
                return
            lasted = self._clock.monotonic() - began
            self._failures = 1 if lasted >= STEADY_SECONDS else self._failures + 1
            if self._failures > 1 or for_good:
                self._lose(reason)
            self._post(WakeSignal())
            if for_good:
                return
            self._closing.wait(backoff(self._failures))

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
            return in_words(error), not is_passing(error)
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
            self._post(StatusSignal(event.terminal_id, event.status))
        elif event.kind == "removed":
            self._post(WakeSignal())
