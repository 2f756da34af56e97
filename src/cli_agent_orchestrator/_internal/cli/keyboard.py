"""Reads what a person presses in the terminal of this process, a key at a time.

The terminal is put back as it was on every way out: at the end, before the process is stopped with
Ctrl-Z, and by `Interrupts` when it ends at once. Nothing is read or set while the process is in
the background: the terminal is then another's, and the system would stop who touches it.
"""

import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

ESCAPE_SECONDS = 0.05
"""The rest of an arrow key follows its Escape sooner than that."""
LARGEST_PIECE = 4096
INPUT, OUTPUT = 0, 1
PASTES_MARKED, PASTES_PLAIN = b"\x1b[?2004h", b"\x1b[?2004l"
LOCAL_MODES, CONTROL_CHARACTERS = 3, 6
# Any: what `termios` has, a list of numbers and lists
Settings = list[Any]


def is_foreground() -> bool:
    """Is standard input a terminal that is ours at present?"""
    try:
        return os.isatty(INPUT) and os.tcgetpgrp(INPUT) == os.getpgrp()
    except OSError:
        return False  # it is not the one that controls this process


def terminal_settings() -> Settings | None:
    """Return how the terminal is set; None if it is not ours."""
    with suppress(termios.error):
        return termios.tcgetattr(INPUT) if is_foreground() else None
    return None


def put_back(settings: Settings | None) -> None:
    """Set the terminal as it was; what was pressed and not read is no input for a shell."""
    if settings is None or not is_foreground():
        return
    with suppress(termios.error, OSError):
        termios.tcflush(INPUT, termios.TCIFLUSH)
        termios.tcsetattr(INPUT, termios.TCSANOW, settings)
        os.write(OUTPUT, PASTES_PLAIN)


class Keyboard:
    """Reports what is pressed, in a thread of its own, while the context lasts.

    Enter it in the main thread.
    """

    def __init__(self, hear: Callable[[bytes], bool]) -> None:
        """`hear` returns whether more may belong to it, and gets nothing if nothing follows."""
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
        """Are keys read at present?"""
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
        """Have keys reported as they are pressed, and not shown; Ctrl-C and Ctrl-Z stay signals."""
        with self._setting:
            now = terminal_settings()
            if now is None or self._over:
                return
            # Who was stopped at once has not given it back; what is set now is then another's.
            before = self._before or now
            wanted = [*before]
            wanted[LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
            wanted[CONTROL_CHARACTERS] = [*before[CONTROL_CHARACTERS]]
            wanted[CONTROL_CHARACTERS][termios.VMIN] = 1
            wanted[CONTROL_CHARACTERS][termios.VTIME] = 0
            self._before, self._is_lost = before, False
            with suppress(termios.error, OSError):
                # What was typed before anybody could know what keys do presses none.
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
            # The terminal that is gone takes the view with it, and the run itself notices.
            with suppress(OSError):
                is_begun = (bool(data) or is_begun) and self._hear(data)

    def _read(self) -> bytes:
        """Return what was pressed; a terminal that is not ours or is gone is left alone."""
        with self._setting:
            # Looked at once more, as it may just have been given back.
            if not self.is_on or not select.select([INPUT], [], [], 0)[0]:
                return b""
            data = b""
            with suppress(OSError):
                data = os.read(INPUT, LARGEST_PIECE) if is_foreground() else b""
            self._is_lost = not data
            return data
