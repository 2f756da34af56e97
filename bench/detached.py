"""Ten detached runs of scripted agents at once, on one server: do all finish, and what it takes."""

import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.figures import AtLeast, AtMost, Figure
from bench.machine import Machine, cao_words, private_machine
from bench.runs import TASK
from bench.usage import memory_bytes

RUNS = 10
PASS = "PASS"
LOOK_SECONDS = 0.2


def measure() -> list[Figure]:
    with private_machine() as machine:
        machine.env.pop("CAO_SCRIPTED_ARGS", None)
        with machine.server() as server, Peak(server.pid) as peak:
            began = time.monotonic()
            passed = _run_all(machine)
            seconds = time.monotonic() - began
    return [
        Figure(f"{RUNS} detached runs at once that pass", passed, "runs", AtLeast(RUNS)),
        Figure("… until the last has ended", seconds, "s"),
        Figure("… memory of their server at most", peak.bytes / 1e6, "MB", AtMost(120)),
    ]


class Peak:
    """The most memory that a process has at any look, within a block."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.bytes = max(self.bytes, memory_bytes(self._pid))


def _run_all(machine: Machine) -> int:
    """Start all runs, each in a folder of its own, and return how many pass."""
    task = machine.work / "task.md"
    task.write_text(TASK, encoding="utf-8")
    folders = [machine.home / f"project-{number}" for number in range(RUNS)]
    with ThreadPoolExecutor(RUNS) as starters:
        runs = list(starters.map(lambda folder: _start(machine, folder, task), folders))
        list(starters.map(lambda run: _cao(machine, machine.work, "watch", run), runs))
    listed = json.loads(_cao(machine, machine.work, "runs", "--all", "--json"))
    return sum(run["status"] == PASS for run in listed)


def _start(machine: Machine, folder: Path, task: Path) -> str:
    folder.mkdir()
    words = ("run", str(task), "--provider", "scripted", "--detach", "--json")
    return str(json.loads(_cao(machine, folder, *words).splitlines()[0])["run"])


def _cao(machine: Machine, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*cao_words(), *words],
        env=machine.env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
