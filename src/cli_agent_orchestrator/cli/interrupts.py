"""Signals that end a run, or a view of one: noted by the handler, obeyed by the loop."""

import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from ..errors import Stopped

ESCAPE_SECONDS = 0.05
"""The rest of an arrow key follows its Escape sooner than that."""
LARGEST_PIECE = 4096
INPUT, OUTPUT = 0, 1
PASTES_MARKED, PASTES_PLAIN = b"\x1b[?2004h", b"\x1b[?2004l"
LOCAL_MODES, CONTROL_CHARACTERS = 3, 6
# Any: what `termios` has, a list of numbers and lists
Settings = list[Any]


def is_foreground() -> bool:
    try:
        return os.isatty(INPUT) and os.tcgetpgrp(INPUT) == os.getpgrp()
    except OSError:
        return False  # it does not control this process


def terminal_settings() -> Settings | None:
    with suppress(termios.error):
        return termios.tcgetattr(INPUT) if is_foreground() else None
    return None


def put_back(settings: Settings | None) -> None:
    """Restore the terminal; keys that were not read are no input for a shell."""
    if settings is None or not is_foreground():
        return
    with suppress(termios.error, OSError):
        termios.tcflush(INPUT, termios.TCIFLUSH)
        termios.tcsetattr(INPUT, termios.TCSANOW, settings)
        os.write(OUTPUT, PASTES_PLAIN)


class Keyboard:
    """Reports keys, in a thread of its own. Enter it in the main thread."""

    def __init__(self, hear: Callable[[bytes], bool]) -> None:
        """`hear` returns whether the key may be incomplete; it gets b"" if nothing follows."""
        self._hear = hear
        self._before: Settings | None = None
        # A signal handler may set the terminal while this very thread does.
        self._setting = threading.RLock()
        self._over = False
        self._is_lost = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="keys", daemon=True)
        # Any: what `signal.signal` returns
        self._handlers: dict[int, Any] = {}

    @property
    def is_on(self) -> bool:
        return self._before is not None and not self._is_lost

    def __enter__(self) -> Self:
        if os.isatty(INPUT):
            self._take()
            self._handlers[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._continue)
            if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
                self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._give_back()
        self._thread.join()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wake)

    def _take(self) -> None:
        """Get keys as they are pressed, without echo; Ctrl-C and Ctrl-Z stay signals."""
        with self._setting:
            now = terminal_settings()
            if now is None or self._over:
                return
            # A process that was stopped at once did not restore the terminal: its present
            # settings are those of another.
            before = self._before or now
            wanted = [*before]
            wanted[LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
            wanted[CONTROL_CHARACTERS] = [*before[CONTROL_CHARACTERS]]
            wanted[CONTROL_CHARACTERS][termios.VMIN] = 1
            wanted[CONTROL_CHARACTERS][termios.VTIME] = 0
            self._before, self._is_lost = before, False
            with suppress(termios.error, OSError):
                # Text from before the keys were shown presses none.
                termios.tcflush(INPUT, termios.TCIFLUSH)
                termios.tcsetattr(INPUT, termios.TCSANOW, wanted)
                os.write(OUTPUT, PASTES_MARKED)

    def _give_back(self) -> None:
        with self._setting:
            before, self._before = self._before, None
            put_back(before)
        os.write(self._wake, b"\n")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stop the process as it would have been, with the terminal as it was."""
        self._give_back()
        _write(1, ERASE_BLOCK + SHOW_CURSOR)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stop)

    def _continue(self, number: int, frame: FrameType | None) -> None:
        self._take()
        os.write(self._wake, b"\n")

    def _listen(self) -> None:
        is_begun = False
        while not self._over:
            files = [self._woken, INPUT] if self.is_on else [self._woken]
            ready, _, _ = select.select(files, [], [], ESCAPE_SECONDS if is_begun else None)
            if self._woken in ready:
                os.read(self._woken, LARGEST_PIECE)
                continue
            data = self._read() if ready else b""
            # If the terminal is gone, so is the view; the run itself notices.
            with suppress(OSError):
                is_begun = (bool(data) or is_begun) and self._hear(data)

    def _read(self) -> bytes:
        with self._setting:
            # Checked again: the terminal may just have been given back.
            if not self.is_on or not select.select([INPUT], [], [], 0)[0]:
                return b""
            data = b""
            with suppress(OSError):
                data = os.read(INPUT, LARGEST_PIECE) if is_foreground() else b""
            self._is_lost = not data
            return data


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ERASE_BLOCK = "\r\x1b[J"
"""Clears the live view at the cursor; it is drawn again below."""
SHOW_CURSOR = "\x1b[?25h"
STOPPED = "stopped by a signal"
MOST_AT_ONCE = 64
STOPPING = "cao: stopping. Ctrl-C again ends at once.\n"


class Interrupts:
    """Notes the signals that end a run; a second SIGINT ends it at once.

    Enter it in the main thread. With SIGHUP ignored (`nohup`) a run outlives the terminal. Python
    handles signals in the main thread only, but the system may deliver them to any thread, which
    does not end a wait of the main thread. So a thread of ours gets the number of each signal, and
    ends the wait.
    """

    def __init__(self, notice: str = STOPPING) -> None:
        self._notice = notice
        self.noted: int | None = None
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
        return 128 + (self.noted or signal.SIGINT)

    @property
    def reason(self) -> str:
        return "" if self.noted is None else STOPPED

    def when_noted(self, stop: Callable[[], None]) -> None:
        """Call this when a signal comes, or has come; perhaps more than once, and in any thread."""
        self._stop = stop
        if self.noted is not None:
            stop()

    def check(self) -> None:
        if self.noted is not None:
            raise Stopped("a signal came")

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Not with Python's files, which may be in use at this moment.
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
        """Stop for every signal: a wait of the main thread ends, and it runs the handler."""
        while numbers := os.read(self._heard, MOST_AT_ONCE):
            if self._stop is not None and not self._before.keys().isdisjoint(numbers):
                self._stop()


def _write(file: int, text: str) -> None:
    with suppress(OSError):
        os.write(file, text.encode())
