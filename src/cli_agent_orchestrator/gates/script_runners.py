"""Reads the output of the test runners of JavaScript: Jest, Vitest, Mocha, Node; and TAP.

    Test Suites: 1 failed, 1 passed, 2 total          Test Files  1 failed | 1 passed (2)
    Tests:       4 failed, 1 todo, 3 passed, 8 total        Tests  2 failed | 4 passed (6)

A run of Jest ends with `Ran all test suites`, one of Vitest begins with `RUN  v3.2.7`. A file that
could not be loaded is a failure, and so is an error that no test caught.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .counts import (
    Failures,
    TestCounts,
    believed,
    chosen,
    counts_of,
    matches,
    text_below,
    unfinished,
)

FILES_PATTERN = re.compile(r"Test Suites: +\d.*|\s*Test Files  \d.*")
TESTS_PATTERN = re.compile(r"(?:Tests: +|\s*Tests  )(?:\d.*|no tests)")
ITEM_PATTERN = re.compile(r"(\d{1,9}) (failed|passed|skipped|todo|pending|expected fail)\b")
KINDS = {"passed": 0, "failed": 1, "skipped": 2, "todo": 2, "pending": 2, "expected fail": 0}
# "FAIL api ./cart.test.js (5.2 s)"
FILE_PATTERN = re.compile(r" ?FAIL +(.+?)(?: \([\d.]+ m?s\))?")
NOT_LOADED = "Test suite failed to run"
# " RUN  v3.2.7 /project"
START_PATTERN = re.compile(r"\s*(?:RUN|DEV)  v\d\S* .*")
# "     Errors  1 error"
ERRORS_PATTERN = re.compile(r"\s*Errors  (\d{1,9}) errors?")
# "⎯⎯⎯ Failed Suites 1 ⎯⎯⎯"
LOST_PATTERN = re.compile(r"⎯+ Failed Suites (\d{1,9}) ⎯+")
# "⎯⎯⎯⎯ Unhandled Rejection ⎯⎯⎯⎯⎯"
UNHANDLED_PATTERN = re.compile(r"⎯+ (?:Unhandled Rejection|Uncaught Exception) ⎯.*")
MOST_LINES = 20
"""How far below its title the error of a failure is looked for."""


def read_jest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Jest."""
    ends = [n for n, line in enumerate(lines) if line.startswith("Ran all test suites")]
    found = []
    for start, end in zip([0, *ends], [*ends, len(lines)], strict=True):
        run = lines[start:end]
        failures: list[tuple[str, str]] = []
        file = ""
        for number, line in enumerate(run):
            if match := FILE_PATTERN.fullmatch(line):
                file = match[1].rpartition(" ")[2]
            elif line.startswith("  ● ") and file and line[4:] != "Console":
                name = f"{file} › {line[4:].strip()}"
                failures.append((name, text_below(run, number, MOST_LINES)))
        lost = len({name for name, _ in failures if name.endswith(NOT_LOADED)})
        summaries = _summaries(run, "jest", lost)
        exited = any("●  process.exit called with" in line for line in run)
        if exited and not any(counts.failed for counts in summaries):
            found.append(unfinished("jest"))
        elif summaries:
            found.append(chosen(summaries).naming(failures))
        elif any(line.startswith("No tests found, exiting with code") for line in run):
            found.append(TestCounts("jest", 0, 0))
    return found


def read_vitest(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Vitest."""
    starts = [number for number, _ in matches(START_PATTERN, lines)]
    first, *ends = [*starts, len(lines)]
    before = _read_vitest_run(lines[:first])
    found = [
        _read_vitest_run(lines[start:end]) or unfinished("vitest")
        for start, end in zip(starts, ends, strict=True)
    ]
    # The program under test may have printed it: a run reports that it begins.
    return [before, *found] if before and (before.failed or not found) else found


def _read_vitest_run(lines: Sequence[str]) -> TestCounts | None:
    lost, errors = (
        max((int(match[1]) for _, match in matches(pattern, lines)), default=0)
        for pattern in (LOST_PATTERN, ERRORS_PATTERN)
    )
    summaries = _summaries(lines, "vitest", lost)
    if not summaries:
        is_empty = any(line.startswith("No test files found, exiting with code") for line in lines)
        return TestCounts("vitest", 0, 0) if is_empty else None
    failures = [
        (line.removeprefix(" FAIL  ").partition(" [ ")[0], text_below(lines, number, MOST_LINES))
        for number, line in enumerate(lines)
        if line.startswith(" FAIL  ")
    ]
    if errors:
        shown = (text_below(lines, n, MOST_LINES) for n, _ in matches(UNHANDLED_PATTERN, lines))
        failures.append(("an error outside of the tests", next(shown, "")))
    counts = chosen(summaries)
    return replace(counts, failed=counts.failed + errors).naming(failures)


def _summaries(lines: Sequence[str], runner: str, lost: int) -> list[TestCounts]:
    """Return the counts of each line of tests that follows a line of files.

    Files that could not be loaded have failed, as have those that failed without a failed test.
    """

    def numbers(text: str) -> list[int]:
        ran = [0, 0, 0]
        for number, word in ITEM_PATTERN.findall(text):
            ran[KINDS[word]] += int(number)
        return ran

    word = "Tests:" if runner == "jest" else "Tests  "
    found: list[TestCounts] = []
    files = ""
    for line in lines:
        if word in line and files and TESTS_PATTERN.fullmatch(line):
            passed, failed, skipped = numbers(line)
            failed = failed + lost if failed else max(lost, numbers(files)[1])
            found.append(TestCounts(runner, passed, failed, skipped))
        files = line if FILES_PATTERN.fullmatch(line) else ""
    return found


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
    found = matches(PASSING_PATTERN, lines)
    ends = [*(number for number, _ in found[1:]), len(lines)]
    claims: list[tuple[TestCounts, int]] = []
    start = seen = 0
    for (number, passing), end in zip(found, ends, strict=False):
        for line in lines[start:number]:
            seen += (
                len(line) - 2 if DOTS_PATTERN.fullmatch(line) else bool(TICK_PATTERN.match(line))
            )
        others = {"pending": 0, "failing": 0}
        for line in lines[number + 1 : end]:
            match = OTHERS_PATTERN.fullmatch(line)
            if match is None:
                break
            others[match[2]] = int(match[1])
        counts = TestCounts("mocha", int(passing[1]), others["failing"], others["pending"])
        failures = _mocha_failures(lines[number + 1 : end], counts.failed)
        claims.append((counts.naming(failures), seen))
        start, seen = number, 0 if counts.run <= seen else seen
    crashes = (line.removeprefix(CRASH) for line in lines if line.startswith(CRASH))
    name = CRASH.strip(" :")
    return believed(claims) + [counts_of("mocha", (0, 1, 0), [(name, why)]) for why in crashes]


def _mocha_failures(lines: Sequence[str], most: int) -> Failures:
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


@dataclass(slots=True)
class _Point:
    """A test point of TAP: `ok 1 - adds up`."""

    indent: int
    name: str
    is_ok: bool
    is_skipped: bool
    is_counted: bool
    """Does it stand for itself, and not for those below it?"""
    is_suite: bool = False
    error: str = ""

    @property
    def has_failed(self) -> bool:
        return not self.is_ok and not self.is_skipped


def read_tap(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Node, and of each other TAP document."""
    starts = [number for number, line in enumerate(lines) if line.startswith("TAP version 1")]
    first, *ends = [*starts, len(lines)]
    documents = [lines[:first]] if matches(PLAN_PATTERN, lines[:first]) else []
    documents += [lines[start:end] for start, end in zip(starts, ends, strict=True)]
    found = []
    for document in documents:
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
    """Return what the points of a document, its plan and its bail-out come to."""
    plans = [int(plan[1]) for _, plan in matches(PLAN_PATTERN, lines)]
    bails = [line for line in lines if line.startswith("Bail out!")]
    counted = [point for point in points if point.is_counted]
    failed = [(point.name, point.error) for point in counted if point.has_failed]
    missing = max(sum(plans) - sum(point.indent == 0 for point in points), 0) if plans else 0
    if not plans and not bails:
        failed.append(("the plan is missing", ""))
    elif plans and sum(point.indent == 0 for point in points) > sum(plans):
        failed.append(("more tests than planned", ""))
    if missing:
        failed.append((f"{missing} planned tests are missing", ""))
    failed += [(line, "") for line in bails[-1:]]
    passed = sum(point.is_ok and not point.is_skipped for point in counted)
    skipped = sum(point.is_skipped for point in counted)
    return counts_of("tap", (passed, len(failed) + max(missing - 1, 0), skipped), failed)


def _node_numbers(lines: Sequence[str], mark: str) -> list[tuple[int, TestCounts]]:
    """Return each block of Node's numbers with the number of its last line."""
    found: list[tuple[int, TestCounts]] = []
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines):
        if not line.startswith(mark):
            continue
        if match := NODE_PATTERN.fullmatch(line):
            numbers[match[1]] = int(match[2])
        elif line.startswith(f"{mark} duration_ms ") and numbers.keys() >= NODE_KEYS:
            failed = numbers["fail"] + numbers["cancelled"]
            skipped = numbers.get("skipped", 0) + numbers.get("todo", 0)
            found.append((number, TestCounts("node", numbers["pass"], failed, skipped)))
            numbers = {}
    return found


def read_node_spec(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each run of Node's runner with the spec reporter."""
    summaries = _node_numbers(lines, "ℹ")
    ends = [*(number for number, _ in summaries[1:]), len(lines)]
    claims: list[tuple[TestCounts, int]] = []
    start = 0
    for (number, counts), end in zip(summaries, ends, strict=False):
        seen = sum(line.lstrip(" ").startswith("✔ ") for line in lines[start:number])
        run = lines[start:end]
        # The failures stand at the end once more, each with its error.
        title = run.index("✖ failing tests:") if "✖ failing tests:" in run else 0
        crosses = [
            (cross[1], text_below(run, title + at, 3))
            for at, cross in matches(CROSS_PATTERN, run[title:])
            if not cross[2]
        ]
        claims.append((counts.naming(crosses), seen))
        start = number
    return believed(claims)
