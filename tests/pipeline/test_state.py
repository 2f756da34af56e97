"""The state of a run and its form as JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.gates.check import BaseResult
from cli_agent_orchestrator.handoff.prompt import Sent
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import (
    NO_FEEDBACK,
    Dispatch,
    FinalStatus,
    KeptHint,
    OpenNotes,
    Progress,
    RunState,
    Turn,
)
from cli_agent_orchestrator.pipeline.state_json import find_half_character, from_json, to_json
from cli_agent_orchestrator.proof.verdict import ProofWords
from cli_agent_orchestrator.settings.gates import When
from cli_agent_orchestrator.settings.table import KEPT_NAMES
from tests.pipeline.samples import LOOP, ROLES, TASK_TEXT, TERMINALS, new_state

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

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=8)
numbers = st.integers(1, 99)
roles = st.sampled_from(ROLES)
excerpts = st.builds(
    Excerpt, st.text(min_size=1, max_size=20).filter(str.strip), st.integers(0, 99), texts
)
turns = st.builds(Turn, roles, numbers, numbers)
known = st.sampled_from([Sent.MAYBE, Sent.YES, Sent.FAILED])
dispatches = st.builds(Dispatch, turns, names, st.integers(0, 99), st.floats(0, 1e10), known)
bases = st.builds(
    BaseResult,
    st.none() | st.integers(-64, 255),
    st.integers(-1, 99),
    st.lists(texts, max_size=2).map(tuple),
)
progresses = st.builds(
    Progress,
    cycle=numbers,
    reviewing=st.booleans(),
    in_flight=st.none() | dispatches,
    briefed=st.frozensets(names, max_size=5),
    archive=texts,
    sequence=st.integers(0, 99),
    open_notes=st.lists(st.builds(OpenNotes, roles, numbers, excerpts), max_size=3).map(tuple),
    providers=st.dictionaries(st.sampled_from(sorted(TERMINALS)), names),
    settings=st.dictionaries(
        st.sampled_from([name for name in KEPT_NAMES if name != "GATES"]), texts, max_size=3
    ),
    checking=st.none() | st.sampled_from(When),
    checks_passed=st.integers(0, 9),
    base=st.dictionaries(names, bases, max_size=2),
    passed=st.dictionaries(names, bases, max_size=2),
    proving=st.booleans(),
    proof=st.none() | st.builds(ProofWords, st.booleans(), names, texts, texts),
    failed_on=st.dictionaries(names, texts, max_size=2),
    repeated_gate=texts,
    unchanged_turns=st.integers(0, 9),
    approved_tree=texts,
    is_approved=st.booleans(),
    delivered_tree=texts,
)
places = st.sampled_from(
    [
        *((stage.name, FinalStatus.RUNNING) for stage in LOOP.stages),
        ("done", FinalStatus.PASS),
        ("done", FinalStatus.FAIL),
    ]
)
states = st.builds(
    lambda place, **rest: RunState(phase=place[0], final_status=place[1], **rest),
    place=places,
    api=texts,
    provider=texts,
    wd=texts,
    prompt=texts,
    session_name=texts,
    terminals=st.dictionaries(roles, names),
    round=numbers,
    feedback=excerpts,
    notes=st.dictionaries(st.sampled_from(["analyst_review", "programmer_review"]), excerpts),
    outputs=st.dictionaries(roles, st.builds(Output, names, texts)),
    progress=progresses,
    updated_at=texts,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(states)
def test_every_state_survives_the_way_through_json(state: RunState) -> None:
    """Scenario: State roundtrip"""
    assert from_json(json.loads(json.dumps(to_json(state)))) == state


def test_the_json_has_the_fields_of_the_shell_script_and_progress() -> None:
    """Scenario: State roundtrip"""
    data = to_json(new_state())
    assert set(data) == {*SHELL_STATE, "progress"}
    assert set(data["terminals"]) == set(SHELL_STATE["terminals"])
    assert set(data["outputs"]) == set(SHELL_STATE["outputs"])
    assert data["version"] == 1
    assert data["terminals"] == SHELL_STATE["terminals"]
    assert data["feedback"] == data["analyst_feedback"] == "None yet."


@pytest.mark.parametrize("value", [None, "x", "", 0, -3, 1.5, True, [2], {}, "99999999999"])
def test_an_invalid_round_is_round_1(value: object) -> None:
    """Scenario: Invalid round in state file defaults to 1"""
    assert from_json({**SHELL_STATE, "current_round": value}).round == 1


@pytest.mark.parametrize("value", [4, "4", " 4 "])
def test_a_round_may_be_written_as_text(value: object) -> None:
    assert from_json({**SHELL_STATE, "current_round": value}).round == 4


@pytest.mark.parametrize("value", [None, "", "review", "Analyst", 7, ["tester"], "done"])
def test_an_invalid_phase_is_the_analyst_phase(value: object) -> None:
    """Scenario: Invalid phase in state file defaults to analyst"""
    assert from_json({**SHELL_STATE, "current_phase": value}).phase == "analyst"


@pytest.mark.parametrize("value", ["PASS", "FAIL", "RUNNING"])
def test_a_finished_run_is_done(value: str) -> None:
    state = from_json({**SHELL_STATE, "final_status": value})
    assert state.final_status == value
    assert state.phase == ("programmer" if value == "RUNNING" else "done")


@pytest.mark.parametrize("value", [None, "", "running", 1, ["RUNNING"]])
def test_a_run_of_which_nobody_knows_whether_it_goes_on_is_refused(value: object) -> None:
    with pytest.raises(StateError, match="final_status"):
        from_json({**SHELL_STATE, "final_status": value})
    with pytest.raises(StateError, match="final_status"):
        from_json({name: SHELL_STATE[name] for name in SHELL_STATE if name != "final_status"})


def test_who_has_written_another_final_status_is_told_which_there_are() -> None:
    with pytest.raises(StateError, match="'DONE', not one of RUNNING, PASS, FAIL"):
        from_json({**SHELL_STATE, "final_status": "DONE"})


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


@pytest.mark.parametrize("version", [None, 0, 2, "2", True, 1.5, [1], {}])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(StateError, match="its version is"):
        from_json({**SHELL_STATE, "version": version})


def test_a_state_without_version_is_refused() -> None:
    with pytest.raises(StateError, match="expected 1"):
        from_json({})


@pytest.mark.parametrize("data", [None, 1, "text", [SHELL_STATE]])
def test_something_that_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(StateError, match="JSON object"):
        from_json(data)


@pytest.mark.parametrize(
    "in_flight",
    [
        None, 5, {}, {"role": "analyst"}, {"id": "x"}, {"role": "cook", "id": "x"},
        {"role": "analyst", "id": 5},
    ],
)  # fmt: skip
def test_a_damaged_dispatch_is_none(in_flight: object) -> None:
    state = from_json({**SHELL_STATE, "progress": {"in_flight": in_flight}})
    assert state.progress.in_flight is None


@pytest.mark.parametrize("since", [None, "x", -1, 1e300])
def test_a_damaged_time_is_no_time(since: object) -> None:
    in_flight = {"role": "analyst", "id": "d1", "since": since}
    state = from_json({**SHELL_STATE, "progress": {"in_flight": in_flight}})
    assert state.progress.in_flight == Dispatch(Turn("analyst", 1, 1), "d1")


@pytest.mark.parametrize(
    ("written", "known"),
    [
        (True, Sent.YES),
        (False, Sent.MAYBE),
        *((str(sent), sent) for sent in (Sent.MAYBE, Sent.YES, Sent.FAILED)),
        ("no", Sent.MAYBE),
        ("perhaps", Sent.MAYBE),
        (1, Sent.MAYBE),
        (None, Sent.MAYBE),
    ],
)
def test_what_is_known_of_a_prompt_is_read_in_the_words_of_every_version(
    written: object, known: Sent
) -> None:
    flight = {"id": "d", "role": "tester", "sent": written}
    data = {**SHELL_STATE, "progress": {"in_flight": flight}}
    in_flight = from_json(data).progress.in_flight
    assert in_flight is not None
    assert in_flight.sent is known


def test_open_notes_of_nobody_are_dropped() -> None:
    notes = [5, {"role": "cook"}, {"role": "tester", "text": "x"}]
    state = from_json({**SHELL_STATE, "progress": {"open_notes": notes, "briefed": ["a", 5]}})
    assert state.progress.open_notes == (OpenNotes("tester", 1, Excerpt("x")),)
    assert state.progress.briefed == {"a"}


@given(
    st.dictionaries(
        st.sampled_from(sorted({*SHELL_STATE, "progress"} - {"version", "final_status"})),
        json_values,
    ),
    st.dictionaries(st.sampled_from(sorted(to_json(new_state())["progress"])), json_values),
)
def test_no_damage_keeps_a_state_from_being_read(
    damage: dict[str, object], inner: dict[str, object]
) -> None:
    state = from_json({**to_json(new_state()), "progress": inner, **damage})
    assert state.round >= 1
    assert (state.phase == "done") == (state.final_status is not FinalStatus.RUNNING)
    assert from_json(to_json(state)) == state


def test_the_task_is_not_shown_by_accident() -> None:
    assert "parser" not in repr(replace(new_state(), outputs={"analyst": Output("parser")}))


def test_what_is_known_of_the_turn_in_flight_is_kept() -> None:
    turn = Turn("tester", 2, 3)
    hints = (KeptHint("", "Mind the tabs."), KeptHint("tester", "Use 3.12."))
    sent = Dispatch(turn, "key", 7, since=12.5, sent=Sent.YES, worked=2.5, hints=hints)
    state = replace(from_json(SHELL_STATE), progress=Progress(in_flight=sent))
    assert from_json(to_json(state)).progress.in_flight == sent


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"a": {"b": "\ud800"}}, "a.b"),
        ({"a": ["x", {"b": "\udfff"}]}, "a.1.b"),
        ({"a": {"\ud800": 1}}, "a"),
        ({"a": ["é", 1, None]}, None),
    ],
)
def test_half_a_character_is_found_wherever_it_is(data: object, place: str | None) -> None:
    assert find_half_character(data) == place


def test_what_was_heard_is_kept() -> None:
    state = replace(from_json(SHELL_STATE), progress=Progress(heard=70, paused=True))
    assert from_json(to_json(state)).progress == state.progress


def test_a_role_has_its_own_agent_or_that_of_the_run() -> None:
    state = replace(new_state(), provider="codex", progress=Progress(providers={"tester": "kiro"}))
    assert (state.provider_of("tester"), state.provider_of("analyst")) == ("kiro", "codex")
