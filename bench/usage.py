"""What processes use: CPU time and memory, and what the machine is."""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CPU_CLOCK = 2
"""Linux: the clock of all threads of a process, in the low bits of a clock's number."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process of any owner has used, with all its threads."""
    if sys.platform == "linux":
        return time.clock_gettime((~pid << 3) | CPU_CLOCK)
    return _clock_face(_ask_ps(pid, "time"))


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    if sys.platform == "linux":
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return int(_ask_ps(pid, "rss")) * 1024


def own_cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU time within some time."""

    cpu: float
    elapsed: float

    @property
    def load(self) -> float:
        """The part of one core that was used."""
        return self.cpu / self.elapsed


class Meter:
    """Measures the CPU time of processes from its making on."""

    def __init__(self, pids: Iterable[int], *, own: bool = False) -> None:
        """`own` adds this process and its children."""
        self._pids = tuple(pids)
        self._own = own
        self._began = time.monotonic()
        self._at_first = self._read()

    def spent(self) -> Spent:
        return Spent(self._read() - self._at_first, time.monotonic() - self._began)

    def _read(self) -> float:
        own = own_cpu_seconds() if self._own else 0.0
        return own + sum(cpu_seconds(pid) for pid in self._pids)


def machine_facts() -> dict[str, str]:
    """Return what the figures depend on."""
    tmux = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=False)
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "tmux": tmux.stdout.strip(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _ask_ps(pid: int, column: str) -> str:
    words = ["ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _clock_face(text: str) -> float:
    """Return the seconds of `[hours:]minutes:seconds`."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds
