"""The result of a gate's command, and what of its output is handed on."""

import re

from msgspec import Struct
from msgspec.structs import replace

from ..core.codec import Private
from ..core.secrets import cut_before_secret
from ..core.text import plural
from ..settings.config import Condensation
from ..settings.gates import Gate
from .counts import TestCounts, lines_of

# "test_a" in "test_a (test_file.Group.test_a)"
UNITTEST_PATTERN = r"(\w+) \([\w.]+\)"
LONGEST_LINE = 500
MOST_NAMED = 3
LONGEST_LAST_LINE = 200
NO_OUTPUT = "(It wrote nothing.)"
NOT_FOUND = {126: "it cannot be executed", 127: "there is no such command"}


class BaseResult(Struct, frozen=True):
    exit_code: int | None
    run: int = -1
    failures: tuple[str, ...] = ()


class CheckResult(Private, frozen=True):
    command: str
    exit_code: int | None
    """None if it did not end in time; negative if a signal ended it."""
    output: str
    limit: float = 0.0
    archive: str = ""
    counts: TestCounts | None = None
    objections: tuple[str, ...] = ()
    excused: bool = False
    """Does it count as passed, although tests fail as they did before the run?"""
    old_failures: tuple[str, ...] = ()
    fault: str = ""
    log: str = ""
    left_out: int = 0
    sandboxed: bool = False

    @property
    def passed(self) -> bool:
        return (self.exit_code == 0 or self.excused) and not self.objections

    @property
    def new_failures(self) -> tuple[str, ...]:
        found = self.counts.failures if self.counts else ()
        return tuple(name for name in found if name not in self.old_failures)

    @property
    def obstacle(self) -> str:
        not_found = NOT_FOUND.get(self.exit_code or 0, "") if self.counts is None else ""
        return self.fault or not_found

    @property
    def last_words(self) -> str:
        """The last line it wrote if that explains the failure: no test failed, or in a sandbox."""
        is_in_doubt = self.sandboxed if self.counts is None else not self.counts.failed
        has_failed = bool(self.exit_code) and is_in_doubt
        return last_line(self.output.encode(errors="replace")) if has_failed else ""

    @property
    def about_log(self) -> str:
        size = f"{max(self.left_out >> 20, 1)} MB"
        return f"{size} in the middle of its log are left out" if self.left_out else ""

    def __str__(self) -> str:
        if not self.passed:
            return f"FAIL: {self.why}"
        tests = f" ({plural(self.counts.run, self.counts.unit)})" if self.counts else ""
        still = plural(len(self.old_failures), "test")
        return f"PASS{tests}" + (f", {still} failing as before the run" if self.excused else "")

    @property
    def why(self) -> str:
        if self.passed:
            return ""
        words = f"ended with exit code {self.exit_code}{' in a sandbox' if self.sandboxed else ''}"
        if self.obstacle:
            words = f"could not be run: {self.obstacle}"
        elif self.objections and self.exit_code == 0:
            words = "; ".join(self.objections)
        elif self.exit_code is None:
            words = f"did not end within {self.limit:g} s"
        elif self.exit_code < 0:
            words = f"was ended by signal {-self.exit_code}"
        elif self.counts and self.counts.failed:
            words += f": {self._failed_tests(self.counts)}"
        elif self.last_words:
            words += f": {self.last_words}"
        return f"`{self.command}` {words}"

    def _failed_tests(self, counts: TestCounts) -> str:
        many = f"{counts.failed} of {plural(counts.run, 'test')} failed"
        old, new = self.old_failures, self.new_failures
        if old:
            many += f", {len(new)} of them not before the run" if new else ", as before the run"
        found = (re.fullmatch(UNITTEST_PATTERN, name) for name in new or old)
        short = [match[1] if match else name for match, name in zip(found, new or old, strict=True)]
        named = ", ".join(short[:MOST_NAMED])
        return f"{many} ({named}{', …' if len(old + new) > MOST_NAMED else ''})" if named else many


def judge_check(
    result: CheckResult, base: BaseResult | None, *, allow_base_failures: bool = False
) -> CheckResult:
    """Return a result with the objections to it, and the failures from before the run.

    Where tests are counted, or were before the run, an exit code of 0 is not enough: none was run,
    fewer than before, or some failed.
    """
    counts = result.counts
    if counts is None:
        if result.exit_code == 0 and base and base.run > 0:
            fault = f"says nothing of its tests; there were {base.run} before the run"
            return replace(result, objections=(fault,))
        return result
    before = base.failures if base else ()
    old = tuple(name for name in counts.failures if name in before)
    # An untold package counts as one when it passes, and by its failed tests when it does not.
    tests_before = base.run - max(len(before) - 1, 0) * bool(counts.untold) if base else 0
    objections = []
    if not counts.run:
        objections.append("ran no test")
    elif counts.run < tests_before:
        ran = plural(counts.run, counts.unit)
        objections.append(f"ran {ran}, {tests_before} before the run")
    # Only where each failure has a name is it known that none is new.
    all_old = 0 < counts.failed == len(counts.failures) == len(old)
    same_end = base is not None and base.exit_code == result.exit_code is not None
    excused = allow_base_failures and all_old and same_end
    if result.exit_code == 0 and counts.failed and not excused:
        many = f"{counts.failed} of {plural(counts.run, 'test')} failed"
        objections.append(f"ended with exit code 0, but {many}")
    return replace(result, old_failures=old, objections=tuple(objections), excused=excused)


def resume_with_another(gate: Gate, run: str) -> str:
    return f"{' '.join(filter(None, ('cao resume', run)))} --gate {gate.name}='COMMAND'"


def refusal_on_base(gate: Gate, result: CheckResult, run: str = "") -> str:
    if not result.obstacle:
        return ""
    return (
        f"the gate {gate.name} cannot be run before the first turn: `{result.command}`: "
        f"{result.obstacle}; no agent could mend that. Resume with another one: "
        f"`{resume_with_another(gate, run)}`"
    )


def doubt_on_base(gate: Gate, result: CheckResult) -> str:
    """Return why a gate may never pass, or pass too easily, by its result on the base."""
    if result.exit_code is None and not result.fault:
        return (
            f"the gate {gate.name} did not end within {result.limit:g} s before the first turn; "
            "unless the task is to mend that, it needs more time (CAO_GATE_TIMEOUT, or its "
            "`seconds` in cao.toml)"
        )
    if result.counts and result.counts.untold:
        return (
            f"the gate {gate.name} does not say how many tests it runs: without -v, `go test` "
            "tells of packages only, and a test that is removed is not missed; let it run "
            "`go test -v`"
        )
    return ""


def base_of(result: CheckResult) -> BaseResult:
    if (counts := result.counts) is None:
        return BaseResult(result.exit_code)
    return BaseResult(result.exit_code, counts.run, counts.failures)


def page_of(result: CheckResult) -> str:
    lines = [
        f"RESULT: {'PASS' if result.passed else 'FAIL'}",
        f"COMMAND: {result.command}",
        f"EXIT_CODE: {'none' if result.exit_code is None else result.exit_code}",
        *(f"BUT: it {objection}" for objection in result.objections),
    ]
    if result.fault:
        lines.append(f"BUT: it could not be run: {result.fault}")
    if result.log:
        lines.append(f"LOG: {result.log}")
    if result.about_log:
        lines.append(f"BUT: {result.about_log}")
    lines.append("EVIDENCE:")
    if result.last_words:
        lines += [f"- In the end it wrote: {result.last_words}", ""]
    return "\n".join([*lines, *(_lines(result.output) or [NO_OUTPUT]), ""])


def evidence_of(result: CheckResult, condensation: Condensation) -> tuple[str, int]:
    """Return what the next round gets, and how many lines of the output are left out."""
    lines = shown = _lines(result.output)
    errors = result.counts.first_errors if result.counts else {}
    named = []
    for name in (*result.new_failures, *result.old_failures):
        before = "it failed before the run, too" if name in result.old_failures else ""
        named.append(": ".join(filter(None, (f"- {name}", before, errors.get(name)))))
    if condensation.review_feedback:
        most = max(condensation.max_feedback_lines - 1, 1)
        named = [cut_before_secret(line, LONGEST_LINE) for line in named[:most]]
        # With the failures named, the end of the output is of little use, but it may explain them.
        room = max(most - len(named), 0 if named else 1)
        last = lines[-room:] if room else []
        shown = [cut_before_secret(line, LONGEST_LINE) for line in last]
    if not lines:
        return f"{result}. {NO_OUTPUT}", 0
    if not named:
        return "\n".join([f"{result}. It wrote:", *shown]), len(lines) - len(shown)
    wrote = ["It wrote:", *shown] if shown else []
    return "\n".join([f"{result}.", *named, *wrote]), len(lines) - len(shown)


def last_line(end: bytes) -> str:
    lines = map(str.strip, lines_of(end.decode(errors="replace")))
    return next((line for line in reversed([*lines]) if line), "")[:LONGEST_LAST_LINE]


def _lines(output: str) -> list[str]:
    lines = lines_of(output)
    said = [number for number, line in enumerate(lines) if line.strip()]
    return lines[said[0] : said[-1] + 1] if said else []
