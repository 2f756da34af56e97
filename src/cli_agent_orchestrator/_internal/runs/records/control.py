"""The control file of a run: what people ask of it, a line of JSON each; see `pipeline/asks.py`.

Whoever asks adds a line, and nobody changes or removes one: how much of the file was heeded, in
bytes, is saved with the run, so that nothing is heeded twice. No server is needed. What is no ask
is set aside in a file of its own, with a warning; it never stops the run.
"""

import fcntl
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOSPC
from typing import Self

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.file_watch import Waker, watch_file
from cli_agent_orchestrator._internal.layout import CONTROL_FILE, REJECTED_FILE
from cli_agent_orchestrator._internal.pipeline.asks import Ask, Heard, Wish, read_asks, to_line
from cli_agent_orchestrator._internal.plain_files import Folder, NotPlain

LARGEST_PIECE = 1024 * 1024
"""What is read at a look, in bytes; of more, the last."""
MOST_REJECTED = 256 * 1024
"""Bytes that are kept of what is no ask."""
MORE_REJECTED = 10
"""So many times as much must have been set aside before that is said again."""
LOOK_SECONDS = 10.0
"""So often it is looked at where the system can tell of no change."""


def write_ask(folder: Folder, wish: Wish, clock: Clock) -> Ask:
    """Ask something of the run with this folder; raise OSError if that cannot be written."""
    ask = Ask(uuid.uuid4().hex, clock.now(), wish)
    with folder.append(CONTROL_FILE) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # What a killed process has left of a line must not run into this one.
        start = b"" if _is_whole(folder) else b"\n"
        data = start + to_line(ask).encode() + b"\n"
        if os.write(file.fileno(), data) < len(data):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
    return ask


def _is_whole(folder: Folder) -> bool:
    """Is the file empty, or is its last line a whole one?"""
    with folder.open_to_read(CONTROL_FILE) as file:
        size = file.seek(0, os.SEEK_END)
        return size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"


class Listener:
    """Tells a run what is asked of it, as soon as it is asked, while the context lasts."""

    def __init__(
        self,
        folder: Folder,
        position: int,
        hear: Callable[[Heard], None],
        warn: Callable[[str], None],
    ) -> None:
        """`position` is how much of the file has been heeded before."""
        self._folder = folder
        self._position = position
        self._hear = hear
        self._tell_warning = warn
        self._said: set[str] = set()
        self._rejected = 0
        """Lines that are no asks."""
        self._rejected_said = 0
        self._waker = Waker()
        self._stopped = False
        self._thread = threading.Thread(target=self._listen, name="control", daemon=True)

    def __enter__(self) -> Self:
        # At once, so that what was asked before holds from the first step on.
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._waker.wake()
        self._thread.join()

    def _listen(self) -> None:
        with watch_file(self._folder.path / CONTROL_FILE, self._waker.wake):
            while not self._stopped:
                self._look()
                self._waker.wait(LOOK_SECONDS)

    def _look(self) -> None:
        try:
            for heard in self._read():
                self._hear(heard)
        except FileNotFoundError:
            return  # nobody has asked for anything yet
        except NotPlain as error:
            self._put_aside(str(error.strerror))
        except OSError as error:
            self._warn_once(f"what is asked of the run cannot be read: {error.strerror}")
        self._warn_of_rejected()

    def _read(self) -> Iterator[Heard]:
        with self._folder.open_to_read(CONTROL_FILE) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._position:
                self._position = 0  # somebody has put another file in its place
            start = max(self._position, size - LARGEST_PIECE)
            piece = os.pread(file.fileno(), LARGEST_PIECE, start)
        if start > self._position:
            # Nobody is steered by half of a line.
            cut = piece.find(b"\n") + 1
            self._position, piece = start + cut, piece[cut:]
            self._warn_once(
                f"{CONTROL_FILE} of the run grew too fast: what stood before its last "
                f"{LARGEST_PIECE} bytes is not read"
            )
            yield Heard(None, self._position)
        start = self._position
        for heard in read_asks(piece, start):
            if heard.ask is None:
                self._reject(piece[self._position - start : heard.upto - start])
            self._position = heard.upto
            yield heard

    def _reject(self, data: bytes) -> None:
        """Set aside what is no ask, as far as there is room for it."""
        with suppress(OSError), self._folder.append(REJECTED_FILE) as file:
            room = MOST_REJECTED - os.fstat(file.fileno()).st_size
            file.write(data[: max(0, room)])
        self._rejected += data.count(b"\n") or 1

    def _warn_of_rejected(self) -> None:
        """Say how much was set aside: the first, and whenever it is ten times as much."""
        lines = self._rejected
        if lines < max(1, self._rejected_said * MORE_REJECTED):
            return
        self._rejected_said = lines
        self._warn(
            f"{lines} line{'' if lines == 1 else 's'} in {CONTROL_FILE} of the run ask"
            f"{'s' if lines == 1 else ''} for nothing that is known; kept in {REJECTED_FILE}"
        )

    def _put_aside(self, reason: str) -> None:
        """Make room for a control file where something else lies."""
        try:
            name = self._folder.free_name(REJECTED_FILE)
            self._folder.move(CONTROL_FILE, self._folder, name)
        except OSError:
            self._warn_once(f"nothing can be asked of the run: {CONTROL_FILE}: {reason}")
        else:
            self._warn(f"{CONTROL_FILE} of the run is kept as {name}: {reason}")

    def _warn_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._warn(text)

    def _warn(self, text: str) -> None:
        # That nobody reads any more is for the run to find out; what is asked of it still counts.
        with suppress(OSError):
            self._tell_warning(text)
