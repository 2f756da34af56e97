"""How soon a single change of a screen is on the event stream."""

import random
import time

from bench.drawing import Canvas, frame
from bench.figures import Figure, latency_figures
from bench.machine import Machine, Server, private_machine
from bench.polling import Poller, polled_latencies
from bench.wire import EventStream
from cli_agent_orchestrator.core.models import TerminalStatus

SAMPLES = 300
PAUSE = (0.02, 0.08)
"""Seconds between two changes: never in step with anything of ours."""
QUIET_SECONDS = 1.0
POLLED_SECONDS = 8.0


def measure_50() -> list[Figure]:
    return _measure(50, (25, 60))


def measure_200() -> list[Figure]:
    return _measure(200, (None, 80))


def _measure(count: int, targets: tuple[float | None, float | None]) -> list[Figure]:
    with private_machine() as machine:
        machine.draw_agents()
        with machine.server() as server:
            terminals = machine.open_terminals(server, count)
            with Canvas(machine.panes()) as canvas:
                ours = _latencies(server, terminals, canvas)
        with Canvas(machine.panes()) as canvas:
            polled = polled_latencies(
                Poller.on(machine), _names(machine, terminals), canvas, POLLED_SECONDS
            )
    return latency_figures(f"screen change known, {count} terminals", ours, targets, polled)


def _latencies(server: Server, terminals: list[str], canvas: Canvas) -> list[float]:
    latencies = []
    looks = dict.fromkeys(terminals, TerminalStatus.IDLE)
    with EventStream(server) as stream:
        time.sleep(QUIET_SECONDS)
        for number in range(SAMPLES):
            terminal = terminals[number % len(terminals)]
            look = _other(looks[terminal])
            looks[terminal] = look
            began = canvas.draw(terminal, frame(look, number))
            latencies.append(stream.wait_for(terminal, look) - began)
            time.sleep(random.uniform(*PAUSE))
    return latencies


def _other(look: TerminalStatus) -> TerminalStatus:
    idle, completed = TerminalStatus.IDLE, TerminalStatus.COMPLETED
    return completed if look is idle else idle


def _names(machine: Machine, terminals: list[str]) -> dict[str, str]:
    listed = machine.tmux("list-panes", "-a", "-F", "#{pane_id} #{@cao_id}").splitlines()
    pairs = (line.partition(" ") for line in listed)
    return {pane: name for pane, _, name in pairs if name in terminals}
