"""Reads what Python's unittest prints: `Ran 3 tests in 0.1s`, and `OK` or `FAILED (errors=1)`."""

import re
from collections.abc import Sequence

from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    Claim,
    TestCounts,
    believed,
    counts_of,
    unfinished,
)

UNITTEST = "unittest"
RULE, DOUBLE_RULE = "-" * 70, "=" * 70
RAN_PATTERN = re.compile(r"Ran (\d{1,9}) tests? in \d{1,9}\.\d{1,9}s")
RESULT_WITHIN = 4
"""In how many lines from that one on the result stands."""
# "OK", "OK (skipped=1)", "FAILED (failures=1, unexpected successes=2)", "NO TESTS RAN"
RESULT_PATTERN = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(([a-z0-9=, ]+)\))?")
# "failures=1"
ITEM_PATTERN = re.compile(r"([a-z ]+)=(\d{1,9})")
LETTERS_PATTERN = re.compile(r"[.FEsxu]+")
# "test_a (test_file.Group.test_a) ... ok"
VERBOSE_PATTERN = re.compile(r"ok|FAIL|ERROR|skipped .*|expected failure|unexpected success")
# "test_a (test_file.Group.test_a) ..."
TEST_PATTERN = re.compile(r"\w+ \([\w.]+\) \.\.\. ")
# "FAIL: test_a (test_file.Group.test_a) (i=1)"
TITLE_PATTERN = re.compile(r"(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")
MOST_LINES = 200
"""How many lines of a failure are looked at for its error."""
# of a class or a module: no test that was counted
FIXTURES = ("setUpClass (", "tearDownClass (", "setUpModule (", "tearDownModule (")


def read_unittest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of unittest."""
    claims: list[Claim] = []
    start, seen = 0, 0
    for number, line in enumerate(lines):
        seen += _marks(line)
        ran = RAN_PATTERN.fullmatch(line)
        result = _result(lines[number : number + RESULT_WITHIN]) if ran else None
        if ran is None or result is None:
            continue
        failures = _failures(lines[start:number]) if result["failed"] else []
        claims.append(Claim(_read_run(int(ran[1]), result, failures), seen))
        if claims[-1].counts.failed or claims[-1].counts.run <= seen:
            start, seen = number, 0
    if not claims and (verbose := [line for line in lines if _is_test(line)]):
        return [unfinished(UNITTEST, sum(line.endswith(" ok") for line in verbose))]
    return believed(claims)


def _result(lines: Sequence[str]) -> dict[str, int] | None:
    """Return the numbers after `OK` or `FAILED`."""
    match = next((m for line in lines if (m := RESULT_PATTERN.fullmatch(line))), None)
    if match is None:
        return None
    items = [ITEM_PATTERN.fullmatch(item) for item in (match[2] or "").split(", ")]
    numbers = {item[1]: int(item[2]) for item in items if item}
    return numbers | {"failed": int(match[1] == "FAILED")}


def _read_run(
    ran: int, result: dict[str, int], failures: Sequence[tuple[str, str, str]]
) -> TestCounts:
    unexpected = result.get("unexpected successes", 0)
    failed = result.get("failures", 0) + result.get("errors", 0) + unexpected
    skipped = result.get("skipped", 0) + result.get("expected failures", 0)
    # Parts of one test can fail each for itself: the test is one that did not pass.
    tests = {
        _without_part(name)
        for kind, name, _ in failures
        if kind != "UNEXPECTED SUCCESS" and not name.startswith(FIXTURES)
    }
    fixtures = sum(name.startswith(FIXTURES) for _, name, _ in failures)
    not_passed = len(tests) + unexpected if tests else max(failed - fixtures, 0)
    numbers = (max(ran - not_passed - skipped, 0), max(failed, result["failed"]), skipped)
    return counts_of(UNITTEST, numbers, [(name, error) for _, name, error in failures])


def _failures(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return kind, name and first error of all that failed."""
    found: list[tuple[str, str, str]] = []
    after_rule = False
    for number, line in enumerate(lines):
        title = TITLE_PATTERN.fullmatch(line) if after_rule else None
        if title:
            found.append((line.partition(":")[0], title[1], _first_error(lines, number)))
        after_rule = line == DOUBLE_RULE
    return found


def _first_error(lines: Sequence[str], start: int) -> str:
    """Return the first line of a block that is an error and no line of a traceback."""
    below = False
    for line in lines[start : start + MOST_LINES]:
        if line == DOUBLE_RULE:
            break
        if below and line.strip() and not line.startswith((" ", "Traceback (")):
            return line
        below = below or line == RULE
    return ""


def _without_part(name: str) -> str:
    """Return the name of a test without the part of it: `test_a (Group.test_a) (i=1)`."""
    head, bracket, _ = name.partition(")")
    return head + bracket


def _is_test(line: str) -> bool:
    """Is this a line of a test with the name of its class?"""
    return _is_verbose(line) and TEST_PATTERN.match(line) is not None


def _is_verbose(line: str) -> bool:
    """Is this a line such as `test_a (test_file.Group.test_a) ... ok`?"""
    _, dots, result = line.partition(" ... ")
    return bool(dots) and VERBOSE_PATTERN.fullmatch(result) is not None


def _marks(line: str) -> int:
    """Return of how many tests a line shows the end."""
    return len(line) if LETTERS_PATTERN.fullmatch(line) else int(_is_verbose(line))
