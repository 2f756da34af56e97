"""How long things take to start: the command line, the server, five agents at once."""

import http.client
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from bench.figures import AtMost, Figure
from bench.machine import Machine, Server, cao_words, private_machine, running
from bench.usage import cpu_seconds
from bench.wire import Wire, new_terminal_path
from cli_agent_orchestrator.runs.record import RunRecord, RunStatus, SavedSetting, write_record
from cli_agent_orchestrator.settings.layout import run_folder, state_folder
from cli_agent_orchestrator.settings.table import BY_NAME

AGENTS = 5
HELP_RUNS = 10
SERVER_RUNS = 7
AGENT_RUNS = 7
RUN_COUNTS = {500: 0.2, 10_000: 1.0}
"""How many finished runs, and within how many seconds they are listed."""
TASK, TASK_LINES = "Make the parser accept empty lines.\n", 100
PROBE_PAUSE = 0.002
PATIENCE = 60.0


def measure() -> list[Figure]:
    return [_help(), *_lists_of_runs(), _server(), *_agents()]


def _help() -> Figure:
    with private_machine() as machine:
        ours = [_run(machine, [*cao_words(), "--help"]) for _ in range(HELP_RUNS)]
        bare = [_run(machine, [sys.executable, "-c", ""]) for _ in range(HELP_RUNS)]
    return _figure("cao --help", ours, 0.15, statistics.median(bare))


def _lists_of_runs() -> Iterator[Figure]:
    with private_machine() as machine:
        state = state_folder(machine.env)
        made = 0
        for count, seconds in RUN_COUNTS.items():
            for number in range(made, count):
                _end_a_run(state, f"20250131-{number:06d}-k3f9")
            made = count
            took = [_run(machine, [*cao_words(), "runs", "--all"]) for _ in range(HELP_RUNS)]
            yield _figure(f"cao runs, {count} finished runs", took, seconds)


def _end_a_run(state: Path, name: str) -> None:
    """Make the folder of a run as it is when it has passed."""
    folder = run_folder(state, name)
    folder.make()
    settings = {name: SavedSetting(setting.default, "default") for name, setting in BY_NAME.items()}
    record = RunRecord(
        id=name,
        wd="/home/ada/shop",
        state_file="/home/ada/shop/.tmp/state.json",
        task=TASK * TASK_LINES,
        task_line=TASK.strip(),
        started=1_700_000_000.0,
        ended=1_700_000_900.0,
        status=RunStatus.PASS,
        settings=settings,
    )
    write_record(folder, record, lasting=False)


def _run(machine: Machine, words: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(words, env=machine.env, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def _server() -> Figure:
    """Start servers on fresh state folders; each starts its tmux server, too."""
    seconds, cpu = [], []
    for _ in range(SERVER_RUNS):
        with private_machine() as machine:
            port = _free_port()
            began = time.monotonic()
            words = [*cao_words(), "server", "--port", str(port)]
            with running(words, machine.env, machine.work) as process:
                _wait_for_answer(port)
                seconds.append(time.monotonic() - began)
                cpu.append(cpu_seconds(process.pid))
    figure = _figure("server start to first answer", seconds, 1.0)
    return replace(figure, note=f"{figure.note}; {statistics.median(cpu):.2f} s of CPU")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


def _wait_for_answer(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except ConnectionRefusedError:
            time.sleep(PROBE_PAUSE)
        finally:
            connection.close()
    raise RuntimeError("the server did not answer")


def _agents() -> list[Figure]:
    together, session_first = [], []
    with private_machine() as machine, machine.server() as server:
        for _ in range(AGENT_RUNS):
            together.append(_timed(machine, server, _five_sessions))
            session_first.append(_timed(machine, server, _one_session))
    name = f"{AGENTS} scripted terminals ready"
    return [
        _figure(f"{name}, all at once", together, 1.5),
        _figure(f"{name}, one and then four at once", session_first, 1.5),
    ]


def _timed(
    machine: Machine, server: Server, create: Callable[[Machine, Server], set[str]]
) -> float:
    began = time.monotonic()
    sessions = create(machine, server)
    seconds = time.monotonic() - began
    with Wire(server) as wire:
        for session in sessions:
            wire.ask("DELETE", f"/sessions/{session}")
    return seconds


def _five_sessions(machine: Machine, server: Server) -> set[str]:
    paths = [new_terminal_path(machine)] * AGENTS
    return _create(server, paths)


def _one_session(machine: Machine, server: Server) -> set[str]:
    [session] = _create(server, [new_terminal_path(machine)])
    return _create(server, [new_terminal_path(machine, session)] * (AGENTS - 1))


def _create(server: Server, paths: list[str]) -> set[str]:
    def create(path: str) -> str:
        with Wire(server) as wire:
            return str(wire.ask("POST", path)["session_name"])

    with ThreadPoolExecutor(len(paths)) as starters:
        return set(starters.map(create, paths))


def _figure(name: str, seconds: list[float], limit: float, baseline: float | None = None) -> Figure:
    note = f"median of {len(seconds)}, best {min(seconds):.3g} s"
    if baseline is not None:
        note += "; baseline: the bare interpreter"
    return Figure(name, statistics.median(seconds), "s", AtMost(limit), baseline, note)
