"""Runs the gates of a run: each in its folder, its output kept, its tests counted.

The shell runs a command in a process group of its own, which is killed whole: at the command's end,
at its time limit, and when the run is to stop; so is what left the group. The beginning and the end
of its output are kept.

In a sandbox (bubblewrap on Linux, sandbox-exec on macOS) a command reads what the user can read,
writes only to its folder and to temporary files, and has no network. With bubblewrap it has its own
/tmp, sees no Unix socket of a program outside (tmux, docker, gpg-agent would run commands for it),
and all its processes end with it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import IO

from msgspec import field
from msgspec.structs import replace

from ..core.codec import Private
from ..core.files import Folder
from ..core.programs import ask, without_repository
from ..errors import Stopped, in_words
from ..settings.gates import Gate
from ..settings.layout import GATES_FOLDER
from ..work.folder import WorkFolder
from .check import BaseResult, CheckResult, judge_check, last_line
from .counts import read_counts, read_junit

SHELL = "/bin/sh"
READING_SECONDS = 20
TOKEN = "CAO_TOKEN"
ADDRESSES = ("CAO_API", "API")
"""Variables with an address, which may have a name and a password in it."""
MARK, BETWEEN = "CAO_GATE", ":"
"""The variable by which processes of a gate are found, and what separates the marks in it: the
orchestrator itself may run in a gate of another run."""
HEAD_BYTES, TAIL_BYTES = 128 * 1024, 384 * 1024
CHUNK_BYTES = 64 * 1024
LOG_HEAD = LOG_TAIL = 10 * 1024 * 1024
LEFTOVER_SECONDS = 5.0
"""How long processes are killed that start others meanwhile."""


def ignore(*_: str) -> None:
    """Do nothing."""


class GatePlace(Private, frozen=True):
    folder: Path
    seconds: float
    """The time limit of those that name none."""
    environ: Mapping[str, str] = field(default_factory=dict)
    run_folder: Folder | None = None
    on_line: Callable[[str], None] = field(default=ignore)
    most_logged: int = 100 * 1024 * 1024
    """Bytes of all logs of a run; the oldest are removed."""


class Bounded:
    def __init__(self, head: int, tail: int) -> None:
        self._head_size, self._tail_size = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0
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
        with self._changing:
            return bytes((self._head[-size:] + self._tail)[-size:])

    def content(self) -> bytes:
        with self._changing:
            gap = f"\n({self.dropped} bytes left out)\n".encode() if self.dropped else b""
            return b"".join((self._head, gap, self._tail))


def _environ_of(environ: Mapping[str, str], folder: Path, mark: str) -> dict[str, str]:
    """Return the user's environment, less what gives access to us or leads git elsewhere."""
    token = environ.get(TOKEN, "").strip()
    kept = {
        # "http://ada:password@localhost:1"
        name: re.sub("(?<=//)[^/?#]*@", "", text) if name in ADDRESSES else text
        for name, text in without_repository(environ).items()
        if name not in (TOKEN, "OLDPWD") and not (token and token in text)
    }
    marks = BETWEEN.join(filter(None, (environ.get(MARK), mark)))
    return {**kept, "PWD": str(folder), MARK: marks}


def unreadable(command: str, environ: Mapping[str, str]) -> str:
    """Return the shell's complaint about a command that it cannot read; nothing of it is run."""
    environ = _environ_of(environ, Path("/"), uuid.uuid4().hex)
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
        killed = 0
        for number in known:
            line, (parent, is_marked) = [number], known[number]
            while not is_marked and parent in known and parent not in line:
                line.append(parent)
                parent, is_marked = known[parent]
            if is_marked and number != os.getpid():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(number, signal.SIGKILL)
                    killed += 1
        if not killed:
            return


def _on_linux(mark: str) -> dict[int, tuple[int, bool]]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        # It may have ended, and those of others cannot be read.
        with suppress(OSError, ValueError):
            # The name before the parenthesis may hold anything.
            rest = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            state, parent = rest.split()[:2]
            if state not in "ZX":
                environ = (entry / "environ").read_text("utf-8", "replace").split("\0")
                found[int(entry.name)] = (int(parent), _has_mark(environ, mark))
    return found


def _by_listing(mark: str) -> dict[int, tuple[int, bool]]:
    """Ask ps, which shows the environment behind the command where the system allows it."""
    words = ["ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,command="]
    listing = subprocess.run(words, capture_output=True, check=False).stdout
    found = {}
    for line in listing.decode(errors="replace").splitlines():
        with suppress(ValueError):
            number, parent, text = line.split(None, 2)
            found[int(number)] = (int(parent), _has_mark(text.split(), mark))
    return found


def _has_mark(environ: Sequence[str], mark: str) -> bool:
    marks = (one.partition("=")[2] for one in environ if one.startswith(f"{MARK}="))
    return any(mark in one.split(BETWEEN) for one in marks)


HIDDEN = ("/tmp", "/var/tmp", "/run")
"""Empty in it: temporary files of others, and sockets that lead out of it."""
# What a command may write to on macOS besides its folder.
SEATBELT_PROFILE = """\
(version 1)
(allow default)
(deny network*)
(deny file-write*)
(allow file-write*
  (subpath (param "FOLDER"))
  (subpath "/private/tmp")
  (subpath "/private/var/folders")
  (subpath "/dev"))
"""


BUBBLEWRAP, SEATBELT = "bwrap", "sandbox-exec"
NONE = "no sandbox is available"
BY_SYSTEM = {
    "linux": (BUBBLEWRAP, "install bubblewrap"),
    "darwin": (SEATBELT, "it comes with macOS"),
}


def sandbox_words(sandbox: str, folder: Path, hidden: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the words before a command that runs in a sandbox and may write to a folder.

    `hidden` are folders that are empty in it: a program outside may make a socket there later.
    """
    if sandbox == SEATBELT:
        return (sandbox, "-D", f"FOLDER={folder}", "-p", SEATBELT_PROFILE)
    empty = [*HIDDEN, *(str(path.resolve()) for path in hidden)]
    return (
        *(sandbox, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for path in empty for word in ("--tmpfs", path)),
        # On some systems the programs are there.
        *("--ro-bind-try", "/run/current-system", "/run/current-system"),
        # After what hides it, if it is in one of these.
        *("--bind", str(folder), str(folder), "--chdir", str(folder)),
        *(word for path in _sockets(empty, folder) for word in ("--ro-bind", "/dev/null", path)),
        *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
        *("--setenv", "TMPDIR", "/tmp", "--"),
    )


def _sockets(empty: Sequence[str], folder: Path) -> list[str]:
    found = set()
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]:
            # "0000000000000000: 00000002 00000000 00010000 0001 01 37 /home/ada/.gnupg/S.gpg-agent"
            path = Path([*line.split(None, 7), ""][7]).resolve()
            is_hidden = any(path.is_relative_to(place) for place in empty)
            with suppress(OSError):
                if path.is_socket() and (not is_hidden or path.is_relative_to(folder)):
                    found.add(str(path))
    return sorted(found)


@cache
def find_sandbox(
    system: str = sys.platform,
    path: str | None = None,
    *,
    seconds: float = 20,
    leave: int | None = None,
) -> tuple[str, str]:
    """Return the sandbox of a system and why there is none; it is tried, as it may be forbidden."""
    if system not in BY_SYSTEM:
        return "", NONE
    sandbox, advice = BY_SYSTEM[system]
    program = shutil.which(sandbox, path=path)
    if program is None or not os.path.isabs(program):  # noqa: PTH117
        return "", f"{NONE} ({advice})"
    try:
        with tempfile.TemporaryDirectory() as folder:
            _, *words = sandbox_words(sandbox, Path(folder).resolve())
            tried = [program, *words, "true"]
            done = ask(tried, None, seconds, with_errors=True, leave=leave)
    except OSError as error:
        return "", f"{NONE} ({sandbox} cannot be used: {in_words(error)})"
    if done.code != 0:
        silent = f"it did not answer within {seconds:g} seconds"
        said = " ".join(done.text.split())[:200] or silent
        return "", f"{NONE} ({sandbox} cannot be used: {said})"
    return sandbox, ""


class GateRunner:
    def __init__(
        self,
        on_wake: Callable[[], None] = ignore,
        find_sandbox: Callable[[], tuple[str, str]] = find_sandbox,
    ) -> None:
        self._on_wake = on_wake
        self._find_sandbox = find_sandbox
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
        gate: Gate,
        place: GatePlace,
        work: WorkFolder,
        log_name: str,
        base: BaseResult | None = None,
    ) -> CheckResult:
        if not gate.clean and not work.holds_back:
            result = self.run_in(gate, place, log_name)
        else:
            with work.laid_out(work.now.tree if work.now else "") as folder:
                result = self.run_fresh(gate, replace(place, folder=folder), log_name)
        return judge_check(result, base, allow_base_failures=gate.allow_base_failures)

    def run_fresh(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        if gate.setup:
            ready = self.run_in(replace(gate, run=gate.setup, junit=""), place, f"{log_name}-setup")
            if not ready.passed:
                return replace(ready, counts=None)
        return self.run_in(gate, place, log_name)

    def run_in(self, gate: Gate, place: GatePlace, log_name: str) -> CheckResult:
        """Return the result of a gate in a folder, before it is judged; `Stopped` at a stop."""
        place = replace(place, seconds=gate.seconds or place.seconds)
        kept = place.run_folder
        before: tuple[str, ...] = ()
        if gate.sandbox:
            sandbox, problem = self._find_sandbox()
            if not sandbox:
                return CheckResult(gate.run, None, "", place.seconds, fault=problem)
            before = sandbox_words(sandbox, place.folder, [kept.root] if kept else [])
        report_before = _report_of(gate, place.folder)
        logs = kept.below(GATES_FOLDER) if kept else None
        log: IO[bytes] | None = None
        if logs:
            with suppress(OSError):
                logs.remove(f"{log_name}.log")
                log = logs.append(f"{log_name}.log")
        try:
            result = self.run_command(gate.run, place, log, before)
        finally:
            if log:
                # The disk may be full.
                with suppress(OSError):
                    log.close()
        if logs:
            _remove_oldest(logs, place.most_logged)
        result = replace(
            result,
            counts=read_counts(result.output),
            log=str(logs.path / f"{log_name}.log") if logs and log else "",
            sandboxed=gate.sandbox,
        )
        if not gate.junit or result.exit_code is None:
            return result
        # A report from before does not count.
        report = _report_of(gate, place.folder)
        counts = read_junit(report[1]) if report[0] != report_before[0] else None
        missing = () if counts else (f"wrote no test report to {gate.junit}",)
        return replace(result, counts=counts, objections=missing)

    def run_command(
        self,
        command: str,
        place: GatePlace,
        log: IO[bytes] | None = None,
        before: Sequence[str] = (),
    ) -> CheckResult:
        """Return the result of a command; `log` gets its output. After `stop` raise `Stopped`."""
        if self._stopped:
            raise Stopped
        # By it its processes are found, also those that a killed run has left.
        mark = place.run_folder.parts[-1] if place.run_folder else uuid.uuid4().hex
        _end_marked(mark)
        try:
            process = subprocess.Popen(
                [*before, SHELL, "-c", command],
                cwd=place.folder,
                env=_environ_of(place.environ, place.folder, mark),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or str(error)
            return CheckResult(command, None, "", place.seconds, fault=why)
        output, rest = Bounded(HEAD_BYTES, TAIL_BYTES), Bounded(0, LOG_TAIL)

        def write(data: bytes) -> None:
            # A full disk does not change the result of the command.
            if log is not None and data:
                with suppress(OSError, ValueError):
                    log.write(data)
                    log.flush()

        def read() -> None:
            """Read the output; the log gets the beginning at once, and the rest at the end."""
            assert process.stdout is not None, "it was asked for"
            room = LOG_HEAD
            while chunk := os.read(process.stdout.fileno(), CHUNK_BYTES):
                output.add(chunk)
                write(chunk[:room])
                rest.add(chunk[room:])
                room = max(room - len(chunk), 0)
            process.stdout.close()

        def wait() -> None:
            process.wait()
            self._wakes.put(None)

        reader, waiter = (threading.Thread(target=work, daemon=True) for work in (read, wait))
        reader.start()
        waiter.start()
        try:
            has_ended = self._wait(process, place, output)
        finally:
            # On some systems a group of which only dead processes are left may not be signalled.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            _end_marked(mark)
            waiter.join(10)
            # Something out of reach may hold its output.
            reader.join(1)
            write(rest.content())
        if self._stopped:
            raise Stopped
        return CheckResult(
            command,
            process.returncode if has_ended else None,
            output.content().decode(errors="replace"),
            place.seconds,
            left_out=rest.dropped if log is not None else 0,
        )

    def _wait(self, process: subprocess.Popen[bytes], place: GatePlace, output: Bounded) -> bool:
        """Wait for the end of a command, a stop or the time limit; was it the end?"""
        deadline, told = time.monotonic() + place.seconds, ""
        while (left := deadline - time.monotonic()) > 0 and not self._stopped:
            self._on_wake()
            try:
                self._wakes.get(timeout=min(left, 1))
            except Empty:
                line = last_line(output.end(4096))
                if line not in ("", told):
                    place.on_line(line)
                    told = line
            if process.returncode is not None:
                return True
        return False


def _report_of(gate: Gate, folder: Path) -> tuple[tuple[int, ...], str]:
    *parts, name = PurePosixPath(gate.junit).parts or ("",)
    place = Folder(folder, tuple(parts))
    with suppress(OSError):
        if name and (found := place.status(name)):
            state = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)
            return state, place.read(name).decode(errors="replace")
    return (), ""


def _remove_oldest(logs: Folder, most: int) -> None:
    with suppress(OSError):
        found = [(status, name) for name in logs.names() if (status := logs.status(name))]
        newest_first = sorted(found, key=lambda one: one[0].st_mtime_ns, reverse=True)
        total = 0
        for number, (status, name) in enumerate(newest_first):
            total += status.st_size
            if number and total > most:
                logs.remove(name)
