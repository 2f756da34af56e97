"""Reads what pytest prints.

A run begins with `test session starts`; with `-q` it has no beginning, and a second one shows
only by its progress starting again. Its summary is framed by `=`, with `-q` it is not. With `-qq`
there is none: then the letters of the progress are counted.
"""

import re
from collections.abc import Iterator, Sequence

from .tally import Claim, TestCounts, believed, chosen, counts_of, unfinished

PYTEST = "pytest"
HEADER = " test session starts "
REASONS = " short test summary info "
# "1 failed, 2 passed in 0.12s", "3 passed in 61.20s (0:01:01)", "no tests ran in 0.01s"
SUMMARY_PATTERN = re.compile(r"([a-z0-9,/() ]{1,200}) in \d{1,9}\.\d\ds(?: \([\w:, ]{1,40}\))?")
# "12 failed", "1 error", "2 subtests passed"
ITEM_PATTERN = re.compile(r"(\d{1,9}|no) ([a-z ]+)")
# "..F.s  [ 66%]", "tests/test_a.py ..F.  [100%]", "tests/test_a.py .."
LETTERS_PATTERN = re.compile(r"(?:\S+ )?([.FEsxXRu,]+)(?: *\[ *\d{1,3}%\])?")
PERCENT_PATTERN = re.compile(r"\[ *(\d{1,3})%\]$")
# "test_a.py::test_b PASSED   [ 33%]"
VERBOSE_PATTERN = re.compile(r" (PASSED|XPASS|FAILED|ERROR)\b")
# "____ TestGroup.test_inside ____", "____ ERROR at setup of test_fixture ____"
TITLE_PATTERN = re.compile(r"_{2,} (?:ERROR (?:at \w+ of|collecting) )?(\S.*?) _{2,}")
# "!!!!! Interrupted: 1 error during collection !!!!!", "!!!!! KeyboardInterrupt !!!!!"
BANNER_PATTERN = re.compile(r"!{3,} (.*[^! ]) !{3,}")
FAILED_LETTERS = "FEu"

KINDS = {
    "passed": 0,
    "xpassed": 0,
    "failed": 1,
    "error": 1,
    "errors": 1,
    "subtests failed": 1,
    "skipped": 2,
    "xfailed": 2,
    "deselected": 2,
    "tests ran": None,
    "tests collected": None,
    "test collected": None,
}


def read_pytest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of pytest."""
    found = [(run, counts) for run in _runs(lines) if (counts := _read_run(run)) is not None]
    if len(found) > 1 and not found[0][1].failed and not _is_shown(found[0][0]):
        # The program under test may have printed it: no test was seen to be run.
        del found[0]
    return [counts for _, counts in found]


def _runs(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each run; those before the first header can be one without a header."""
    start, complete, summed_up = 0, False, False
    for number, line in enumerate(lines):
        percent = _percent(line)
        if (HEADER in line and line.startswith("==")) or (percent and summed_up):
            yield lines[start:number]
            start, complete, summed_up = number, False, False
        complete = complete or percent == "100"
        summed_up = complete and (summed_up or _numbers(line) is not None)
    yield lines[start:]


def _is_shown(lines: Sequence[str]) -> bool:
    """Does a run show its beginning or its progress?"""
    return any(HEADER in line or _percent(line) for line in lines)


def _read_run(lines: Sequence[str]) -> TestCounts | None:
    headed = bool(lines) and HEADER in lines[0]
    found = [(n, line, ran) for n, line in enumerate(lines) if (ran := _numbers(line)) is not None]
    framed = [n for n, line, _ in found if line.startswith("=")]
    if headed and framed:
        found = [entry for entry in found if entry[0] >= framed[0]]
    if not found or (headed and not framed and not any(ran[1] for _, _, ran in found)):
        return _unsummed(lines, headed)
    counts = chosen([counts_of(PYTEST, ran) for _, _, ran in found])
    ran = (counts.passed, counts.failed, counts.skipped)
    if not counts.failed and _is_contradicted(lines):
        return _unsummed(lines, headed)
    if not counts.failed:
        banner = next((m for line in lines if (m := _banner(line))), None)
        return counts_of(PYTEST, (ran[0], 1, ran[2]), [(banner, "")]) if banner else counts
    return counts_of(PYTEST, ran, _failures(lines))


def _numbers(line: str) -> tuple[int, int, int] | None:
    """Return what a summary counts: passed, failed, skipped."""
    if " in " not in line:
        return None
    match = SUMMARY_PATTERN.fullmatch(line.strip("=").strip() if line[:1] == "=" else line)
    if match is None:
        return None
    ran, known = [0, 0, 0], False
    for item in match[1].split(", "):
        words = ITEM_PATTERN.fullmatch(item.partition("/")[0])
        if words and words[2] in KINDS:
            known = True
            kind = KINDS[words[2]]
            if kind is not None:
                ran[kind] += int(words[1])
    return (ran[0], ran[1], ran[2]) if known else None


def _percent(line: str) -> str:
    """Return how far a line of progress says the run is, in percent; nothing if it is none."""
    match = PERCENT_PATTERN.search(line)
    return match[1] if match else ""


def _unsummed(lines: Sequence[str], headed: bool) -> TestCounts | None:
    """Return the counts of a run without a summary by its progress, if it is one."""
    marks, last = _progress(lines, headed)
    passed = marks.count(".") + marks.count("X")
    failed = sum(marks.count(letter) for letter in FAILED_LETTERS)
    if headed or (marks and last != "100"):
        return unfinished(PYTEST, passed, failed)
    if not marks:
        return None
    failures = _failures(lines)
    ran = (passed, max(failed, len(failures)), marks.count("s") + marks.count("x"))
    return counts_of(PYTEST, ran, failures)


def _progress(lines: Sequence[str], headed: bool) -> tuple[str, str]:
    """Return the letters of all tests that ended, and the last percentage.

    Only a run with a header can be known by lines without a percentage.
    """
    marks, last = "", ""
    for line in lines:
        percent = _percent(line)
        if not headed and not percent:
            continue
        match = LETTERS_PATTERN.fullmatch(line.rstrip())
        if match:
            marks += match[1]
        elif "::" in line and (verbose := VERBOSE_PATTERN.search(line)):
            marks += "." if "PASS" in verbose.group() else "F"
        else:
            continue
        last = percent or last
    return marks, last


def _is_contradicted(lines: Sequence[str]) -> bool:
    """Does the progress tell of a failure, or stop before the end?"""
    marks, last = _progress(lines, headed=False)
    return any(letter in marks for letter in FAILED_LETTERS) or last not in {"", "100"}


def _banner(line: str) -> str:
    match = BANNER_PATTERN.fullmatch(line)
    return match[1] if match else ""


def _failures(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the failed tests of a run, each with what is wrong."""
    sections = _sections(lines)
    start = max((n for n, line in enumerate(lines) if REASONS in line), default=len(lines))
    named = [entry for line in lines[start:] if (entry := _named(line))]
    if not named:
        return list(sections.items())
    return [(name, sections.get(_title(name)) or reason) for name, reason in named]


def _sections(lines: Sequence[str]) -> dict[str, str]:
    """Return the title of each failure that is shown at length, with its first error."""
    errors: dict[str, str] = {}
    title, inside = "", False
    for line in lines:
        if line.startswith("==="):
            inside = line.strip("= ") in {"FAILURES", "ERRORS"}
            title = ""
        elif inside and (match := TITLE_PATTERN.fullmatch(line)):
            title = match[1]
            errors.setdefault(title, "")
        elif title and not errors[title] and line.startswith("E  "):
            errors[title] = line.removeprefix("E")
    return errors


def _named(line: str) -> tuple[str, str] | None:
    """Return the test and the reason of a line such as `FAILED test_a.py::test_b - error`."""
    word, _, rest = line.partition(" ")
    if word in {"FAILED", "ERROR"}:
        # The name of a test with parameters can have a " - " in its brackets.
        name, end, reason = rest.partition("] - ")
        if end and "[" in rest.partition(" - ")[0]:
            return f"{name}]", reason
        name, _, reason = rest.partition(" - ")
        return name, reason
    if word.startswith("SUBFAIL") and "::" in line:
        start = line.rfind(" ", 0, line.index("::")) + 1
        name, _, reason = line[start:].partition(" - ")
        part = line[:start].removeprefix("SUBFAILED").removeprefix("SUBFAIL").strip()
        return f"{name} {part}", reason
    return None


def _title(name: str) -> str:
    """Return the title under which a test is shown: `test_a.py::A::b` as `A.b`."""
    _, colons, inside = name.partition("::")
    return inside.replace("::", ".") if colons else name


UNITTEST = "unittest"
RULE, DOUBLE_RULE = "-" * 70, "=" * 70
RAN_PATTERN = re.compile(r"Ran (\d{1,9}) tests? in \d{1,9}\.\d{1,9}s")
RESULT_WITHIN = 4
"""In how many lines from that one on the result stands."""
# "OK", "OK (skipped=1)", "FAILED (failures=1, unexpected successes=2)", "NO TESTS RAN"
RESULT_PATTERN = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(([a-z0-9=, ]+)\))?")
# "failures=1"
ITEM_PATTERN_UNITTEST = re.compile(r"([a-z ]+)=(\d{1,9})")
LETTERS_PATTERN_UNITTEST = re.compile(r"[.FEsxu]+")
# "test_a (test_file.Group.test_a) ... ok"
VERBOSE_PATTERN_UNITTEST = re.compile(
    r"ok|FAIL|ERROR|skipped .*|expected failure|unexpected success"
)
# "test_a (test_file.Group.test_a) ..."
TEST_PATTERN = re.compile(r"\w+ \([\w.]+\) \.\.\. ")
# "FAIL: test_a (test_file.Group.test_a) (i=1)"
TITLE_PATTERN_UNITTEST = re.compile(r"(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")
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
        failures = _failures_unittest(lines[start:number]) if result["failed"] else []
        claims.append(Claim(_read_run_unittest(int(ran[1]), result, failures), seen))
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
    items = [ITEM_PATTERN_UNITTEST.fullmatch(item) for item in (match[2] or "").split(", ")]
    numbers = {item[1]: int(item[2]) for item in items if item}
    return numbers | {"failed": int(match[1] == "FAILED")}


def _read_run_unittest(
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


def _failures_unittest(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return kind, name and first error of all that failed."""
    found: list[tuple[str, str, str]] = []
    after_rule = False
    for number, line in enumerate(lines):
        title = TITLE_PATTERN_UNITTEST.fullmatch(line) if after_rule else None
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
    return bool(dots) and VERBOSE_PATTERN_UNITTEST.fullmatch(result) is not None


def _marks(line: str) -> int:
    """Return of how many tests a line shows the end."""
    return len(line) if LETTERS_PATTERN_UNITTEST.fullmatch(line) else int(_is_verbose(line))
