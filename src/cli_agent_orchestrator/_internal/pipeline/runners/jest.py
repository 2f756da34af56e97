"""Reads what Jest and Vitest print: a line of test files, a line of tests, and more after it.

    Test Suites: 1 failed, 1 passed, 2 total          Test Files  1 failed | 1 passed (2)
    Tests:       4 failed, 1 todo, 3 passed, 8 total        Tests  2 failed | 4 passed (6)

A run of Jest ends with `Ran all test suites`, one of Vitest begins with `RUN  v3.2.7`. A file that
could not be loaded is a failure, and so is an error that no test caught.
"""

import re
from collections.abc import Sequence

from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    TestCounts,
    chosen,
    counts_of,
    unfinished,
)

JEST, VITEST = "jest", "vitest"
FILES_PATTERN = re.compile(r"Test Suites: +\d.*|\s*Test Files  \d.*")
TESTS_PATTERN = re.compile(r"(?:Tests: +|\s*Tests  )(?:\d.*|no tests)")
ITEM_PATTERN = re.compile(r"(\d{1,9}) (failed|passed|skipped|todo|pending|expected fail)\b")
# " RUN  v3.2.7 /project"
START_PATTERN = re.compile(r"\s*(?:RUN|DEV)  v\d\S* .*")
# "     Errors  1 error"
ERRORS_PATTERN = re.compile(r"\s*Errors  (\d{1,9}) errors?")
# "⎯⎯⎯ Failed Suites 1 ⎯⎯⎯"
LOST_PATTERN = re.compile(r"⎯+ Failed Suites (\d{1,9}) ⎯+")
# "⎯⎯⎯⎯ Unhandled Rejection ⎯⎯⎯⎯⎯"
UNHANDLED_PATTERN = re.compile(r"⎯+ (?:Unhandled Rejection|Uncaught Exception) ⎯")
# "FAIL api ./cart.test.js (5.2 s)"
FILE_PATTERN = re.compile(r" ?FAIL +(.+?)(?: \([\d.]+ m?s\))?")
NO_TESTS = ("No tests found, exiting with code", "No test files found, exiting with code")
LOST = "Test suite failed to run"
EXIT = "●  process.exit called with"
MOST_LINES = 20
"""How far below its title the error of a failure is looked for."""
KINDS = {"passed": 0, "failed": 1, "skipped": 2, "todo": 2, "pending": 2, "expected fail": 0}


def read_jest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Jest."""
    found: list[TestCounts] = []
    start = 0
    for number, line in enumerate(lines):
        if line.startswith("Ran all test suites"):
            found += _read_jest_run(lines[start:number])
            start = number
    found += _read_jest_run(lines[start:])
    return found


def read_vitest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Vitest."""
    starts = [n for n, line in enumerate(lines) if START_PATTERN.fullmatch(line)]
    ends = [*starts, len(lines)]
    runs = [lines[start:end] for start, end in zip([0, *starts], ends, strict=True)]
    found = [(run, counts) for run in runs if (counts := _read_vitest_run(run)) is not None]
    if len(found) > 1 and not found[0][1].failed and not START_PATTERN.fullmatch(found[0][0][0]):
        # The program under test may have printed it: a run says that it begins.
        del found[0]
    return [counts for _, counts in found]


def _read_jest_run(lines: Sequence[str]) -> list[TestCounts]:
    failures = _jest_failures(lines)
    lost = len({name for name, _ in failures if name.endswith(LOST)})
    found = _summaries(lines, JEST, lost)
    if any(EXIT in line for line in lines) and not any(counts.failed for counts in found):
        return [unfinished(JEST)]
    if found:
        return [_named(chosen(found), failures)]
    if any(line.startswith(NO_TESTS[0]) for line in lines):
        return [TestCounts(JEST, 0, 0)]
    return []


def _read_vitest_run(lines: Sequence[str]) -> TestCounts | None:
    lost = max((int(m[1]) for line in lines if (m := LOST_PATTERN.fullmatch(line))), default=0)
    found = _summaries(lines, VITEST, lost)
    if not found:
        if any(line.startswith(NO_TESTS[1]) for line in lines):
            return TestCounts(VITEST, 0, 0)
        return unfinished(VITEST) if lines and START_PATTERN.fullmatch(lines[0]) else None
    errors = max((int(m[1]) for line in lines if (m := ERRORS_PATTERN.fullmatch(line))), default=0)
    failures = _vitest_failures(lines)
    if errors:
        failures.append(("an error outside of the tests", _unhandled(lines)))
    return _named(chosen(found), failures, errors)


def _summaries(lines: Sequence[str], runner: str, lost: int) -> list[TestCounts]:
    """Return what each line of tests says that follows a line of files.

    Files that could not be loaded have failed, as have those that failed without a failed test.
    """
    word = "Tests:" if runner == JEST else "Tests  "
    found: list[TestCounts] = []
    files = ""
    for line in lines:
        if word in line and files and TESTS_PATTERN.fullmatch(line):
            passed, failed, skipped = _numbers(line)
            _, files_failed, _ = _numbers(files)
            failed = failed + lost if failed else max(lost, files_failed)
            found.append(TestCounts(runner, passed, failed, skipped))
        files = line if FILES_PATTERN.fullmatch(line) else ""
    return found


def _numbers(text: str) -> tuple[int, int, int]:
    ran = [0, 0, 0]
    for number, word in ITEM_PATTERN.findall(text):
        ran[KINDS[word]] += int(number)
    return ran[0], ran[1], ran[2]


def _named(counts: TestCounts, failures: Sequence[tuple[str, str]], others: int = 0) -> TestCounts:
    """Return counts with the names of what failed, and with failures that are no test's own."""
    ran = (counts.passed, counts.failed + others, counts.skipped)
    return counts_of(counts.runner, ran, failures if ran[1] else ())


def _jest_failures(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tests under `●`, each with its file and its first error."""
    found: list[tuple[str, str]] = []
    file = ""
    for number, line in enumerate(lines):
        if match := FILE_PATTERN.fullmatch(line):
            file = match[1].rpartition(" ")[2]
        elif line.startswith("  ● ") and file and line[4:] != "Console":
            found.append((f"{file} › {line[4:].strip()}", _next_text(lines, number)))
    return found


def _vitest_failures(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tests after ` FAIL  `, each with its first error."""
    return [
        (line.removeprefix(" FAIL  ").partition(" [ ")[0], _next_text(lines, number))
        for number, line in enumerate(lines)
        if line.startswith(" FAIL  ")
    ]


def _unhandled(lines: Sequence[str]) -> str:
    starts = (n for n, line in enumerate(lines) if UNHANDLED_PATTERN.match(line))
    return next((_next_text(lines, start) for start in starts), "")


def _next_text(lines: Sequence[str], number: int) -> str:
    return next((line for line in lines[number + 1 : number + MOST_LINES] if line.strip()), "")
