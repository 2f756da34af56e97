"""The state of a run and its form as JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import (
    NO_FEEDBACK,
    FinalStatus,
    Progress,
    RunState,
    from_json,
    to_json,
)
from tests.pipeline.samples import TASK_TEXT, TERMINALS, new_state

# What the earlier shell script left behind.
SHELL_STATE: dict[str, Any] = {
    "version": 1,
    "updated_at": "2025-01-31T12:00:00Z",
    "api": "http://localhost:9889",
    "provider": "codex",
    "wd": "/project",
    "prompt": TASK_TEXT,
    "current_round": 3,
    "current_phase": "programmer",
    "final_status": "RUNNING",
    "session_name": "cao-run",
    "terminals": {
        "analyst": "a1",
        "peer_analyst": "a2",
        "programmer": "p1",
        "peer_programmer": "p2",
        "tester": "t1",
    },
    "feedback": "RESULT: FAIL",
    "analyst_feedback": "None yet.",
    "programmer_feedback": "None yet.",
    "outputs": {
        "analyst": "the analysis",
        "analyst_review": "REVIEW_RESULT: APPROVED",
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    },
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_the_json_has_the_fields_of_the_shell_script_and_names_the_run() -> None:
    """Scenario: State roundtrip"""
    state = replace(new_state(), progress=Progress(archive="20261115-084037-k3f9"))
    data = to_json(state)
    assert set(data) == {*SHELL_STATE, "run", "flow"}
    assert set(data["outputs"]) == set(SHELL_STATE["outputs"])
    assert (data["version"], data["run"]) == (1, "20261115-084037-k3f9")
    assert data["terminals"] == SHELL_STATE["terminals"]
    assert data["feedback"] == data["analyst_feedback"] == "None yet."
    assert from_json(data) == replace(state, progress=Progress())


@pytest.mark.parametrize("value", [None, "x", "", 0, -3, 1.5, True, [2], {}, "99999999999"])
def test_an_invalid_round_is_round_1_but_it_may_be_text(value: object) -> None:
    """Scenario: Invalid round in state file defaults to 1"""
    assert from_json({**SHELL_STATE, "current_round": value}).round == 1
    assert from_json({**SHELL_STATE, "current_round": " 4 "}).round == 4


@pytest.mark.parametrize("value", [None, "", "review", "Analyst", 7, ["tester"], "done"])
def test_an_invalid_phase_is_the_analyst_phase(value: object) -> None:
    """Scenario: Invalid phase in state file defaults to analyst"""
    assert from_json({**SHELL_STATE, "current_phase": value}).phase == "analyst"


@pytest.mark.parametrize("value", ["PASS", "FAIL"])
def test_a_finished_run_is_done(value: str) -> None:
    state = from_json({**SHELL_STATE, "final_status": value})
    assert (state.final_status, state.phase) == (value, "done")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        *(({"final_status": value}, "its final_status") for value in (None, "running", ["PASS"])),
        *(({"version": value}, "its version is") for value in (None, 2, "2", True, [1])),
        ({"flow": "solo"}, "its flow is 'solo'"),
    ],
)
def test_what_no_run_goes_on_from_is_refused(damage: dict[str, object], why: str) -> None:
    with pytest.raises(StateError, match=why):
        from_json({**SHELL_STATE, **damage})


@pytest.mark.parametrize("data", [None, 1, "text", [SHELL_STATE], {}, {"version": 1}])
def test_what_is_no_state_at_all_is_refused(data: object) -> None:
    with pytest.raises(StateError, match=r"JSON object|version is None|final_status is None"):
        from_json(data)


def test_a_state_of_the_shell_script_is_read() -> None:
    state = from_json(SHELL_STATE)
    assert (state.round, state.phase) == (3, "programmer")
    assert state.terminals == TERMINALS
    assert state.terminal_of("programmer_review") == "p2"
    assert state.feedback == Excerpt("RESULT: FAIL")
    assert state.notes_of("analyst_review") == NO_FEEDBACK
    assert state.outputs["analyst"] == Output("the analysis")
    assert state.prompt == TASK_TEXT
    assert state.progress == Progress()


def test_terminals_may_be_objects_with_a_provider() -> None:
    terminals = {"analyst": {"id": "a1", "provider": "claude_code"}, "tester": {"id": "t1"}}
    state = from_json({**SHELL_STATE, "terminals": terminals})
    assert state.terminal_of("analyst") == "a1"
    assert state.terminal_of("tester") == "t1"
    assert state.terminal_of("programmer") == ""
    assert state.progress.providers == {"analyst": "claude_code"}


def test_a_state_with_nothing_but_a_version_and_a_status_has_defaults() -> None:
    state = from_json({"version": "1", "final_status": "RUNNING"})
    assert state == RunState(api="", provider="", wd="", prompt="", phase="analyst")
    assert state.feedback.text == "None yet."
    assert not state.has_output("analyst")


def test_half_a_character_is_replaced() -> None:
    assert from_json({**SHELL_STATE, "prompt": "x\ud800"}).prompt == "x?"


@given(
    st.dictionaries(
        st.sampled_from(sorted({*SHELL_STATE, "progress"} - {"version", "final_status"})),
        json_values,
    )
)
def test_no_damage_keeps_a_state_from_being_read(damage: dict[str, object]) -> None:
    state = from_json({**SHELL_STATE, **damage})
    assert state.round >= 1
    assert (state.phase == "done") == (state.final_status is not FinalStatus.RUNNING)


def test_a_role_has_its_own_agent_or_that_of_the_run() -> None:
    state = replace(new_state(), provider="codex", progress=Progress(providers={"tester": "kiro"}))
    assert (state.provider_of("tester"), state.provider_of("analyst")) == ("kiro", "codex")
