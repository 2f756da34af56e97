"""The events of a run, and their form as JSON."""

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from cli_agent_orchestrator import events as e
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.events import TYPES, RunEvent, from_json, from_line, to_json, to_line

NOON = 1_700_000_000.0
ALL: tuple[RunEvent, ...] = (
    e.RunOpened(NOON, "20261115-084037-k3f9", "/p", resumed=True, project="/q", seq=1),
    e.ServerChosen(NOON, "http://localhost:1", "yours", seq=2),
    e.AgentsStarting(NOON, {"analyst": "codex"}, seq=3),
    e.AgentStarted(NOON, "analyst", "a1", seq=4),
    e.RunBegan(
        NOON, "cao-1", {"analyst": "a1"}, {"analyst": "codex"}, "/p/.tmp/1", True, ("tester",)
    ),
    e.TurnBegan(NOON, "analyst", 1, 2, 7, "a1", "codex", seq=6),
    e.HandoffEvent(
        NOON, e.EventKind.STATUS, "a1", "analyst", "", TerminalStatus.IDLE, NOON - 1, 1, 2, seq=7
    ),
    e.HandoffEvent(NOON, e.EventKind.WARNING, "a1", "analyst", "odd \u2028 \ud800"),
    e.TurnEnded(
        *(NOON, "analyst", 1, 2, 7, "delivered", "summary received", 1.5, "/p/.tmp/1/007.md"),
        terminal_id="a1",
        verdict="summary received",
        why="so",
    ),
    e.Warned(NOON, "odd", "repository"),
    e.CheckBegan(NOON, "gate", 1, 8, "make test"),
    e.CheckOutput(NOON, "gate", 1, 8, "3 of 7 tests"),
    e.CheckEnded(NOON, "gate", 1, 8, "failed", "exit code 1", 2.0, "/p/.tmp/1/008.md", why="so"),
    e.FilesChanged(
        *(NOON, "tester", 1, 8, ("a.py", "b.py"), 2, 12, 4), allowed=False, restored=True, cycle=1
    ),
    e.NotConverging(NOON, "Not converging: F1 is still unfixed after two attempts."),
    e.Paused(NOON, seq=9),
    e.Unpaused(NOON, "ask-1", seq=10),
    e.PauseAsked(NOON, "ask-2"),
    e.StopAsked(NOON, "ask-7"),
    e.HintTaken(NOON, "programmer", "look at the parser", "ask-3"),
    e.SettingChanged(NOON, "MAX_ROUNDS", "12", "8", "ask-4"),
    e.ReviewSkipped(NOON, "analyst_review", 1, 2, "ask-5", "r1"),
    e.QuestionAnswered(NOON, "programmer", "Yes", "ask-7"),
    e.AskDeclined(NOON, "skip", "no review is under way or due", "ask-6"),
    e.RunEnded(
        *(NOON, "PASS", 1, 0, "", "cao-1"),
        repository=("it was changed",),
        proven=True,
        error="RunLocked",
    ),
)


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_an_event_is_read_as_it_was_written_by_this_version_and_by_others(event: RunEvent) -> None:
    line = to_line(event)
    assert "\n" not in line
    assert line.isascii()
    assert from_line(line) == event
    data = to_json(event)
    assert from_json({**data, "later": [1]}) == event
    assert from_json({**data, "type": "later"}) is None
    defaults = {one.name: one.default for one in structs.fields(type(event)) if not one.required}
    needed = {name: value for name, value in data.items() if name not in defaults}
    assert from_json(needed) == structs.replace(event, **defaults)
    del needed["at"]
    assert from_json(needed) is None


def test_every_event_is_tried_here() -> None:
    assert {type(event) for event in ALL} == set(TYPES.values())


def test_the_page_about_runs_names_all_events_and_the_fields_of_a_turn_under_way() -> None:
    page = (Path(__file__).parents[1] / "docs" / "run.md").read_text(encoding="utf-8")
    types = page.partition("The types: ")[2].partition(". ")[0]
    assert set(re.findall("`(.*?)`", types)) == set(TYPES)
    told = page.partition("An event has a number")[2].partition("\n\n")[0]
    names = set(e.HandoffEvent.__struct_fields__) - {"kind"}
    assert names - set(re.findall("`(.*?)`", told)) == set()


OF_A_TURN = (e.TurnBegan, e.HandoffEvent, e.TurnEnded, e.FilesChanged, e.ReviewSkipped)
WHERE = ("role", "round", "cycle", "terminal_id")


def test_every_event_of_a_turn_says_whose_and_which_it_is() -> None:
    # An agent is started and may be answered, and a hint is taken, before there is a turn.
    in_turns = {kind for kind in TYPES.values() if "role" in kind.__struct_fields__}
    assert in_turns - {e.AgentStarted, e.HintTaken, e.QuestionAnswered} == set(OF_A_TURN)
    for kind in OF_A_TURN:
        assert set(WHERE) <= set(kind.__struct_fields__), kind


def test_number_time_and_type_come_first() -> None:
    assert list(to_json(ALL[5])) == [
        "seq", "at", "type", "role", "round", "cycle", "sequence", "terminal_id", "provider",
        "reviewed",
    ]  # fmt: skip
    assert to_json(ALL[6])["type"] == "status"
    assert "kind" not in to_json(ALL[6])


@pytest.mark.parametrize("name", ["at", "seq", "role", "cycle"])
@pytest.mark.parametrize("odd", [None, [], {}, True, 1e300])
def test_a_field_of_another_kind_is_no_event(name: str, odd: object) -> None:
    assert from_json({**to_json(ALL[5]), name: odd}) is None
    # nor is one at a time that no calendar has
    for number in (-1.0, 1e12, 10**400):
        assert from_line(json.dumps({**to_json(ALL[5]), "at": number})) is None


@pytest.mark.parametrize("line", ["", "[]", '{"type": []}', "{", "[" * 100_000, b"\xff\xfe"])
def test_what_is_no_event_is_none(line: str | bytes) -> None:
    assert from_line(line) is None
