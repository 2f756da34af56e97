"""What was proven of the work, besides that the gates pass.

Some more runs of each gate that counts its tests say more than a green one, in fresh checkouts:

    the run's own tests on the base     must fail: they test what was not there
    the base's tests on the result      must pass: nothing was bought by changing them
    the run's own tests on the result   must pass: all that they need is in the files
    tests that fail in any case         must be noticed on the result, if they are on the base

Tests that failed before the run and pass now are worth as much as new ones. What was done to tests,
their settings and CI files is listed beside it, with its diff; that alone proves nothing. What had
been done before the run, and is not committed, is listed apart: the run is not judged by it.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from ..core.codec import Private
from ..core.markdown import block_of, excerpt, harmless
from ..core.text import first_names, on_a_line, plural
from ..gates.check import CheckResult, page_of
from ..gates.counts import TestCounts
from .tampering import Suspicion, Trick

MOST_LISTED = 30
MOST_NAMED = 3
LINES_OF_FILE, LINES_OF_ALL = 40, 200
PROVEN, NOT_PROVEN = "proven", "not proven"
BEFORE = "before the run and not committed: "
BEFORE_TITLE = "Before the run, and not committed:"


class ProofWords(Struct, frozen=True):
    is_proven: bool
    said: str
    look_at: str = ""
    """How much of what the run did to tests is to be looked at; empty if nothing is."""
    before: str = ""
    """The same of what had been done before the run, and is in no commit."""
    suspicions: tuple[str, ...] = ()
    """What the run did to tests and their settings: path, trick, detail."""
    suspicions_before: tuple[str, ...] = ()
    patch: str = ""
    """What the run did to the files of these suspicions, cut to a page."""

    def __str__(self) -> str:
        tail = f"; look at {self.look_at}" if self.look_at else ""
        tail += f"; {BEFORE}{self.before}" if self.before else ""
        return f"{PROVEN if self.is_proven else NOT_PROVEN}: {self.said}{tail}"


class GateProof(Struct, frozen=True):
    gate: str
    on_result: CheckResult
    on_base: CheckResult | None = None
    turned: tuple[str, ...] = ()
    """Tests that failed before the run, fail on the base still, and pass now."""
    faded: tuple[str, ...] = ()
    """Tests that failed before the run and do not fail on the base any more."""
    emptied: tuple[str, ...] = ()
    """New files of the product that were there, with nothing in them, when `on_base` was run."""
    missed: tuple[str, ...] = ()
    """Tests that must fail, which it reports on the base and not on the result."""
    betrayed: tuple[str, ...] = ()
    """Tests that pass on the result as long as there are none that must fail."""
    failed_before: int = 0
    """How many tests failed before the run; that they do says nothing of those it made."""
    passed_with: int = -1
    """How many tests it ran when it passed; -1 if that was compared with the base then."""
    as_it_is: CheckResult | None = None
    """The run's own tests on the result, in a fresh checkout; None if it passed in one already."""

    @property
    def has_red_tests(self) -> bool:
        return self.on_base is not None and is_red(self.on_base, self.failed_before)

    @property
    def fails_afresh(self) -> bool:
        return not self.on_result.passed or not (self.as_it_is is None or self.as_it_is.passed)

    @property
    def fault(self) -> str:
        result, counts = self.on_result, self.on_result.counts
        needs = "if that needs more than the files of the project, give the gate a `setup`"
        if counts is None:
            return f"it ran no tests in a fresh checkout ({result}); {needs}"
        if not result.passed:
            return f"the tests from before do not pass ({result})"
        if self.fails_afresh:
            own = "the run's own tests do not pass in a fresh checkout"
            return f"{own} ({self.as_it_is}); {needs}"
        if self.missed:
            what = "since the run it does not notice tests that must fail"
            return f"{what}; something keeps them quiet"
        if self.betrayed:
            what = "tests pass only as long as there are none that must fail"
            named = first_names(self.betrayed, MOST_NAMED)
            return f"{what} ({named}); something in the project looks for these"
        if 0 <= self.passed_with < counts.run:
            ran = plural(self.passed_with, counts.unit)
            return f"it ran {ran}, and {counts.run} with the tests from before"
        return ""


class Proof(Private, frozen=True):
    gates: tuple[GateProof, ...] = ()
    new_tests: tuple[str, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    product: tuple[str, ...] = ()
    is_untouched: bool = False
    before: tuple[Suspicion, ...] = ()
    """What had been done to tests before the run, and is in no commit."""
    patches: tuple[str, ...] = field(default=())
    command: str = ""
    no_snapshots: str = ""
    """Why there is nothing to compare; empty if there is."""
    left_behind: tuple[str, ...] = ()
    """What programs left behind during the run, outermost folders: no checkout has it."""

    @property
    def gaps(self) -> tuple[str, ...]:
        if self.no_snapshots:
            return (f"without snapshots ({self.no_snapshots}) nothing can be proven",)
        if not self.gates:
            return ("no gate says which tests it runs",)
        if self.is_untouched:
            return ("nothing was changed",)
        found = [f"the gate {one.gate}: {one.fault}" for one in self.gates if one.fault]
        if self.left_behind and any(one.fails_afresh for one in self.gates):
            left = first_names(self.left_behind, MOST_NAMED)
            found.append(
                f"checkouts do not have what programs left behind ({left}), nor has a commit"
            )
        if not any(one.turned or one.has_red_tests for one in self.gates):
            found.append(self._why_not_red())
        return tuple(found)

    @property
    def is_proven(self) -> bool:
        return not self.gaps

    @property
    def words(self) -> ProofWords:
        said = "; ".join(self.gaps or self._shown())
        return ProofWords(
            self.is_proven,
            said,
            _counted(self.suspicions),
            _counted(self.before),
            _listed(self.suspicions),
            _listed(self.before),
            excerpt(self.patches, LINES_OF_FILE, LINES_OF_ALL, self.command),
        )

    def __str__(self) -> str:
        return str(self.words)

    def _shown(self) -> list[str]:
        parts = []
        work = f"the change to {first_names(self.product, MOST_NAMED)}" if self.product else ""
        if turned := sum(len(one.turned) for one in self.gates):
            verb = "passes" if turned == 1 else "pass"
            by = f" with {work}" if work else ""
            parts.append(f"{plural(turned, 'test')} that failed before now {verb}{by}")
            work = work and "it"
        if any(one.has_red_tests for one in self.gates):
            parts.append(f"the run's own tests fail without {work or 'its work'}")
        return [*parts, "the tests from before pass as they were"]

    def _why_not_red(self) -> str:
        faded = sum(len(one.faded) for one in self.gates)
        parts = []
        if faded:
            verb = "does" if faded == 1 else "do"
            tests = f"{plural(faded, 'test')} that failed before the run {verb} not fail there"
            parts.append(f"the base passes now, too: {tests} any more")
        ran = any(one.on_base and one.on_base.counts for one in self.gates)
        emptied = next((one.emptied for one in self.gates if one.emptied), ())
        if self.new_tests and not ran:
            parts.append("the run's own tests could not be run on the base")
        elif self.new_tests and emptied:
            named = first_names(emptied, MOST_NAMED)
            parts.append(f"the run's own tests pass with nothing in its new files ({named})")
        elif self.new_tests:
            named = first_names(self.new_tests, MOST_NAMED)
            parts.append(f"the run's own tests pass without its work ({named})")
        elif not faded:
            parts.append("no test was made or changed, and none that failed before now passes")
        return "; ".join(parts)


def is_red(result: CheckResult, failed_before: int) -> bool:
    return result.counts is not None and result.counts.failed > failed_before


def still_failing(
    turned: tuple[str, ...], again: TestCounts | None, now: Sequence[str]
) -> tuple[str, ...]:
    """Return which of the tests that failed before the run fail on the base when run again.

    `now` fail with the work as well. A test's name may have its folder in it: then no name is found
    again, and all count if something else fails.
    """
    if again is None:
        return turned
    found = tuple(name for name in turned if name in again.failures)
    is_red = again.failed > 0 and not set(again.failures) <= set(now)
    return found or (turned if is_red else ())


def page_of_proof(proof: Proof) -> str:
    verdict, words = "PASS" if proof.is_proven else "FAIL", proof.words
    lines = [f"RESULT: {verdict}", f"PROOF: {harmless(str(words))}"]
    lines += [f"- {one}" for one in words.suspicions]
    if words.suspicions_before:
        lines += ["", BEFORE_TITLE, *(f"- {one}" for one in words.suspicions_before)]
    if words.patch:
        lines += ["", "What the run did to these files:", block_of(words.patch)]
    for gate in proof.gates:
        for title, result in (
            ("The run's own tests on the base", gate.on_base),
            ("The base's tests on the result", gate.on_result),
            ("The run's own tests on the result", gate.as_it_is),
        ):
            if result is not None:
                lines += ["", f"{title}, by the gate {gate.gate}:", page_of(result)]
    return "\n".join([*lines, ""])


def _counted(suspicions: Sequence[Suspicion]) -> str:
    parts = []
    reaching = [one for one in suspicions if one.trick is Trick.REACHES]
    misleading = [one for one in suspicions if one.trick is Trick.MISLEADS]
    if changed := len(suspicions) - len(reaching) - len(misleading):
        parts.append(f"{plural(changed, 'change')} to tests or settings")
    reach = "reaches into the tests" if len(reaching) == 1 else "reach into the tests"
    for do, found in ((reach, reaching), ("could mislead the tests", misleading)):
        if found:
            line = found[0].detail.partition(":")[0]
            files = f"{plural(len(found), 'file')} that {do}"
            parts.append(f"{files} ({on_a_line(found[0].path)}, {line})")
    return " and ".join(parts)


def _listed(suspicions: Sequence[Suspicion]) -> tuple[str, ...]:
    lines = [
        f"{harmless(on_a_line(one.path))}: {one.trick}, {harmless(one.detail)}"
        for one in suspicions[:MOST_LISTED]
    ]
    more = len(suspicions) - MOST_LISTED
    return (*lines, *([f"and {more} more"] if more > 0 else []))
