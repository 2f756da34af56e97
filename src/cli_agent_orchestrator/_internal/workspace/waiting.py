"""Waits for a lock that another process holds."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Patience:
    """How who comes second waits."""

    seconds: float = 120.0
    pause: Callable[[float], None] = sleep


PATIENCE = Patience()


def wait_for_lock(descriptor: int, patience: Patience = PATIENCE) -> bool:
    """Take the lock of a file or folder; was it given up in time?"""
    until = monotonic() + patience.seconds
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if monotonic() >= until:
            return False
        patience.pause(PAUSE_SECONDS)


@contextmanager
def alone_in(folder: Path, seconds: float) -> Iterator[int]:
    """Keep other runs from a repository, and yield what holds it as long as anybody has it open.

    Whoever holds it for longer than that is not waited for: it may be no run at all.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor, Patience(seconds))
        yield descriptor
    finally:
        os.close(descriptor)
