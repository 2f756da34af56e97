"""Which files programs in terminals hold open, and whether this process is one of those programs.

- **Session records** of an agent: the files it keeps open for writing. Such a file appears with the
  first prompt of a session, and some process of the terminal writes to it from then on. Records of
  other sessions may be open as well, for reading.
- **Connections** to our server, and commands of ours: an agent may look at runs, not steer them.
  Whatever runs in our terminals descends from the tmux server of the state folder, and tmux names
  that server in its environment. An agent that leaves both behind on purpose is not recognized: it
  is the same user, and could write to our files as well.

Processes and files come and go meanwhile: those that have just gone are skipped.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from ..errors import NotSteerable
from ..settings.config import tmux_socket
from ..settings.layout import state_folder

LSOF_SECONDS = 5.0
# flags:	02102001
FLAGS_PATTERN = r"(?m)^flags:\s*([0-7]+)$"
CONNECTIONS = ("/proc/net/tcp", "/proc/net/tcp6")
LOCAL, REMOTE, INODE = 1, 2, 9
"""Columns of these files: `0100007F:26A1 0100007F:B3F2 … 48211`, addresses and ports in hex."""


def open_files(pid: int, pattern: str) -> list[Path]:
    written = _written_by if sys.platform == "linux" else _written_by_lsof
    paths = (path for process in _family(pid) for path in written(process))
    return [path for path in paths if re.search(pattern, str(path))]


def has_client(pids: Iterable[int], client: int, port: int | None, socket: str) -> bool:
    """Is a client of our server one of these processes, their child, or else inside of our tmux?

    It is named by its own port, at our `port`, or else by its process.
    """
    members = {member for pid in pids for member in _family(pid)}
    if port is None:
        environ: dict[str, str] = {}
        with suppress(OSError):
            entries = Path(f"/proc/{client}/environ").read_text("utf-8", "replace").split("\0")
            environ = dict(entry.partition("=")[::2] for entry in entries)
        return client in members or is_inside(socket, environ, client)
    if sys.platform != "linux":
        listed = ",".join(map(str, members))
        return bool(listed and _lsof("-nP", "-t", "-a", "-p", listed, f"-iTCP:{client}"))
    targets = {str(target) for pid in members for _, target in _descriptors(pid)}
    held = {target for target in targets if target.startswith("socket:")}
    ends = [f":{client:04X}", f":{port:04X}"]
    # Most agents hold no connection, and to list those of the machine takes milliseconds.
    for path in CONNECTIONS if held else ():
        with suppress(OSError):
            for line in Path(path).read_text().splitlines()[1:]:
                columns = line.split()
                is_it = [columns[LOCAL][-5:], columns[REMOTE][-5:]] == ends
                if is_it and f"socket:[{columns[INODE]}]" in held:
                    return True
    return False


def check_outside(environ: Mapping[str, str]) -> None:
    if is_inside(tmux_socket(state_folder(environ)), environ):
        raise NotSteerable(
            "this is an agent's terminal: runs can be looked at from here, not started or steered; "
            "use a terminal of your own"
        )


def is_inside(socket: str, environ: Mapping[str, str], pid: int | None = None) -> bool:
    # TMUX=/tmp/tmux-1000/cao-9f3c1a2b,4711,0
    named = Path(environ.get("TMUX", "").partition(",")[0]).name == socket
    above = _ancestors(pid or os.getpid())
    return named or any(("-L", socket) in pairwise(words) for _, words in above)


def check_no_gate_of(pid: int) -> None:
    """Raise if this process was started by the gate of a run with this process.

    Gates have sessions of their own; a program that conducts a run and calls a command shares its.
    """
    above = (one for one, _ in _ancestors(os.getpid()))
    with suppress(ProcessLookupError):
        if pid in above and os.getsid(pid) != os.getsid(0):
            raise NotSteerable(
                "this is a command of the run itself: what a gate starts cannot steer its run; use "
                "a terminal of your own"
            )


def _ancestors(pid: int) -> Iterator[tuple[int, list[str]]]:
    with suppress(OSError, ValueError, LookupError):
        while pid > 1:
            if sys.platform == "linux":
                pid = int(_stat(pid)[1])
                yield pid, Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")
            else:
                pid = int(_ps("-o", "ppid=", "-p", str(pid)))
                yield pid, _ps("-o", "args=", "-p", str(pid)).split()


def _stat(pid: int) -> list[str]:
    # 4711 (name, which may hold anything) S 4710 …
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _written_by(pid: int) -> Iterator[Path]:
    for number, target in _descriptors(pid):
        with suppress(OSError):
            if not target.is_absolute() or not target.is_file():
                continue
            info = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
            if int(re.findall(FLAGS_PATTERN, info)[0], 8) & os.O_ACCMODE != os.O_RDONLY:
                yield target


def _descriptors(pid: int) -> Iterator[tuple[str, Path]]:
    """Yield the open files of a process, by number; a connection is `socket:[INODE]`."""
    for number in _names(Path(f"/proc/{pid}/fd")):
        with suppress(OSError):
            yield number, Path(f"/proc/{pid}/fd/{number}").readlink()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _family(pid: int) -> list[int]:
    family = [pid]
    if sys.platform == "linux":
        for member in family:
            threads = Path(f"/proc/{member}/task")
            for thread in _names(threads):
                with suppress(OSError):
                    family += map(int, (threads / thread / "children").read_text().split())
        return family
    parents = [tuple(map(int, line.split())) for line in _ps("-A", "-o", "pid=,ppid=").splitlines()]
    for member in family:
        family += [child for child, parent in parents if parent == member]
    return family


def _written_by_lsof(pid: int) -> Iterator[Path]:
    access = ""
    for line in _lsof("-Fan", "-p", str(pid)).splitlines():
        match line[:1]:
            case "f":
                access = ""
            case "a":
                access = line[1:]
            case "n" if access in ("w", "u") and Path(line[1:]).is_file():
                yield Path(line[1:])


def members(leader: int) -> list[int]:
    found = []
    if sys.platform == "linux":
        for pid in map(int, filter(str.isdecimal, _names(Path("/proc")))):
            with suppress(OSError):
                if os.getsid(pid) == leader and _stat(pid)[0] not in "ZX":
                    found.append(pid)
        return found
    for pid, state in (line.split() for line in _ps("-A", "-o", "pid=,stat=").splitlines()):
        with suppress(OSError):
            if not state.startswith("Z") and os.getsid(int(pid)) == leader:
                found.append(int(pid))
    return found


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _ps(*options: str) -> str:
    return subprocess.run(["ps", *options], capture_output=True, text=True, check=False).stdout


def _lsof(*options: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            ["lsof", *options], capture_output=True, text=True, timeout=LSOF_SECONDS, check=False
        ).stdout
    return ""
