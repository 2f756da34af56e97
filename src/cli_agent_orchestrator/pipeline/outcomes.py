"""What a reply or a gate meant for a run."""

from dataclasses import dataclass

from ..core.text import first_names
from ..gates.check import CheckResult
from ..proof.verdict import Proof, ProofWords
from .review import ReviewVerdict, TestVerdict

MOST_FILES = 20
"""Files that a verdict names."""
SHOWN = 10
"""Characters of a tree's name that a verdict shows."""


@dataclass(frozen=True, slots=True)
class NotReviewed:
    """A PASS came for files that changed after the review that approved them, or may have."""

    files: tuple[str, ...] = ()
    """Empty where nobody knows which they are."""
    approved: str = ""
    """The tree that was approved."""
    tree: str = ""
    """The tree that there is now."""

    @property
    def why(self) -> str:
        """Say what is not reviewed."""
        if not self.files:
            return (
                "the work was approved, and without snapshots nobody knows whether it is "
                "still the same"
            )
        return (
            f"the tree {self.approved[:SHOWN]} was approved, and this one is "
            f"{self.tree[:SHOWN]}: these files changed after they were approved, and were not "
            f"reviewed: {first_names(self.files, MOST_FILES)}"
        )

    def __str__(self) -> str:
        return f"FAIL: {self.why}"


@dataclass(frozen=True, slots=True)
class NotApproved:
    """A PASS came for work that its review had not approved when the cycles were used up."""

    tree: str = ""
    """The tree that there is now; empty if nobody knows it."""

    @property
    def why(self) -> str:
        """Say what is asked for."""
        this = f"; this one is {self.tree[:SHOWN]}" if self.tree else ""
        return (
            "the review cycles were used up and the work was not approved, which "
            f"REVIEW_BOUND=require asks for: no tree was approved{this}"
        )

    def __str__(self) -> str:
        return f"FAIL: {self.why}"


@dataclass(frozen=True, slots=True)
class NotProven:
    """A PASS came without the proof that is required."""

    proof: Proof

    @property
    def why(self) -> str:
        """Say what is missing for a proof."""
        return str(self.proof)

    def __str__(self) -> str:
        return f"FAIL: {self.why}"


Against = TestVerdict | CheckResult | NotReviewed | NotApproved | NotProven
"""Why a round failed."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An author's summary is there."""

    def __str__(self) -> str:
        return "summary received"


@dataclass(frozen=True, slots=True)
class Approved:
    """A review ends its phase."""

    verdict: ReviewVerdict

    def __str__(self) -> str:
        return str(self.verdict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A person did not want to wait for a review; it ends its phase."""

    def __str__(self) -> str:
        return "skipped by a person; it counts as approved"


@dataclass(frozen=True, slots=True)
class SentBack:
    """A review leads to another cycle."""

    verdict: ReviewVerdict
    next_cycle: int

    def __str__(self) -> str:
        return f"{self.verdict}; cycle {self.next_cycle} follows"


@dataclass(frozen=True, slots=True)
class CyclesUsedUp:
    """The last review did not approve; the run goes on with open notes."""

    verdict: ReviewVerdict
    cycles: int

    def __str__(self) -> str:
        return (
            f"{self.verdict}; all {self.cycles} review cycles are used up, "
            "the run goes on with the notes still open"
        )


@dataclass(frozen=True, slots=True)
class Passed:
    """The run has reached its goal."""

    proof: ProofWords | None = None
    """What was proven; None if that was not asked for."""

    def __str__(self) -> str:
        return "PASS" if self.proof is None else f"PASS, {self.proof}"


@dataclass(frozen=True, slots=True)
class BaseKnown:
    """It is known what a gate says of the base."""

    result: CheckResult

    def __str__(self) -> str:
        return f"before the run: {self.result}"


@dataclass(frozen=True, slots=True)
class Cleared:
    """A test or a gate has passed that is not the last one."""

    then: str
    """What follows: a stage, a gate, the proof."""

    def __str__(self) -> str:
        return f"PASS; {self.then} follows"


@dataclass(frozen=True, slots=True)
class Failed:
    """A test or a gate failed; another round follows."""

    verdict: Against
    next_round: int

    def __str__(self) -> str:
        return f"{self.verdict}; round {self.next_round} follows"


@dataclass(frozen=True, slots=True)
class RoundsUsedUp:
    """A test or a gate of the last round failed, and with it the run."""

    verdict: Against
    rounds: int

    def __str__(self) -> str:
        all_of_them = f"all {self.rounds} rounds are" if self.rounds > 1 else "the only round is"
        return f"{self.verdict}; {all_of_them} used up"


Outcome = (
    Delivered
    | Approved
    | Skipped
    | SentBack
    | CyclesUsedUp
    | Passed
    | BaseKnown
    | Cleared
    | Failed
    | RoundsUsedUp
)
BASE_PASSED, BASE_FAILED = "base_passed", "base_failed"
"""Those for what a gate says of the base."""


def verdict_of(outcome: Outcome) -> str:
    """Return an outcome in words, without what follows from it."""
    match outcome:
        case SentBack() | CyclesUsedUp() | Failed() | RoundsUsedUp():
            return str(outcome.verdict)
        case Cleared():
            return "PASS"
    return str(outcome)


def why_of(outcome: Outcome) -> str:
    """Return what stands behind a verdict, without its own word; empty if it says no more."""
    match outcome:
        case SentBack() | CyclesUsedUp() | Failed() | RoundsUsedUp():
            return outcome.verdict.why
        case Passed(proof) if proof is not None:
            return str(proof)
    return ""
