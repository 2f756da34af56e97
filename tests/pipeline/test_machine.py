"""What comes next in a run, and what a reply changes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.pipeline.machine import (
    EMPTY_REPLY,
    NO_RESULT,
    Approved,
    CyclesUsedUp,
    Delivered,
    Done,
    Failed,
    Passed,
    RoundsUsedUp,
    SentBack,
    judge_reply,
    next_step,
    reason_against,
    record_reply,
    with_more_rounds,
)
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.review import (
    ReviewAnswer,
    ReviewVerdict,
    TestAnswer,
    TestVerdict,
)
from cli_agent_orchestrator.pipeline.state import (
    NO_FEEDBACK,
    Dispatch,
    FinalStatus,
    OpenNotes,
    Progress,
    RunState,
    Turn,
    decode_state,
    encode_state,
)
from cli_agent_orchestrator.settings.config import Condensation, Limits, LoopRules, ReviewRules
from tests.pipeline.samples import FAIL, NOTES, PASS, ROLES, approval, new_state, review

RULES = LoopRules()
ONE_ROUND = LoopRules(Limits(max_rounds=1, max_review_cycles=2), ReviewRules(min_cycles=1))
SHORT = LoopRules(Limits(max_rounds=2, max_review_cycles=2), ReviewRules(min_cycles=1))
REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- look again"
REPLIES = {
    "analyst": ["an analysis"],
    "analyst_review": [REVISE, approval("analyst_review")],
    "programmer": ["a program"],
    "programmer_review": [REVISE, approval("programmer_review")],
    "tester": [FAIL, PASS],
}


def due(state: RunState) -> Turn:
    turn = next_step(state)
    assert isinstance(turn, Turn)
    return turn


def reply(state: RunState, text: str, rules: LoopRules = RULES) -> RunState:
    """Answer the turn that is due."""
    state, _ = record_reply(state, due(state), Output(text, "/archive/001.md"), rules)
    return state


def approve(state: RunState) -> RunState:
    """Go through the phase to its approval in the first cycle that can have one."""
    for _ in range(2):
        state = reply(state, "a summary")
        state = reply(state, approval(due(state).role))
    return state


def at_tester() -> RunState:
    return approve(approve(new_state()))


def through_json(state: RunState) -> RunState:
    return decode_state(encode_state(state))


def test_a_run_begins_with_the_analyst() -> None:
    assert next_step(new_state()) == Turn("analyst", 1, 1)


def test_author_and_reviewer_take_turns_until_the_approval() -> None:
    state, turns = new_state(), []
    while state.final_status is FinalStatus.RUNNING:
        turn = due(state)
        turns.append((turn.role, turn.cycle))
        state = reply(state, REPLIES[turn.role][-1])
    assert turns == [
        ("analyst", 1), ("analyst_review", 1), ("analyst", 2), ("analyst_review", 2),
        ("programmer", 1), ("programmer_review", 1),
        ("programmer", 2), ("programmer_review", 2),
        ("tester", 1),
    ]  # fmt: skip


def test_a_pass_ends_the_run() -> None:
    """Scenario: PASS exits with code 0"""
    state = reply(at_tester(), PASS)
    assert state.final_status is FinalStatus.PASS
    assert state.phase == "done"
    assert next_step(state) == Done(FinalStatus.PASS)
    assert state.outputs["tester"].text == PASS


def test_a_failed_test_starts_a_new_round() -> None:
    """Scenario: FAIL loops back to analyst"""
    state = reply(at_tester(), f"Some talk.\n{FAIL}")
    assert next_step(state) == Turn("analyst", 2, 1)
    assert state.final_status is FinalStatus.RUNNING
    assert not any(state.has_output(role) for role in ROLES)
    assert state.feedback == Excerpt(FAIL, left_out=1, archive="/archive/001.md")
    assert state.notes == {}


def test_the_run_fails_after_the_last_round() -> None:
    """Scenario: MAX_ROUNDS exhausted exits with code 1"""
    rules = LoopRules(Limits(max_rounds=2))
    state = reply(at_tester(), FAIL, rules)
    assert state.final_status is FinalStatus.RUNNING
    state = reply(approve(approve(state)), FAIL, rules)
    assert state.final_status is FinalStatus.FAIL
    assert state.phase == "done"
    assert state.feedback.text == FAIL
    assert next_step(state) == Done(FinalStatus.FAIL)


@pytest.mark.parametrize("phase", ["programmer", "tester"])
def test_a_missing_analysis_falls_back_to_the_analyst(phase: str) -> None:
    """Scenario: Missing analyst output falls back to analyst phase"""
    progress = Progress(cycle=3, reviewing=True)
    state = replace(new_state(), round=2, phase=phase, progress=progress)
    assert next_step(state) == Turn("analyst", 2, 1)
    assert next_step(reply(state, "an analysis")) == Turn("analyst_review", 2, 1)


def test_a_missing_program_falls_back_to_the_programmer() -> None:
    state = approve(new_state())
    state = replace(state, phase="tester")
    assert next_step(state) == Turn("programmer", 1, 1)
    assert next_step(reply(state, "a program")) == Turn("programmer_review", 1, 1)


def test_a_review_of_nothing_falls_back_to_the_author_of_the_cycle() -> None:
    state = replace(new_state(), progress=Progress(cycle=2, reviewing=True))
    assert next_step(state) == Turn("analyst", 1, 2)
    assert next_step(reply(state, "an analysis")) == Turn("analyst_review", 1, 2)


def test_notes_become_the_feedback_of_their_author() -> None:
    state = reply(reply(new_state(), "an analysis"), REVISE)
    assert state.notes_of("analyst_review") == Excerpt(
        "REVIEW_NOTES:\n- look again", left_out=1, archive="/archive/001.md"
    )
    assert state.notes_of("programmer_review") == NO_FEEDBACK
    state = reply(reply(approve(new_state()), "a program"), REVISE)
    assert state.notes_of("programmer_review").text == "REVIEW_NOTES:\n- look again"


def test_whole_replies_are_handed_on_if_they_are_not_condensed() -> None:
    rules = LoopRules(condensation=Condensation(review_feedback=False))
    state = reply(reply(new_state(), "an analysis"), REVISE, rules)
    assert state.notes_of("analyst_review") == Excerpt(REVISE, archive="/archive/001.md")
    long = "\n".join(["talk"] * 99 + [FAIL])
    assert reply(at_tester(), long, rules).feedback == Excerpt(long, archive="/archive/001.md")


def test_an_approval_in_cycle_1_leads_to_cycle_2() -> None:
    state = reply(new_state(), "an analysis")
    text = approval("analyst_review")
    outcome = judge_reply(state, due(state), text, RULES)
    assert isinstance(outcome, SentBack)
    assert (outcome.next_cycle, outcome.verdict.is_early) == (2, True)
    assert next_step(reply(state, text)) == Turn("analyst", 1, 2)


def give_up(state: RunState, notes: str) -> RunState:
    """Go through a phase without an approval, with the default limits."""
    for cycle in (1, 2, 3):
        state = reply(state, "a summary")
        state = reply(state, review("REVISE", f"{notes} {cycle}"))
    return state


def test_used_up_cycles_do_not_stop_the_run() -> None:
    state = give_up(new_state(), "no")
    assert next_step(state) == Turn("programmer", 1, 1)
    notes = Excerpt("REVIEW_NOTES:\nno 3", 1, "/archive/001.md")
    assert state.progress.open_notes == (OpenNotes("analyst_review", 1, notes),)


def test_open_notes_reach_the_next_round_and_not_the_one_after() -> None:
    state = reply(give_up(give_up(new_state(), "thin"), "wrong"), FAIL)
    assert [(n.role, n.round) for n in state.progress.open_notes] == [
        ("analyst_review", 1),
        ("programmer_review", 1),
    ]
    state = reply(give_up(approve(state), "wrong again"), FAIL)
    assert [(n.role, n.round) for n in state.progress.open_notes] == [("programmer_review", 2)]


def test_a_phase_gone_through_again_replaces_its_open_notes() -> None:
    state = give_up(new_state(), "first")
    state = replace(state, outputs={})
    state = give_up(state, "second")
    assert [n.notes.text for n in state.progress.open_notes] == ["REVIEW_NOTES:\nsecond 3"]


def test_without_a_verdict_the_test_failed_and_the_feedback_says_so() -> None:
    state = reply(at_tester(), "It works.")
    assert next_step(state) == Turn("analyst", 2, 1)
    assert state.feedback.text == f"{NO_RESULT}no RESULT line, which counts as FAIL\nIt works."


@pytest.mark.parametrize("text", ["", " \r\n", "\0"])
def test_an_empty_reply_is_kept_as_such(text: str) -> None:
    state = reply(new_state(), text)
    assert state.outputs["analyst"].text == EMPTY_REPLY
    assert next_step(state) == Turn("analyst_review", 1, 1)


def test_a_reply_is_cleaned_and_its_archive_kept() -> None:
    state = reply(new_state(), "\ufeff\r\n  one\r\ntwo\0\r\n\r\n")
    assert state.outputs["analyst"] == Output("  one\ntwo", "/archive/001.md")


def test_a_reply_briefs_its_terminal_and_ends_the_flight() -> None:
    dispatch = Dispatch(Turn("analyst", 1, 1), "d1", sequence=1)
    state = replace(new_state(), progress=Progress(in_flight=dispatch))
    state = reply(state, "an analysis")
    assert state.progress.in_flight is None
    assert state.progress.briefed == {"a1"}
    assert reply(state, REVISE).progress.briefed == {"a1", "a2"}


def test_a_reply_to_another_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="is not due"):
        record_reply(new_state(), Turn("tester", 1, 1), Output(PASS), RULES)


def test_a_round_beyond_the_limit_is_finished_first() -> None:
    state = replace(at_tester(), round=12)
    assert next_step(state) == Turn("tester", 12, 1)
    assert reply(state, FAIL).final_status is FinalStatus.FAIL


def test_a_cycle_beyond_the_limit_is_finished_first() -> None:
    state = replace(new_state(), progress=Progress(cycle=7))
    state = reply(reply(state, "an analysis"), REVISE)
    assert next_step(state) == Turn("programmer", 1, 1)


@pytest.mark.parametrize(
    ("turn", "text", "outcome", "words"),
    [
        (Turn("analyst", 1, 1), "x", Delivered(), "summary received"),
        (Turn("programmer", 1, 1), "x", Delivered(), "summary received"),
        (
            Turn("analyst_review", 1, 2),
            approval("analyst_review"),
            Approved(ReviewVerdict(ReviewAnswer.APPROVED)),
            "APPROVED",
        ),
        (
            Turn("analyst_review", 1, 2),
            "no",
            SentBack(ReviewVerdict(ReviewAnswer.MISSING), 3),
            "no REVIEW_RESULT line, which counts as REVISE; cycle 3 follows",
        ),
        (
            Turn("programmer_review", 1, 3),
            REVISE,
            CyclesUsedUp(ReviewVerdict(ReviewAnswer.REVISE), 3),
            "REVISE; all 3 review cycles are used up, the run goes on with the notes still open",
        ),
        (Turn("tester", 1, 1), PASS, Passed(), "PASS"),
        (
            Turn("tester", 1, 1),
            FAIL,
            Failed(TestVerdict(TestAnswer.FAIL), 2),
            "FAIL; round 2 follows",
        ),
        (
            Turn("tester", 8, 1),
            "hm",
            RoundsUsedUp(TestVerdict(TestAnswer.MISSING), 8),
            "no RESULT line, which counts as FAIL; all 8 rounds are used up",
        ),
    ],
)
def test_what_a_reply_means_can_be_shown(
    turn: Turn, text: str, outcome: object, words: str
) -> None:
    assert judge_reply(new_state(), turn, text, RULES) == outcome
    assert str(outcome) == words


def test_a_single_round_is_not_called_all_rounds() -> None:
    only = RoundsUsedUp(TestVerdict(TestAnswer.FAIL), 1)
    assert str(only) == "FAIL; the only round is used up"


def test_no_approval_counts_when_the_minimum_is_above_the_maximum() -> None:
    rules = LoopRules(Limits(max_review_cycles=1), ReviewRules(min_cycles=2))
    text = review("APPROVED", NOTES["analyst_review"])
    assert isinstance(
        judge_reply(new_state(), Turn("analyst_review", 1, 1), text, rules), CyclesUsedUp
    )


def all_runs(state: RunState, turns: int = 0) -> Iterator[tuple[RunState, int]]:
    """Yield every state that any sequence of sensible replies can lead to."""
    yield state, turns
    turn = next_step(state)
    for text in REPLIES[turn.role] if isinstance(turn, Turn) else ():
        assert isinstance(turn, Turn)
        yield from all_runs(record_reply(state, turn, Output(text), SHORT)[0], turns + 1)


def test_every_possible_run_ends_in_time_and_can_be_resumed_anywhere() -> None:
    most = SHORT.limits.max_rounds * (4 * SHORT.limits.max_review_cycles + 1)
    ends = set()
    for state, turns in all_runs(new_state()):
        assert turns <= most
        assert through_json(state) == state
        assert next_step(through_json(state)) == next_step(state)
        if isinstance(next_step(state), Done):
            ends.add((state.final_status, turns))
    assert {status for status, _ in ends} == {FinalStatus.PASS, FinalStatus.FAIL}
    assert max(turns for _, turns in ends) == most
    assert min(turns for _, turns in ends) == 5


reply_texts = st.lists(
    st.sampled_from(
        [
            "REVIEW_RESULT: APPROVED", "REVIEW_RESULT: REVISE", "REVIEW_NOTES:", "RESULT: PASS",
            "- artifact P1 downstream handoff code test risk fix", "RESULT: FAIL", "EVIDENCE:",
            "```", "", "\0", "text",
        ]
    ),
    max_size=6,
).map("\n".join)  # fmt: skip


@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))
def test_any_replies_end_the_run(
    data: st.DataObject, rounds: int, cycles: int, min_cycles: int
) -> None:
    rules = LoopRules(Limits(rounds, cycles), ReviewRules(min_cycles))
    state, turns = new_state(), 0
    while isinstance(turn := next_step(state), Turn):
        state, _ = record_reply(state, turn, Output(data.draw(reply_texts)), rules)
        turns += 1
        assert turns <= rounds * (4 * cycles + 1)
        assert next_step(through_json(state)) == next_step(state)
    assert state.final_status is not FinalStatus.RUNNING


@given(
    st.sampled_from(["analyst", "programmer", "tester", "done"]),
    st.integers(1, 9),
    st.builds(Progress, cycle=st.integers(1, 9), reviewing=st.booleans()),
    st.sets(st.sampled_from(ROLES)),
)
def test_a_run_goes_on_from_any_state(
    phase: str, number: int, progress: Progress, replied: set[str]
) -> None:
    outputs = {role: Output("x") for role in replied}
    state = replace(new_state(), phase=phase, round=number, progress=progress, outputs=outputs)
    state = through_json(state)
    for _ in range(4 * SHORT.limits.max_review_cycles + 1):
        if not isinstance(turn := next_step(state), Turn):
            break
        state, _ = record_reply(state, turn, Output(REPLIES[turn.role][-1]), SHORT)
    assert state.final_status is FinalStatus.PASS


@pytest.mark.parametrize(
    ("role", "text", "reason"),
    [
        ("analyst_review", "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- look again", "look again"),
        ("tester", "RESULT: FAIL\nEVIDENCE:\n2 tests fail", "2 tests fail"),
        ("tester", "RESULT: PASS\nEVIDENCE:\nall pass", ""),
        ("analyst", "a summary", ""),
    ],
)
def test_the_reason_for_more_work_is_the_first_point_of_the_reply(
    role: str, text: str, reason: str
) -> None:
    outcome = judge_reply(new_state(), Turn(role, 1, 1), text, RULES)
    assert reason_against(outcome, text) == reason


def test_an_approval_that_does_not_count_says_itself_why() -> None:
    outcome = SentBack(ReviewVerdict(ReviewAnswer.APPROVED, ("cycle 1 is too early",)), 2)
    assert reason_against(outcome, REVISE) == ""


def test_the_last_round_and_the_last_cycle_have_their_reasons_too() -> None:
    assert reason_against(RoundsUsedUp(TestVerdict(TestAnswer.FAIL), 2), "it broke") == "it broke"
    assert reason_against(CyclesUsedUp(ReviewVerdict(ReviewAnswer.REVISE), 2), REVISE)


class TestMoreRounds:
    @pytest.fixture
    def failed(self) -> RunState:
        state = new_state()
        for text in ("an analysis", approval("analyst_review"), "a program"):
            state = reply(state, text, ONE_ROUND)
        state = reply(state, approval("programmer_review"), ONE_ROUND)
        return reply(state, FAIL, ONE_ROUND)

    def test_the_next_round_begins_with_the_evidence(self, failed: RunState) -> None:
        assert failed.final_status is FinalStatus.FAIL
        state = with_more_rounds(failed, 2)
        assert (state.final_status, state.round) == (FinalStatus.RUNNING, 2)
        assert next_step(state) == Turn("analyst", 2, 1)
        assert state.feedback == failed.feedback

    def test_nothing_else_is_changed(self, failed: RunState) -> None:
        assert with_more_rounds(failed, 1) == failed
        assert with_more_rounds(new_state(), 9) == new_state()
        passed = replace(failed, final_status=FinalStatus.PASS)
        assert with_more_rounds(passed, 9) == passed
