"""The words of a report, in plain text."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.pipeline.state import FinalStatus
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.runs.report import Deeds
from cli_agent_orchestrator.runs.turns import COMMAND
from cli_agent_orchestrator.settings.gates import PROOF
from cli_agent_orchestrator.show.report_words import (
    Fact,
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    title_of,
    turns_title,
)
from tests.cli.reports import HOME, REPORT, turn

RUNNING = FinalStatus.RUNNING
BARE = replace(
    REPORT, branch="", turns=[], reason="", archive="", deeds=Deeds(), state_file="", delivery=""
)


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({}, "FAIL after 2 rounds, not proven"),
        ({"round": 1, "deeds": Deeds()}, "FAIL after 1 round"),
        ({"agents": {"a": "scripted"}, "deeds": Deeds()}, "DRY RUN: FAIL after 2 rounds"),
        ({"status": RUNNING, "due": "round 1, a"}, "Not finished: round 1, a is due"),
        (
            {"status": RUNNING, "due": "a", "standing": RunStatus.FAILED},
            "Not finished (error): a is due",
        ),
        (
            {"status": RUNNING, "standing": RunStatus.STOPPED},
            "Not begun (stopped): nothing of it is saved",
        ),
    ],
)
# Any: fields of a report
def test_the_title_says_what_a_run_came_to(fields: dict[str, Any], title: str) -> None:
    assert title_of(replace(REPORT, **fields)) == title


def test_a_fact_that_is_not_known_is_left_out() -> None:
    names = [fact.name for fact in facts_of(BARE, Path(HOME))]
    assert names == ["Task", "Folder", "Agents"]


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"project": "/home/ada/own"}, Fact("Folder", "~/own")),
        ({"branch": "cao/x"}, Fact("Branch", "cao/x")),
        ({"reason": "a\nb\nc"}, Fact("Stopped", "a", ["b", "c"])),
        ({"archive": "x"}, Fact("Prompts and replies", "x")),
        ({"deeds": Deeds(logs="x")}, Fact("What gates wrote", "x")),
        ({"state_file": "x"}, Fact("State", "x")),
        ({"status": RUNNING, "to_resume": "x"}, Fact("To resume", "x")),
        ({"delivery": "x"}, Fact("Next", "x")),
        (
            {"turns": [turn(1, "a")]},
            Fact(
                "Time",
                f"1 min 00 s, {local_time(60)} to {local_time(120)}; 1 turn, agents worked 2.0 s",
            ),
        ),
        (
            {"turns": [turn(1, "t", provider=COMMAND), turn(2, "t", provider=COMMAND)]},
            Fact(
                "Time",
                f"2 min 00 s, {local_time(60)} to {local_time(180)}; "
                "0 turns, agents worked 0.0 s; 2 checks, 4.0 s",
            ),
        ),
    ],
)
# Any: fields of a report
def test_a_fact_that_is_known_is_told(fields: dict[str, Any], fact: Fact) -> None:
    assert fact in list(facts_of(replace(BARE, **fields), Path(HOME)))


def test_a_run_that_cannot_be_resumed_has_no_word_about_it() -> None:
    facts = facts_of(replace(BARE, status=RUNNING, to_resume=""), Path(HOME))
    assert "To resume" not in [fact.name for fact in facts]


def test_it_is_said_whose_words_the_evidence_is() -> None:
    titles = [evidence_title(gate) for gate in ("", "lint", PROOF)]
    assert titles == ["What the tester found", "What the gate lint said", "What the proof came to"]


def test_the_turns_are_counted() -> None:
    assert turns_title([turn(1, "a")]) == "The only turn"
    assert turns_title([turn(1, "a"), turn(2, "a")]) == "All 2 turns"
    gate = replace(turn(3, "a"), provider="command")
    assert turns_title([turn(1, "a"), turn(2, "a"), gate]) == "2 turns and 1 check"


@pytest.mark.parametrize(
    ("notes", "opened", "is_told"),
    [
        ("- a", "- a", False),
        ("- a", "- a and b", False),
        ("- a and b", "- a", False),
        ("- a", "- b", True),
        ("", "- a", True),
        ("- a", "", True),
    ],
)
def test_notes_that_stayed_open_are_not_told_twice(notes: str, opened: str, is_told: bool) -> None:
    found = replace(REPORT, notes={"r": notes}, open_notes={"r, round 1": opened})
    assert last_notes(found) == ({"r": notes} if is_told else {})


def test_what_was_said_in_many_places_is_told_once() -> None:
    assert grouped({"a": "x", "b": "y", "c": "x"}) == {"a; c": "x", "b": "y"}


def test_a_time_is_that_of_the_clock_on_the_wall() -> None:
    assert local_time(1e9).startswith("2001-09-0")
    assert len(local_time(1e9)) == len("2001-09-09 01:46:40")
