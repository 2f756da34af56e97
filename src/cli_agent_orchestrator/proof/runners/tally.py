"""What every reader of a runner's output needs: its lines, its counts, and which summary counts.

A reader gets the lines of an output and returns the counts of each run that it finds. Where one
run has several summaries, because the program under test prints one too, the last that tells of
a failure counts, or else the last of all. A run that began and never summed up has failed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core.text import CONTROLS

LONGEST_NAME = 300
MOST_NAMES = 200
# Longer than any line that a runner itself writes; what is beyond is not looked at.
LONGEST_LINE = 2000
SEVERAL = "several"

# Colors, titles of windows, movements of the cursor. None reaches beyond its line.
ESCAPE_PATTERN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])"
)
BLANK_PATTERN = re.compile(r"\n{4,}")
CONTROL_PATTERN = re.compile(f"[{CONTROLS}]")


@dataclass(frozen=True, slots=True)
class TestCounts:
    """How many tests passed, failed or were not run, and which failed."""

    __test__ = False

    runner: str
    """"pytest", "unittest", "go", "cargo", "jest", "vitest", "mocha", "node", "junit", "tap";
    "several" if there are more than one."""
    passed: int
    failed: int
    """Errors are failures, and so is a run that did not come to its end."""
    skipped: int = 0
    """What was not run: skipped, to do, expected to fail, ignored, deselected."""
    failures: tuple[str, ...] = ()
    """The names of failed tests in order, each once, the first 200."""
    first_errors: Mapping[str, str] = field(default_factory=dict)
    """For a failed test, the first line that says what was wrong, if there is one."""
    untold: int = 0
    """Packages that do not say how many tests they have; if one passed, it counts as one test."""

    @property
    def run(self) -> int:
        """How many tests were run."""
        return self.passed + self.failed

    @property
    def unit(self) -> str:
        """What is counted: tests, or packages if nothing else is known."""
        return "package" if self.run and self.run == self.untold else "test"


@dataclass(frozen=True, slots=True)
class Claim:
    """A summary, and how many tests were seen to be run before it."""

    counts: TestCounts
    seen: int


def lines_of(output: str) -> list[str]:
    """Return the lines of an output without colors and control characters.

    What a carriage return would overwrite is a line of its own: nothing can hide behind it.
    """
    plain = ESCAPE_PATTERN.sub("", output).replace("\r\n", "\n").replace("\r", "\n")
    lines = BLANK_PATTERN.sub("\n\n\n", CONTROL_PATTERN.sub("", plain)).split("\n")
    return [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines]


def tidy(text: str) -> str:
    """Return a text on one line, printable and not too long."""
    start = text[:LONGEST_LINE]
    return "".join(c if c.isprintable() else " " for c in start).strip()[:LONGEST_NAME].rstrip()


def counts_of(
    runner: str, ran: tuple[int, int, int], errors: Iterable[tuple[str, str]] = ()
) -> TestCounts:
    """Join numbers (passed, failed, skipped) with the failed tests and what is wrong with each."""
    first: dict[str, str] = {}
    for name, error in errors:
        key = tidy(name)
        if key and (key in first or len(first) < MOST_NAMES):
            first[key] = first.get(key) or tidy(error)
    said = {name: error for name, error in first.items() if error}
    return TestCounts(runner, *ran, tuple(first), said)


def unfinished(runner: str, passed: int = 0, failed: int = 0) -> TestCounts:
    """Return the counts of a run that began and never summed up: it has failed."""
    return counts_of(runner, (passed, failed + 1, 0), [(f"{runner} did not finish", "")])


def chosen(summaries: Sequence[TestCounts]) -> TestCounts:
    """Return the summary of a run that counts: the last that failed, or else the last."""
    return next((one for one in reversed(summaries) if one.failed), summaries[-1])


def believed(claims: Sequence[Claim]) -> list[TestCounts]:
    """Return the summaries that are runs of their own, where nothing marks where a run begins.

    A success that tells of more tests than were seen is no run of its own when another summary
    follows: the program under test may have printed it.
    """
    return [
        claim.counts
        for number, claim in enumerate(claims, 1)
        if claim.counts.failed or number == len(claims) or claim.counts.run <= claim.seen
    ]


def add_counts(parts: Iterable[TestCounts]) -> TestCounts:
    """Add the counts of several runs. Several runners together are called "several".

    >>> add_counts([TestCounts("pytest", 2, 0), TestCounts("jest", 1, 1)]).run
    4
    """
    known = list(parts)
    runners = {part.runner for part in known}
    ran = (
        sum(part.passed for part in known),
        sum(part.failed for part in known),
        sum(part.skipped for part in known),
    )
    errors = [(name, part.first_errors.get(name, "")) for part in known for name in part.failures]
    added = counts_of(runners.pop() if len(runners) == 1 else SEVERAL, ran, errors)
    return replace(added, untold=sum(part.untold for part in known))
