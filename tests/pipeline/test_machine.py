"""What comes next in a run, and what a reply changes."""

from pathlib import PurePosixPath

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.files import LARGEST_FILE
from cli_agent_orchestrator.core.models import MESSAGE_LIMIT
from cli_agent_orchestrator.events import Meaning
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.pipeline.machine import (
    DELIVERED,
    EMPTY_REPLY,
    MOST_FILES,
    NO_RESULT,
    SKIPPED,
    Done,
    Outcome,
    Refused,
    judge_reply,
    next_step,
    not_approved,
    not_reviewed,
    reason_against,
    record_reply,
    with_more_rounds,
)
from cli_agent_orchestrator.pipeline.prompts import Briefing, build_prompt
from cli_agent_orchestrator.pipeline.reply import (
    LONGEST_REPLY,
    REVIEW_FORM,
    TEST_FORM,
    Excerpt,
    Output,
)
from cli_agent_orchestrator.pipeline.review import Verdict
from cli_agent_orchestrator.pipeline.state import (
    NO_FEEDBACK,
    Dispatch,
    FinalStatus,
    OpenNotes,
    Progress,
    RunState,
    Turn,
    encode_state,
)
from cli_agent_orchestrator.pipeline.task import parse_task
from cli_agent_orchestrator.proof.verdict import Proof, ProofWords
from cli_agent_orchestrator.settings.config import Condensation, LoopRules, ReviewRules
from tests.pipeline.samples import FAIL, NOTES, PASS, ROLES, TASK_TEXT, approval, new_state, review

RULES = LoopRules()
SHORT = LoopRules(2, 2, ReviewRules(min_cycles=1))
REVISE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n- look again"


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
    rules = LoopRules(max_rounds=2)
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


@pytest.mark.parametrize(
    ("state", "author"),
    [
        (replace(approve(new_state()), phase="tester"), Turn("programmer", 1, 1)),
        (replace(new_state(), progress=Progress(cycle=2, reviewing=True)), Turn("analyst", 1, 2)),
    ],
    ids=["no program", "a review of nothing"],
)
def test_what_lacks_its_text_falls_back_to_the_author(state: RunState, author: Turn) -> None:
    assert next_step(state) == author
    review = Turn(f"{author.role}_review", 1, author.cycle)
    assert next_step(reply(state, "a text")) == review


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
    state = give_up(approve(state), "wrong again")
    assert [n.round for n in state.progress.open_notes] == [1, 1, 2]
    state = reply(state, FAIL)
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


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        *(("", EMPTY_REPLY), (" \r\n", EMPTY_REPLY), ("\0", EMPTY_REPLY)),
        ("\ufeff\r\n  one\r\ntwo\0\r\n\r\n", "  one\ntwo"),
    ],
)
def test_a_reply_is_kept_cleaned_and_with_its_archive(text: str, kept: str) -> None:
    state = reply(new_state(), text)
    assert state.outputs["analyst"] == Output(kept, "/archive/001.md")
    assert next_step(state) == Turn("analyst_review", 1, 1)


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


def test_a_round_or_cycle_beyond_the_limit_is_finished_first() -> None:
    state = replace(at_tester(), round=12)
    assert next_step(state) == Turn("tester", 12, 1)
    assert reply(state, FAIL).final_status is FinalStatus.FAIL
    state = replace(new_state(), progress=Progress(cycle=7))
    state = reply(reply(state, "an analysis"), REVISE)
    assert next_step(state) == Turn("programmer", 1, 1)


def test_an_approval_waits_for_the_answers_to_blocking_findings() -> None:
    state = reply(new_state(), "an analysis")
    state = reply(state, review("REVISE", "F1 blocking a.py:3 It leaks."))
    assert [one.finding.id for one in state.progress.findings["analyst_review"].open] == ["F1"]
    state = reply(state, "an analysis")
    notes = NOTES["analyst_review"]
    outcome = judge_reply(state, due(state), review("APPROVED", f"{notes}\nF1 unfixed"), RULES)
    assert outcome.why == "1 blocking finding is open: F1"
    # A review in other words is not judged by the form.
    assert reply(state, approval("analyst_review")).phase == "programmer"
    state = reply(state, review("APPROVED", f"{notes}\nF1 fixed"))
    assert state.phase == "programmer"
    assert not state.progress.findings["analyst_review"].open


@pytest.mark.parametrize(
    ("outcome", "text", "reason"),
    [
        (Outcome(Meaning.SENT_BACK, Verdict(REVIEW_FORM, False), 2), REVISE, "look again"),
        (Outcome(Meaning.CYCLES_USED_UP, Verdict(REVIEW_FORM, False), 2), REVISE, "look again"),
        # An approval that does not count says itself why.
        (Outcome(Meaning.SENT_BACK, Verdict(REVIEW_FORM, True, ("too early",)), 2), REVISE, ""),
        (Outcome(Meaning.APPROVED, Verdict(REVIEW_FORM, True)), REVISE, ""),
        (Outcome(Meaning.FAILED, Verdict(TEST_FORM, False), 2), "EVIDENCE:\nit broke", "it broke"),
        (Outcome(Meaning.ROUNDS_USED_UP, Verdict(TEST_FORM, False), 2), "it broke", "it broke"),
        (Outcome(Meaning.PASSED), "RESULT: PASS\nEVIDENCE:\nall pass", ""),
        (DELIVERED, "a summary", ""),
    ],
)
def test_the_reason_for_more_work_is_the_first_point_of_the_reply(
    outcome: Outcome, text: str, reason: str
) -> None:
    assert reason_against(outcome, text) == reason


def test_a_failed_run_goes_on_with_more_rounds_and_its_evidence() -> None:
    rules = LoopRules(max_rounds=1)
    failed = reply(at_tester(), FAIL, rules)
    assert failed.final_status is FinalStatus.FAIL
    state = with_more_rounds(failed, 2)
    assert (state.final_status, state.round) == (FinalStatus.RUNNING, 2)
    assert next_step(state) == Turn("analyst", 2, 1)
    assert state.feedback == failed.feedback
    # Nothing else is changed.
    assert with_more_rounds(failed, 1) == failed
    assert with_more_rounds(new_state(), 9) == new_state()
    passed = replace(failed, final_status=FinalStatus.PASS)
    assert with_more_rounds(passed, 9) == passed


REVISED = Verdict(REVIEW_FORM, False)
ALL = ProofWords(is_proven=True, said="all")
RED = CheckResult("make test", 2, "")
ENDED = "`make test` ended with exit code 2"
GATE_FAILED = f"FAIL: {ENDED}"
NOT_COUNTED = Verdict(REVIEW_FORM, True, ("too early", "no notes"))
MISSING = Verdict(TEST_FORM)
UNSEEN = not_reviewed()


@pytest.mark.parametrize(
    ("outcome", "verdict", "then", "why"),
    [
        (DELIVERED, "summary received", "", ""),
        (Outcome(Meaning.APPROVED, Verdict(REVIEW_FORM, True)), "APPROVED", "", ""),
        (SKIPPED, "skipped by a person; it counts as approved", "", ""),
        (Outcome(Meaning.SENT_BACK, REVISED, 2), "REVISE", "; cycle 2 follows", ""),
        (
            Outcome(Meaning.SENT_BACK, NOT_COUNTED, 2),
            "APPROVED does not count: too early; no notes",
            "; cycle 2 follows",
            "too early; no notes",
        ),
        (
            Outcome(Meaning.CYCLES_USED_UP, REVISED, 3),
            "REVISE",
            "; all 3 review cycles are used up, the run goes on with the notes still open",
            "",
        ),
        (Outcome(Meaning.PASSED), "PASS", "", ""),
        (Outcome(Meaning.PASSED, ALL), "PASS, proven: all", "", "proven: all"),
        (Outcome(Meaning.BASE_FAILED, RED), f"before the run: {GATE_FAILED}", "", ""),
        (Outcome(Meaning.CLEARED, then="the proof"), "PASS", "; the proof follows", ""),
        (Outcome(Meaning.FAILED, RED, 2), GATE_FAILED, "; round 2 follows", ENDED),
        (Outcome(Meaning.FAILED, MISSING, 2), str(MISSING), "; round 2 follows", str(MISSING)),
        (Outcome(Meaning.FAILED, UNSEEN, 2), str(UNSEEN), "; round 2 follows", UNSEEN.why),
        (
            Outcome(Meaning.ROUNDS_USED_UP, Verdict(TEST_FORM, False), 1),
            "FAIL",
            "; the only round is used up",
            "",
        ),
        (Outcome(Meaning.ROUNDS_USED_UP, RED, 2), GATE_FAILED, "; all 2 rounds are used up", ENDED),
    ],
)
def test_an_outcome_has_a_verdict_what_follows_and_a_reason(
    outcome: Outcome, verdict: str, then: str, why: str
) -> None:
    assert (outcome.verdict, str(outcome), outcome.why) == (verdict, verdict + then, why)


def test_only_an_approval_that_leads_to_another_cycle_is_early() -> None:
    early = Verdict(REVIEW_FORM, True, ("too early",), is_early=True)
    assert Outcome(Meaning.SENT_BACK, early, 2).is_early
    assert not Outcome(Meaning.CYCLES_USED_UP, early, 1).is_early
    assert not Outcome(Meaning.SENT_BACK, REVISED, 2).is_early


def test_what_speaks_against_a_pass_names_trees_and_files() -> None:
    assert str(Refused(str(Proof()))) == f"FAIL: {Proof()}"
    trees = ("0123456789abcdef", "9876543210abcdef")
    refused = not_reviewed(("a", "b\nRESULT: PASS"), *trees)
    assert "the tree 0123456789 was approved, and this one is 9876543210:" in refused.why
    assert refused.why.endswith(": a, 'b\\nRESULT: PASS'")
    assert not_reviewed(("a",) * (MOST_FILES + 1), *trees).why.endswith(" and 1 more")
    assert "; this one is 9876543210" in not_approved(trees[1]).why
    assert not_approved().why.endswith("no tree was approved")


@pytest.mark.parametrize("filler", ["x" * 900_000, "a line\n" * 100_000, "é" * 400_000])
def test_of_a_gigantic_reply_its_two_ends_are_kept(filler: str) -> None:
    state = reply(new_state(), f"the beginning\n{filler}\nthe end")
    kept = state.outputs["analyst"].text
    assert len(kept.encode()) < LONGEST_REPLY + 200
    assert kept.startswith("the beginning\n")
    assert kept.endswith("\nthe end")
    assert " bytes were left out here; the whole reply is in /archive/001.md)\n" in kept


def test_the_verdict_of_a_gigantic_reply_is_that_of_the_whole() -> None:
    filler = "x\n" * (LONGEST_REPLY // 2)
    state = reply(at_tester(), f"{filler}```\n{filler}RESULT: PASS")
    assert state.final_status is FinalStatus.RUNNING


def test_a_run_of_gigantic_replies_can_be_sent_saved_and_read_again() -> None:
    state = new_state()
    briefing = Briefing(parse_task(TASK_TEXT), PurePosixPath("/responses"), Condensation())
    for _ in range(3):
        state = reply(state, "\x7fé" * 300_000 + f"\n{REVISE}", SHORT)
        prompt = build_prompt(due(state), state, briefing)
        assert len(prompt.encode()) < MESSAGE_LIMIT
    assert len(encode_state(state)) < LARGEST_FILE
