"""Signals that end a run: noted by the handler, obeyed by the loop."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from cli_agent_orchestrator.handoff.vigil import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h\r\n"
STOPPING = b"\ncao: stopping; what is saved can be resumed. Ctrl-C again ends at once.\n"


class Interrupts:
    """Notes SIGINT and SIGTERM while the context lasts; a second SIGINT ends the process at once.

    Enter it in the main thread.
    """

    def __init__(self) -> None:
        self.noted: int | None = None
        """The first signal that came."""
        self._stop: Callable[[], None] | None = None
        # Any: what `signal.signal` returns
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that was ended by the noted signal."""
        return 128 + (self.noted or signal.SIGINT)

    def when_noted(self, stop: Callable[[], None]) -> None:
        """Call this when a signal comes; at once if one has come already."""
        self._stop = stop
        if self.noted is not None:
            stop()

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.noted is not None:
            raise Stopped("a signal came")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted is not None and number == signal.SIGINT:
            if os.isatty(1):
                os.write(1, SHOW_CURSOR)
            os._exit(128 + number)
        if self.noted is None:
            self.noted = number
            # Not by way of Python's files, which may be in use at this very moment.
            with suppress(OSError):
                os.write(2, STOPPING)
            if self._stop is not None:
                self._stop()
