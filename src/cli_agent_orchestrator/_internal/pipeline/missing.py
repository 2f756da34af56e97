"""What a person can decide about a turn that stopped a run because its reply did not come."""

from dataclasses import replace
from enum import StrEnum

from cli_agent_orchestrator._internal.handoff.prompt import Sent
from cli_agent_orchestrator._internal.pipeline.machine import due_review, due_step
from cli_agent_orchestrator._internal.pipeline.personal import note_act
from cli_agent_orchestrator._internal.pipeline.state import Dispatch, RunState

TAKEN = "the last answer of {role} was taken in place of its file, in round {round}"
"""What the report says of it."""


class Remedy(StrEnum):
    """What is done about a reply that did not come."""

    ASK = "ask"
    """Send the whole prompt again."""
    TAKE = "take"
    """Take the agent's last answer for the reply."""
    SKIP = "skip"
    """Count the review as approved."""


def missing_turn(state: RunState) -> Dispatch | None:
    """Return the turn whose agent was asked and whose reply has not come; None if there is none."""
    dispatch = state.progress.in_flight
    if dispatch is None or dispatch.turn != due_step(state) or dispatch.sent is Sent.NO:
        return None
    return dispatch


def find_fault(state: RunState, remedy: Remedy) -> str:
    """Return why a remedy is none here; empty if it is one."""
    dispatch = missing_turn(state)
    if dispatch is None:
        return "no reply is missing in the saved run; resume it without --missing"
    if remedy is Remedy.SKIP and due_review(state) is None:
        role = dispatch.turn.role
        return f"{role} is no review, and only a review can be skipped; use --missing ask or take"
    return ""


def ask_again(state: RunState) -> RunState:
    """Return the state in which the agent is sent its whole prompt again, unless it has replied."""
    dispatch = missing_turn(state)
    assert dispatch is not None, "something is missing"
    again = replace(dispatch, sent=Sent.FAILED)
    return replace(state, progress=replace(state.progress, in_flight=again))


def note_taken(state: RunState, dispatch: Dispatch, at: float) -> RunState:
    """Return the state that remembers that an answer was taken in place of a file."""
    turn = dispatch.turn
    return note_act(state, at, TAKEN.format(role=turn.role, round=turn.round))
