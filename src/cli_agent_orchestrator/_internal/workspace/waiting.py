"""Waits for a lock that another process holds."""

import fcntl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
