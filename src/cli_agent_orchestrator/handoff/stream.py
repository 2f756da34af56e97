"""Listens to the server's status stream in a thread of its own."""

import logging
import threading
from collections.abc import Iterator
from typing import Protocol

from cli_agent_orchestrator.errors import ApiError
from cli_agent_orchestrator.handoff.lookout import is_passing
from cli_agent_orchestrator.handoff.mailbox import Post, StatusSignal, WakeSignal
from cli_agent_orchestrator.handoff.wait import backoff
from cli_agent_orchestrator.models import TerminalEvent

END_SECONDS = 5.0
END_TRIES = 50

logger = logging.getLogger(__name__)


class EventSource(Protocol):
    """The part of the server that tells what happens."""

    def events(self, after: str | None = None) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


class StatusStream:
    """Posts what the server tells, and connects again when the stream breaks.

    A broken stream is posted too, so that the status is asked for; what happened meanwhile the
    server tells after the next connection, or else it tells the status of every terminal.
    """

    def __init__(self, source: EventSource, post: Post) -> None:
        self._source = source
        self._post = post
        self._closing = threading.Event()
        self._last_id: str | None = None
        self._failures = 0
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

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except ApiError as error:
                if not is_passing(error):
                    logger.warning("no status stream, the status will be polled: %s", error)
                    return
                logger.info("the status stream broke: %s", error)
            if self._closing.is_set():
                return
            self._post(WakeSignal())
            self._failures += 1
            self._closing.wait(backoff(self._failures))

    def _listen(self) -> None:
        for event in self._source.events(after=self._last_id):
            if self._closing.is_set():
                return
            self._failures = 0
            self._last_id = event.id
            if event.kind == "removed":
                self._post(WakeSignal())
            else:
                self._post(StatusSignal(event.terminal_id, event.status))
