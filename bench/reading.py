"""CPU per screen read: all panes in one batch, beside one subprocess a pane."""

import statistics
from itertools import count

from bench.figures import Figure, RatioAtMost
from bench.machine import Machine, private_machine
from bench.polling import Poller
from bench.usage import Meter
from cli_agent_orchestrator.server.app import run
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.terminals.tmux import Command, PaneInfo, PaneScreen, Tmux

PANES = 50
REPEATS = 5
POLLED_ROUNDS = 2
BATCHED_ROUNDS = 20

FULL_SCREEN = r"""
row=0
while [ $row -lt 38 ]; do
    row=$((row + 1))
    echo "│ row $row of a screen that is full of text, as those of agents are after a while"
done
printf 'scripted ❯ '
exec sleep 1000000
"""


class Nobody:
    """Does not care what happens in tmux."""

    def screen_changed(self, screen: PaneScreen) -> None: ...

    def output(self, pane: str, data: bytes) -> None: ...

    def exited(self, pane: str, exit_code: int | None) -> None: ...

    def connected(self, panes: list[PaneInfo], screens: dict[str, PaneScreen]) -> None: ...

    def disconnected(self, reason: str) -> None: ...


def measure() -> list[Figure]:
    with private_machine() as machine:
        return run(_measure(machine))


async def _measure(machine: Machine) -> list[Figure]:
    socket = ServerConfig.from_env(machine.env).tmux_socket
    tmux = Tmux(socket, machine.env, Nobody())
    await tmux.start()
    try:
        panes = await _open(tmux, machine)
        polled, batched = [], []
        # In turns, so that a noisy moment hits both.
        for _ in range(REPEATS):
            polled.append(_poll(machine, panes))
            batched.append(await _read(machine, tmux, panes))
    finally:
        await tmux.close()
    return [
        Figure(
            f"CPU per screen read, {PANES} terminals",
            1000 * statistics.median(batched),
            "ms",
            RatioAtMost(1 / 15),
            1000 * statistics.median(polled),
            "this process, its children and the tmux server",
        )
    ]


async def _open(tmux: Tmux, machine: Machine) -> list[str]:
    command = Command(("sh", "-c", FULL_SCREEN), str(machine.work), machine.env)
    panes = []
    for number in range(PANES):
        info = await tmux.open_window("cao-bench", f"pane {number}", command, f"bench-{number}")
        panes.append(info.pane)
    for _ in count():
        screens = await tmux.read(panes)
        if all("scripted" in screen.text for screen in screens.values()):
            return panes
    raise AssertionError


def _poll(machine: Machine, panes: list[str]) -> float:
    poller = Poller.on(machine)
    meter = Meter(machine.tmux_pids(), own=True)
    for _ in range(POLLED_ROUNDS):
        for pane in panes:
            poller.read(pane)
    return meter.spent().cpu / (POLLED_ROUNDS * len(panes))


async def _read(machine: Machine, tmux: Tmux, panes: list[str]) -> float:
    meter = Meter(machine.tmux_pids(), own=True)
    for _ in range(BATCHED_ROUNDS):
        await tmux.read(panes)
    return meter.spent().cpu / (BATCHED_ROUNDS * len(panes))
