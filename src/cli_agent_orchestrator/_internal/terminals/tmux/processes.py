"""What runs in a terminal besides its program: all that shares the program's session.

Ending a program does not end what it started: a child in a process group of its own hears nothing
of it, and one that ignores the hang-up stays. Their session tells whose they are, even when their
parent is gone. Only what left the session on purpose, as daemons do, is beyond reach.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def members(leader: int) -> list[int]:
    """Return the living processes of a session, named by the program that leads or led it."""
    return [pid for pid in _living() if _session_of(pid) == leader]


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal processes; those that have just ended do not matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _living() -> Iterator[int]:
    if sys.platform == "linux":
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and _state(entry) not in ("", "Z", "X"):
                yield int(entry.name)
        return
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=False
    ).stdout
    for pid, state in (line.split() for line in listing.splitlines()):
        if not state.startswith("Z"):
            yield int(pid)


def _state(process: Path) -> str:
    """Return the letter behind the name in `/proc/PID/stat`; the name may hold anything."""
    try:
        stat = (process / "stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].strip()[:1]
