"""Runs a command of the user's through the shell and returns its result.

It has a process group of its own, which is killed whole: at the command's end, at its time limit,
and when the run is to stop; so is what left the group. What it writes goes to a file of the run's,
and is kept here: of both up to a limit, the beginning and the end. Now and then its last line is
reported.
"""

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from ..core.programs import ask, without_repository
from ..errors import Stopped
from .check import CheckResult, last_line

SHELL = "/bin/sh"
READING_SECONDS = 20
"""How long the shell may take to read a command."""
TOKEN = "CAO_TOKEN"
ADDRESSES = ("CAO_API", "API")
"""Variables with an address, which may have a name and a password in it."""
MARK, BETWEEN = "CAO_GATE", ":"
"""The variable by which processes of a gate are found, and what stands between the marks in it:
the orchestrator itself may run in a gate of another run."""
HEAD_BYTES, TAIL_BYTES = 128 * 1024, 384 * 1024
CHUNK_BYTES = 64 * 1024
LOG_HEAD = LOG_TAIL = 10 * 1024 * 1024
"""Bytes of its output that its log has, from the beginning and from the end."""
LAST_WORDS_SECONDS = 1.0
"""How long its output is waited for after its end; something out of reach may hold it."""
DEATH_SECONDS = 10.0
"""How long it is waited for after it was killed; a device may hold it."""
LEFTOVER_SECONDS = 5.0
"""How long something may go on to start others, faster than they are ended."""
LINE_SECONDS = 1.0
"""How often its last line is reported, at most."""
LINE_BYTES = 4096
"""Where the last line is looked for."""


@dataclass(frozen=True, slots=True)
class GateCommand:
    """A command, its limits and its environment."""

    command: str
    seconds: float
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    before: tuple[str, ...] = ()
    """Words of another program that runs the shell: a sandbox."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which its processes are found; what has the mark already is ended first."""


def ignore(*_: str) -> None:
    """Do nothing."""


class GateRunner:
    """Runs one command at a time."""

    def __init__(self, on_wake: Callable[[], None] = ignore) -> None:
        self._on_wake = on_wake
        self._stopped = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def stop(self) -> None:
        """Kill what runs and run nothing more; any thread may call it, and a signal handler too."""
        self._stopped = True
        self._wakes.put(None)

    def wake(self) -> None:
        """Let the present wait call `on_wake`; any thread may call it."""
        self._wakes.put(None)

    def run(
        self,
        gate: GateCommand,
        log: IO[bytes] | None = None,
        on_line: Callable[[str], None] = ignore,
    ) -> CheckResult:
        """Return the result of a command; raise `Stopped` after `stop`.

        What it writes goes to the log as well, the middle of it only up to a limit. `on_line` gets
        the last line of it when it has changed.
        """
        if self._stopped:
            raise Stopped
        # A run that was killed may have left some.
        _end_marked(gate.mark)
        try:
            process = subprocess.Popen(
                [*gate.before, SHELL, "-c", gate.command],
                cwd=gate.folder,
                env=gate_environ(gate),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or str(error)
            return CheckResult(gate.command, None, "", gate.seconds, fault=why)
        output, rest = Bounded(HEAD_BYTES, TAIL_BYTES), Bounded(0, LOG_TAIL)
        reader = _start(lambda: _read(process, output, rest, log))

        def wait() -> None:
            process.wait()
            self._wakes.put(None)

        waiter = _start(wait)
        try:
            has_ended = self._wait(process, gate.seconds, output, on_line)
        finally:
            # On some systems a group of which only dead processes are left may not be signalled.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            _end_marked(gate.mark)
            waiter.join(DEATH_SECONDS)
            reader.join(LAST_WORDS_SECONDS)
            _write(log, rest.content())
        if self._stopped:
            raise Stopped
        return CheckResult(
            gate.command,
            process.returncode if has_ended else None,
            output.content().decode(errors="replace"),
            gate.seconds,
            left_out=rest.dropped if log is not None else 0,
        )

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        seconds: float,
        output: "Bounded",
        on_line: Callable[[str], None],
    ) -> bool:
        """Wait for the end of a command, a stop or the time limit; was it the end?"""
        deadline, told = time.monotonic() + seconds, ""
        while (left := deadline - time.monotonic()) > 0 and not self._stopped:
            self._on_wake()
            try:
                self._wakes.get(timeout=min(left, LINE_SECONDS))
            except Empty:
                line = last_line(output.end(LINE_BYTES))
                if line not in ("", told):
                    on_line(line)
                    told = line
            if process.returncode is not None:
                return True
        return False


class Bounded:
    """The beginning and the end of an output, however long it is."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_size, self._tail_size = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0
        """Bytes in between."""
        self._changing = threading.Lock()

    def add(self, data: bytes) -> None:
        with self._changing:
            room = self._head_size - len(self._head)
            self._head += data[:room]
            self._tail += data[room:] if room < len(data) else b""
            over = len(self._tail) - self._tail_size
            if over > 0:
                del self._tail[:over]
                self.dropped += over

    def end(self, size: int) -> bytes:
        """Return the last bytes, at most so many."""
        with self._changing:
            return bytes((self._head[-size:] + self._tail)[-size:])

    def content(self) -> bytes:
        """Return what is kept, with a line where something is missing."""
        with self._changing:
            gap = f"\n({self.dropped} bytes left out)\n".encode() if self.dropped else b""
            return b"".join((self._head, gap, self._tail))


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _read(
    process: subprocess.Popen[bytes], output: Bounded, rest: Bounded, log: IO[bytes] | None
) -> None:
    """Read an output until its end; the log gets its beginning at once, `rest` the rest of it."""
    assert process.stdout is not None, "it was asked for"
    room = LOG_HEAD
    while chunk := os.read(process.stdout.fileno(), CHUNK_BYTES):
        output.add(chunk)
        _write(log, chunk[:room])
        rest.add(chunk[room:])
        room = max(room - len(chunk), 0)
    process.stdout.close()


def _write(log: IO[bytes] | None, data: bytes) -> None:
    # A full disk does not change the result of the command.
    if log is not None and data:
        with suppress(OSError, ValueError):
            log.write(data)
            log.flush()


def gate_environ(gate: GateCommand) -> dict[str, str]:
    """Return the environment of a command: the user's own, less what is not its business.

    That is what gives access to us, and what leads git to another repository.
    """
    token = gate.environ.get(TOKEN, "").strip()
    kept = {
        # "http://ada:password@localhost:1"
        name: re.sub("(?<=//)[^/?#]*@", "", text) if name in ADDRESSES else text
        for name, text in without_repository(gate.environ).items()
        if name not in (TOKEN, "OLDPWD") and not (token and token in text)
    }
    mark = BETWEEN.join(filter(None, (gate.environ.get(MARK), gate.mark)))
    return {**kept, "PWD": str(gate.folder), MARK: mark}


def unreadable(command: str, environ: Mapping[str, str]) -> str:
    """Return the shell's complaint about a command that it cannot read; empty if it can.

    Nothing of the command is run.
    """
    environ = gate_environ(GateCommand(command, READING_SECONDS, Path("/"), environ))
    try:
        said = ask([SHELL, "-n", "-c", command], environ, READING_SECONDS, with_errors=True)
    except OSError:
        return ""
    return " ".join(said.text.split()) if said.code else ""


def _end_marked(mark: str) -> None:
    """Kill every process that has the mark or was started by one that has it."""
    deadline = time.monotonic() + LEFTOVER_SECONDS
    while time.monotonic() < deadline:
        known = _on_linux(mark) if sys.platform == "linux" else _by_listing(mark)
        found = []
        for number in known:
            line, (parent, is_marked) = [number], known[number]
            while not is_marked and parent in known and parent not in line:
                line.append(parent)
                parent, is_marked = known[parent]
            if is_marked and number != os.getpid():
                found.append(number)
        if not found or not _kill(found):
            return


def _on_linux(mark: str) -> dict[int, tuple[int, bool]]:
    """Return all processes that can be read: the parent, and whether it has the mark."""
    begin, found = f"{MARK}=".encode(), {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        # It may have ended, and those of others cannot be read.
        with suppress(OSError, ValueError):
            # The name before the parenthesis may hold anything.
            rest = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            state, parent = rest.split()[:2]
            if state not in "ZX":
                environ = (entry / "environ").read_bytes().split(b"\0")
                marks = (one.removeprefix(begin) for one in environ if one.startswith(begin))
                has_mark = any(mark.encode() in one.split(BETWEEN.encode()) for one in marks)
                found[int(entry.name)] = (int(parent), has_mark)
    return found


def _by_listing(mark: str) -> dict[int, tuple[int, bool]]:
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
            marks = (w.partition("=")[2] for w in text.split() if w.startswith(f"{MARK}="))
            has_mark = any(mark in one.split(BETWEEN) for one in marks)
            found[int(number)] = (int(parent), has_mark)
    return found


def _kill(numbers: list[int]) -> int:
    """Kill processes, wait a second until they are dead, and return how many could be killed."""
    killed = 0
    if not hasattr(os, "pidfd_open"):
        for number in numbers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
                killed += 1
        return killed
    with ExitStack() as stack:
        dying = select.poll()
        for number in numbers:
            with suppress(OSError):
                handle = os.pidfd_open(number)
                stack.callback(os.close, handle)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                dying.register(handle, select.POLLIN)
                killed += 1
        left, deadline = killed, time.monotonic() + 1.0
        while left and (wait := deadline - time.monotonic()) > 0:
            for handle, _ in dying.poll(wait * 1000):
                dying.unregister(handle)
                left -= 1
    return killed
