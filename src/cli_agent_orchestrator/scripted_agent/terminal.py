"""The terminal as a device: raw mode, bracketed paste, bytes in and out, signals as facts."""

import os
import select
import signal
import termios
from collections.abc import Iterable
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import NamedTuple

CHUNK_BYTES = 65536
MOST_BYTES_AT_ONCE = 1 << 20
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
NOTED_SIGNALS = (*ENDING_SIGNALS, signal.SIGWINCH, signal.SIGCHLD)
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Quit(Exception):
    """The program is to end."""

    def __init__(self, code: int, *, abrupt: bool = False) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.abrupt = abrupt
        """True for a crash: nothing is tidied up and nobody is told."""


class Seen(NamedTuple):
    """What came in."""

    data: bytes = b""
    resized: bool = False
    also: bool = False
    """Is the other file that was watched readable?"""


class Terminal:
    """A terminal in raw mode while it is entered; what was there before comes back."""

    def __init__(self, input_fd: int = 0, output_fd: int = 1) -> None:
        self._input = input_fd
        self._output = output_fd
        self._undo = ExitStack()
        self._wake, self._noted = -1, -1

    def __enter__(self) -> "Terminal":
        with ExitStack() as undo:
            self._go_raw(undo)
            self._note_signals(undo)
            self.write(PASTE_ON)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _go_raw(self, undo: ExitStack) -> None:
        before = termios.tcgetattr(self._input)
        undo.callback(termios.tcsetattr, self._input, termios.TCSADRAIN, before)
        undo.callback(self._write_if_possible, PASTE_OFF)
        raw = termios.tcgetattr(self._input)
        raw[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
        raw[1] &= ~termios.OPOST
        raw[2] = raw[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        # What was typed before is input too, so nothing is flushed.
        termios.tcsetattr(self._input, termios.TCSADRAIN, raw)

    def _note_signals(self, undo: ExitStack) -> None:
        self._noted, self._wake = os.pipe()
        undo.callback(os.close, self._noted)
        undo.callback(os.close, self._wake)
        os.set_blocking(self._wake, False)
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(self._wake))
        for number in NOTED_SIGNALS:
            undo.callback(signal.signal, number, signal.signal(number, _do_nothing))

    @property
    def columns(self) -> int:
        """Return the width; at least 1, whatever the device says."""
        return max(1, os.get_terminal_size(self._output).columns or 80)

    def wait(self, seconds: float | None, also: int | None = None) -> Seen:
        """Wait for input, a signal or another file; raise Quit when a signal ends the program."""
        watched = [self._input, self._noted] + ([] if also is None else [also])
        ready, _, _ = select.select(watched, [], [], seconds)
        signals = os.read(self._noted, CHUNK_BYTES) if self._noted in ready else b""
        _end_if_told(signals)
        data = self._read_all() if self._input in ready else b""
        return Seen(data, signal.SIGWINCH in signals, also in ready)

    def _read_all(self) -> bytes:
        """Read what is there: a large paste comes in thousands of small pieces."""
        pieces = [self._read()]
        size = len(pieces[0])
        while size < MOST_BYTES_AT_ONCE and select.select([self._input], [], [], 0)[0]:
            pieces.append(self._read())
            size += len(pieces[-1])
        return b"".join(pieces)

    def _read(self) -> bytes:
        try:
            data = os.read(self._input, CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            raise Quit(128 + signal.SIGHUP)
        return data

    def write(self, text: str) -> None:
        """Write all of a text; raise Quit if the terminal is gone."""
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            raise Quit(128 + signal.SIGHUP) from None

    def _write_if_possible(self, text: str) -> None:
        try:
            self.write(text)
        except Quit:
            return


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The wake-up file notes the signal; the loop deals with it."""


def _end_if_told(signals: Iterable[int]) -> None:
    for number in signals:
        if number in ENDING_SIGNALS:
            raise Quit(128 + number)
