"""What a test runner says in its output: how many tests passed and failed, and which.

The output is not to be trusted: the program under test writes into it too. It can claim more
passed tests than there are, but no failure that a runner told is lost, whatever comes before or
after it. Whoever runs the tests must therefore look at the exit code as well, and must compare
the number of tests with what it was before.
"""

from collections.abc import Callable, Sequence

from cli_agent_orchestrator._internal.pipeline.runners.cargo import read_cargo
from cli_agent_orchestrator._internal.pipeline.runners.go import read_go
from cli_agent_orchestrator._internal.pipeline.runners.jest import read_jest, read_vitest
from cli_agent_orchestrator._internal.pipeline.runners.junit import read_junit
from cli_agent_orchestrator._internal.pipeline.runners.mocha import read_mocha
from cli_agent_orchestrator._internal.pipeline.runners.pytest import read_pytest
from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    LONGEST_LINE,
    TestCounts,
    add_counts,
    lines_of,
)
from cli_agent_orchestrator._internal.pipeline.runners.tap import read_node, read_tap
from cli_agent_orchestrator._internal.pipeline.runners.unittest import read_unittest

__all__ = ["TestCounts", "add_counts", "read_counts", "read_junit"]

READERS: Sequence[Callable[[Sequence[str]], list[TestCounts]]] = (
    read_pytest,
    read_unittest,
    read_go,
    read_cargo,
    read_jest,
    read_vitest,
    read_mocha,
    read_node,
    read_tap,
)


def read_counts(output: str) -> TestCounts | None:
    """Return what a test runner says at the end of its output; None if it is no known runner's.

    The summaries of several runs are added: of packages, of targets, of one runner after another.
    """
    if output[:LONGEST_LINE].lstrip("\ufeff \t\r\n").startswith(("<?xml", "<testsuite")):
        return read_junit(output)
    lines = lines_of(output)
    parts = [counts for read in READERS for counts in read(lines)]
    return add_counts(parts) if parts else None


def number_of(count: int, word: str) -> str:
    """Return how many there are of something.

    >>> number_of(1, "test"), number_of(2, "test")
    ('1 test', '2 tests')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"
