"""The turns of a run as a picture."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.runs.view import Turn
from cli_agent_orchestrator.show.turn import (
    LEGEND,
    WORDS,
    badge,
    label_of,
    look_of,
    timeline,
)
from tests.show.reading import Elements

NOON = 1_700_000_000.0
TURN = Turn(1, "analyst", 1, 1, "codex", "t", NOON, NOON + 9, 9.0, "delivered", "summary")


def turns_like(outcomes: list[str], roles: tuple[str, ...] = ("a", "b")) -> list[Turn]:
    return [
        replace(TURN, sequence=n, role=roles[n % len(roles)], outcome=outcome, round=1 + n // 4)
        for n, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcome", "mark", "kind"),
    [
        ("", "…", "now"),
        ("delivered", "●", "plain"),
        ("approved", "✓", "good"),
        ("cleared", "✓", "good"),
        ("base_passed", "✓", "good"),
        ("sent_back", "↩", "bad"),
        ("cycles_used_up", "↩", "bad"),
        ("failed", "✗", "bad"),
        ("rounds_used_up", "✗", "bad"),
        ("base_failed", "✗", "bad"),
        ("skipped", "–", "plain"),
        ("of a later version", "●", "plain"),
    ],
)
def test_an_outcome_has_a_mark_and_words(outcome: str, mark: str, kind: str) -> None:
    look = look_of(replace(TURN, outcome=outcome, ended=NOON + 9 if outcome else None))
    assert (look.mark, look.kind) == (mark, kind)
    assert look.words == WORDS.get(outcome, outcome.replace("_", " ") or "at work")
    assert Elements(badge(look)).written == f"{mark} {look.words}"
    assert mark in {one.mark for one in LEGEND if one.kind == kind}


def test_the_picture_is_one_image_that_says_what_it_shows() -> None:
    turns = turns_like(["delivered", "sent_back", "delivered", "approved", "failed"])
    page = Elements(timeline(turns, NOON))
    assert page.is_closed
    names, picture = page.of("svg")
    assert names["aria-hidden"] == "true"
    assert picture["role"] == "img"
    label = "5 turns in 2 rounds: 2 delivered, 1 sent back, 1 approved, 1 failed"
    assert picture["aria-label"] == label == label_of(turns)
    assert len(page.of("rect", "timeline-box")) == 5
    assert len(page.of("rect", "timeline-bad")) == 2
    assert "Round 1" in page.written
    assert "0. a, round 1, cycle 1: delivered, 9.0 s" in page.written
    (group,) = [one for one in page.of("div") if one.get("role") == "group"]
    assert (group["aria-label"], group["tabindex"]) == ("Turns", "0")
    legend = "● delivered  ✓ approved or passed  ↩ sent back  ✗ failed  Wider boxes took longer."
    assert page.written.endswith(legend), "only what is there is explained"


def test_agents_come_before_gates_which_have_no_cycle() -> None:
    gate = replace(TURN, sequence=1, role="tests", provider="command", reviewed=False)
    # One that was broken off is not at work.
    drawn = timeline([gate, replace(TURN, sequence=2, outcome="")], NOON + 900)
    assert re.findall('class="timeline-role">([^<]*)<', drawn) == ["analyst", "tests"]
    assert "1. tests, round 1: delivered, 9.0 s" in drawn
    assert "2. analyst, round 1, cycle 1: not finished, 9.0 s" in drawn
    assert label_of([gate]) == "1 turn in 1 round: 1 delivered"


def widths(turns: list[Turn], now: float) -> list[float]:
    page = Elements(timeline(turns, now))
    return [float(one["width"] or 0) for one in page.of("rect", "timeline-box")]


def test_a_longer_turn_is_wider_and_one_at_work_grows() -> None:
    short, long = widths([TURN, replace(TURN, sequence=2, seconds=90.0)], NOON)
    assert short < long
    at_work = replace(TURN, sequence=2, outcome="", ended=None, seconds=0.0)
    first, later = (widths([TURN, at_work], NOON + seconds) for seconds in (1, 8))
    assert first[0] == later[0]
    assert first[1] < later[1]
    assert widths([TURN, at_work], NOON - 99)[1] > 0, "a clock may go back"


@given(st.lists(st.sampled_from([*WORDS, "", "<b>"]), min_size=1, max_size=200), st.text())
def test_boxes_follow_one_another_and_nothing_lies_outside(outcomes: list[str], name: str) -> None:
    markup = timeline(turns_like(outcomes, ("a", name)), NOON)
    page = Elements(markup)
    _, picture = page.of("svg")
    assert page.is_closed
    assert page.names <= {"div", "svg", "g", "rect", "line", "text", "title", "p", "span"}
    right = 0.0
    for box in page.of("rect", "timeline-box"):
        left = float(box["x"] or 0)
        assert left >= right
        right = left + float(box["width"] or 0)
        assert float(box["y"] or 0) + float(box["height"] or 0) <= float(picture["height"] or 0)
    assert right <= float(picture["width"] or 0) + 1
