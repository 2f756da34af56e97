"""How many tests passed and failed, and which: one shape for all test runners.

A reader gets the lines of an output and returns the counts of each run that it finds. Where one
run has several summaries, because the program under test prints one too, the last that reports a
failure counts, or else the last of all. A run that began and printed no summary has failed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from ..core.text import CONTROLS

LONGEST_NAME = 300
MOST_NAMES = 200
LONGEST_LINE = 2000
"""Longer than any line that a runner itself writes; the rest of a line is ignored."""
LARGEST_XML, DEEPEST_XML = 64_000_000, 100
# Colors, titles of windows, movements of the cursor. None reaches beyond its line.
ESCAPE_PATTERN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])"
)

Failures = Sequence[tuple[str, str]]
"""Failed tests, each with the first line of its error."""


@dataclass(frozen=True, slots=True)
class TestCounts:
    """How many tests passed, failed or were not run, and which failed."""

    __test__ = False

    runner: str
    """The name of its reader; "several" if there is more than one."""
    passed: int
    failed: int
    """Errors are failures, and so is a run that did not finish."""
    skipped: int = 0
    """What was not run: skipped, to do, expected to fail, ignored, deselected."""
    failures: tuple[str, ...] = ()
    """The names of failed tests in order, each once, the first 200."""
    first_errors: Mapping[str, str] = field(default_factory=dict)
    """For a failed test, the first line of its error, if there is one."""
    untold: int = 0
    """Packages that do not report how many tests they have; one that passed counts as a test."""

    @property
    def run(self) -> int:
        return self.passed + self.failed

    @property
    def unit(self) -> str:
        """What is counted: tests, or packages if nothing else is known."""
        return "package" if self.run and self.run == self.untold else "test"

    def naming(self, failures: Failures) -> "TestCounts":
        """Return the same numbers with the failed tests, if there are any."""
        ran = (self.passed, self.failed, self.skipped)
        return counts_of(self.runner, ran, failures if self.failed else ())


def lines_of(output: str) -> list[str]:
    """Return the lines of an output without colors and control characters.

    What a carriage return would overwrite is a line of its own: nothing can hide behind it.
    """
    plain = ESCAPE_PATTERN.sub("", output).replace("\r\n", "\n").replace("\r", "\n")
    lines = re.sub(r"\n{4,}", "\n\n\n", re.sub(f"[{CONTROLS}]", "", plain)).split("\n")
    return [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines]


def counts_of(runner: str, ran: tuple[int, int, int], errors: Failures = ()) -> TestCounts:
    """Join numbers (passed, failed, skipped) with the failed tests and their errors."""

    def tidy(text: str) -> str:
        printable = "".join(c if c.isprintable() else " " for c in text[:LONGEST_LINE])
        return printable.strip()[:LONGEST_NAME].rstrip()

    first: dict[str, str] = {}
    for name, error in errors:
        key = tidy(name)
        if key and (key in first or len(first) < MOST_NAMES):
            first[key] = first.get(key) or tidy(error)
    return TestCounts(
        runner, *ran, tuple(first), {name: said for name, said in first.items() if said}
    )


def add_counts(parts: Iterable[TestCounts]) -> TestCounts:
    """Add the counts of several runs. Several runners together are called "several".

    >>> add_counts([TestCounts("pytest", 2, 0), TestCounts("jest", 1, 1)]).run
    4
    """
    known = list(parts)
    runners = {part.runner for part in known}
    added = counts_of(
        runners.pop() if len(runners) == 1 else "several",
        (
            sum(part.passed for part in known),
            sum(part.failed for part in known),
            sum(part.skipped for part in known),
        ),
        [(name, part.first_errors.get(name, "")) for part in known for name in part.failures],
    )
    return replace(added, untold=sum(part.untold for part in known))


def unfinished(runner: str, passed: int = 0, failed: int = 0) -> TestCounts:
    """Return the counts of a run that began and printed no summary: it has failed."""
    return counts_of(runner, (passed, failed + 1, 0), [(f"{runner} did not finish", "")])


def chosen(summaries: Sequence[TestCounts]) -> TestCounts:
    """Return the summary of a run that counts: the last that failed, or else the last."""
    return next((one for one in reversed(summaries) if one.failed), summaries[-1])


def believed(claims: Sequence[tuple[TestCounts, int]]) -> list[TestCounts]:
    """Return the summaries that are runs of their own, where nothing marks where a run begins.

    Each comes with the number of tests that were seen to run before it. A success that claims more
    tests than were seen is not a run when another summary follows: the program under test may have
    printed it.
    """
    return [
        counts
        for number, (counts, seen) in enumerate(claims, 1)
        if counts.failed or number == len(claims) or counts.run <= seen
    ]


def matches(pattern: re.Pattern[str], lines: Sequence[str]) -> list[tuple[int, re.Match[str]]]:
    """Return the lines that match as a whole, each with its number."""
    found = ((number, pattern.fullmatch(line)) for number, line in enumerate(lines))
    return [(number, match) for number, match in found if match]


def text_below(lines: Sequence[str], number: int, most: int) -> str:
    """Return the first line with text among the next few."""
    return next((line for line in lines[number + 1 : number + most] if line.strip()), "")


def number_of(count: int, word: str) -> str:
    """Return how many there are of something.

    >>> number_of(1, "test"), number_of(2, "test")
    ('1 test', '2 tests')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


class _Junit:
    """Counts the test cases of JUnit XML; the numbers in the attributes of a suite are ignored."""

    FAILED = ("failure", "error")

    def __init__(self) -> None:
        self.passed = self.skipped = 0
        self.errors: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.case = self.result = self.message = ""

    def refuse(self, *_: object) -> None:
        raise ValueError

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        is_other = not self.open and name not in {"testsuites", "testsuite"}
        if is_other or len(self.open) == DEEPEST_XML:
            raise ValueError
        self.open.append(name)
        if name == "testcase":
            parts = (attributes.get("classname", ""), attributes.get("name", ""))
            self.case, self.result = ".".join(filter(None, parts)), ""
        elif name in self.FAILED and self.result != "failed":
            self.result, self.message = "failed", attributes.get("message", "")
        elif name == "skipped" and not self.result:
            self.result = "skipped"

    def text(self, text: str) -> None:
        if self.open[-1] in self.FAILED and not self.message.strip():
            self.message = text[:LONGEST_LINE]

    def end(self, tag: str) -> None:
        name = self.open.pop()
        # A suite can have an error of its own, outside of any test case.
        if name != "testcase" and (name not in self.FAILED or "testcase" in self.open):
            return
        if self.result == "failed":
            error = self.message.strip().partition("\n")[0]
            self.errors.append((self.case or "a test without a name", error))
        elif self.result == "skipped":
            self.skipped += 1
        else:
            self.passed += 1
        self.case = self.result = self.message = ""


def read_junit(xml: str) -> TestCounts | None:
    """Return the counts of JUnit XML; None if it is not well formed, too long or something else."""
    if len(xml) > LARGEST_XML:
        return None
    found, parser = _Junit(), expat.ParserCreate("utf-8")
    parser.buffer_text = True
    # It could define entities that grow without end.
    parser.StartDoctypeDeclHandler = found.refuse
    parser.StartElementHandler = found.start
    parser.EndElementHandler = found.end
    parser.CharacterDataHandler = found.text
    try:
        parser.Parse(xml.lstrip("\ufeff \t\r\n").encode("utf-8", "replace"), True)
    except (expat.ExpatError, ValueError):
        return None
    return counts_of("junit", (found.passed, len(found.errors), found.skipped), found.errors)
