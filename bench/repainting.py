"""CPU while every terminal repaints all the time."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import painter
from bench.figures import Figure, RatioAtMost
from bench.machine import Machine, private_machine, running
from bench.polling import INTERVAL, Poller
from bench.usage import Meter, Spent

PANES = 50
SETTLE_SECONDS = 2.0
WATCHED_SECONDS = 10.0


def measure() -> list[Figure]:
    with private_machine() as machine:
        machine.draw_agents()
        with machine.server() as server:
            machine.open_terminals(server, PANES)
            with _painting(machine):
                ours = _watch([server.pid, *machine.tmux_pids()])
        with _painting(machine):
            alone = _watch(machine.tmux_pids())
            polled, reads = _poll(machine)
    # On a machine that cannot keep up, the baseline costs what all its reads would have cost.
    wanted = PANES / INTERVAL
    baseline = alone.load + (polled.load - alone.load) * wanted / reads
    return [
        Figure(
            f"CPU while {PANES} terminals repaint at 10 Hz",
            100 * ours.load,
            "% of a core",
            RatioAtMost(0.35),
            100 * baseline,
            f"the baseline read {reads:.0f} of {wanted:.0f} panes a second; "
            f"tmux with nobody watching: {100 * alone.load:.1f} %",
        )
    ]


@contextmanager
def _painting(machine: Machine) -> Iterator[None]:
    words = [sys.executable, str(Path(painter.__file__))]
    with running(words, machine.env, machine.work, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(machine.panes().values()))
        process.stdin.close()
        process.stdout.readline()
        time.sleep(SETTLE_SECONDS)
        yield


def _watch(pids: list[int]) -> Spent:
    meter = Meter(pids)
    time.sleep(WATCHED_SECONDS)
    return meter.spent()


def _poll(machine: Machine) -> tuple[Spent, float]:
    poller = Poller.on(machine)
    panes = machine.tmux("list-panes", "-a", "-F", "#{pane_id} #{@cao_id}").splitlines()
    names = {pane for pane, _, tag in (line.partition(" ") for line in panes) if tag}
    meter = Meter(machine.tmux_pids(), own=True)
    reads = sum(1 for _ in poller.poll(sorted(names), WATCHED_SECONDS))
    spent = meter.spent()
    return spent, reads / spent.elapsed
