"""What a gate's command came to, and what of its output is handed on."""

import re
from dataclasses import dataclass, field, replace

from ..core.secrets import CUT, before_secret
from ..core.text import CONTROLS
from ..pipeline.reply import Excerpt, split_lines
from ..proof.counts import TestCounts, number_of
from ..settings.config import Condensation
from ..settings.gates import Gate

# "\x1b[31m", "\x1b]0;title\x07", and what else a terminal would obey
ESCAPE_PATTERN = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
CONTROL_PATTERN = f"[{CONTROLS}]"
# "test_a (test_file.Group.test_a)"
UNITTEST_PATTERN = r"(\w+) \([\w.]+\)"
LONGEST_LINE = 500
"""Characters of a line that is handed on; the archive has the whole of it."""
MOST_NAMED = 3
"""Failed tests that a verdict names; the evidence has more."""
LONGEST_LAST_LINE = 200
"""Characters of the line that is shown while a command runs."""
NO_OUTPUT = "(It wrote nothing.)"
NOT_FOUND = {126: "it cannot be executed", 127: "there is no such command"}
"""What a shell means by these."""


@dataclass(frozen=True, slots=True)
class BaseResult:
    """What a gate said before the run."""

    exit_code: int | None
    run: int = -1
    """How many tests were run; -1 if nobody knows."""
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A command of a gate that has ended, or was ended."""

    command: str
    exit_code: int | None
    """None if it did not end in time; negative if a signal ended it."""
    output: str = field(repr=False)
    """What it wrote, on both channels."""
    limit: float = 0.0
    """How many seconds it may take."""
    archive: str = ""
    """Where the output is kept."""
    counts: TestCounts | None = None
    """What it says of its tests; None if it is no test runner that is known."""
    objections: tuple[str, ...] = ()
    """Why it does not count as passed, although it ended well."""
    excused: bool = False
    """Does it count as passed, although tests fail as they did before the run?"""
    old_failures: tuple[str, ...] = ()
    """Those of its failures that were there before the run."""
    fault: str = ""
    """Why it could not be run; empty if it was."""
    log: str = ""
    """Where its output is kept, but for the middle of a long one; empty if nowhere."""
    left_out: int = 0
    """Bytes in that middle."""
    sandboxed: bool = False
    """Did it run in a sandbox?"""

    @property
    def passed(self) -> bool:
        """Does it speak for the work?"""
        return (self.exit_code == 0 or self.excused) and not self.objections

    @property
    def new_failures(self) -> tuple[str, ...]:
        """Those of its failures that were not there before the run."""
        found = self.counts.failures if self.counts else ()
        return tuple(name for name in found if name not in self.old_failures)

    @property
    def is_endless(self) -> bool:
        """Was its time limit reached?"""
        return self.exit_code is None and not self.fault

    @property
    def obstacle(self) -> str:
        """Why the command itself, not the work, is at fault; empty if it is not."""
        if self.fault:
            return self.fault
        if self.exit_code is None:
            return f"it did not end within {self.limit:g} s"
        return NOT_FOUND.get(self.exit_code, "") if self.counts is None else ""

    @property
    def last_words(self) -> str:
        """The last line it wrote if that says why it failed: no test did, or a sandbox held it."""
        is_in_doubt = self.sandboxed if self.counts is None else not self.counts.failed
        return (
            last_line(self.output.encode(errors="replace"))
            if self.exit_code and is_in_doubt
            else ""
        )

    @property
    def about_log(self) -> str:
        """What to say of its log: how much it does not have; empty if it has everything."""
        size = f"{max(self.left_out >> 20, 1)} MB"
        return f"{size} in the middle of its log are left out" if self.left_out else ""

    def __str__(self) -> str:
        if self.passed:
            tests = f" ({number_of(self.counts.run, self.counts.unit)})" if self.counts else ""
            still = number_of(len(self.old_failures), "test")
            return f"PASS{tests}" + (f", {still} failing as before the run" if self.excused else "")
        return f"FAIL: {self.why}"

    @property
    def why(self) -> str:
        """Why it did not pass; empty if it did."""
        return "" if self.passed else f"`{self.command}` {self._fault()}"

    def _fault(self) -> str:
        if self.fault:
            return f"could not be run: {self.fault}"
        if self.objections and self.exit_code == 0:
            return "; ".join(self.objections)
        if self.exit_code is None:
            return f"did not end within {self.limit:g} s"
        if self.exit_code < 0:
            return f"was ended by signal {-self.exit_code}"
        if self.exit_code in NOT_FOUND and not self.counts:
            return f"could not be run: {NOT_FOUND[self.exit_code]}"
        code = f"ended with exit code {self.exit_code}{' in a sandbox' if self.sandboxed else ''}"
        failed = self._failed_tests() if self.counts and self.counts.failed else ""
        return ": ".join(filter(None, [code, failed or self.last_words]))

    def _failed_tests(self) -> str:
        assert self.counts is not None, "somebody counted"
        many = f"{self.counts.failed} of {number_of(self.counts.run, 'test')} failed"
        old, new = len(self.old_failures), len(self.new_failures)
        if old and new:
            many += f", {new} of them not before the run"
        elif old:
            many += ", as before the run"
        names = self.new_failures[:MOST_NAMED] or self.old_failures[:MOST_NAMED]
        named = ", ".join(_short(name) for name in names)
        return f"{many} ({named}{', …' if old + new > MOST_NAMED else ''})" if named else many


def judge_check(
    result: CheckResult, base: BaseResult | None, *, allow_base_failures: bool = False
) -> CheckResult:
    """Return a result with what speaks against it, and what was there before the run.

    That a command ends well is not enough where tests are counted, or were before the run: none was
    run, fewer than before, or some failed that the exit code is silent about.
    """
    counts = result.counts
    if counts is None:
        if result.exit_code == 0 and base and base.run > 0:
            fault = f"says nothing of its tests; there were {base.run} before the run"
            return replace(result, objections=(fault,))
        return result
    before = base.failures if base else ()
    old = tuple(name for name in counts.failures if name in before)
    objections = []
    if not counts.run:
        objections.append("ran no test")
    elif base and counts.run < (before_run := _comparable(base, counts)):
        objections.append(f"ran {number_of(counts.run, counts.unit)}, {before_run} before the run")
    # Only where each failure has a name is it known that none is new.
    all_old = 0 < counts.failed == len(counts.failures) == len(old)
    same_end = (
        base is not None and result.exit_code is not None and result.exit_code == base.exit_code
    )
    excused = allow_base_failures and all_old and same_end
    if result.exit_code == 0 and counts.failed and not excused:
        many = f"{counts.failed} of {number_of(counts.run, 'test')} failed"
        objections.append(f"ended with exit code 0, but {many}")
    return replace(result, old_failures=old, objections=tuple(objections), excused=excused)


def resume_with_another(gate: Gate, run: str) -> str:
    """Return what resumes a run, as a person names it, with another command for a gate."""
    return f"{' '.join(filter(None, ('cao resume', run)))} --gate {gate.name}='COMMAND'"


def refusal_on_base(gate: Gate, result: CheckResult, run: str = "") -> str:
    """Say why a run cannot begin with a gate, by what it came to on the base; empty if it can."""
    if not result.obstacle or result.is_endless:
        return ""
    return (
        f"the gate {gate.name} cannot be run before the first turn: `{result.command}`: "
        f"{result.obstacle}; no agent could mend that. Resume with another one: "
        f"`{resume_with_another(gate, run)}`"
    )


def doubt_on_base(gate: Gate, result: CheckResult) -> str:
    """Say why a gate may never pass, or pass too easily, by what it came to on the base."""
    if result.is_endless:
        return (
            f"the gate {gate.name} did not end within {result.limit:g} s before the first turn; "
            "unless the task is to mend that, it needs more time (--gate-timeout, or its `seconds` "
            "in cao.toml)"
        )
    if result.counts and result.counts.untold:
        return (
            f"the gate {gate.name} does not say how many tests it runs: without -v, `go test` "
            "tells of packages only, and a test that is removed is not missed; let it run "
            "`go test -v`"
        )
    return ""


def base_of(result: CheckResult) -> BaseResult:
    """Return what is remembered of a gate on the base."""
    counts = result.counts
    if counts is None:
        return BaseResult(result.exit_code)
    return BaseResult(result.exit_code, counts.run, counts.failures)


def page_of(result: CheckResult) -> str:
    """Return a check as it is kept in the archive."""
    code = "none" if result.exit_code is None else result.exit_code
    lines = _lines(result) or [NO_OUTPUT]
    return "\n".join(
        [
            f"RESULT: {'PASS' if result.passed else 'FAIL'}",
            f"COMMAND: {result.command}",
            f"EXIT_CODE: {code}",
            *(f"BUT: it {objection}" for objection in result.objections),
            *([f"BUT: it could not be run: {result.fault}"] if result.fault else []),
            *([f"LOG: {result.log}"] if result.log else []),
            *([f"BUT: {result.about_log}"] if result.about_log else []),
            "EVIDENCE:",
            *([f"- In the end it wrote: {result.last_words}", ""] if result.last_words else []),
            *lines,
            "",
        ]
    )


def evidence_of(result: CheckResult, condensation: Condensation) -> Excerpt:
    """Return what the next round is told: how it ended, what failed, the end of its output."""
    lines = _lines(result)
    failures = _failures(result)
    if not condensation.review_feedback:
        shown, named = lines, failures
    else:
        most = max(condensation.max_feedback_lines - 1, 1)
        named = [_cut(line) for line in failures[:most]]
        # With the failures named, the end of the output is of little use, but it may say why.
        room = max(most - len(named), 0 if named else 1)
        shown = [_cut(line) for line in lines[-room:]] if room else []
    head = f"{result}."
    if not lines:
        return Excerpt(f"{head} {NO_OUTPUT}", 0, result.archive)
    parts = [head, *named, *(["It wrote:"] if named and shown else []), *shown]
    if not named:
        parts[0] = f"{head} It wrote:"
    return Excerpt("\n".join(parts), len(lines) - len(shown), result.archive)


def last_line(end: bytes) -> str:
    """Return the last line of an output that has something on it; `end` is the end of the output.

    What a terminal would overwrite does not count, nor what it would obey.
    """
    plain = re.sub(ESCAPE_PATTERN, "", end.decode(errors="replace"))
    lines = (re.sub(CONTROL_PATTERN, "", line).strip() for line in re.split(r"[\r\n]", plain))
    return next((line for line in reversed([*lines]) if line), "")[:LONGEST_LAST_LINE]


def _failures(result: CheckResult) -> list[str]:
    """List the failed tests, new ones first, each with the first thing that it says."""
    if result.counts is None:
        return []
    errors = result.counts.first_errors
    return [
        *(_failure(name, errors.get(name, "")) for name in result.new_failures),
        *(_failure(name, _before_too(errors.get(name, ""))) for name in result.old_failures),
    ]


def _before_too(error: str) -> str:
    return f"it failed before the run, too: {error}" if error else "it failed before the run, too"


def _failure(name: str, error: str) -> str:
    return f"- {name}: {error}" if error else f"- {name}"


def _short(name: str) -> str:
    """Return the name of a test without the class that unittest puts behind it."""
    found = re.fullmatch(UNITTEST_PATTERN, name)
    return found[1] if found else name


def _comparable(base: BaseResult, counts: TestCounts) -> int:
    """Return how many tests there were before the run, in the way in which they are counted now.

    A package that is untold counts as one when it passes, and by its failed tests when it does not.
    """
    failed = len(base.failures) if counts.untold else 0
    return base.run - max(failed - 1, 0)


def _cut(line: str) -> str:
    at = before_secret(line, LONGEST_LINE)
    return line if at == len(line) else f"{line[:at]}{CUT}"


def _lines(result: CheckResult) -> list[str]:
    plain = re.sub(ESCAPE_PATTERN, "", result.output.replace("\r\n", "\n"))
    return split_lines(re.sub(CONTROL_PATTERN, "", plain))
