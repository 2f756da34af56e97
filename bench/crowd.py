"""Fifty scripted agents at rest: what they cost, and how soon their own signals are known."""

import json
import os
import random
import time
from pathlib import Path

from bench.figures import AtMost, Figure, latency_figures
from bench.machine import private_machine
from bench.usage import Meter, memory_bytes
from bench.wire import EventStream
from cli_agent_orchestrator.core.models import TerminalStatus

TERMINALS = 50
SETTLE_SECONDS = 3.0
IDLE_SECONDS = 20.0
SAMPLES = 200
PAUSE = (0.02, 0.08)

SIGNALS = {"UserPromptSubmit": TerminalStatus.PROCESSING, "Stop": TerminalStatus.COMPLETED}


def measure() -> list[Figure]:
    with private_machine() as machine, machine.server() as server:
        terminals = machine.open_terminals(server, TERMINALS)
        with EventStream(server) as stream:
            time.sleep(SETTLE_SECONDS)
            meter = Meter([server.pid, *machine.tmux_pids()])
            time.sleep(IDLE_SECONDS)
            idle = meter.spent()
            memory = memory_bytes(server.pid)
            files = {name: machine.state / "events" / f"{name}.jsonl" for name in terminals}
            latencies = _signal(stream, files)
    return [
        Figure(
            f"CPU of server and tmux, {TERMINALS} agents at rest",
            100 * idle.load,
            "% of a core",
            AtMost(1),
        ),
        Figure(f"memory of the server, {TERMINALS} agents", memory / 1e6, "MB", AtMost(80)),
        *latency_figures("agent's own signal known", latencies, (25, 60)),
    ]


def _signal(stream: EventStream, files: dict[str, Path]) -> list[float]:
    """Append to event files as the agents' hooks do, and return when the stream tells of it."""
    latencies = []
    names = list(files)
    for number in range(SAMPLES):
        name = names[number // len(SIGNALS) % len(names)]
        event = list(SIGNALS)[number % len(SIGNALS)]
        began = _append(files[name], {"event": event})
        latencies.append(stream.wait_for(name, SIGNALS[event]) - began)
        time.sleep(random.uniform(*PAUSE))
    return latencies


def _append(path: Path, fields: dict[str, str]) -> float:
    line = json.dumps(fields).encode() + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        now = time.monotonic()
        os.write(file, line)
    finally:
        os.close(file)
    return now
