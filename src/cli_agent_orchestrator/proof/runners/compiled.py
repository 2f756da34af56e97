"""Reads what `go test` prints: plain, with `-v` and with `-json`.

Each package is a run of its own. Without `-v` a package does not say how many tests it has: it is
untold, and counts as one test if it passes. A package that is told twice has failed if it failed
once. With `-v` a test counts only if it was seen to start: the program under test can print
`--- PASS`, too.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .tally import TestCounts, add_counts, chosen, counts_of, unfinished

GO = "go"
# "--- FAIL: TestTable/second (0.00s)"
RESULT_PATTERN = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d{1,9}\.\d\ds\)")
# "=== RUN   TestTable/second", "=== CONT  TestTable"
RUN_PATTERN = re.compile(r"=== ([A-Z]+) +(\S+)")
# "ok  \texample.com/shop\t0.003s", "FAIL\texample.com/shop [build failed]"
PACKAGE_PATTERN = re.compile(r"(ok  |FAIL|\?   |---  )\t(\S+)(?:\s.*)?")
# "    shop_test.go:4: got 3, want 4"
ERROR_PATTERN = re.compile(r"\.go:\d+(?::\d+)?: (.+)")
# "example.com/shop/good [no tests to run]"
NOTHING = ("[no tests to run]", "[no test files]")
WORST = {"": 0, "PASS": 1, "SKIP": 2, "FAIL": 3}


@dataclass(slots=True)
class Package:
    """What is known about the tests of one package."""

    results: dict[str, str] = field(default_factory=dict)
    """PASS, FAIL or SKIP by the name of a test; nothing as long as it runs."""
    errors: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    """PASS or FAIL; nothing as long as it runs."""
    empty: bool = False
    """Is it said to have no tests?"""
    told: bool = False
    """Was one of its tests seen to start?"""
    last_error: str = ""

    def note(self, test: str, result: str) -> None:
        """Take note of a test's result; the worst of several stays. Without one it starts."""
        self.told = self.told or not result
        if WORST[result] >= WORST[self.results.get(test, "")]:
            self.results[test] = result

    def end(self, result: str, empty: bool) -> None:
        """Take note of how the package ended; once failed is failed."""
        self.ended = "FAIL" if "FAIL" in {result, self.ended} else result
        self.empty = empty

    def join(self, other: "Package") -> None:
        """Take note of all that is known elsewhere."""
        for test, result in other.results.items():
            self.note(test, result)
        self.errors |= {test: error for test, error in other.errors.items() if test}
        self.last_error = self.last_error or other.last_error
        self.told = self.told or other.told
        self.end(other.ended, other.empty)

    def counts(self, name: str) -> TestCounts:
        """Return the counts. A test that never ended has failed."""
        failed = [test for test, result in self.results.items() if result in {"", "FAIL"}]
        values = list(self.results.values())
        passed, skipped = values.count("PASS"), values.count("SKIP")
        if not values and self.ended == "PASS" and not self.empty:
            passed = 1
        errors = [
            (f"{name}.{test}" if name else test, self.errors.get(test, "")) for test in failed
        ]
        if self.ended == "FAIL" and not failed:
            errors = [(name or "go test", self.last_error)]
        untold = not self.told and (bool(values) or passed > 0)
        counts = counts_of(GO, (passed, len(errors), skipped), errors)
        return replace(counts, untold=int(untold))


def read_go(lines: Sequence[str]) -> list[TestCounts]:
    """Return the counts of each package."""
    packages, events = _read_text(lines), _read_events(lines)
    for name, package in events.items():
        packages.setdefault(name, Package()).join(package)
    return [package.counts(name) for name, package in packages.items()]


def _read_text(lines: Sequence[str]) -> dict[str, Package]:
    packages: dict[str, Package] = {}
    now, test = Package(), ""
    for line in lines:
        if match := RUN_PATTERN.fullmatch(line):
            test = match[2]
            if match[1] == "RUN":
                now.note(test, "")
        elif "--- " in line and (match := RESULT_PATTERN.fullmatch(line, line.rindex("--- "))):
            test = _note_result(now, match) or test
        elif match := PACKAGE_PATTERN.fullmatch(line):
            _close(packages.setdefault(match[2], Package()), now, line, match[1])
            now, test = Package(), ""
        else:
            _note_error(now, test, line)
    if now.results:
        # A test binary that is run by itself ends with PASS or FAIL and names no package.
        ends = (line for line in reversed(lines) if line in {"PASS", "FAIL"})
        now.ended = next(ends, "FAIL")
        packages[""] = now
    for name, error in _not_built(lines).items():
        if name in packages:
            packages[name].last_error = error
    return packages


def _not_built(lines: Sequence[str]) -> dict[str, str]:
    """Return the first error of each package that the compiler complained about."""
    errors: dict[str, str] = {}
    building = ""
    for line in lines:
        if line.startswith("# "):
            building = line.split(" ")[1]
        elif building and building not in errors and _error(line):
            errors[building] = line
    return errors


def _note_result(package: Package, match: re.Match[str]) -> str:
    """Take note of a result line; return the test if it is one that ran or failed."""
    if match[1] != "FAIL" and match[2] not in package.results:
        return ""
    package.note(match[2], match[1])
    if match[1] == "FAIL" and "" in package.errors:
        package.errors.setdefault(match[2], package.errors.pop(""))
    return match[2]


def _note_error(package: Package, test: str, line: str) -> None:
    if error := _error(line):
        package.errors.setdefault(test, error)
        package.last_error = package.last_error or line.strip()


def _error(line: str) -> str:
    """Return what a line says is wrong, nothing if it is no error."""
    if line.startswith("panic: "):
        return line
    match = ERROR_PATTERN.search(line)
    return match[1] if match else ""


def _close(package: Package, now: Package, line: str, word: str) -> None:
    """Put what was read since the last package into the one that a line names."""
    now.end("FAIL" if word == "FAIL" else "PASS", line.endswith(NOTHING))
    package.join(now)


def _read_events(lines: Sequence[str]) -> dict[str, Package]:
    packages: dict[str, Package] = {}
    built: dict[str, str] = {}
    for line in lines:
        if line.startswith("{") and (event := _event(line)):
            name, action, test = event.get("Package", ""), event["Action"], event.get("Test", "")
            output = event.get("Output", "")
            _take(packages, name, (action, test, output))
            if action == "build-output" and _error(output):
                built.setdefault(event.get("ImportPath", "").partition(" ")[0], output)
    for name, package in packages.items():
        package.ended = package.ended or "FAIL"
        package.last_error = built.get(name, package.last_error)
    return packages


def _event(line: str) -> dict[str, str]:
    """Return the texts of an event, nothing if it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(event, dict) or not isinstance(event.get("Action"), str):
        return {}
    return {key: value for key, value in event.items() if isinstance(value, str)}


def _take(packages: dict[str, Package], name: str, event: tuple[str, str, str]) -> None:
    action, test, output = event
    if not name:
        return
    package = packages.setdefault(name, Package())
    if action == "output":
        package.empty = package.empty or any(words in output for words in NOTHING)
        _note_error(package, test, output)
    elif action in {"pass", "fail", "skip", "run"}:
        result = "" if action == "run" else action.upper()
        if test:
            package.note(test, result)
        elif result:
            package.end("FAIL" if result == "FAIL" else "PASS", package.empty)


CARGO = "cargo"
RUNNING_PATTERN = re.compile(r"running (\d{1,9}) tests?")
# "test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.46s"
RESULT_PATTERN_CARGO = re.compile(
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
    targets = [_read_target(number, part) for number, part in _targets(lines)]
    return targets + _not_compiled(lines)


def _targets(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield how many tests each target is to run, and its lines."""
    starts = [
        (number, int(match[1]))
        for number, line in enumerate(lines)
        if (match := RUNNING_PATTERN.fullmatch(line))
    ]
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    for (start, tests), end in zip(starts, ends, strict=False):
        yield tests, lines[start:end]


def _read_target(tests: int, lines: Sequence[str]) -> TestCounts:
    found = [
        (tuple(int(number) for number in match.groups()), number)
        for number, line in enumerate(lines)
        if (match := RESULT_PATTERN_CARGO.fullmatch(line))
    ]
    summaries = [
        counts_of(CARGO, (said[0] + said[3], said[1], said[2] + said[4]))
        for said, _ in found
        if sum(said[:4]) == tests
    ]
    if not summaries:
        ended = [TestCounts(CARGO, 0, said[1]) for said, _ in found]
        passed = sum(line.startswith("test ") and line.endswith(" ... ok") for line in lines)
        return add_counts([unfinished(CARGO, passed), *([chosen(ended)] if ended else [])])
    counts = chosen(summaries)
    if not counts.failed:
        return counts
    return counts_of(CARGO, (counts.passed, counts.failed, counts.skipped), _failures(lines))


def _failures(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tests in the last list of failures, each with its error."""
    errors = _errors(lines)
    start = max((n for n, line in enumerate(lines) if line == "failures:"), default=len(lines))
    names: list[str] = []
    for line in lines[start + 1 :]:
        if not line.startswith("    "):
            break
        names.append(line.strip())
    return [(name, errors.get(name, "")) for name in names]


def _errors(lines: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with each test: its panic, or else the first line that it printed."""
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
    return errors


def _not_compiled(lines: Sequence[str]) -> list[TestCounts]:
    failed: list[TestCounts] = []
    first = ""
    for line in lines:
        if match := NOT_COMPILED_PATTERN.fullmatch(line):
            failed.append(counts_of(CARGO, (0, 1, 0), [(match[1], first)]))
            first = ""
        elif not first and COMPILER_PATTERN.fullmatch(line):
            first = line
    return failed
