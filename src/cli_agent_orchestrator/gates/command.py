"""Runs a command of the user's through the shell, and says how it ended.

It has a process group of its own, which is killed whole: at the command's end, at its time limit,
and when the run is to stop; so is what left the group. What it writes goes to a file of the run's,
and is kept here: of both up to a limit, the beginning and the end. Now and then its last line is
told.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from ..core.programs import ask, without_repository
from ..errors import Stopped
from ..handoff.watch import heed_nothing
from ..runs.record import without_secrets
from .check import last_line

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


SHELL = "/bin/sh"
READING_SECONDS = 20
"""How long the shell may take to read a command."""
TOKEN = "CAO_TOKEN"
"""What no command gets to know."""
ADDRESSES = ("CAO_API", "API")
"""Where a name and a password may stand in an address."""
NOT_HANDED_ON = (TOKEN, "OLDPWD")
HEAD_BYTES, TAIL_BYTES = 128 * 1024, 384 * 1024
CHUNK_BYTES = 64 * 1024
LOG_HEAD = LOG_TAIL = 10 * 1024 * 1024
"""Bytes of its output that its log has, from the beginning and from the end."""
LAST_WORDS_SECONDS = 1.0
"""How long its output is waited for after its end; something out of reach may hold it."""
DEATH_SECONDS_GATE = 10.0
"""How long it is waited for after it was killed; a device may hold it."""
LINE_SECONDS = 1.0
"""How often its last line is told, at most."""
LINE_BYTES = 4096
"""Where the last line is looked for."""


@dataclass(frozen=True, slots=True)
class GateCommand:
    """What is run, and where."""

    command: str
    seconds: float
    """How long it may take."""
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    before: tuple[str, ...] = ()
    """Words of another program that runs the shell: a sandbox."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which its processes are found again; what has the mark already is ended first."""


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended, and what it wrote."""

    exit_code: int | None
    """None if it did not end in time; negative if a signal ended it."""
    output: str = field(repr=False)
    fault: str = ""
    """Why it could not be run; empty if it was."""
    left_out: int = 0
    """Bytes in the middle of its output that the log does not have."""


def ignore_line(line: str) -> None:
    """Take a line and do nothing about it."""


class GateWake(Enum):
    """Why a command is not waited for any longer."""

    ENDED = auto()
    STOPPED = auto()
    ASKED = auto()
    """A person asks for something; it is heeded, and the wait goes on."""


class GateRunner:
    """Runs one command at a time."""

    def __init__(self, heed: Callable[[], None] = heed_nothing) -> None:
        self._heed = heed
        self._stopped = False
        self._wakes: SimpleQueue[GateWake] = SimpleQueue()

    def stop(self) -> None:
        """Kill what runs and run nothing more; any thread may call it, and a signal handler too."""
        self._stopped = True
        self._wakes.put(GateWake.STOPPED)

    def wake(self) -> None:
        """Let the present wait heed what people ask for; any thread may call it."""
        self._wakes.put(GateWake.ASKED)

    def run(
        self,
        gate: GateCommand,
        log: IO[bytes] | None = None,
        on_line: Callable[[str], None] = ignore_line,
    ) -> CommandEnd:
        """Return what became of a command; raise `Stopped` after `stop`.

        What it writes goes to the log as well, the middle of it only up to a limit. The last line
        of it is told when it has changed.
        """
        self._wakes = SimpleQueue()
        if self._stopped:
            raise Stopped
        # A run that was killed may have left some.
        end_marked(gate.mark)
        try:
            process = _begin(gate)
        except OSError as error:
            return CommandEnd(None, "", error.strerror or str(error))
        stream = process.stdout
        assert stream is not None, "it was asked for"
        output, kept = Bounded(HEAD_BYTES, TAIL_BYTES), _Log(log)
        reader = _start(lambda: _read_all(stream, output, kept))
        waiter = _start(lambda: self._wait(process))
        try:
            wake = self._next_wake(gate.seconds, output, on_line)
        finally:
            _kill_group(process.pid)
            end_marked(gate.mark)
            waiter.join(DEATH_SECONDS_GATE)
            reader.join(LAST_WORDS_SECONDS)
            kept.finish()
        if wake is GateWake.STOPPED:
            raise Stopped
        code = process.returncode if wake is GateWake.ENDED else None
        return CommandEnd(code, output.text(), left_out=kept.left_out)

    def _next_wake(
        self, seconds: float, output: "Bounded", on_line: Callable[[str], None]
    ) -> GateWake | None:
        """Return why the wait is over, None if the time is."""
        deadline, told = time.monotonic() + seconds, ""
        while (left := deadline - time.monotonic()) > 0:
            self._heed()
            with suppress(Empty):
                wake = self._wakes.get(timeout=min(left, LINE_SECONDS))
                if wake is not GateWake.ASKED:
                    return wake
                continue
            line = last_line(output.end(LINE_BYTES))
            if line not in ("", told):
                on_line(line)
                told = line
        return None

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._wakes.put(GateWake.ENDED)


class Bounded:
    """The beginning and the end of what somebody writes, however long it is."""

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

    def text(self) -> str:
        """Return the same as text."""
        return self.content().decode(errors="replace")


class _Log:
    """A file that gets the beginning of an output at once, and its end when that is known."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._room = LOG_HEAD
        self._rest = Bounded(0, LOG_TAIL)

    def add(self, data: bytes) -> None:
        if self._room > 0:
            self._write(data[: self._room])
        self._rest.add(data[self._room :])
        self._room = max(self._room - len(data), 0)

    def finish(self) -> None:
        """Write what is left."""
        self._write(self._rest.content())

    @property
    def left_out(self) -> int:
        """How many bytes the file does not get."""
        return self._rest.dropped if self._file is not None else 0

    def _write(self, data: bytes) -> None:
        # That the disk is full does not change what the command says.
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._file.write(data)
                self._file.flush()


def gate_environ(gate: GateCommand) -> dict[str, str]:
    """Return the environment of a command: the user's own, less what is not its business.

    That is what gives access to us, and what leads git to another repository.
    """
    token = gate.environ.get(TOKEN, "").strip()
    kept = {
        name: without_secrets(text) if name in ADDRESSES else text
        for name, text in without_repository(gate.environ).items()
        if name not in NOT_HANDED_ON and not (token and token in text)
    }
    mark = with_mark(gate.environ, gate.mark)
    return {**kept, "PWD": str(gate.folder), VARIABLE: mark}


def unreadable(command: str, environ: Mapping[str, str]) -> str:
    """Return what the shell says of a command that it cannot read; empty if it can.

    Nothing of the command is run.
    """
    environ = gate_environ(GateCommand(command, READING_SECONDS, Path("/"), environ))
    try:
        said = ask([SHELL, "-n", "-c", command], environ, READING_SECONDS, with_errors=True)
    except OSError:
        return ""
    return " ".join(said.text.split()) if said.code else ""


def _begin(gate: GateCommand) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*gate.before, SHELL, "-c", gate.command],
        cwd=gate.folder,
        env=gate_environ(gate),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _read_all(stream: IO[bytes], output: Bounded, log: _Log) -> None:
    """Take in everything until its end."""
    while chunk := os.read(stream.fileno(), CHUNK_BYTES):
        output.add(chunk)
        log.add(chunk)
    stream.close()


def _start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _kill_group(number: int) -> None:
    # On some systems a group of which nothing but the dead is left may not be signalled.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)
