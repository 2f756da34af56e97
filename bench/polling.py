"""The baseline: every pane read by a `tmux capture-pane` of its own, every half second."""

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.drawing import Canvas, frame
from bench.machine import Machine
from cli_agent_orchestrator.core.models import TerminalStatus

INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class Poller:
    """Reads panes the way that is usual."""

    words: tuple[str, ...]
    env: dict[str, str]

    @classmethod
    def on(cls, machine: Machine) -> "Poller":
        return cls((*machine.tmux_words(), "capture-pane", "-p", "-t"), machine.env)

    def read(self, pane: str) -> str:
        words = [*self.words, pane]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout

    def poll(self, panes: Sequence[str], seconds: float) -> Iterator[tuple[str, str]]:
        """Yield pane and screen, each pane once an interval if the machine can keep up."""
        began = time.monotonic()
        due = began
        while due < began + seconds:
            for pane in panes:
                yield pane, self.read(pane)
            due = max(due + INTERVAL, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


@dataclass(slots=True)
class Draughtsman:
    """Changes one pane after the other, in a thread, and remembers when."""

    canvas: Canvas
    names: Sequence[str]
    """Each pane's name on the canvas."""
    pause: float
    drawn: dict[str, tuple[str, float]] = field(default_factory=dict)
    """What was drawn last on each pane that nobody has seen yet, and when."""
    _over: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        number = 100
        while not self._over.wait(self.pause):
            name = self.names[number % len(self.names)]
            if name not in self.drawn:
                at = self.canvas.draw(name, frame(TerminalStatus.COMPLETED, number))
                self.drawn[name] = (f"turn {number} over", at)
            number += 1

    def end(self) -> None:
        self._over.set()


def polled_latencies(
    poller: Poller, panes: dict[str, str], canvas: Canvas, seconds: float
) -> list[float]:
    """Return how long polling takes to see single changes; `panes` maps tmux's names to ours."""
    draughtsman = Draughtsman(canvas, list(panes.values()), pause=0.05)
    thread = threading.Thread(target=draughtsman.work, daemon=True)
    thread.start()
    latencies = []
    try:
        for pane, text in poller.poll(list(panes), seconds):
            mark, at = draughtsman.drawn.get(panes[pane], ("", 0.0))
            if mark and mark in text:
                latencies.append(time.monotonic() - at)
                del draughtsman.drawn[panes[pane]]
    finally:
        draughtsman.end()
        thread.join()
    return latencies
