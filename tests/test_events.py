"""The events of a run, and their form as JSON."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.core.text import short_line
from cli_agent_orchestrator.events import (
    TYPES,
    AgentsStarting,
    AgentStarted,
    AskDeclined,
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    FilesChanged,
    HandoffEvent,
    HintTaken,
    NotConverging,
    PauseAsked,
    Paused,
    QuestionAnswered,
    ReviewSkipped,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    StopAsked,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
    from_json,
    from_line,
    to_json,
    to_line,
)

NOON = 1_700_000_000.0
ALL: tuple[RunEvent, ...] = (
    RunOpened(NOON, "20261115-084037-k3f9", "/p", resumed=True, project="/q", seq=1),
    ServerChosen(NOON, "http://localhost:1", "yours", seq=2),
    AgentsStarting(NOON, {"analyst": "codex"}, seq=3),
    AgentStarted(NOON, "analyst", "a1", seq=4),
    RunBegan(
        NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/p/.tmp/1", True, ("tester",)
    ),
    TurnBegan(NOON, "analyst", 1, 2, 7, "a1", "codex", seq=6),
    HandoffEvent(
        NOON, EventKind.STATUS, "a1", "analyst", "", TerminalStatus.IDLE, NOON - 1, 1, 2, seq=7
    ),
    HandoffEvent(NOON, EventKind.WARNING, "a1", "analyst", "odd \u2028 \ud800"),
    TurnEnded(
        NOON,
        "analyst",
        1,
        2,
        7,
        "delivered",
        "summary received",
        1.5,
        "/p/.tmp/1/007.md",
        terminal_id="a1",
        verdict="summary received",
        why="so",
    ),
    Warned(NOON, "odd", "repository"),
    CheckBegan(NOON, "gate", 1, 8, "make test"),
    CheckOutput(NOON, "gate", 1, 8, "3 of 7 tests"),
    CheckEnded(NOON, "gate", 1, 8, "failed", "exit code 1", 2.0, "/p/.tmp/1/008.md", why="so"),
    FilesChanged(
        NOON,
        "tester",
        1,
        8,
        ("a.py", "b.py"),
        2,
        12,
        4,
        allowed=False,
        restored=True,
        cycle=1,
        terminal_id="t1",
    ),
    NotConverging(NOON, "Not converging: F1 is still unfixed after two attempts."),
    Paused(NOON, seq=9),
    Unpaused(NOON, "ask-1", seq=10),
    PauseAsked(NOON, "ask-2"),
    StopAsked(NOON, "ask-7"),
    HintTaken(NOON, "programmer", "look at the parser", "ask-3"),
    SettingChanged(NOON, "MAX_ROUNDS", "12", "8", "ask-4"),
    ReviewSkipped(NOON, "analyst_review", 1, 2, "ask-5", "r1"),
    QuestionAnswered(NOON, "programmer", "Yes", "ask-7"),
    AskDeclined(NOON, "skip", "no review is under way or due", "ask-6"),
    RunEnded(
        NOON,
        "PASS",
        1,
        0,
        "",
        "cao-1",
        repository=("it was changed",),
        proven=True,
        to_resume="x",
        error="RunLocked",
    ),
)


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_an_event_is_the_same_after_a_trip_through_json(event: RunEvent) -> None:
    line = to_line(event)
    assert "\n" not in line
    assert line.isascii()
    assert from_line(line) == event


def test_every_event_is_tried_here() -> None:
    assert {type(event) for event in ALL} == set(TYPES.values())


def test_the_names_of_events_are_those_that_the_page_about_runs_tells() -> None:
    page = (Path(__file__).parents[1] / "docs" / "run.md").read_text(encoding="utf-8")
    names = page.partition("The types: ")[2].partition(". ")[0]
    assert set(re.findall("`(.*?)`", names)) == set(TYPES)


def test_every_field_of_a_turn_under_way_is_named_on_the_page_about_runs() -> None:
    page = (Path(__file__).parents[1] / "docs" / "run.md").read_text(encoding="utf-8")
    told = page.partition("An event has a number")[2].partition("\n\n")[0]
    names = {part.name for part in fields(HandoffEvent)} - {"kind"}
    assert names - set(re.findall("`(.*?)`", told)) == set()


def test_what_an_earlier_version_did_not_tell_is_as_it_was_then() -> None:
    data = to_json(ALL[8])
    del data["reviewed"], data["reason"], data["verdict"], data["why"]
    ended = from_json(data)
    assert isinstance(ended, TurnEnded)
    assert (ended.reviewed, ended.reason, ended.verdict, ended.why) == (True, "", "", "")


OF_A_TURN = (TurnBegan, HandoffEvent, TurnEnded, FilesChanged, ReviewSkipped)
WHERE = ("role", "round", "cycle", "terminal_id")


def test_every_event_of_a_turn_says_whose_and_which_it_is() -> None:
    # An agent is started and may be answered, and a hint is taken, before there is a turn.
    in_turns = {kind for kind in TYPES.values() if "role" in {part.name for part in fields(kind)}}
    assert in_turns - {AgentStarted, HintTaken, QuestionAnswered} == set(OF_A_TURN)
    for kind in OF_A_TURN:
        assert set(WHERE) <= {part.name for part in fields(kind)}, kind


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (TurnEnded, ["terminal_id"]),
        (FilesChanged, ["cycle", "terminal_id"]),
        (ReviewSkipped, ["terminal_id"]),
    ],
)
def test_an_event_of_an_earlier_version_that_did_not_say_it_is_read(
    kind: type[RunEvent], names: list[str]
) -> None:
    (event,) = (one for one in ALL if isinstance(one, kind))
    data = {name: value for name, value in to_json(event).items() if name not in names}
    found = from_json(data)
    assert found is not None
    assert [getattr(found, name) for name in names] == [0, ""][-len(names) :]


def test_number_time_and_type_come_first() -> None:
    assert list(to_json(ALL[5])) == [
        "seq", "at", "type", "role", "round", "cycle", "sequence", "terminal_id", "provider",
        "reviewed",
    ]  # fmt: skip
    assert to_json(ALL[6])["type"] == "status"
    assert "kind" not in to_json(ALL[6])


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_what_a_later_version_adds_is_skipped(event: RunEvent) -> None:
    assert from_json({**to_json(event), "later": [1]}) == event
    assert from_json({**to_json(event), "type": "later"}) is None


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_what_has_a_default_may_be_missing_and_the_rest_may_not(event: RunEvent) -> None:
    data = to_json(event)
    data.pop("seq")
    assert from_json(data) == replace(event, seq=0)
    data.pop("at")
    assert from_json(data) is None


@pytest.mark.parametrize("name", ["at", "seq", "role", "round", "cycle", "provider"])
@pytest.mark.parametrize("odd", [None, [], {}, True, 1e300])
def test_a_field_of_another_kind_is_no_event(name: str, odd: object) -> None:
    assert from_json({**to_json(ALL[5]), name: odd}) is None


@pytest.mark.parametrize("number", [-1.0, 1e12, 10**400])
def test_a_time_that_no_calendar_has_is_no_event(number: float) -> None:
    assert from_line(json.dumps({**to_json(ALL[5]), "at": number})) is None


@pytest.mark.parametrize(
    "line", ["", "x", "[]", "1", "null", '{"type": []}', "{", "[" * 100_000, b"\xff\xfe"]
)
def test_what_is_no_event_is_none(line: str | bytes) -> None:
    assert from_line(line) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@given(
    st.sampled_from(ALL),
    st.dictionaries(st.sampled_from([f for e in ALL for f in to_json(e)]), JSON),
)
def test_no_line_can_raise(event: RunEvent, odd: dict[str, object]) -> None:
    found = from_line(json.dumps({**to_json(event), **odd}))
    assert found is None or from_json(to_json(found)) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n b\tc", "a b c"),
        ("1234567890", "1234567890"),
        ("12345678901", "12345678 …"),
        ("1234 67890123", "1234 …"),
        ("12345678 0123", "12345678 …"),
        ("123456789 123", "12345678 …"),
    ],
)
def test_a_text_becomes_a_short_line(text: str, line: str) -> None:
    assert short_line(text, 10) == line
