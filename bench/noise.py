"""How late this machine itself is: what no program on it can do better than."""

import time

from bench.figures import Figure, latency_figures

SAMPLES = 500
PAUSE = 0.005


def measure() -> list[Figure]:
    """Sleep often, and see how much longer it takes than it should."""
    return latency_figures("the machine wakes up late by", [_late() for _ in range(SAMPLES)])


def _late() -> float:
    began = time.monotonic()
    time.sleep(PAUSE)
    return time.monotonic() - began - PAUSE
