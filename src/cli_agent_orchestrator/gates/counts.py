"""How many tests passed and failed, and which, by what a test runner reports in its output.

The output is not trusted: the program under test writes into it too. It can claim more passed tests
than there are, but no failure that a runner reported is lost, whatever comes before or after it.
The caller must therefore look at the exit code as well, and compare the number of tests with the
number before.

A reader gets the lines of an output and returns the counts of each run that it finds. Where one
run has several summaries, because the program under test prints one too, the last that reports a
failure counts, or else the last of all. A run that began and printed no summary has failed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile, islice, pairwise, takewhile
from xml.etree import ElementTree

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.text import CONTROLS

LONGEST_NAME = 300
MOST_NAMES = 200
LONGEST_LINE = 2000
LARGEST_XML = 16_000_000
# Colors, titles of windows, movements of the cursor. None reaches beyond its line.
ESCAPE_PATTERN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])"
)

Failures = Sequence[tuple[str, str]]


class TestCounts(Struct, frozen=True):
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
    """Add the counts of several runs. Several runners together are called "several"."""
    known = list(parts)
    runners = {part.runner for part in known}
    numbers = [(part.passed, part.failed, part.skipped, part.untold) for part in known]
    passed, failed, skipped, untold = map(sum, zip(*numbers, strict=True))
    runner = runners.pop() if len(runners) == 1 else "several"
    errors = [(name, part.first_errors.get(name, "")) for part in known for name in part.failures]
    return replace(counts_of(runner, (passed, failed, skipped), errors), untold=untold)


def unfinished(runner: str, passed: int = 0, failed: int = 0) -> TestCounts:
    return counts_of(runner, (passed, failed + 1, 0), [(f"{runner} did not finish", "")])


def chosen(summaries: Sequence[TestCounts]) -> TestCounts:
    return next((one for one in reversed(summaries) if one.failed), summaries[-1])


KINDS = {
    **dict.fromkeys(("passed", "xpassed", "expected fail", "passing", "pass"), 0),
    **dict.fromkeys(("failed", "subtests failed", "failures", "failing", "fail"), 1),
    **dict.fromkeys(("error", "errors", "unexpected successes", "cancelled"), 1),
    **dict.fromkeys(("skipped", "todo", "pending", "deselected"), 2),
    **dict.fromkeys(("xfailed", "expected failures"), 2),
}
"""What runners say of tests: that they passed, that they failed, or that they were not run."""


def tally(runner: str, said: Iterable[tuple[str, str]]) -> TestCounts:
    ran = [0, 0, 0]
    for number, word in said:
        if word in KINDS:
            ran[KINDS[word]] += int(number)
    return TestCounts(runner, ran[0], ran[1], ran[2])


def believed(
    lines: Sequence[str], summaries: Sequence[tuple[int, TestCounts]], ended: Callable[[str], int]
) -> Iterator[tuple[TestCounts, Sequence[str], Sequence[str]]]:
    """Yield the summaries that are runs of their own, where nothing marks where a run begins.

    Each comes with the lines before and after it. A success that claims more tests than have
    `ended` is not a run when another summary follows: the program under test may have printed it.
    """
    start = looked = seen = 0
    ends = [*(number for number, _ in summaries[1:]), len(lines)]
    for (number, counts), end in zip(summaries, ends, strict=False):
        seen += sum(map(ended, lines[looked:number]))
        looked = number
        if counts.failed or end == len(lines) or counts.run <= seen:
            yield counts, lines[start:number], lines[number + 1 : end]
            start, seen = number, 0


def matches(pattern: re.Pattern[str], lines: Sequence[str]) -> list[tuple[int, re.Match[str]]]:
    found = ((number, pattern.fullmatch(line)) for number, line in enumerate(lines))
    return [(number, match) for number, match in found if match]


def text_below(lines: Sequence[str], number: int, most: int) -> str:
    return next((line for line in lines[number + 1 : number + most] if line.strip()), "")


class _Builder(ElementTree.TreeBuilder):
    """Refuses a document type: it could define entities that grow without end."""

    def doctype(self, *_: object) -> None:
        raise ValueError

    def start(self, tag: str, attrs: dict[str, str]) -> ElementTree.Element:
        # "{uri}testcase"
        return super().start(tag.rpartition("}")[2], attrs)


def read_junit(xml: str) -> TestCounts | None:
    """Count the test cases of JUnit XML; None if it is not well formed, or too long."""
    if len(xml) > LARGEST_XML:
        return None
    parser = ElementTree.XMLParser(target=_Builder(), encoding="utf-8")
    try:
        parser.feed(xml.lstrip("\ufeff \t\r\n").encode("utf-8", "replace"))
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, ValueError):
        return None
    if root.tag not in {"testsuite", "testsuites"}:
        return None
    passed = skipped = 0
    errors = []
    for element in root.iter():
        failed = [child for child in element if child.tag in {"failure", "error"}]
        is_case = element.tag == "testcase"
        if is_case and not failed:
            is_skipped = any(child.tag == "skipped" for child in element)
            skipped, passed = skipped + is_skipped, passed + (not is_skipped)
        # A suite can have an error of its own, outside of any test case.
        for child in failed[:1] if is_case else failed:
            parts = (element.get("classname"), element.get("name")) if is_case else ()
            said = (child.get("message") or "").strip() or (child.text or "").strip()
            name = ".".join(filter(None, parts)) or "a test without a name"
            errors.append((name, said.partition("\n")[0]))
    return counts_of("junit", (passed, len(errors), skipped), errors)


def _parts(lines: Sequence[str], start: re.Pattern[str]) -> list[Sequence[str]]:
    """Return what comes before the first line that is like `start`, and from each such line on."""
    starts = [number for number, _ in matches(start, lines)]
    return [lines[start:end] for start, end in pairwise((0, *starts, len(lines)))]


# Jest and Vitest. A run of the one ends with `Ran all test suites`, one of the other begins with
# `RUN  v3.2.7`. A file that could not be loaded is a failure, and so is an error that no test
# caught.
#     Test Suites: 1 failed, 1 passed, 2 total          Test Files  1 failed | 1 passed (2)
#     Tests:       4 failed, 1 todo, 3 passed, 8 total        Tests  2 failed | 4 passed (6)
FILES_PATTERN = re.compile(r"Test Suites: +\d.*|\s*Test Files  \d.*")
TESTS_PATTERN = re.compile(r"(?:Tests: +|\s*Tests  )(?:\d.*|no tests)")
RESULT_WORD_PATTERN = re.compile(r"(\d{1,9}) (failed|passed|skipped|todo|pending|expected fail)\b")
# "FAIL api ./cart.test.js (5.2 s)"
FAILED_FILE_PATTERN = re.compile(r" ?FAIL +(.+?)(?: \([\d.]+ m?s\))?")
NOT_LOADED = "Test suite failed to run"
JEST_END_PATTERN = re.compile("Ran all test suites.*")
SCRIPT_WORDS = {
    "jest": ("Tests:", "No tests found, exiting with code"),
    "vitest": ("Tests  ", "No test files found, exiting with code"),
}
# " RUN  v3.2.7 /project"
START_PATTERN = re.compile(r"\s*(?:RUN|DEV)  v\d\S* .*")
# "     Errors  1 error"
ERRORS_PATTERN = re.compile(r"\s*Errors  (\d{1,9}) errors?")
# "⎯⎯⎯ Failed Suites 1 ⎯⎯⎯"
LOST_PATTERN = re.compile(r"⎯+ Failed Suites (\d{1,9}) ⎯+")
# "⎯⎯⎯⎯ Unhandled Rejection ⎯⎯⎯⎯⎯"
UNHANDLED_PATTERN = re.compile(r"⎯+ (?:Unhandled Rejection|Uncaught Exception) ⎯.*")
LINES_BELOW = 20


def read_jest(lines: Sequence[str]) -> list[TestCounts]:
    found = []
    for run in _parts(lines, JEST_END_PATTERN):
        failures: list[tuple[str, str]] = []
        file = ""
        for number, line in enumerate(run):
            if match := FAILED_FILE_PATTERN.fullmatch(line):
                file = match[1].rpartition(" ")[2]
            elif line.startswith("  ● ") and file and line[4:] != "Console":
                name = f"{file} › {line[4:].strip()}"
                failures.append((name, text_below(run, number, LINES_BELOW)))
        lost = len({name for name, _ in failures if name.endswith(NOT_LOADED)})
        counts = _read_script_run("jest", run, failures, lost)
        exited = any("●  process.exit called with" in line for line in run)
        if exited and not (counts and counts.failed):
            counts = unfinished("jest")
        found += [counts] if counts else []
    return found


def read_vitest(lines: Sequence[str]) -> list[TestCounts]:
    first, *runs = _parts(lines, START_PATTERN)
    before = _read_vitest_run(first)
    found = [_read_vitest_run(run) or unfinished("vitest") for run in runs]
    # The program under test may have printed it: a run reports that it begins.
    return [before, *found] if before and (before.failed or not found) else found


def _read_vitest_run(lines: Sequence[str]) -> TestCounts | None:
    lost, errors = (
        max((int(match[1]) for _, match in matches(pattern, lines)), default=0)
        for pattern in (LOST_PATTERN, ERRORS_PATTERN)
    )
    failures = [
        (line[len(" FAIL  ") :].partition(" [ ")[0], text_below(lines, number, LINES_BELOW))
        for number, line in enumerate(lines)
        if line.startswith(" FAIL  ")
    ]
    if errors:
        shown = (text_below(lines, n, LINES_BELOW) for n, _ in matches(UNHANDLED_PATTERN, lines))
        failures.append(("an error outside of the tests", next(shown, "")))
    return _read_script_run("vitest", lines, failures, lost, errors)


def _read_script_run(
    runner: str, lines: Sequence[str], failures: Failures, lost: int, errors: int = 0
) -> TestCounts | None:
    """Count by the lines of tests that follow a line of files; `lost` files were not loaded."""
    word, nothing = SCRIPT_WORDS[runner]
    found: list[TestCounts] = []
    files = ""
    for line in lines:
        if word in line and files and TESTS_PATTERN.fullmatch(line):
            tests, of_files = (
                tally(runner, RESULT_WORD_PATTERN.findall(text)) for text in (line, files)
            )
            failed = tests.failed + lost if tests.failed else max(lost, of_files.failed)
            found.append(replace(tests, failed=failed))
        files = line if FILES_PATTERN.fullmatch(line) else ""
    if found:
        counts = chosen(found)
        return replace(counts, failed=counts.failed + errors).naming(failures)
    is_empty = any(line.startswith(nothing) for line in lines)
    return TestCounts(runner, 0, 0) if is_empty else None


PASSING_PATTERN = re.compile(r"  (\d{1,9}) (passing) \(\d+m?[smh]\)")
OTHERS_PATTERN = re.compile(r"  (\d{1,9}) (pending|failing)")
# "    ✔ adds up (32ms)", "    √ adds up"
TICK_PATTERN = re.compile(r"\s*[✔✓√] .*")
# "  ...!,,!!"
DOTS_PATTERN = re.compile(r"  [.․,!]+")
# "  2) cart"
NUMBERED_PATTERN = re.compile(r"  \d{1,9}\) (\S.*)")
MOST_GROUPS = 20
CRASH = " Exception during run: "


def read_mocha(lines: Sequence[str]) -> list[TestCounts]:
    summaries = []
    for number, passing in matches(PASSING_PATTERN, lines):
        others = takewhile(bool, map(OTHERS_PATTERN.fullmatch, lines[number + 1 : number + 3]))
        said = [(match[1], match[2]) for match in (passing, *others) if match]
        summaries.append((number, tally("mocha", said)))
    found = [
        counts.naming(_mocha_failures(after, counts.failed))
        for counts, _, after in believed(lines, summaries, _mocha_ended)
    ]
    crashes = (line.removeprefix(CRASH) for line in lines if line.startswith(CRASH))
    name = CRASH.strip(" :")
    return found + [counts_of("mocha", (0, 1, 0), [(name, why)]) for why in crashes]


def _mocha_ended(line: str) -> int:
    return len(line) - 2 if DOTS_PATTERN.fullmatch(line) else bool(TICK_PATTERN.match(line))


def _mocha_failures(lines: Sequence[str], most: int) -> Failures:
    """Return the numbered failures; below a test's groups is its own name, with a colon."""
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


VERSION_PATTERN = re.compile("TAP version 1.*")
# "not ok 2 - adds up # TODO later", "ok 3"
POINT_PATTERN = re.compile(r"( *)(not )?ok(?: (\d+))?(?: -)?(?: (\S.*))?")
DIRECTIVE_PATTERN = re.compile(r"#\s*(SKIP|TODO)", re.I)
PLAN_PATTERN = re.compile(r"1\.\.(\d{1,9})(?:\s.*)?")
SUBTEST = "# Subtest: "
LONGEST_GROUP = 100
# "  error: 'not fine'", "  error: |-", "      message: \"expected 3 to be 4\""
DETAIL_PATTERN = re.compile(r" *(?:error|message): *(.*)")
# "# pass 3", "ℹ pass 3"
NODE_PATTERN = re.compile(r"[#ℹ] (tests|suites|pass|fail|cancelled|skipped|todo) (\d{1,9})")
NODE_KEYS = {"tests", "pass", "fail", "cancelled"}
# "✖ adds up (1.720853ms)", "✖ later (0.18ms) # TODO"
CROSS_PATTERN = re.compile(r"\s*✖ (.+) \(\d+(?:\.\d+)?ms\)( # .*)?")


class _Point(Struct):
    indent: int
    name: str
    is_ok: bool
    is_skipped: bool
    is_counted: bool
    """Is it a test itself, and no summary of those below it?"""
    is_suite: bool = False
    error: str = ""

    @property
    def has_failed(self) -> bool:
        return not self.is_ok and not self.is_skipped


def read_tap(lines: Sequence[str]) -> list[TestCounts]:
    first, *documents = _parts(lines, VERSION_PATTERN)
    found = []
    for document in [*([first] if matches(PLAN_PATTERN, first) else ()), *documents]:
        points = _points(document)
        counts = _count(points, document)
        numbers = [said for _, said in _node_numbers(document, "#")]
        if numbers and counts.failed and not chosen(numbers).failed:
            counts = replace(counts, runner="node")
        elif numbers:
            failed = [
                (one.name, one.error) for one in points if one.has_failed and not one.is_suite
            ]
            counts = chosen(numbers).naming(failed)
        found.append(counts)
    return found


def _points(lines: Sequence[str]) -> list[_Point]:
    points: list[_Point] = []
    path: list[tuple[int, str]] = []
    yaml: int | None = None
    fresh = 0
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        text = line[indent:]
        if yaml is not None and text and indent < yaml:
            yaml = None
        if yaml is not None:
            point = points[-1]
            point.is_suite = point.is_suite or text == "type: 'suite'"
            if point.error in {"|-", "|", ">-", ">"} and text:
                point.error = text
            elif not point.error and (detail := DETAIL_PATTERN.fullmatch(text)):
                point.error = detail[1].strip("'\"")
            yaml = None if text == "..." else yaml
        elif text == "---" and points and indent > points[-1].indent:
            yaml = indent
        elif text.startswith(SUBTEST):
            group = text.removeprefix(SUBTEST)[:LONGEST_GROUP]
            path = [entry for entry in path if entry[0] < indent] + [(indent, group)]
        elif text == "}":
            fresh = len(points)
        elif match := POINT_PATTERN.fullmatch(line):
            first = len(points)
            while first > fresh and points[first - 1].indent > indent:
                first -= 1
            groups = [name for depth, name in path if depth < indent]
            points.append(_point(match, groups, points[first:]))
    return points


def _point(match: re.Match[str], groups: Sequence[str], children: Sequence[_Point]) -> _Point:
    """Return a point. One that sums up others is not counted: they precede it, or follow a `{`."""
    text = match[4] or ""
    directive = DIRECTIVE_PATTERN.search(text)
    name = text[: directive.start()] if directive else text.partition(" # time=")[0]
    name = name.strip() or f"test {match[3] or ''}".strip()
    is_ok = match[2] is None
    sums_up = children and (is_ok or any(child.has_failed for child in children))
    is_counted = not (match[0].endswith("{") or sums_up)
    return _Point(
        len(match[1]), " > ".join([*groups, name]), is_ok, directive is not None, is_counted
    )


def _count(points: Sequence[_Point], lines: Sequence[str]) -> TestCounts:
    plans = [int(plan[1]) for _, plan in matches(PLAN_PATTERN, lines)]
    bails = [line for line in lines if line.startswith("Bail out!")]
    counted = [point for point in points if point.is_counted]
    failed = [(point.name, point.error) for point in counted if point.has_failed]
    missing = sum(plans) - sum(point.indent == 0 for point in points) if plans else 0
    said = [f"{missing} planned tests are missing"] if missing > 0 else []
    said += ["more tests than planned"] if missing < 0 else []
    said += bails[-1:] if plans or bails else ["the plan is missing"]
    failed += [(one, "") for one in said]
    passed = sum(point.is_ok and not point.is_skipped for point in counted)
    skipped = sum(point.is_skipped for point in counted)
    return counts_of("tap", (passed, len(failed) + max(missing - 1, 0), skipped), failed)


def _node_numbers(lines: Sequence[str], mark: str) -> list[tuple[int, TestCounts]]:
    found: list[tuple[int, TestCounts]] = []
    numbers: dict[str, str] = {}
    for number, line in enumerate(lines):
        if not line.startswith(mark):
            continue
        if match := NODE_PATTERN.fullmatch(line):
            numbers[match[1]] = match[2]
        elif line.startswith(f"{mark} duration_ms ") and numbers.keys() >= NODE_KEYS:
            found.append((number, tally("node", ((many, word) for word, many in numbers.items()))))
            numbers = {}
    return found


def read_node_spec(lines: Sequence[str]) -> list[TestCounts]:
    found = []
    summaries = _node_numbers(lines, "ℹ")
    for counts, before, after in believed(
        lines, summaries, lambda line: line.lstrip(" ").startswith("✔ ")
    ):
        # The failures are listed again at the end, each with its error.
        shown = [*dropwhile(lambda line: line != "✖ failing tests:", after)] or before
        crosses = [
            (cross[1], text_below(shown, at, 3))
            for at, cross in matches(CROSS_PATTERN, shown)
            if not cross[2]
        ]
        found.append(counts.naming(crosses))
    return found


# pytest. A run begins with `test session starts`; with `-q` it has no beginning, and a second one
# shows only by its progress starting again. Its summary is framed by `=`, with `-q` it is not. With
# `-qq` there is none: then the letters of the progress are counted.
HEADER = " test session starts "
REASONS = " short test summary info "
# "1 failed, 2 passed in 0.12s", "3 passed in 61.20s (0:01:01)", "no tests ran in 0.01s"
SUMMARY_PATTERN = re.compile(r"([a-z0-9,/() ]{1,200}) in \d{1,9}\.\d\ds(?: \([\w:, ]{1,40}\))?")
# "12 failed", "1 error", "2 subtests passed"
ITEM_PATTERN = re.compile(r"(\d{1,9}|no(?= tests)) ([a-z ]+)")
NOT_RUN = ("tests ran", "tests collected", "test collected")
# "..F.s  [ 66%]", "tests/test_a.py ..F.  [100%]", "tests/test_a.py .."
LETTERS_PATTERN = re.compile(r"(?:\S+ )?([.FEsxXRu,]+)(?: *\[ *\d{1,3}%\])?")
PERCENT_PATTERN = re.compile(r"\[ *(\d{1,3})%\]$")
# "test_a.py::test_b PASSED   [ 33%]"
VERBOSE_PATTERN = re.compile(r" (PASSED|XPASS|FAILED|ERROR)\b")
# "____ TestGroup.test_inside ____", "____ ERROR at setup of test_fixture ____"
TITLE_PATTERN = re.compile(r"_{2,} (?:ERROR (?:at \w+ of|collecting) )?(\S.*?) _{2,}")
# "!!!!! Interrupted: 1 error during collection !!!!!", "!!!!! KeyboardInterrupt !!!!!"
BANNER_PATTERN = re.compile(r"!{3,} (.*[^! ]) !{3,}")


def read_pytest(lines: Sequence[str]) -> list[TestCounts]:
    found = [(run, counts) for run in _pytest_runs(lines) if (counts := _read_pytest_run(run))]
    run, first = found[0] if len(found) > 1 else ((), None)
    is_shown = any(HEADER in line or PERCENT_PATTERN.search(line) for line in run)
    if first and not first.failed and not is_shown:
        # The program under test may have printed it: no test was seen to run.
        del found[0]
    return [counts for _, counts in found]


def _pytest_runs(lines: Sequence[str]) -> Iterator[Sequence[str]]:
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
    words = [(word[1], word[2]) for item in items if (word := ITEM_PATTERN.fullmatch(item))]
    is_known = any(word in KINDS or word in NOT_RUN for _, word in words)
    return tally("pytest", words) if is_known else None


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
NUMBER_PATTERN = re.compile(r"([a-z][a-z ]*)=(\d{1,9})")
# "ok" in "test_a (test_file.Group.test_a) ... ok"
ENDED_PATTERN = re.compile(r"ok|FAIL|ERROR|skipped .*|expected failure|unexpected success")
# "test_a (test_file.Group.test_a) ..."
TEST_PATTERN = re.compile(r"\w+ \([\w.]+\) \.\.\. ")
# "FAIL: test_a (test_file.Group.test_a) (i=1)"
FAILURE_PATTERN = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")
MOST_LINES = 200
# of a class or a module: no test that was counted
FIXTURES = ("setUpClass (", "tearDownClass (", "setUpModule (", "tearDownModule (")


def read_unittest(lines: Sequence[str]) -> list[TestCounts]:
    summaries = []
    for number, ran in matches(RAN_PATTERN, lines):
        for _, result in matches(RESULT_PATTERN, lines[number : number + 4])[:1]:
            said = NUMBER_PATTERN.findall(result[2] or "")
            counts = tally("unittest", ((many, word) for word, many in said))
            failed = max(counts.failed, int(result[1] == "FAILED"))
            passed = max(int(ran[1]) - counts.skipped, 0)
            summaries.append((number, replace(counts, passed=passed, failed=failed)))
    tests = [line for line in lines if TEST_PATTERN.match(line) and _unittest_ended(line)]
    if tests and not summaries:
        return [unfinished("unittest", sum(line.endswith(" ok") for line in tests))]
    found = believed(lines, summaries, _unittest_ended)
    return [
        _with_failures(counts, before) if counts.failed else counts for counts, before, _ in found
    ]


def _unittest_ended(line: str) -> int:
    is_test = ENDED_PATTERN.fullmatch(line.partition(" ... ")[2])
    return len(line) if re.fullmatch("[.FEsxu]+", line) else bool(is_test)


def _with_failures(counts: TestCounts, lines: Sequence[str]) -> TestCounts:
    titles = [
        (number, match)
        for number, match in matches(FAILURE_PATTERN, lines)
        if number and lines[number - 1] == DOUBLE_RULE
    ]
    fixtures = [title for _, title in titles if title[2].startswith(FIXTURES)]
    # Parts of one test can fail each for itself: the test is one that did not pass. Older Pythons
    # do not show what has passed unexpectedly.
    tests = {title[2].partition(")")[0] for _, title in titles if title not in fixtures}
    not_passed = len(tests) + max(counts.failed - len(titles), 0)
    return counts_of(
        "unittest",
        (max(counts.passed - not_passed, 0), counts.failed, counts.skipped),
        [(title[2], _unittest_error(lines[at : at + MOST_LINES])) for at, title in titles],
    )


def _unittest_error(lines: Sequence[str]) -> str:
    error = takewhile(lambda line: line != DOUBLE_RULE, lines)
    below = islice(dropwhile(lambda line: line != RULE, error), 1, None)
    said = (line for line in below if line.strip() and not line.startswith((" ", "Traceback (")))
    return next(said, "")


# "--- FAIL: TestTable/second (0.00s)"
GO_RESULT_PATTERN = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d{1,9}\.\d\ds\)$")
# "=== RUN   TestTable/second", "=== CONT  TestTable"
GO_RUN_PATTERN = re.compile(r"=== ([A-Z]+) +(\S+)")
# "ok  \texample.com/shop\t0.003s", "FAIL\texample.com/shop [build failed]"
GO_PACKAGE_PATTERN = re.compile(r"(ok  |FAIL|\?   |---  )\t(\S+)(?:\s.*)?")
# "    shop_test.go:4: got 3, want 4"
GO_ERROR_PATTERN = re.compile(r"\.go:\d+(?::\d+)?: (.+)")


# "example.com/shop/good [no tests to run]"
NOTHING = ("[no tests to run]", "[no test files]")
WORST = ("", "PASS", "SKIP", "FAIL")


def read_go(lines: Sequence[str]) -> list[TestCounts]:
    packages: dict[str, list[str]] = {}
    # "# example.com/shop": what the compiler complains about follows.
    built: dict[str, str] = {}
    building = ""
    read: list[str] = []
    for line in _go_text(lines):
        read.append(line)
        if match := GO_PACKAGE_PATTERN.fullmatch(line):
            packages.setdefault(match[2], []).extend(read)
            read = []
        elif line.startswith("# "):
            building = line.split(" ")[1]
        elif building and _go_error(line):
            built.setdefault(building, line)
    told = (GO_RUN_PATTERN.fullmatch(line) or GO_RESULT_PATTERN.search(line) for line in read)
    if any(match and match[1] in {"RUN", "FAIL"} for match in told):
        # A test binary that is run by itself ends with PASS or FAIL and names no package.
        packages[""] = read
    return [_read_package(name, said, built.get(name, "")) for name, said in packages.items()]


def _go_text(lines: Sequence[str]) -> list[str]:
    """Return the output without `-json`: that of a package after the other."""
    outputs: dict[str, list[str]] = {}
    for line in lines:
        name, output = "", f"{line}\n"
        with suppress(ValueError, RecursionError):
            event = json.loads(line) if line.startswith("{") else None
            if isinstance(event, dict) and isinstance(event.get("Action"), str):
                name, output = str(event.get("Package", "")), str(event.get("Output", ""))
        outputs.setdefault(name, []).append(output)
    text = []
    for name, parts in sorted(outputs.items(), key=lambda item: not item[0]):
        told = lines_of("".join(parts))
        ends = (GO_PACKAGE_PATTERN.fullmatch(line) for line in told)
        if name and not any(end and end[2] == name for end in ends):
            told.append(f"FAIL\t{name}")
        text += told
    return text


def _go_error(line: str) -> str:
    match = GO_ERROR_PATTERN.search(line)
    return line if line.startswith("panic: ") else match[1] if match else ""


def _read_package(name: str, lines: Sequence[str], first_error: str) -> TestCounts:
    """Count the tests of a package; one that does not report them, without `-v`, is untold.

    With `-v` a test counts only if it was seen to start: the program under test can print
    `--- PASS`, too. Of several results of a test the worst stays.
    """
    results: dict[str, str] = {}
    errors: dict[str, str] = {}
    ends: set[str] = set()
    test, is_told, is_empty = "", False, False
    for line in lines:
        if match := GO_RUN_PATTERN.fullmatch(line):
            test = match[2]
            if match[1] == "RUN":
                is_told = True
                results.setdefault(test, "")
        elif match := GO_RESULT_PATTERN.search(line):
            if match[1] == "FAIL" or match[2] in results:
                test = match[2]
                results[test] = max(match[1], results.get(test, ""), key=WORST.index)
            if match[1] == "FAIL" and "" in errors:
                errors.setdefault(test, errors.pop(""))
        elif error := _go_error(line):
            errors.setdefault(test, error)
            first_error = first_error or line.strip()
        elif match := GO_PACKAGE_PATTERN.fullmatch(line):
            ends.add(match[1])
            is_empty = line.endswith(NOTHING)
            test = ""
        elif not name and line in {"PASS", "FAIL"}:
            ends = {line}
    has_failed = "FAIL" in ends or not ends
    failed = [test for test, result in results.items() if result in {"", "FAIL"}]
    failures = [(f"{name}.{test}" if name else test, errors.get(test, "")) for test in failed]
    if has_failed and not failures:
        failures = [(name or "go test", first_error)]
    values = list(results.values())
    passed = values.count("PASS") if values else int(not (has_failed or is_empty))
    counts = counts_of("go", (passed, len(failures), values.count("SKIP")), failures)
    return replace(counts, untold=int(not is_told and (bool(values) or passed > 0)))


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
    _, *runs = _parts(lines, RUNNING_PATTERN)
    targets = [_read_target(int(run[0].split()[1]), run) for run in runs]
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
    errors: dict[str, str] = {}
    for at, block in matches(BLOCK_PATTERN, lines):
        below = lines[at + 1 : at + MOST_LINES]
        body = [*takewhile(lambda one: one != "failures:" and not BLOCK_PATTERN.match(one), below)]
        panics = [
            (n, match[1]) for n, line in enumerate(body) if (match := PANIC_PATTERN.match(line))
        ]
        number, said = panics[0] if panics else (-1, ":")
        # Until Rust 1.72 the message stood on the same line, in quotes.
        error = text_below(body, number, LINES_BELOW) if said.endswith(":") else said
        errors[block[1]] = errors.get(block[1]) or error
    start = max((n for n, line in enumerate(lines) if line == "failures:"), default=len(lines))
    named = takewhile(lambda line: line.startswith("    "), lines[start + 1 :])
    return [(line.strip(), errors.get(line.strip(), "")) for line in named]


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


def read_counts(output: str) -> TestCounts | None:
    if output[:LONGEST_LINE].lstrip("\ufeff \t\r\n").startswith(("<?xml", "<testsuite")):
        return read_junit(output)
    lines = lines_of(output)
    parts = [counts for read in READERS for counts in read(lines)]
    return add_counts(parts) if parts else None
