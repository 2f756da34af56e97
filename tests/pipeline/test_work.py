"""What a run decides by what was done to its files."""

from dataclasses import replace

from cli_agent_orchestrator._internal.config import LoopRules, ReviewRules
from cli_agent_orchestrator._internal.gates import When
from cli_agent_orchestrator._internal.pipeline.check import CheckResult
from cli_agent_orchestrator._internal.pipeline.machine import (
    Check,
    next_step,
    record_check,
    record_reply,
    stall_marks,
    stall_of,
)
from cli_agent_orchestrator._internal.pipeline.outcomes import Failed, NotReviewed, Outcome, Passed
from cli_agent_orchestrator._internal.pipeline.packaged import packaged_flow
from cli_agent_orchestrator._internal.pipeline.reply import Output
from cli_agent_orchestrator._internal.pipeline.state import RunState, Turn
from cli_agent_orchestrator._internal.pipeline.state_json import from_json, to_json
from cli_agent_orchestrator._internal.pipeline.work import UNSEEN, Work
from tests.pipeline.samples import PASS
from tests.pipeline.test_flows_in_machine import NO, RED, YES, begin, with_gates

RULES = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off")
BOUND = LoopRules(review=ReviewRules(evidence_min_match=1), proof="off", is_review_bound=True)
IDLE, BUSY = Work("t1"), Work("t2", ("a.py",))


def reply(
    state: RunState, text: str, work: Work = UNSEEN, rules: LoopRules = RULES
) -> tuple[RunState, Outcome]:
    turn = next_step(state)
    assert isinstance(turn, Turn)
    state, outcome = record_reply(state, turn, Output(text), rules, work)
    assert from_json(to_json(state)) == state
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
    assert stall_of(asked) == "Not converging: the last turn of the author changed nothing."
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
    assert stall_of(state) == "Not converging: the last turn of the author changed nothing."
    state, _ = record_check(state, Check("tests", 2), RED, RULES, IDLE)
    assert "the gate tests failed twice on the same files" in stall_of(state)
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

    def test_an_approval_is_bound_to_what_it_saw(self) -> None:
        assert approved(RULES).progress.approved_tree == "t1"

    def test_a_pass_for_other_files_is_a_pass_unless_more_is_required(self) -> None:
        _, outcome = reply(approved(RULES), PASS, self.CHANGED)
        assert outcome == Passed()
        state, outcome = reply(approved(BOUND), PASS, self.CHANGED, BOUND)
        assert outcome == Failed(NotReviewed(("a.py",)), 2)
        assert "changed after they were approved" in state.feedback.text
        assert state.progress.approved_tree == ""
        _, outcome = reply(approved(BOUND), PASS, Work("t1"), BOUND)
        assert outcome == Passed()

    def test_so_is_one_of_a_gate(self) -> None:
        text = '{"name": "tests", "run": "x", "when": ["after_tester"]}'
        state = with_gates(approved(BOUND), text)
        state, _ = reply(state, PASS, self.CHANGED, BOUND)
        green = CheckResult("x", 0, "ok")
        _, outcome = record_check(state, Check("tests", 1), green, BOUND, self.CHANGED)
        assert outcome == Failed(NotReviewed(("a.py",)), 2)

    def test_many_files_are_not_all_named(self) -> None:
        text = str(NotReviewed(tuple(f"f{n}" for n in range(22))))
        assert "f19 and 2 more" in text
        assert "f20" not in text
