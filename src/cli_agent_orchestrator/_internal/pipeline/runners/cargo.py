"""Reads what `cargo test` prints: each target begins with `running 4 tests` and sums up.

A summary counts if it tells of as many tests as were to be run; a target without such a summary
did not finish.
"""

import re
from collections.abc import Iterator, Sequence

from cli_agent_orchestrator._internal.pipeline.runners.tally import (
    TestCounts,
    add_counts,
    chosen,
    counts_of,
    unfinished,
)

CARGO = "cargo"
RUNNING_PATTERN = re.compile(r"running (\d{1,9}) tests?")
# "test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.46s"
RESULT_PATTERN = re.compile(
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
        if (match := RESULT_PATTERN.fullmatch(line))
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
