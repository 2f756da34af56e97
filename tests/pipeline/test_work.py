"""What a run decides by what was done to its files."""

from dataclasses import replace
from enum import Enum

import pytest

from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.machine import (
    Check,
    Failed,
    Outcome,
    Passed,
    Refused,
    RoundsUsedUp,
    next_step,
    not_approved,
    not_reviewed,
    record_check,
    record_proof,
    record_reply,
    skip_review,
    stall_marks,
    stall_of,
)
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import (
    FinalStatus,
    RunState,
    Turn,
    decode_state,
    encode_state,
)
from cli_agent_orchestrator.proof.verdict import Proof
from cli_agent_orchestrator.settings.config import Limits, LoopRules, ReviewRules
from cli_agent_orchestrator.settings.gates import PROOF as PROOF_GATE
from cli_agent_orchestrator.settings.gates import When
from cli_agent_orchestrator.work.changes import UNSEEN, Work
from tests.pipeline.samples import FAIL, PASS, review
from tests.pipeline.test_flows_in_machine import NO, RED, YES, begin, with_gates

RULES = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off")
BOUND = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off", is_review_bound=True)
LAST_GATE = '{"name": "tests", "run": "x", "when": ["after_tester"]}'
GREEN = CheckResult("x", 0, "ok")
IDLE, BUSY = Work("t1"), Work("t2", ("a.py",))


def reply(
    state: RunState, text: str, work: Work = UNSEEN, rules: LoopRules = RULES
) -> tuple[RunState, Outcome]:
    turn = next_step(state)
    assert isinstance(turn, Turn)
    state, outcome = record_reply(state, turn, Output(text), rules, work)
    assert decode_state(encode_state(state)) == state
    return state, outcome


def after(state: RunState, *replies: tuple[str, Work]) -> RunState:
    for text, work in replies:
        state, _ = reply(state, text, work)
    return state


PAIR = packaged_flow("pair")


def test_a_turn_without_changes_is_idle_only_if_something_was_asked_for() -> None:
    state = after(begin(PAIR), ("plan", IDLE))
    assert stall_of(state) == ""
    # An approval that came too early asks for nothing.
    early = after(state, (YES, IDLE), ("nothing to do", IDLE))
    assert stall_of(early) == ""
    asked = after(state, (NO, IDLE), ("did nothing", IDLE))
    assert stall_of(asked) == "Not converging: the last turn of the programmer changed nothing."
    assert stall_of(after(asked, (NO, IDLE), ("did it", BUSY))) == ""


def test_a_stall_that_goes_on_is_the_same_one() -> None:
    state = after(begin(PAIR), ("plan", IDLE))
    assert stall_marks(state) == frozenset()
    once = after(state, (NO, IDLE), ("did nothing", IDLE))
    twice = after(once, (NO, IDLE), ("did nothing", IDLE))
    assert stall_of(once) != stall_of(twice)
    assert stall_marks(once) == stall_marks(twice) == {"unchanged"}
    progress = replace(twice.progress, repeated_gate="tests")
    assert stall_marks(replace(twice, progress=progress)) == {"unchanged"}
    progress = replace(progress, unchanged_turns=0)
    assert stall_marks(replace(twice, progress=progress)) == {"gate tests"}


def test_an_approval_takes_the_reproach_back() -> None:
    state = after(begin(PAIR), ("plan", IDLE), (NO, IDLE), ("did nothing", IDLE))
    assert stall_of(state)
    assert stall_of(after(state, (YES, IDLE))) == ""


def test_after_a_failed_round_something_is_asked_for() -> None:
    state = with_gates(begin(packaged_flow("solo")), "tests=make test")
    check = next_step(state)
    assert check == Check("tests", 1, When.BASE)
    state, _ = record_check(state, check, RED, RULES)
    state = after(state, ("plan", IDLE))
    assert stall_of(state) == ""
    state, _ = record_check(state, Check("tests", 1), RED, RULES, IDLE)
    state = after(state, ("did nothing", IDLE))
    assert stall_of(state) == "Not converging: the last turn of the programmer changed nothing."
    state, _ = record_check(state, Check("tests", 2), RED, RULES, IDLE)
    assert "the gate `tests` failed twice on the same files" in stall_of(state)
    # On other files, or where nobody knows them, it is not the same failure.
    for tree in ("t9", ""):
        other, _ = record_check(
            after(state, ("did something", BUSY)), Check("tests", 3), RED, RULES, Work(tree)
        )
        assert "failed twice" not in stall_of(other) or not tree


def test_where_nothing_is_seen_nothing_is_held_against_anybody() -> None:
    state = after(begin(PAIR), ("plan", UNSEEN), (NO, UNSEEN), ("did nothing", UNSEEN))
    assert stall_of(state) == ""


def approved(rules: LoopRules) -> RunState:
    """Return a run of the usual flow that waits for its tester."""
    state = begin(packaged_flow("loop"))
    for text in ("text", YES, "text", YES) * 2:
        state, _ = reply(state, text, Work("t1"), rules)
    return state


class TestReviewedIsWhatPasses:
    CHANGED = Work("t2", ("a.py",), ("a.py",))
    OTHER = not_reviewed(("a.py",), "t1", "t2")

    def test_an_approval_is_bound_to_what_it_saw(self) -> None:
        assert approved(RULES).progress.approved_tree == "t1"

    def test_a_pass_for_other_files_is_a_pass_unless_more_is_required(self) -> None:
        _, outcome = reply(approved(RULES), PASS, self.CHANGED)
        assert outcome == Passed()
        state, outcome = reply(approved(BOUND), PASS, self.CHANGED, BOUND)
        assert outcome == Failed(self.OTHER, 2)
        assert "changed after they were approved" in state.feedback.text
        assert state.progress.approved_tree == ""
        assert not state.progress.is_approved
        _, outcome = reply(approved(BOUND), PASS, Work("t1"), BOUND)
        assert outcome == Passed()


class Review(Enum):
    """How the review of the work ended."""

    APPROVED = "approved"
    SKIPPED = "skipped"
    USED_UP = "used up"
    """The reviewer wanted more, and there was no further cycle."""
    NOT_COUNTED = "not counted"
    """The reviewer approved, which did not count, and there was no further cycle."""


class Seen(Enum):
    """The work folder at the PASS."""

    SAME = "same"
    OTHER = "other"
    CACHES = "caches"
    """Another tree, though nothing of it matters."""
    NEVER = "never"
    """No snapshots were taken."""


class Decider(Enum):
    """Whose word is the last."""

    TESTER = "tester"
    GATE = "gate"
    PROOF = "proof"


AT_PASS = {
    Seen.SAME: Work("t1"),
    Seen.OTHER: Work("t2", (), ("a.py",)),
    Seen.CACHES: Work("t3"),
    Seen.NEVER: UNSEEN,
}
NO_EVIDENCE = review("APPROVED", "- fine")


def rules_of(*, bound: bool, rounds: int, proof: str = "off") -> LoopRules:
    limits = Limits(max_rounds=rounds, max_review_cycles=2)
    return LoopRules(limits, ReviewRules(1), proof=proof, is_review_bound=bound)


def reviewed(how: Review, work: Work, rules: LoopRules) -> RunState:
    """Return a run whose tester is next, after its review has ended in a way."""
    state = begin(packaged_flow("loop"))
    for text in ("text", NO, "text", YES, "text"):
        state, _ = reply(state, text, work, rules)
    if how is Review.SKIPPED:
        turn = next_step(state)
        assert isinstance(turn, Turn)
        return skip_review(state, turn)
    words = {Review.APPROVED: YES, Review.USED_UP: NO, Review.NOT_COUNTED: NO_EVIDENCE}
    for text in (NO, "text", words[how]):
        state, _ = reply(state, text, work, rules)
    return state


def decided(state: RunState, by: Decider, work: Work, rules: LoopRules) -> tuple[RunState, Outcome]:
    """Return what becomes of a run whose tester, gates and proof all say PASS."""
    if by is not Decider.TESTER:
        state = replace(state, progress=replace(state.progress, settings={"GATES": LAST_GATE}))
    state, outcome = reply(state, PASS, work, rules)
    while isinstance(check := next_step(state), Check):
        if check.gate == PROOF_GATE:
            state, outcome = record_proof(state, check, Proof(), rules, work)
        else:
            state, outcome = record_check(state, check, GREEN, rules, work)
    return state, outcome


def expected(how: Review, seen: Seen) -> Refused | None:
    """Return what speaks against a PASS where only what was approved may pass."""
    if how in (Review.USED_UP, Review.NOT_COUNTED):
        return not_approved(AT_PASS[seen].tree)
    if seen is Seen.NEVER:
        return not_reviewed()
    return not_reviewed(("a.py",), "t1", "t2") if seen is Seen.OTHER else None


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("by", Decider)
@pytest.mark.parametrize("seen", Seen)
@pytest.mark.parametrize("how", Review)
def test_only_what_was_approved_passes_where_that_is_required(
    how: Review, seen: Seen, by: Decider, is_last: bool
) -> None:
    proof = "report" if by is Decider.PROOF else "off"
    rules = rules_of(bound=True, rounds=1 if is_last else 2, proof=proof)
    before = UNSEEN if seen is Seen.NEVER else Work("t1")
    state, outcome = decided(reviewed(how, before, rules), by, AT_PASS[seen], rules)
    against = expected(how, seen)
    if against is None:
        assert isinstance(outcome, Passed)
        assert state.final_status is FinalStatus.PASS
    elif is_last:
        assert outcome == RoundsUsedUp(against, 1)
        assert state.final_status is FinalStatus.FAIL
    else:
        assert outcome == Failed(against, 2)
        assert state.feedback.text == str(against)
        assert next_step(state) == Turn("analyst", 2, 1)
        assert not state.progress.is_approved


@pytest.mark.parametrize("by", Decider)
@pytest.mark.parametrize("how", Review)
def test_anything_passes_where_it_is_only_shown(how: Review, by: Decider) -> None:
    rules = rules_of(bound=False, rounds=2, proof="report" if by is Decider.PROOF else "off")
    work = AT_PASS[Seen.OTHER]
    state, outcome = decided(reviewed(how, Work("t1"), rules), by, work, rules)
    assert isinstance(outcome, Passed)
    assert state.final_status is FinalStatus.PASS


class TestAnApproval:
    def test_of_the_round_before_does_not_count(self) -> None:
        rules = rules_of(bound=True, rounds=3)
        state, _ = reply(reviewed(Review.APPROVED, Work("t1"), rules), FAIL, Work("t1"), rules)
        for text in ("text", NO, "text", YES, "text", NO, "text", NO):
            state, _ = reply(state, text, Work("t1"), rules)
        _, outcome = reply(state, PASS, Work("t1"), rules)
        assert outcome == Failed(not_approved("t1"), 3)

    def test_of_the_analysis_is_none_of_the_work(self) -> None:
        rules = rules_of(bound=True, rounds=2)
        state = begin(packaged_flow("loop"))
        for text in ("text", NO, "text", YES):
            state, _ = reply(state, text, Work("t1"), rules)
        assert not state.progress.is_approved
        assert state.progress.approved_tree == ""

    def test_is_void_when_the_author_works_again(self) -> None:
        """A run that was resumed may have lost the author's reply."""
        rules = rules_of(bound=True, rounds=2)
        state = reviewed(Review.APPROVED, Work("t1"), rules)
        state = replace(state, outputs={k: v for k, v in state.outputs.items() if k == "analyst"})
        state, _ = reply(state, "text", Work("t4", ("b.py",)), rules)
        assert not state.progress.is_approved
        assert state.progress.approved_tree == ""

    def test_that_a_person_gave_by_skipping_is_for_what_the_author_left(self) -> None:
        rules = rules_of(bound=True, rounds=2)
        state = reviewed(Review.SKIPPED, Work("t1"), rules)
        assert state.progress.approved_tree == "t1"

    def test_is_not_asked_for_where_nobody_reviews(self) -> None:
        """A run that would need one is refused before it begins."""
        state = begin(packaged_flow("solo"))
        state, _ = reply(state, "text", Work("t1"), BOUND)
        _, outcome = record_check(state, Check("gate", 1), GREEN, BOUND, Work("t2"))
        assert outcome == Passed()
