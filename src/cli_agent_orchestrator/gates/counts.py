"""How many tests passed and failed, and which: one shape for all test runners.

A reader gets the lines of an output and returns the counts of each run that it finds. Where one
run has several summaries, because the program under test prints one too, the last that reports a
failure counts, or else the last of all. A run that began and printed no summary has failed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree

from ..core.text import CONTROLS

LONGEST_NAME = 300
MOST_NAMES = 200
LONGEST_LINE = 2000
"""Longer than any line that a runner itself writes; the rest of a line is ignored."""
LARGEST_XML = 16_000_000
# Colors, titles of windows, movements of the cursor. None reaches beyond its line.
ESCAPE_PATTERN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])"
)

Failures = Sequence[tuple[str, str]]
"""Failed tests, each with the first line of its error."""


@dataclass(frozen=True, slots=True)
class TestCounts:
    __test__ = False

    runner: str
    """The name of its reader; "several" if there is more than one."""
    passed: int
    failed: int
    """Errors are failures, and so is a run that did not finish."""
    skipped: int = 0
    """What was not run: skipped, to do, expected to fail, ignored, deselected."""
    failures: tuple[str, ...] = ()
    first_errors: Mapping[str, str] = field(default_factory=dict)
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
    found = ((number, pattern.fullmatch(line)) for number, line in enumerate(lines))
    return [(number, match) for number, match in found if match]


def text_below(lines: Sequence[str], number: int, most: int) -> str:
    return next((line for line in lines[number + 1 : number + most] if line.strip()), "")


class _Builder(ElementTree.TreeBuilder):
    """Refuses a document type: it could define entities that grow without end."""

    def doctype(self, *_: object) -> None:
        raise ValueError


def read_junit(xml: str) -> TestCounts | None:
    """Return the counts of JUnit XML; None if it is not well formed, too long or something else.

    The test cases are counted; the numbers in the attributes of a suite are ignored.
    """
    if len(xml) > LARGEST_XML:
        return None
    parser = ElementTree.XMLParser(target=_Builder(), encoding="utf-8")
    try:
        parser.feed(xml.lstrip("\ufeff \t\r\n").encode("utf-8", "replace"))
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, ValueError):
        return None
    if _tag(root) not in {"testsuite", "testsuites"}:
        return None
    passed = skipped = 0
    errors = []
    for element in root.iter():
        failed = [child for child in element if _tag(child) in {"failure", "error"}]
        is_case = _tag(element) == "testcase"
        if is_case and not failed:
            is_skipped = any(_tag(child) == "skipped" for child in element)
            skipped, passed = skipped + is_skipped, passed + (not is_skipped)
        # A suite can have an error of its own, outside of any test case.
        for child in failed[:1] if is_case else failed:
            parts = (element.get("classname"), element.get("name")) if is_case else ()
            said = (child.get("message") or "").strip() or (child.text or "").strip()
            name = ".".join(filter(None, parts)) or "a test without a name"
            errors.append((name, said.partition("\n")[0]))
    return counts_of("junit", (passed, len(errors), skipped), errors)


def _tag(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace: `{uri}testcase`, `ns:testcase`."""
    return element.tag.rpartition("}")[2].rpartition(":")[2]
