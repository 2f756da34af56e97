"""What a test runner says in its output: how many tests passed and failed, and which.

The output is not to be trusted: the program under test writes into it too. It can claim more
passed tests than there are, but no failure that a runner told is lost, whatever comes before or
after it. Whoever runs the tests must therefore look at the exit code as well, and must compare
the number of tests with what it was before.
"""

from collections.abc import Callable, Sequence

from .runners.compiled import read_cargo, read_go
from .runners.formats import read_junit, read_node, read_tap
from .runners.javascript import read_jest, read_mocha, read_vitest
from .runners.python import read_pytest, read_unittest
from .runners.tally import LONGEST_LINE, TestCounts, add_counts, lines_of

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
