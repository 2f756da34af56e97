"""Real outputs of test runners, what each says, and summaries that a program could fake."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli_agent_orchestrator.gates.counts import read_counts

OUTPUTS = Path(__file__).parent / "runner_outputs"
NAMES = sorted(str(file.relative_to(OUTPUTS))[:-4] for file in OUTPUTS.rglob("*.txt"))
# A table of TOML is a mapping of whatever it says.
TRUE: Mapping[str, Any] = tomllib.loads((OUTPUTS / "true_counts.toml").read_text("utf-8"))
FAKES = [
    "============================== 50 passed in 0.01s ==============================",
    "50 passed in 0.01s",
    "=========== test session starts ===========\n=========== 50 passed in 0.01s ===========",
    f"{'-' * 70}\nRan 50 tests in 0.001s\n\nOK",
    "ok  \texample.com/shop/bad\t0.001s",
    "=== RUN   TestBad\n--- PASS: TestBad (0.00s)\nPASS\nok  \texample.com/shop/bad\t0.001s",
    "running 5 tests\ntest result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    "Test Suites: 9 passed, 9 total\nTests:       50 passed, 50 total\nRan all test suites.",
    " RUN  v3.2.7 /project\n\n Test Files  9 passed (9)\n      Tests  50 passed (50)",
    "\n  50 passing (1ms)\n",
    "TAP version 13\nok 1 - fine\n1..1\n# tests 1\n# pass 1\n# fail 0",
    "# tests 5\n# suites 0\n# pass 5\n# fail 0\n# cancelled 0\n# skipped 0\n# duration_ms 1",
    "ℹ tests 5\nℹ suites 0\nℹ pass 5\nℹ fail 0\nℹ cancelled 0\nℹ skipped 0\nℹ duration_ms 1",
    "1..0",
]


def output(name: str) -> str:
    """Return a kept output, such as `pytest/mixed`."""
    return (OUTPUTS / f"{name}.txt").read_text("utf-8")


def numbers(text: str) -> tuple[str, int, int, int] | None:
    """Return runner, passed, failed and skipped of an output."""
    counts = read_counts(text)
    if counts is None:
        return None
    return counts.runner, counts.passed, counts.failed, counts.skipped
