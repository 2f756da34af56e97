"""Ends the processes that a gate has left behind, wherever they went.

What a gate starts can leave its process group and its session, and outlive its parents, as daemons
do. It inherits the environment all the same, and there it has a mark: the id of the run. Whoever
clears its environment *and* leaves its parent is beyond reach; a sandbox holds even that.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CAO_GATE"
BETWEEN = ":"
"""Stands between the marks where the orchestrator itself runs in a gate of another run."""
MOST_SECONDS = 5.0
"""How long something may go on to start others, faster than they are ended."""
DEATH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of a process of ours."""

    parent: int
    marked: bool


def with_mark(environ: Mapping[str, str], mark: str) -> str:
    """Return what the variable is for a gate, within the gates that we are in ourselves."""
    outer = environ.get(VARIABLE, "")
    return f"{outer}{BETWEEN}{mark}" if outer else mark


def end_marked(mark: str) -> None:
    """Kill every process that has the mark or was started by one that has it."""
    deadline = time.monotonic() + MOST_SECONDS
    while found := list(marked(mark)):
        if not _kill(found) or time.monotonic() > deadline:
            return


def marked(mark: str) -> Iterator[int]:
    """Yield the processes with a mark, and their descendants."""
    known = _on_linux(mark) if sys.platform == "linux" else _by_listing(mark)
    for number in known:
        line, one = [number], known[number]
        while not one.marked and one.parent in known and one.parent not in line:
            line.append(one.parent)
            one = known[one.parent]
        if one.marked and number != os.getpid():
            yield number


def _on_linux(mark: str) -> dict[int, Process]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        # It may have ended, and those of others cannot be read.
        with suppress(OSError, ValueError):
            # The name before the parenthesis may hold anything.
            rest = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            state, parent = rest.split()[:2]
            if state not in "ZX":
                environ = (entry / "environ").read_bytes()
                found[int(entry.name)] = Process(int(parent), _has(environ, mark))
    return found


def _has(environ: bytes, mark: str) -> bool:
    begin = f"{VARIABLE}=".encode()
    values = (line.removeprefix(begin) for line in environ.split(b"\0") if line.startswith(begin))
    return any(mark.encode() in value.split(BETWEEN.encode()) for value in values)


def _by_listing(mark: str) -> dict[int, Process]:
    """Ask ps, which shows the environment behind the command where the system allows it."""
    listing = subprocess.run(
        ["ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,command="],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    ).stdout
    found = {}
    for line in listing.splitlines():
        with suppress(ValueError):
            number, parent, text = line.split(None, 2)
            begins = (w for w in text.split() if w.startswith(f"{VARIABLE}="))
            has = any(mark in word.partition("=")[2].split(BETWEEN) for word in begins)
            found[int(number)] = Process(int(parent), has)
    return found


def _kill(numbers: list[int]) -> int:
    """Kill processes, wait until they are dead, and return how many could be killed."""
    if not hasattr(os, "pidfd_open"):
        return sum(_kill_by_number(number) for number in numbers)
    with ExitStack() as stack:
        dying = select.poll()
        killed = 0
        for number in numbers:
            with suppress(OSError):
                handle = os.pidfd_open(number)
                stack.callback(os.close, handle)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                dying.register(handle, select.POLLIN)
                killed += 1
        left, deadline = killed, time.monotonic() + DEATH_SECONDS
        while left and (wait := deadline - time.monotonic()) > 0:
            for handle, _ in dying.poll(wait * 1000):
                dying.unregister(handle)
                left -= 1
    return killed


def _kill_by_number(number: int) -> bool:
    try:
        os.kill(number, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
