"""How the benchmark counts and judges; what it measures is not a matter of tests."""

import os
import time

from bench.figures import AtLeast, AtMost, Figure, RatioAtMost, latency_figures, percentile
from bench.usage import Meter, memory_bytes


def test_a_percentile_is_one_of_the_values() -> None:
    percents = (1, 50, 75, 76, 99, 100)
    values = [percentile([4.0, 2.0, 1.0, 3.0], percent) for percent in percents]
    assert values == [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]


def test_a_target_is_met_or_missed_by_the_value() -> None:
    assert Figure("noise", 3.0, "ms").reached is None
    assert Figure("start", 1.0, "s", AtMost(1)).reached is True
    assert Figure("start", 1.01, "s", AtMost(1)).reached is False
    assert Figure("requests", 1500, "requests/s", AtLeast(1500)).reached is True
    assert Figure("requests", 1499, "requests/s", AtLeast(1500)).reached is False


def test_a_ratio_is_judged_against_the_baseline_of_the_same_run() -> None:
    assert Figure("CPU", 0.7, "ms", RatioAtMost(0.35), baseline=2.0).reached is True
    assert Figure("CPU", 0.8, "ms", RatioAtMost(0.35), baseline=2.0).reached is False
    assert Figure("CPU", 0.8, "ms", RatioAtMost(0.35)).reached is False


def test_latencies_are_told_as_two_percentiles_in_milliseconds() -> None:
    half, nearly_all = latency_figures("change", [0.010, 0.020, 0.030], (25, None), [0.5])
    assert (half.value, half.baseline, half.reached) == (20.0, 500.0, True)
    assert (nearly_all.value, nearly_all.reached) == (30.0, None)


def test_the_cpu_and_the_memory_of_a_process_are_counted() -> None:
    meter = Meter([os.getpid()])
    began = time.process_time()
    while time.process_time() < began + 0.05:
        pass
    assert meter.spent().cpu >= 0.05
    assert memory_bytes(os.getpid()) > 1_000_000
