"""Notices within milliseconds that a process of somebody else has ended.

tmux says nothing when the program of a kept window ends, so its process is watched: by a pidfd on
Linux, by kqueue on macOS and the BSDs. Where neither can be had (an old kernel, a strict sandbox)
the process is looked for four times a second.
"""

import asyncio
import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

LOOK_INTERVAL = 0.25

Ended = Callable[[str], None]


class DeathWatch(Protocol):
    """Calls back once, from the event loop and never from within `watch`, when a process ends."""

    def watch(self, key: str, pid: int) -> None:
        """Start watching; a process that is gone already is reported soon."""
        ...

    def forget(self, key: str) -> None:
        """Stop watching."""
        ...

    def close(self) -> None:
        """Stop watching all of them."""
        ...


def death_watch(ended: Ended) -> DeathWatch:
    """Return the best watch that this machine has; `ended` gets the key of the process."""
    loop = asyncio.get_running_loop()
    if sys.platform == "linux":
        return PidfdWatch(loop, ended) if _has_pidfd() else PollWatch(loop, ended)
    else:  # type checkers follow the platform through branches only
        return KqueueWatch(loop, ended)


def remind_of_children(server: int) -> None:
    """Make tmux collect the exit codes of programs that have ended.

    tmux 3.3a now and then misses the signal of a child's end and then knows no exit code until
    another child ends.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(server, signal.SIGCHLD)


class PollWatch:
    """Looks again and again; works everywhere."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
        self._loop = loop
        self._ended = ended
        self._pids: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, key: str, pid: int) -> None:
        self._pids[key] = pid
        if self._timer is None:
            self._timer = self._loop.call_later(0, self._look)

    def forget(self, key: str) -> None:
        self._pids.pop(key, None)

    def close(self) -> None:
        self._pids.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        gone = [key for key, pid in self._pids.items() if not _is_alive(pid)]
        self._timer = self._loop.call_later(LOOK_INTERVAL, self._look) if self._pids else None
        for key in gone:
            if self._pids.pop(key, None) is not None:
                self._ended(key)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if sys.platform == "linux":

    def _has_pidfd() -> bool:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return False
        return True

    class PidfdWatch:
        """A file descriptor for each process, readable when it has ended."""

        def __init__(self, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
            self._loop = loop
            self._ended = ended
            self._fds: dict[str, int] = {}
            self._rest = PollWatch(loop, ended)

        def watch(self, key: str, pid: int) -> None:
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                # Gone already, or out of descriptors: the slower watch finds out.
                self._rest.watch(key, pid)
                return
            self._fds[key] = fd
            self._loop.add_reader(fd, self._ready, key)

        def forget(self, key: str) -> None:
            self._rest.forget(key)
            fd = self._fds.pop(key, None)
            if fd is not None:
                self._loop.remove_reader(fd)
                os.close(fd)

        def close(self) -> None:
            self._rest.close()
            for key in list(self._fds):
                self.forget(key)

        def _ready(self, key: str) -> None:
            self.forget(key)
            self._ended(key)

else:

    class KqueueWatch:
        """One kqueue for all processes."""

        def __init__(self, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
            self._loop = loop
            self._ended = ended
            self._pids: dict[str, int] = {}
            self._queue = select.kqueue()
            loop.add_reader(self._queue.fileno(), self._ready)

        def watch(self, key: str, pid: int) -> None:
            self._pids[key] = pid
            try:
                self._control(pid, select.KQ_EV_ADD | select.KQ_EV_ONESHOT)
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
                self._loop.call_soon(self._report, pid)

        def forget(self, key: str) -> None:
            self._pids.pop(key, None)

        def close(self) -> None:
            self._pids.clear()
            if not self._queue.closed:
                self._loop.remove_reader(self._queue.fileno())
                self._queue.close()

        def _control(self, pid: int, flags: int) -> None:
            event = select.kevent(
                pid, filter=select.KQ_FILTER_PROC, flags=flags, fflags=select.KQ_NOTE_EXIT
            )
            self._queue.control([event], 0)

        def _ready(self) -> None:
            for event in self._queue.control(None, 64, 0):
                self._report(event.ident)

        def _report(self, pid: int) -> None:
            for key in [key for key, watched in self._pids.items() if watched == pid]:
                del self._pids[key]
                self._ended(key)


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
