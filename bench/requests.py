"""How often a second the status of a terminal can be asked for."""

import json
import subprocess
import sys
from pathlib import Path

from bench import requester
from bench.figures import AtLeast, AtMost, Figure
from bench.machine import Server, private_machine
from bench.usage import Meter

TERMINALS = 50
CONNECTIONS = 8
SECONDS = 3.0
REPEATS = 4


def measure() -> list[Figure]:
    with private_machine() as machine:
        machine.draw_agents()
        with machine.server() as server:
            terminal = machine.open_terminals(server, TERMINALS)[0]
            rates, costs, tmux_costs = [], [], []
            _ask(server, terminal, 0.5)
            for _ in range(REPEATS):
                served, drawn = Meter([server.pid]), Meter(machine.tmux_pids()[:1])
                answers, seconds = _ask(server, terminal, SECONDS)
                costs.append(served.spent().cpu / answers)
                tmux_costs.append(drawn.spent().cpu / answers)
                rates.append(answers / seconds)
    return [
        Figure(
            "GET /terminals/{id}",
            max(rates),
            "requests/s",
            AtLeast(1500),
            note=f"best of {REPEATS}; another process asks over {CONNECTIONS} connections",
        ),
        Figure("the same, of one core for the server alone", 1 / min(costs), "requests/s"),
        Figure("tmux's CPU for it", 1e6 * min(tmux_costs), "µs a request", AtMost(1)),
    ]


def _ask(server: Server, terminal: str, seconds: float) -> tuple[int, float]:
    request = (
        f"GET /terminals/{terminal} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n"
    )
    order = {
        "host": server.host,
        "port": server.port,
        "request": request,
        "connections": CONNECTIONS,
        "seconds": seconds,
    }
    done = subprocess.run(
        [sys.executable, str(Path(requester.__file__))],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    return result["answers"], result["seconds"]
