"""Reads what Mocha prints: `3 passing (32ms)`, `2 pending`, `3 failing`, and each failure."""

import re
from collections.abc import Sequence

from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    Claim,
    TestCounts,
    believed,
    counts_of,
)

MOCHA = "mocha"
PASSING_PATTERN = re.compile(r"  (\d{1,9}) passing \(\d+m?[smh]\)")
OTHERS_PATTERN = re.compile(r"  (\d{1,9}) (pending|failing)")
# "    ✔ adds up (32ms)", "    √ adds up"
TICK_PATTERN = re.compile(r"\s*[✔✓√] .*")
# "  ...!,,!!"
DOTS_PATTERN = re.compile(r"  [.․,!]+")
# "  2) cart"
NUMBERED_PATTERN = re.compile(r"  \d{1,9}\) (\S.*)")
MOST_GROUPS = 20
"""How many lines the name of a test can have."""
CRASH = " Exception during run: "


def read_mocha(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Mocha."""
    found = [
        (number, int(match[1]))
        for number, line in enumerate(lines)
        if (match := PASSING_PATTERN.fullmatch(line))
    ]
    ends = [*(number for number, _ in found[1:]), len(lines)]
    claims: list[Claim] = []
    start, seen = 0, 0
    for (number, passed), end in zip(found, ends, strict=False):
        seen += sum(_marks(line) for line in lines[start:number])
        claims.append(Claim(_read_run(passed, lines[number + 1 : end]), seen))
        start, seen = number, 0 if claims[-1].counts.run <= seen else seen
    crashes = [line for line in lines if line.startswith(CRASH)]
    crashed = [counts_of(MOCHA, (0, 1, 0), [(CRASH.strip(" :"), c[len(CRASH) :])]) for c in crashes]
    return believed(claims) + crashed


def _marks(line: str) -> int:
    """Return of how many tests a line shows the end."""
    if DOTS_PATTERN.fullmatch(line):
        return len(line) - 2
    return int(TICK_PATTERN.fullmatch(line) is not None)


def _read_run(passed: int, below: Sequence[str]) -> TestCounts:
    """Return the counts of a run with what is below its number of passing tests."""
    others = {"pending": 0, "failing": 0}
    for line in below:
        match = OTHERS_PATTERN.fullmatch(line)
        if match is None:
            break
        others[match[2]] = int(match[1])
    failed = others["failing"]
    failures = _failures(below, failed) if failed else []
    return counts_of(MOCHA, (passed, failed, others["pending"]), failures)


def _failures(lines: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Return the numbered failures, each with its first error.

    The groups of a test and its own name stand below each other, the last one with a colon.
    """
    found: list[tuple[str, str]] = []
    title: list[str] = []
    for line in lines:
        match = NUMBERED_PATTERN.fullmatch(line)
        if match and len(found) == most:
            break
        if match or title:
            title = [match[1]] if match else [*title, line.strip()]
            if title[-1].endswith(":") or len(title) == MOST_GROUPS:
                found.append((" ".join(title).removesuffix(":"), ""))
                title = []
        elif found and not found[-1][1] and line.strip():
            found[-1] = (found[-1][0], line)
    return found
