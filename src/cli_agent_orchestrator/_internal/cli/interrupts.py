"""Signals that end a run, or the watching of one: noted by the handler, obeyed by the loop."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from cli_agent_orchestrator._internal.cli.keyboard import Settings, put_back, terminal_settings
from cli_agent_orchestrator.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ERASE_BLOCK = "\r\x1b[J"
"""Takes away what a live view shows at the cursor; it is drawn again below."""
SHOW_CURSOR = "\x1b[?25h"
STOPPED = "stopped by a signal"
MOST_AT_ONCE = 64
STOPPING = "cao: stopping. Ctrl-C again ends at once.\n"


class Interrupts:
    """Notes the signals that end a run while the context lasts; a second SIGINT ends it at once.

    Who has let SIGHUP be ignored (`nohup`) wants to outlive the terminal. Enter it in the main
    thread. Python notes signals there alone, and the system may give them to any thread: that does
    not end what the main thread waits for. So a thread of ours hears of each, and ends the wait.
    """

    def __init__(self, notice: str = STOPPING) -> None:
        """`notice` is what is said at once when one comes."""
        self._notice = notice
        self.noted: int | None = None
        """The first signal that came."""
        self._stop: Callable[[], None] | None = None
        # Any: what `signal.signal` returns
        self._before: dict[int, Any] = {}
        self._terminal: Settings | None = None
        self._wakeup_before = -1

    def __enter__(self) -> "Interrupts":
        self._terminal = terminal_settings()
        self._heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        self._wakeup_before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._end_waits, name="signals", daemon=True)
        self._thread.start()
        outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        noted = (number for number in SIGNALS if number != signal.SIGHUP or not outlives)
        self._before = {number: signal.signal(number, self._note) for number in noted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._told)
        self._thread.join()
        os.close(self._heard)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that was ended by the noted signal."""
        return 128 + (self.noted or signal.SIGINT)

    @property
    def reason(self) -> str:
        """Why what is going on is to stop, in words; empty if no signal has come."""
        return "" if self.noted is None else STOPPED

    def when_noted(self, stop: Callable[[], None]) -> None:
        """Call this when a signal comes; at once if one has come already.

        It may be called more than once, and by any thread.
        """
        self._stop = stop
        if self.noted is not None:
            stop()

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.noted is not None:
            raise Stopped("a signal came")

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Not by way of Python's files, which may be in use at this very moment.
        if self.noted is not None and number == signal.SIGINT:
            if os.isatty(1):
                _write(1, ERASE_BLOCK + SHOW_CURSOR)
                put_back(self._terminal)
            os._exit(128 + number)
        if self.noted is None:
            self.noted = number
            _write(1, ERASE_BLOCK if os.isatty(1) else "")
            _write(2, self._notice)
            if self._stop is not None:
                self._stop()

    def _end_waits(self) -> None:
        """Stop for every signal: who was waiting notes it before all else."""
        while numbers := os.read(self._heard, MOST_AT_ONCE):
            if self._stop is not None and not self._before.keys().isdisjoint(numbers):
                self._stop()


def _write(file: int, text: str) -> None:
    with suppress(OSError):
        os.write(file, text.encode())
