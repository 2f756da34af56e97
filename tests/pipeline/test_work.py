"""What a run decides by what was done to its files."""

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.events import PROOF as PROOF_GATE
from cli_agent_orchestrator.events import Meaning
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.pipeline.flow_file import packaged_flow
from cli_agent_orchestrator.pipeline.machine import (
    Check,
    Outcome,
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
from cli_agent_orchestrator.settings.config import LoopRules, ReviewRules
from cli_agent_orchestrator.settings.gates import When
from cli_agent_orchestrator.work.changes import UNSEEN, Work
from tests.pipeline.samples import FAIL, PASS, review
from tests.pipeline.test_flows_in_machine import NO, RED, YES, begin, with_gates

RULES = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off")
BOUND = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off", review_bound="require")
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
    assert stall_of(after(asked, (YES, IDLE))) == ""
    # Where nothing is seen, nothing is held against the author.
    unseen = after(begin(PAIR), ("plan", UNSEEN), (NO, UNSEEN), ("did nothing", UNSEEN))
    assert stall_of(unseen) == ""


def test_a_stall_that_goes_on_is_the_same_one() -> None:
    state = after(begin(PAIR), ("plan", IDLE))
    assert stall_marks(state) == frozenset()
    once = after(state, (NO, IDLE), ("did nothing", IDLE))
    twice = after(once, (NO, IDLE), ("did nothing", IDLE))
    assert stall_of(once) != stall_of(twice)
    assert stall_marks(once) == stall_marks(twice) == {"unchanged"}
    both = twice.progressed(repeated_gate="tests")
    assert stall_marks(both) == {"unchanged"}
    assert stall_marks(both.progressed(unchanged_turns=0)) == {"gate tests"}


def test_after_a_failed_round_something_is_asked_for() -> None:
    state = with_gates(begin(packaged_flow("solo")), "tests=make test")
    check = next_step(state)
    assert isinstance(check, Check)
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


SEEN = {
    "the same": Work("t1"),
    "other files": Work("t2", (), ("a.py",)),
    "another tree, though nothing of it matters": Work("t3"),
    "no snapshots": UNSEEN,
}
ENDS = {
    "approved": YES,
    "skipped": "",
    "the reviewer wanted more, and the cycles were used up": NO,
    "the approval did not count": review("APPROVED", "- fine"),
}


def rules_of(*, bound: bool, rounds: int, proof: str = "off") -> LoopRules:
    word = "require" if bound else "show"
    return LoopRules(rounds, 2, ReviewRules(1), proof=proof, review_bound=word)


def reviewed(how: str, work: Work, rules: LoopRules) -> RunState:
    """Return a run whose tester is next, after its review has ended in a way."""
    state = begin(packaged_flow("loop"))
    for text in ("text", NO, "text", YES, "text"):
        state, _ = reply(state, text, work, rules)
    if how == "skipped":
        turn = next_step(state)
        assert isinstance(turn, Turn)
        return skip_review(state, turn)
    for text in (NO, "text", ENDS[how]):
        state, _ = reply(state, text, work, rules)
    return state


def decided(state: RunState, by: str, work: Work, rules: LoopRules) -> tuple[RunState, Outcome]:
    """Return what becomes of a run whose tester, gates and proof all say PASS."""
    if by != "tester":
        state = state.progressed(settings={"GATES": LAST_GATE})
    state, outcome = reply(state, PASS, work, rules)
    while isinstance(check := next_step(state), Check):
        if check.gate == PROOF_GATE:
            state, outcome = record_proof(state, check, Proof(), rules, work)
        else:
            state, outcome = record_check(state, check, GREEN, rules, work)
    return state, outcome


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("how", ENDS)
def test_only_what_was_approved_passes_where_that_is_required(how: str, seen: str) -> None:
    work, rules = SEEN[seen], rules_of(bound=True, rounds=2)
    state = reviewed(how, work if work is UNSEEN else Work("t1"), rules)
    state, outcome = decided(state, "tester", work, rules)
    against = None
    if how not in ("approved", "skipped"):
        against = not_approved(work.tree)
    elif work is UNSEEN:
        against = not_reviewed()
    elif work.since_review:
        against = not_reviewed(("a.py",), "t1", "t2")
    if against is None:
        assert outcome.meaning is Meaning.PASSED
        assert state.final_status is FinalStatus.PASS
    else:
        assert outcome == Outcome(Meaning.FAILED, against, 2)
        assert state.feedback.text == str(against)
        assert next_step(state) == Turn("analyst", 2, 1)
        assert not state.progress.is_approved


@pytest.mark.parametrize("by", ["tester", "gate", "proof"])
def test_in_the_last_round_it_fails_the_run_and_anything_passes_if_it_is_only_shown(
    by: str,
) -> None:
    proof = "report" if by == "proof" else "off"
    for bound, status in ((True, FinalStatus.FAIL), (False, FinalStatus.PASS)):
        rules = rules_of(bound=bound, rounds=1, proof=proof)
        state = reviewed("approved", Work("t1"), rules)
        state, _ = decided(state, by, SEEN["other files"], rules)
        assert state.final_status is status


class TestAnApproval:
    def test_of_the_round_before_does_not_count(self) -> None:
        rules = rules_of(bound=True, rounds=3)
        state, _ = reply(reviewed("approved", Work("t1"), rules), FAIL, Work("t1"), rules)
        for text in ("text", NO, "text", YES, "text", NO, "text", NO):
            state, _ = reply(state, text, Work("t1"), rules)
        _, outcome = reply(state, PASS, Work("t1"), rules)
        assert outcome == Outcome(Meaning.FAILED, not_approved("t1"), 3)

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
        state = reviewed("approved", Work("t1"), rules)
        state = replace(state, outputs={k: v for k, v in state.outputs.items() if k == "analyst"})
        state, _ = reply(state, "text", Work("t4", ("b.py",)), rules)
        assert not state.progress.is_approved
        assert state.progress.approved_tree == ""

    def test_does_not_count_where_the_files_were_or_are_not_seen(self) -> None:
        rules = rules_of(bound=True, rounds=2)
        for then, now in ((Work("t1"), UNSEEN), (UNSEEN, Work("t1"))):
            _, outcome = reply(reviewed("approved", then, rules), PASS, now, rules)
            assert outcome == Outcome(Meaning.FAILED, not_reviewed(), 2)

    def test_is_of_the_files_that_are_there_after_the_proof(self) -> None:
        rules = rules_of(bound=True, rounds=2, proof="report")
        state = reviewed("approved", Work("t1"), rules).progressed(settings={"GATES": LAST_GATE})
        state, _ = reply(state, PASS, Work("t1"), rules)
        gate = next_step(state)
        assert isinstance(gate, Check)
        state, _ = record_check(state, gate, GREEN, rules, Work("t1"))
        proof = Check(PROOF_GATE, 1)
        assert next_step(state) == proof
        # Nor is the proof dropped where a run is resumed without gates.
        state = state.progressed(settings={})
        assert next_step(state) == proof
        _, outcome = record_proof(state, proof, Proof(), rules, SEEN["other files"])
        assert outcome == Outcome(Meaning.FAILED, not_reviewed(("a.py",), "t1", "t2"), 2)

    def test_is_not_asked_for_where_nobody_reviews(self) -> None:
        """A run that would need one is refused before it begins."""
        state = begin(packaged_flow("solo"))
        state, _ = reply(state, "text", Work("t1"), BOUND)
        _, outcome = record_check(state, Check("gate", 1), GREEN, BOUND, Work("t2"))
        assert outcome == Outcome(Meaning.PASSED)
