"""What can be decided about a reply that did not come."""

from dataclasses import replace

import pytest

from cli_agent_orchestrator.handoff.wait import Sent
from cli_agent_orchestrator.pipeline.resuming import (
    Remedy,
    ask_again,
    find_fault,
    missing_turn,
    note_taken,
)
from cli_agent_orchestrator.pipeline.state import Dispatch, RunState, Turn
from cli_agent_orchestrator.settings.table import BY_NAME
from tests.pipeline.samples import LOOP

ANALYST = Turn("analyst", 1, 1)
REVIEW = Turn("analyst_review", 1, 1)


NEW = RunState(api="", provider="codex", wd="/p", prompt="", flow=LOOP, phase="analyst")


def stopped(turn: Turn, sent: Sent = Sent.YES) -> RunState:
    in_flight = Dispatch(turn, "k", 1, 1.0, sent)
    return replace(NEW, progress=replace(NEW.progress, in_flight=in_flight))


def test_every_word_that_can_be_given_is_a_remedy() -> None:
    assert tuple(Remedy) == BY_NAME["MISSING"].choices


@pytest.mark.parametrize("sent", [Sent.YES, Sent.MAYBE, Sent.FAILED])
def test_a_turn_whose_prompt_went_out_is_missing(sent: Sent) -> None:
    dispatch = missing_turn(stopped(ANALYST, sent))
    assert dispatch is not None
    assert dispatch.turn == ANALYST


@pytest.mark.parametrize("state", [NEW, stopped(ANALYST, Sent.NO), stopped(REVIEW)])
def test_where_nothing_is_missing_nothing_can_be_decided(state: RunState) -> None:
    assert missing_turn(state) is None
    for remedy in Remedy:
        assert "no reply is missing" in find_fault(state, remedy)


def test_only_a_review_can_be_skipped() -> None:
    state = stopped(ANALYST)
    assert find_fault(state, Remedy.ASK) == find_fault(state, Remedy.TAKE) == ""
    assert find_fault(state, Remedy.SKIP) == (
        "analyst is no review, and only a review can be skipped; use --missing ask or take"
    )


def test_who_is_asked_again_counts_as_failed() -> None:
    dispatch = ask_again(stopped(ANALYST)).progress.in_flight
    assert dispatch is not None
    assert dispatch.sent is Sent.FAILED


def test_a_taken_answer_is_remembered() -> None:
    state = stopped(ANALYST)
    dispatch = missing_turn(state)
    assert dispatch is not None
    (act,) = note_taken(state, dispatch, 5.0).progress.acts
    assert (act.at, act.words) == (
        5.0,
        "the last answer of analyst was taken in place of its file, in round 1",
    )
