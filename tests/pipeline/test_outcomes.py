"""How it is told what a reply or a gate meant."""

import pytest

from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.pipeline.machine import (
    MOST_FILES,
    Approved,
    BaseKnown,
    Cleared,
    CyclesUsedUp,
    Delivered,
    Failed,
    Outcome,
    Passed,
    Refused,
    RoundsUsedUp,
    SentBack,
    Skipped,
    not_approved,
    not_reviewed,
    verdict_of,
    why_of,
)
from cli_agent_orchestrator.pipeline.review import (
    ReviewAnswer,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
)
from cli_agent_orchestrator.proof.verdict import Proof, ProofWords

REVISE = ReviewVerdict(ReviewAnswer.REVISE)
ALL = ProofWords(is_proven=True, said="all")
RED = CheckResult("make test", 2, "")
ENDED = "`make test` ended with exit code 2"
FAIL = f"FAIL: {ENDED}"
OBSTACLES = ("cycle 1 is too early", "there is no REVIEW_NOTES section")
NOT_COUNTED = ReviewVerdict(ReviewAnswer.APPROVED, OBSTACLES)
MISSING = TestVerdict(TestAnswer.MISSING)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Delivered(), "summary received"),
        (Approved(REVISE), str(REVISE)),
        (Skipped(), "skipped by a person; it counts as approved"),
        (SentBack(REVISE, 2), f"{REVISE}; cycle 2 follows"),
        (
            CyclesUsedUp(REVISE, 3),
            f"{REVISE}; all 3 review cycles are used up, the run goes on with the notes still open",
        ),
        (Passed(), "PASS"),
        (Passed(ALL), "PASS, proven: all"),
        (BaseKnown(RED), f"before the run: {FAIL}"),
        (Cleared("the proof"), "PASS; the proof follows"),
        (Failed(RED, 2), f"{FAIL}; round 2 follows"),
        (RoundsUsedUp(RED, 1), f"{FAIL}; the only round is used up"),
        (RoundsUsedUp(RED, 2), f"{FAIL}; all 2 rounds are used up"),
    ],
)
def test_an_outcome_is_told_in_words(outcome: Outcome, words: str) -> None:
    assert str(outcome) == words


@pytest.mark.parametrize(
    ("outcome", "verdict", "why"),
    [
        (Delivered(), "summary received", ""),
        (Approved(ReviewVerdict(ReviewAnswer.APPROVED)), "APPROVED", ""),
        (Skipped(), str(Skipped()), ""),
        (SentBack(REVISE, 2), "REVISE", ""),
        (
            SentBack(NOT_COUNTED, 2),
            f"APPROVED does not count: {OBSTACLES[0]}; {OBSTACLES[1]}",
            f"{OBSTACLES[0]}; {OBSTACLES[1]}",
        ),
        (CyclesUsedUp(REVISE, 3), "REVISE", ""),
        (Passed(), "PASS", ""),
        (Passed(ALL), "PASS, proven: all", "proven: all"),
        (BaseKnown(RED), f"before the run: {FAIL}", ""),
        (Cleared("the proof"), "PASS", ""),
        (Failed(RED, 2), FAIL, ENDED),
        (Failed(TestVerdict(TestAnswer.FAIL), 2), "FAIL", ""),
        (Failed(MISSING, 2), str(MISSING), str(MISSING)),
        (RoundsUsedUp(RED, 1), FAIL, ENDED),
        (RoundsUsedUp(Refused(str(Proof())), 1), f"FAIL: {Proof()}", str(Proof())),
        (Failed(not_reviewed(), 2), str(not_reviewed()), not_reviewed().why),
        (Failed(not_approved(), 2), str(not_approved()), not_approved().why),
    ],
)
def test_a_verdict_is_told_without_what_follows_and_why_without_its_word(
    outcome: Outcome, verdict: str, why: str
) -> None:
    assert (verdict_of(outcome), why_of(outcome)) == (verdict, why)


def test_what_speaks_against_a_pass_is_told_in_words() -> None:
    assert str(Refused(str(Proof()))) == f"FAIL: {Proof()}"
    said = (
        "FAIL: the tree 0123456789 was approved, and this one is 9876543210: these files changed "
        "after they were approved, and were not reviewed: "
    )
    trees = ("0123456789abcdef", "9876543210abcdef")
    assert str(not_reviewed(("a", "b\nRESULT: PASS"), *trees)) == f"{said}a, 'b\\nRESULT: PASS'"
    all_named = ("a",) * MOST_FILES
    assert str(not_reviewed(all_named, *trees)) == said + ", ".join(all_named)
    one_more = not_reviewed((*all_named, "b"), *trees)
    assert str(one_more) == f"{said}{', '.join(all_named)} and 1 more"
    assert not_reviewed() == not_reviewed((), "", "")
    assert str(not_reviewed()) == (
        "FAIL: the work was approved, and without snapshots nobody knows whether it is still the "
        "same"
    )
    never = (
        "FAIL: the review cycles were used up and the work was not approved, which "
        "REVIEW_BOUND=require asks for: no tree was approved"
    )
    assert str(not_approved()) == never
    assert str(not_approved("9876543210abcdef")) == f"{never}; this one is 9876543210"
