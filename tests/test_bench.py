"""How the benchmark counts and judges; what it measures is not a matter of tests."""

import os
import time

import pytest

from bench.figures import AtLeast, AtMost, Figure, RatioAtMost, latency_figures, percentile, shown
from bench.usage import Meter, memory_bytes


@pytest.mark.parametrize(
    ("percent", "value"), [(1, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (99, 4.0), (100, 4.0)]
)
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([4.0, 2.0, 1.0, 3.0], percent) == value


def test_a_target_is_met_or_missed_by_the_value() -> None:
    assert Figure("start", 1.0, "s", AtMost(1)).reached is True
    assert Figure("start", 1.01, "s", AtMost(1)).reached is False
    assert Figure("requests", 1500, "requests/s", AtLeast(1500)).reached is True
    assert Figure("requests", 1499, "requests/s", AtLeast(1500)).reached is False


def test_a_ratio_is_judged_against_the_baseline_of_the_same_run() -> None:
    assert Figure("CPU", 0.7, "ms", RatioAtMost(0.35), baseline=2.0).reached is True
    assert Figure("CPU", 0.8, "ms", RatioAtMost(0.35), baseline=2.0).reached is False
    assert Figure("CPU", 0.8, "ms", RatioAtMost(0.35)).reached is False


def test_a_figure_without_a_target_is_neither_good_nor_bad() -> None:
    assert Figure("noise", 3.0, "ms").reached is None


def test_latencies_are_told_as_two_percentiles_in_milliseconds() -> None:
    half, nearly_all = latency_figures("change", [0.010, 0.020, 0.030], (25, None), [0.5])
    assert (half.value, half.baseline, half.reached) == (20.0, 500.0, True)
    assert (nearly_all.value, nearly_all.reached) == (30.0, None)


@pytest.mark.parametrize(
    ("number", "text"), [(1 / 15, "0.0667"), (2.5, "2.5"), (1830.4, "1,830"), (0, "0")]
)
def test_numbers_are_shown_with_the_digits_that_count(number: float, text: str) -> None:
    assert shown(number) == text


def test_the_cpu_of_a_process_is_counted_while_it_works() -> None:
    meter = Meter([os.getpid()])
    began = time.process_time()
    while time.process_time() < began + 0.05:
        pass
    assert meter.spent().cpu >= 0.05


def test_the_memory_of_a_process_is_counted_in_bytes() -> None:
    assert memory_bytes(os.getpid()) > 1_000_000
