"""What a test runner reports in its output: how many tests passed and failed, and which.

The output is not trusted: the program under test writes into it too. It can claim more passed tests
than there are, but no failure that a runner reported is lost, whatever comes before or after it.
The caller must therefore look at the exit code as well, and compare the number of tests with the
number before.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .counts import (
    LONGEST_LINE,
    Failures,
    TestCounts,
    add_counts,
    believed,
    chosen,
    counts_of,
    lines_of,
    matches,
    read_junit,
    unfinished,
)
from .script_runners import read_jest, read_mocha, read_node_spec, read_tap, read_vitest


def read_counts(output: str) -> TestCounts | None:
    """Return what the known test runners report in an output; None if there is none of them.

    The summaries of several runs are added: of packages, of targets, of one runner after another.
    """
    if output[:LONGEST_LINE].lstrip("\ufeff \t\r\n").startswith(("<?xml", "<testsuite")):
        return read_junit(output)
    lines = lines_of(output)
    parts = [counts for read in READERS for counts in read(lines)]
    return add_counts(parts) if parts else None


# pytest. A run begins with `test session starts`; with `-q` it has no beginning, and a second one
# shows only by its progress starting again. Its summary is framed by `=`, with `-q` it is not. With
# `-qq` there is none: then the letters of the progress are counted.
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
KINDS = {
    **dict.fromkeys(("passed", "xpassed"), 0),
    **dict.fromkeys(("failed", "error", "errors", "subtests failed"), 1),
    **dict.fromkeys(("skipped", "xfailed", "deselected"), 2),
    **dict.fromkeys(("tests ran", "tests collected", "test collected"), None),
}


def read_pytest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of pytest."""
    found = [(run, counts) for run in _pytest_runs(lines) if (counts := _read_pytest_run(run))]
    run, first = found[0] if len(found) > 1 else ((), None)
    is_shown = any(HEADER in line or PERCENT_PATTERN.search(line) for line in run)
    if first and not first.failed and not is_shown:
        # The program under test may have printed it: no test was seen to run.
        del found[0]
    return [counts for _, counts in found]


def _pytest_runs(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each run; those before the first header can be one without a header."""
    start, complete, summed_up = 0, False, False
    for number, line in enumerate(lines):
        percent = PERCENT_PATTERN.search(line)
        if (HEADER in line and line.startswith("==")) or (percent and summed_up):
            yield lines[start:number]
            start, complete, summed_up = number, False, False
        complete = complete or (percent is not None and percent[1] == "100")
        summed_up = complete and (summed_up or _pytest_summary(line) is not None)
    yield lines[start:]


def _read_pytest_run(lines: Sequence[str]) -> TestCounts | None:
    headed = bool(lines) and HEADER in lines[0]
    summaries = [(line, counts) for line in lines if (counts := _pytest_summary(line))]
    framed = [n for n, (line, _) in enumerate(summaries) if line.startswith("=")]
    found = [counts for _, counts in summaries[framed[0] if headed and framed else 0 :]]
    if found and (not headed or framed or any(counts.failed for counts in found)):
        counts = chosen(found)
        if counts.failed:
            return counts.naming(_pytest_failures(lines))
        marks, last = _pytest_progress(lines, headed=False)
        if not set("FEu") & set(marks) and last in {"", "100"}:
            banner = next((match[1] for _, match in matches(BANNER_PATTERN, lines)), "")
            return replace(counts, failed=1).naming([(banner, "")]) if banner else counts
    # Without a summary, or where the progress contradicts it, the progress counts.
    marks, last = _pytest_progress(lines, headed)
    passed = marks.count(".") + marks.count("X")
    failed = sum(marks.count(letter) for letter in "FEu")
    if headed or (marks and last != "100"):
        return unfinished("pytest", passed, failed)
    if not marks:
        return None
    failures = _pytest_failures(lines)
    ran = (passed, max(failed, len(failures)), marks.count("s") + marks.count("x"))
    return counts_of("pytest", ran, failures)


def _pytest_summary(line: str) -> TestCounts | None:
    if " in " not in line:
        return None
    match = SUMMARY_PATTERN.fullmatch(line.strip("=").strip() if line[:1] == "=" else line)
    items = match[1].split(", ") if match else []
    words = [ITEM_PATTERN.fullmatch(item.partition("/")[0]) for item in items]
    known = [(KINDS[word[2]], word[1]) for word in words if word and word[2] in KINDS]
    ran = [0, 0, 0]
    for kind, number in known:
        if kind is not None:
            ran[kind] += int(number)
    return TestCounts("pytest", ran[0], ran[1], ran[2]) if known else None


def _pytest_progress(lines: Sequence[str], headed: bool) -> tuple[str, str]:
    """Return the letters of all tests that ended, and the last percentage.

    Only a run with a header can be known by lines without a percentage.
    """
    marks, last = [], ""
    for line in lines:
        percent = PERCENT_PATTERN.search(line)
        if not headed and not percent:
            continue
        if match := LETTERS_PATTERN.fullmatch(line.rstrip()):
            marks.append(match[1])
        elif "::" in line and (verbose := VERBOSE_PATTERN.search(line)):
            marks.append("." if "PASS" in verbose[1] else "F")
        else:
            continue
        last = percent[1] if percent else last
    return "".join(marks), last


def _pytest_failures(lines: Sequence[str]) -> Failures:
    """Return the failed tests of a run, each with its error: as shown at length, or the reason."""
    errors: dict[str, str] = {}
    title, inside = "", False
    for line in lines:
        if line.startswith("==="):
            title, inside = "", line.strip("= ") in {"FAILURES", "ERRORS"}
        elif inside and (match := TITLE_PATTERN.fullmatch(line)):
            title = match[1]
            errors.setdefault(title, "")
        elif title and not errors[title] and line.startswith("E  "):
            errors[title] = line.removeprefix("E")
    start = max((n for n, line in enumerate(lines) if REASONS in line), default=len(lines))
    named = []
    for line in lines[start:]:
        word, _, rest = line.partition(" ")
        if word in {"FAILED", "ERROR"}:
            # "FAILED a.py::b[1 - 2] - error": a parameter can have a " - ", too.
            has_brackets = "[" in rest.partition(" - ")[0] and "] - " in rest
            name, _, reason = rest.partition("] - " if has_brackets else " - ")
            name += "]" if has_brackets else ""
        elif word.startswith("SUBFAIL") and "::" in line:
            # "SUBFAILED(i=1) a.py::b - error"
            at = line.rfind(" ", 0, line.index("::")) + 1
            name, _, reason = line[at:].partition(" - ")
            name += f" {line[:at].removeprefix('SUBFAILED').removeprefix('SUBFAIL').strip()}"
        else:
            continue
        # "a.py::A::b" is shown under the title "A.b"
        shown = name.partition("::")[2].replace("::", ".") or name
        named.append((name, errors.get(shown) or reason))
    return named or list(errors.items())


RULE, DOUBLE_RULE = "-" * 70, "=" * 70
RAN_PATTERN = re.compile(r"Ran (\d{1,9}) tests? in \d{1,9}\.\d{1,9}s")
# "OK", "OK (skipped=1)", "FAILED (failures=1, unexpected successes=2)", "NO TESTS RAN"
RESULT_PATTERN = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(([a-z0-9=, ]+)\))?")
# "failures=1"
NUMBER_PATTERN = re.compile(r"([a-z ]+)=(\d{1,9})")
# "ok" in "test_a (test_file.Group.test_a) ... ok"
ENDED_PATTERN = re.compile(r"ok|FAIL|ERROR|skipped .*|expected failure|unexpected success")
# "test_a (test_file.Group.test_a) ..."
TEST_PATTERN = re.compile(r"\w+ \([\w.]+\) \.\.\. ")
# "FAIL: test_a (test_file.Group.test_a) (i=1)"
FAILURE_PATTERN = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")
MOST_LINES = 200
"""How many lines of a failure are searched for its error."""
# of a class or a module: no test that was counted
FIXTURES = ("setUpClass (", "tearDownClass (", "setUpModule (", "tearDownModule (")


def read_unittest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of unittest."""
    claims: list[tuple[TestCounts, int]] = []
    start = seen = passed = 0
    began = False
    for number, line in enumerate(lines):
        if ended := ENDED_PATTERN.fullmatch(line.partition(" ... ")[2]):
            began = began or TEST_PATTERN.match(line) is not None
            passed += line.endswith(" ok") and TEST_PATTERN.match(line) is not None
        seen += len(line) if re.fullmatch("[.FEsxu]+", line) else bool(ended)
        ran = RAN_PATTERN.fullmatch(line)
        result = matches(RESULT_PATTERN, lines[number : number + 4]) if ran else []
        if not ran or not result:
            continue
        counts = _read_unittest_run(int(ran[1]), result[0][1], lines[start:number])
        claims.append((counts, seen))
        if counts.failed or counts.run <= seen:
            start, seen = number, 0
    return believed(claims) if claims or not began else [unfinished("unittest", passed)]


def _read_unittest_run(ran: int, result: re.Match[str], lines: Sequence[str]) -> TestCounts:
    has_failed = result[1] == "FAILED"
    items = (NUMBER_PATTERN.fullmatch(item) for item in (result[2] or "").split(", "))
    numbers = {item[1]: int(item[2]) for item in items if item}
    unexpected = numbers.get("unexpected successes", 0)
    failed = numbers.get("failures", 0) + numbers.get("errors", 0) + unexpected
    skipped = numbers.get("skipped", 0) + numbers.get("expected failures", 0)
    titles = [
        (number, match)
        for number, match in matches(FAILURE_PATTERN, lines)
        if has_failed and number and lines[number - 1] == DOUBLE_RULE
    ]
    fixtures = [title for _, title in titles if title[2].startswith(FIXTURES)]
    # Parts of one test can fail each for itself: the test is one that did not pass.
    tests = {
        title[2].partition(")")[0]
        for _, title in titles
        if title[1] != "UNEXPECTED SUCCESS" and title not in fixtures
    }
    not_passed = len(tests) + unexpected if tests else max(failed - len(fixtures), 0)
    return counts_of(
        "unittest",
        (max(ran - not_passed - skipped, 0), max(failed, int(has_failed)), skipped),
        [(title[2], _unittest_error(lines[at : at + MOST_LINES])) for at, title in titles],
    )


def _unittest_error(lines: Sequence[str]) -> str:
    """Return the first line of a block that is an error and no line of a traceback."""
    below = False
    for line in lines:
        if line == DOUBLE_RULE:
            break
        if below and line.strip() and not line.startswith((" ", "Traceback (")):
            return line
        below = below or line == RULE
    return ""


# "--- FAIL: TestTable/second (0.00s)"
GO_RESULT_PATTERN = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d{1,9}\.\d\ds\)")
# "=== RUN   TestTable/second", "=== CONT  TestTable"
GO_RUN_PATTERN = re.compile(r"=== ([A-Z]+) +(\S+)")
# "ok  \texample.com/shop\t0.003s", "FAIL\texample.com/shop [build failed]"
GO_PACKAGE_PATTERN = re.compile(r"(ok  |FAIL|\?   |---  )\t(\S+)(?:\s.*)?")
# "    shop_test.go:4: got 3, want 4"
GO_ERROR_PATTERN = re.compile(r"\.go:\d+(?::\d+)?: (.+)")
# "example.com/shop/good [no tests to run]"
NOTHING = ("[no tests to run]", "[no test files]")
WORST = {"": 0, "PASS": 1, "SKIP": 2, "FAIL": 3}


@dataclass(slots=True)
class _Package:
    """The tests of one package of Go.

    Without `-v` it does not report how many tests it has: it is untold, and counts as one test if
    it passes. With `-v` a test counts only if it was seen to start: the program under test can
    print `--- PASS`, too.
    """

    results: dict[str, str] = field(default_factory=dict)
    """PASS, FAIL or SKIP by the name of a test; empty as long as it runs."""
    errors: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    """PASS or FAIL; empty as long as it runs."""
    empty: bool = False
    """Does it report that it has no tests?"""
    told: bool = False
    """Was one of its tests seen to start?"""
    last_error: str = ""

    def note(self, test: str, result: str) -> None:
        """Record that a test starts, or its result; the worst of several stays."""
        self.told = self.told or not result
        if WORST[result] >= WORST[self.results.get(test, "")]:
            self.results[test] = result

    def note_error(self, test: str, line: str) -> None:
        if error := _go_error(line):
            self.errors.setdefault(test, error)
            self.last_error = self.last_error or line.strip()

    def end(self, result: str, empty: bool) -> None:
        """Record how the package ended; a package that failed once has failed."""
        self.ended = "FAIL" if "FAIL" in {result, self.ended} else "PASS"
        self.empty = empty

    def counts(self, name: str) -> TestCounts:
        """Return the counts. A test that never ended has failed."""
        values = list(self.results.values())
        passed, skipped = values.count("PASS"), values.count("SKIP")
        if not values and self.ended == "PASS" and not self.empty:
            passed = 1
        errors = [
            (f"{name}.{test}" if name else test, self.errors.get(test, ""))
            for test, result in self.results.items()
            if result in {"", "FAIL"}
        ]
        if self.ended == "FAIL" and not errors:
            errors = [(name or "go test", self.last_error)]
        untold = not self.told and (bool(values) or passed > 0)
        counts = counts_of("go", (passed, len(errors), skipped), errors)
        return replace(counts, untold=int(untold))


def read_go(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each package of `go test`: plain, with `-v` and with `-json`."""
    packages: dict[str, _Package] = {}
    start = 0
    for number, line in enumerate(lines):
        if match := GO_PACKAGE_PATTERN.fullmatch(line):
            package = packages.setdefault(match[2], _Package())
            _read_go_tests(package, lines[start:number])
            package.end(match[1], line.endswith(NOTHING))
            start = number + 1
    rest = _Package()
    _read_go_tests(rest, lines[start:])
    if rest.results:
        # A test binary that is run by itself ends with PASS or FAIL and names no package.
        rest.ended = next((line for line in reversed(lines) if line in {"PASS", "FAIL"}), "FAIL")
        packages[""] = rest
    # "# example.com/shop": what the compiler complains about follows.
    built: dict[str, str] = {}
    building = ""
    for line in lines:
        if line.startswith("# "):
            building = line.split(" ")[1]
        elif building and _go_error(line):
            built.setdefault(building, line)
    _read_go_events(lines, packages, built)
    for name in built.keys() & packages.keys():
        packages[name].last_error = built[name]
    return [package.counts(name) for name, package in packages.items()]


def _go_error(line: str) -> str:
    if line.startswith("panic: "):
        return line
    match = GO_ERROR_PATTERN.search(line)
    return match[1] if match else ""


def _read_go_tests(package: _Package, lines: Sequence[str]) -> None:
    """Read what stands above the line of a package."""
    test = ""
    seen = set()
    for line in lines:
        if match := GO_RUN_PATTERN.fullmatch(line):
            test = match[2]
            if match[1] == "RUN":
                package.note(test, "")
                seen.add(test)
        elif "--- " in line and (match := GO_RESULT_PATTERN.fullmatch(line, line.rindex("--- "))):
            if match[1] == "FAIL" or match[2] in seen:
                test = match[2]
                package.note(test, match[1])
                seen.add(test)
            if match[1] == "FAIL" and "" in package.errors:
                package.errors.setdefault(test, package.errors.pop(""))
        else:
            package.note_error(test, line)
    package.errors.pop("", None)


def _read_go_events(
    lines: Sequence[str], packages: dict[str, _Package], built: dict[str, str]
) -> None:
    is_open: dict[str, bool] = {}
    for line in lines:
        try:
            event = json.loads(line) if line.startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict) or not isinstance(event.get("Action"), str):
            continue
        texts = {key: value for key, value in event.items() if isinstance(value, str)}
        action, name, test = texts["Action"], texts.get("Package", ""), texts.get("Test", "")
        output = texts.get("Output", "")
        if action == "build-output" and _go_error(output):
            built.setdefault(texts.get("ImportPath", "").partition(" ")[0], output)
        if not name:
            continue
        package = packages.setdefault(name, _Package())
        is_open.setdefault(name, True)
        if action == "output":
            package.empty = package.empty or any(words in output for words in NOTHING)
            package.note_error(test, output)
        elif test and action in {"pass", "fail", "skip", "run"}:
            package.note(test, "" if action == "run" else action.upper())
        elif action in {"pass", "fail", "skip"}:
            package.end(action.upper(), package.empty)
            is_open[name] = False
    for name, still_open in is_open.items():
        if still_open:
            packages[name].end("FAIL", packages[name].empty)


RUNNING_PATTERN = re.compile(r"running (\d{1,9}) tests?")
# "test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.46s"
TARGET_PATTERN = re.compile(
    r"test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored; "
    r"(\d{1,9}) measured; (\d{1,9}) filtered out(?:; finished in .*)?"
)
# "error: could not compile `shop` (test "bad") due to 1 previous error"
NOT_COMPILED_PATTERN = re.compile(r"error: (could not compile `[^`]*`(?: \([^)]*\))?).*")
# "error[E0308]: mismatched types"
COMPILER_PATTERN = re.compile(r"error(?:\[E\d+\])?: .+")
# "---- tests::adds stdout ----"
BLOCK_PATTERN = re.compile(r"---- (\S.*) stdout ----")
PANIC_PATTERN = re.compile(r"thread '[^']*'.* panicked at (.*)")


def read_cargo(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each target, and a failure for each that was not compiled."""
    starts = matches(RUNNING_PATTERN, lines)
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    targets = [
        _read_target(int(match[1]), lines[start:end])
        for (start, match), end in zip(starts, ends, strict=False)
    ]
    first = ""
    for line in lines:
        if match := NOT_COMPILED_PATTERN.fullmatch(line):
            targets.append(counts_of("cargo", (0, 1, 0), [(match[1], first)]))
            first = ""
        elif not first and COMPILER_PATTERN.fullmatch(line):
            first = line
    return targets


def _read_target(tests: int, lines: Sequence[str]) -> TestCounts:
    found = [
        [int(number) for number in match.groups()] for _, match in matches(TARGET_PATTERN, lines)
    ]
    summaries = [
        TestCounts("cargo", passed + measured, failed, ignored + filtered)
        for passed, failed, ignored, measured, filtered in found
        if passed + failed + ignored + measured == tests
    ]
    if summaries:
        return chosen(summaries).naming(_target_failures(lines))
    passed = sum(line.startswith("test ") and line.endswith(" ... ok") for line in lines)
    ended = [TestCounts("cargo", 0, said[1]) for said in found]
    return add_counts([unfinished("cargo", passed), *([chosen(ended)] if ended else [])])


def _target_failures(lines: Sequence[str]) -> Failures:
    """Return the tests in the last list of failures, each with its panic or its first line."""
    errors: dict[str, str] = {}
    panicked: set[str] = set()
    name, awaited = "", False
    for line in lines:
        if block := BLOCK_PATTERN.fullmatch(line):
            name, awaited = block[1], False
        elif line == "failures:":
            name = ""
        elif name and name not in panicked and (panic := PANIC_PATTERN.match(line)):
            # Until Rust 1.72 the message stood on the same line, in quotes.
            awaited = line.endswith(":")
            errors[name] = panic[1]
            panicked.add(name)
        elif name and line.strip() and (awaited or name not in errors):
            errors[name] = line
            awaited = False
    start = max((n for n, line in enumerate(lines) if line == "failures:"), default=len(lines))
    found = []
    for line in lines[start + 1 :]:
        if not line.startswith("    "):
            break
        found.append((line.strip(), errors.get(line.strip(), "")))
    return found


READERS: Sequence[Callable[[Sequence[str]], list[TestCounts]]] = (
    read_pytest,
    read_unittest,
    read_go,
    read_cargo,
    read_jest,
    read_vitest,
    read_mocha,
    read_tap,
    read_node_spec,
)
