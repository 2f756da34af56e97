"""A run that stopped for want of a reply goes on as a person decides."""

import pytest

from cli_agent_orchestrator.errors import HandoffError, NoResponseFile
from cli_agent_orchestrator.pipeline.state import FinalStatus, RunState
from tests.runs.fakes import Asked, Rig, agree


def stop_at(rig: Rig, role: str) -> RunState:
    """Take a run to a turn whose agent writes no file, and return what is saved of it."""
    rig.server.answer = lambda asked: None if asked.role == role else agree(asked)
    with pytest.raises(NoResponseFile, match=r"(?s)--missing ask.*--missing take") as stopped:
        rig.run(rig.begin())
    # Only a review can be skipped.
    assert ("--missing skip" in str(stopped.value)) is role.endswith("_review")
    rig.server.answer = agree
    return rig.saved()


def resume(rig: Rig, saved: RunState, remedy: str) -> RunState:
    with rig.runner(saved) as runner:
        return runner.run(runner.answer_missing(saved, remedy))


def asked_of(rig: Rig, role: str) -> list[Asked]:
    return [asked for asked in rig.server.asked if asked.role == role]


def test_the_agent_is_asked_again(rig: Rig) -> None:
    saved = stop_at(rig, "analyst")
    (first,) = asked_of(rig, "analyst")
    final = resume(rig, saved, "ask")
    assert final.final_status is FinalStatus.PASS
    again = asked_of(rig, "analyst")[1]
    assert again.message.startswith("You may have had this message before.")
    assert again.message.endswith(first.message)


@pytest.mark.parametrize("role", ["analyst", "tester"])
def test_an_answer_that_is_empty_is_not_taken(rig: Rig, role: str) -> None:
    saved = stop_at(rig, role)
    rig.server.last_output = " \n"
    with pytest.raises(HandoffError, match="has no last answer"):
        resume(rig, saved, "take")
    assert rig.saved().progress.in_flight is not None


def test_a_review_is_skipped(rig: Rig) -> None:
    saved = stop_at(rig, "analyst_review")
    final = resume(rig, saved, "skip")
    assert final.final_status is FinalStatus.PASS
    assert len(asked_of(rig, "analyst_review")) == 1
    assert "it counts as approved" in final.progress.acts[0].words


def test_a_reply_that_has_come_meanwhile_is_not_replaced(rig: Rig) -> None:
    saved = stop_at(rig, "analyst")
    rig.files(saved).archive_text("analyst", 1, "it came at last")
    with rig.runner(saved) as runner:
        state = runner.record_archived_reply(saved)
        assert runner.answer_missing(state, "take") is state
