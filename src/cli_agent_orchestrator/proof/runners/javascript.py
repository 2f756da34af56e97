"""Reads what Jest and Vitest print: a line of test files, a line of tests, and more after it.

    Test Suites: 1 failed, 1 passed, 2 total          Test Files  1 failed | 1 passed (2)
    Tests:       4 failed, 1 todo, 3 passed, 8 total        Tests  2 failed | 4 passed (6)

A run of Jest ends with `Ran all test suites`, one of Vitest begins with `RUN  v3.2.7`. A file that
could not be loaded is a failure, and so is an error that no test caught.
"""

import re
from collections.abc import Sequence

from .tally import Claim, TestCounts, believed, chosen, counts_of, unfinished

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
