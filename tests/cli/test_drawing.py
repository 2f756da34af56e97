"""The picture of a run as rows of a terminal of any size."""

import re
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli_agent_orchestrator.cli.picture import WIDEST, Canvas, Keys, Picture, clock_face, draw, fold
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.core.text import UNSAFE_PATTERN
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    NotConverging,
    PauseAsked,
    Paused,
    RunEnded,
    RunEvent,
    ServerChosen,
)
from tests.cli.run_events import (
    BEGAN,
    NOON,
    OPENED,
    STARTING,
    a_whole_run,
    ended,
    events,
    handoff,
    roles,
    started,
    texts,
    turn,
)

ROOMY = Canvas(100, 40, NOON + 70)
ASKS = replace(
    handoff(EventKind.WAITING_FOR_PERSON, "cao attach x", TerminalStatus.WAITING_USER_ANSWER),
    question="Go on?",
)


def drawn(*happened: RunEvent, on: Canvas = ROOMY, keys: Keys | None = None) -> list[str]:
    picture = reduce(fold, happened, Picture())
    return [row.plain for row in draw(picture, on, keys)]


def test_a_run_in_full() -> None:
    assert drawn(*a_whole_run()) == [
        "▶ Round 1 of 8, cycle 2   total 1:10",
        "  ▶ analyst            codex        working    1:00",
        "  ✗ analyst_review     claude_code  sent back  1:15",
        "    programmer         codex        ready",
        "    programmer_review  claude_code  ready",
        "    tester             codex        ready",
        "  ✗ 1.1 analyst_review REVISE: No word about rounding",
        "  cao attach k3f9/analyst · cao send k3f9 TEXT · cao pause k3f9",
    ]


def test_a_gate_says_at_which_point_it_is_run() -> None:
    began = CheckBegan(NOON + 30, "tests", 1, 1, "make test", "base")
    assert "  ▶ tests on the base  command      working  0:40" in drawn(OPENED, BEGAN, began)
    known = CheckEnded(NOON + 40, "tests", 1, 1, "base_passed", "x", 7.0, "x", "base")
    rows = drawn(OPENED, BEGAN, began, known)
    assert "  ✓ tests on the base  command      base passed  0:07" in rows
    rows = drawn(OPENED, BEGAN, began, replace(known, outcome="base_failed"))
    assert "  ✗ tests on the base  command      base failed  0:07" in rows
    again = replace(began, when="after_programmer", sequence=4)
    rows = drawn(OPENED, BEGAN, began, known, again)
    assert "  ▶ tests after the programmer  command      working  0:40" in rows
    last = replace(again, when="after_tester")
    rows = drawn(OPENED, BEGAN, began, known, again, last)
    assert "  ▶ tests              command      working  0:40" in rows
    ready = drawn(OPENED, BEGAN, began, known, turn("analyst", number=2))
    assert "    tests              command      ready" in ready


def test_a_reason_has_the_width_there_is_and_the_room_it_takes_when_that_becomes_usual() -> None:
    why = "word " * 60
    sent_back = ended("analyst_review", "sent_back", "REVISE", why)
    cycle: list[RunEvent] = [turn("analyst_review"), sent_back]
    run = [OPENED, BEGAN, *cycle * 5]
    wide = Canvas(200, 28, NOON)
    reasons = [row for row in drawn(*run, on=wide) if "REVISE" in row]
    assert {cell_len(row) for row in reasons} == {199}
    usual = [row for row in drawn(*run, on=replace(wide, width=80)) if "REVISE" in row]
    assert (len(reasons), len(usual)) == (2, 5)


def test_what_was_done_to_the_files_is_shown() -> None:
    mine = FilesChanged(NOON + 30, "programmer", 1, 3, ("a.py",), 1, 4, 2)
    assert "  programmer changed 1 file (+4 −2)" in drawn(*a_whole_run(), mine)
    other = FilesChanged(NOON + 30, "tester", 1, 3, ("a\nb.py",), 1, 4, 2, allowed=False)
    rows = drawn(*a_whole_run(), other)
    assert "  ✗ round 1, tester changed 1 file, which is not its task: 'a\\nb.py'" in rows
    assert not any("changed" in row for row in drawn(*a_whole_run(), mine, turn("analyst", 2)))


def test_a_run_in_circles_says_so_until_an_author_has_changed_files() -> None:
    stuck, row = NotConverging(NOON + 30, "F1 was not fixed twice."), "  ! F1 was not fixed twice."
    mine = FilesChanged(NOON + 30, "programmer", 2, 3, ("a.py",), 1, 4, 2)
    assert row in drawn(*a_whole_run(), stuck, turn("analyst", 2))
    assert row in drawn(*a_whole_run(), stuck, replace(mine, allowed=False))
    assert row in drawn(*a_whole_run(), stuck, replace(mine, count=0))
    assert row not in drawn(*a_whole_run(), stuck, mine)


def test_in_a_narrow_terminal_the_state_comes_before_the_agent() -> None:
    assert drawn(*a_whole_run(), on=replace(ROOMY, width=40))[1:4] == [
        "  ▶ analyst            working    1:00",
        "  ✗ analyst_review     sent back  1:15",
        "    programmer         ready",
    ]
    widest = "  ✗ analyst_review     claude_code  sent back  1:15"
    assert widest in drawn(*a_whole_run(), on=replace(ROOMY, width=len(widest) + 1))
    assert widest not in drawn(*a_whole_run(), on=replace(ROOMY, width=len(widest)))


def test_agents_that_start_are_counted() -> None:
    rows = drawn(OPENED, STARTING, started("analyst"), started("tester"))
    assert rows[0] == "▶ Starting 3 of 5   total 1:10"
    assert rows[1] == "    analyst            codex        ready"
    assert rows[2] == "    analyst_review     claude_code  starting  1:10"
    assert drawn(OPENED, STARTING)[0].startswith("▶ Starting 1 of 5")


def test_rounds_are_not_counted_against_a_limit_that_is_not_known_or_passed() -> None:
    unlimited = replace(BEGAN, max_rounds=0)
    assert drawn(OPENED, unlimited, turn("tester", 3))[0].startswith("▶ Round 3   total")
    less = replace(BEGAN, max_rounds=2)
    assert drawn(OPENED, less, turn("tester", 3))[0].startswith("▶ Round 3   total")


def test_a_question_says_for_how_long_and_how_to_answer() -> None:
    chosen = ServerChosen(NOON, "http://localhost:1", "named", named=True)
    rows = drawn(OPENED, chosen, BEGAN, turn("programmer"), ASKS)
    assert rows[rows.index("  ! asks you, 0:50: Go on?") + 1] == (
        "  CAO_API=http://localhost:1 cao attach x"
    )
    assert rows[-1] == "  cao send k3f9 TEXT · cao pause k3f9"


def test_a_delay_says_for_how_long_and_why() -> None:
    delayed = replace(handoff(EventKind.DELAYED, "its box\nholds text"), since=NOON)
    rows = drawn(OPENED, BEGAN, turn("programmer"), delayed)
    assert "  ! not delivered for 1:10: its box holds text" in rows


def test_a_missing_file_is_counted_down() -> None:
    awaited = replace(handoff(EventKind.FILE_AWAITED, "it is reminded"), until=NOON + 95)
    rows = drawn(OPENED, BEGAN, turn("programmer"), awaited)
    assert "  ! at rest without its file; it is reminded in 0:25" in rows


def test_a_pause_says_how_to_lift_it() -> None:
    rows = drawn(OPENED, BEGAN, turn("tester"), ended("tester", "failed"), Paused(NOON + 65))
    assert "  ! paused for 0:05" in rows
    assert rows[-1] == "  cao send k3f9 TEXT · cao resume k3f9"


def test_a_pause_that_was_asked_for_can_be_taken_back() -> None:
    rows = drawn(OPENED, BEGAN, turn("programmer"), PauseAsked(NOON + 65))
    assert "  ! pauses after this turn" in rows
    assert rows[-1].endswith("cao resume k3f9")


def test_keys_stand_in_the_place_of_the_commands() -> None:
    rows = drawn(OPENED, BEGAN, turn("analyst_review"), keys=Keys())
    assert rows[-1] == "  a attach · h hint · p pause · s skip"
    rows = drawn(OPENED, BEGAN, turn("tester"), PauseAsked(NOON + 65), keys=Keys())
    assert rows[-1] == "  a attach · h hint · p resume"
    assert drawn(OPENED, BEGAN, keys=Keys())[-1] == "    tester             codex        ready"


def test_the_command_that_was_asked_for_is_shown_while_its_agent_works() -> None:
    command = "  ! in another terminal: cao attach k3f9/tester"
    assert command in drawn(OPENED, BEGAN, turn("tester"), keys=Keys(attach_to="tester"))
    for happened in ([turn("analyst")], []):
        rows = drawn(OPENED, BEGAN, *happened, keys=Keys(attach_to="tester"))
        assert "another terminal" not in "".join(rows)


def test_where_it_is_narrow_that_command_has_a_row_of_its_own() -> None:
    narrow = Canvas(40, 15, NOON + 70)
    rows = drawn(*a_whole_run(), turn("tester"), on=narrow, keys=Keys(attach_to="tester"))
    at = rows.index("  ! in another terminal:")
    assert rows[at + 1].startswith("  cao attach ")
    assert rows[at + 1].endswith("/tester")


def test_the_line_that_is_typed_is_seen_whole_or_at_its_end() -> None:
    rows = drawn(OPENED, BEGAN, turn("tester"), keys=Keys(line="Mind the tabs."))
    assert rows[-2] == "  hint> Mind the tabs._"
    assert rows[-1] == "  Enter sends it with the next prompt · Esc cancels"
    for line, end in (("x" * 50 + "yz", "xxxxxxxxyz_"), ("日" * 50 + "本語z", "日日本語z_")):
        on = replace(ROOMY, width=20, height=4)
        rows = drawn(OPENED, BEGAN, turn("tester"), on=on, keys=Keys(line=line))
        assert rows[-1] == f"  hint> {end}"


def test_commands_that_do_not_fit_side_by_side_have_rows_of_their_own() -> None:
    rows = drawn(OPENED, BEGAN, turn("analyst_review"), on=replace(ROOMY, width=40))
    assert rows[-3:] == [
        "  cao attach k3f9/analyst_review",
        "  cao send k3f9 TEXT · cao pause k3f9",
        "  cao skip k3f9",
    ]


def test_a_reason_without_words_of_its_own_says_what_it_led_to() -> None:
    rows = drawn(OPENED, BEGAN, ended("tester", "failed", "no RESULT line, round 2 follows"))
    assert "  ✗ round 1, tester no RESULT line, round 2 follows" in rows
    rows = drawn(OPENED, BEGAN, ended("tester", "failed", "FAIL; round 2 follows", "2 tests fail"))
    assert "  ✗ round 1, tester FAIL: 2 tests fail" in rows


def styles(*happened: RunEvent) -> dict[str, list[str]]:
    """Return how each row is painted, from left to right, by how the row begins."""
    rows = draw(reduce(fold, happened, Picture()), ROOMY)
    painted = {row.plain[:14].rstrip(): [row.style, *(s.style for s in row.spans)] for row in rows}
    return {begin: [str(style) for style in found if style] for begin, found in painted.items()}


def test_the_agent_whose_turn_it_is_stands_out() -> None:
    seen = styles(*a_whole_run())
    assert seen["▶ Round 1 of 8"] == ["bold cyan", "bold", "dim"]
    assert seen["  ▶ analyst"] == ["bold cyan", "bold cyan"]
    assert seen["  ✗ analyst_re"] == ["red", "dim", "dim"]
    assert seen["    programmer"] == ["dim", "dim"]
    assert seen["  ✗ 1.1 analys"] == ["red", "dim"]


@pytest.mark.parametrize("happened", [(), (OPENED,), (OPENED, BEGAN, RunEnded(NOON, "PASS", 1, 0))])
def test_nothing_is_drawn_of_a_run_that_has_no_agents_or_has_ended(
    happened: tuple[RunEvent, ...],
) -> None:
    assert drawn(*happened) == []


def test_the_last_reasons_are_kept_and_leave_half_of_the_rows_free() -> None:
    failed = [ended("tester", "failed", f"number {n}") for n in range(40)]
    for height in (24, 50):
        rows = drawn(OPENED, BEGAN, turn("tester"), *failed, on=replace(ROOMY, height=height))
        assert len(rows) == height // 2
        assert rows[-2].endswith("number 39")


def test_what_is_needed_most_stays_when_rows_are_few() -> None:
    happened = [*a_whole_run(), replace(ASKS, role="analyst")]
    starts = {
        2: ["▶ Round"],
        3: ["▶ Round", "  ! asks"],
        4: ["▶ Round", "  ▶ analyst", "  ! asks"],
        5: ["▶ Round", "  ▶ analyst", "  ! asks", "  cao attach"],
        9: ["▶ Round", "  ▶ analyst", *["  "] * 4, "  ! asks", "  cao attach"],
    }
    for height, beginnings in starts.items():
        rows = drawn(*happened, on=replace(ROOMY, height=height))
        assert len(rows) == len(beginnings)
        for row, beginning in zip(rows, beginnings, strict=True):
            assert row.startswith(beginning)


def test_hours_are_told_as_such() -> None:
    assert clock_face(3725) == "1:02:05"
    assert clock_face(-3) == "0:00"


@given(
    st.lists(events, max_size=12),
    st.integers(1, 200),
    st.integers(1, 60),
    st.floats(-1e15, 1e15),
    st.none() | st.builds(Keys, line=st.none() | texts, attach_to=roles),
)
def test_nothing_is_ever_too_wide_too_high_or_not_printable(
    happened: list[RunEvent], width: int, height: int, now: float, keys: Keys | None
) -> None:
    rows = drawn(*happened, on=Canvas(width, height, now), keys=keys)
    assert len(rows) <= max(height - 1, 1)
    for row in rows:
        most = width - 1 if row.startswith("  ✗ ") else min(width - 1, WIDEST)
        assert cell_len(row) <= max(most, 1)
        assert not re.search(UNSAFE_PATTERN, row)
        assert len(row.splitlines()) <= 1
        assert "\t" not in row


def documented_run() -> list[RunEvent]:
    """Return the events of the run whose picture docs/run.md shows."""
    revise = ended("analyst_review", "sent_back", "REVISE", "Rounding of half cents is left open")
    return [
        OPENED,
        BEGAN,
        turn("analyst"),
        ended("analyst", "delivered"),
        turn("analyst_review"),
        revise,
        turn("analyst", cycle=2),
        replace(ended("analyst", "delivered"), seconds=41.0),
        turn("analyst_review", cycle=2),
        replace(ended("analyst_review", "approved"), seconds=38.0),
        turn("programmer", at=NOON + 200),
        handoff(EventKind.STATUS, status=TerminalStatus.PROCESSING),
        handoff(EventKind.ACTION, "Bash: make test"),
    ]


def test_the_picture_in_the_documentation_is_the_real_one() -> None:
    rows = drawn(*documented_run(), on=Canvas(80, 24, NOON + 307))
    page = Path(__file__).parents[2] / "docs" / "run.md"
    assert "".join(f"    {row}\n" for row in rows) in page.read_text(encoding="utf-8")


def test_of_a_run_that_no_other_terminal_finds_no_command_is_shown() -> None:
    alone = Canvas(100, 40, NOON + 70, is_alone=True)
    assert any("cao " in row for row in drawn(*a_whole_run()))
    assert not any("cao " in row for row in drawn(*a_whole_run(), on=alone))


def test_where_it_is_narrow_the_commands_that_answer_are_whole() -> None:
    narrow = Canvas(40, 15, NOON + 70)
    asks = replace(ASKS, text="cao attach k3f9/programmer")
    rows = drawn(*a_whole_run(), turn("programmer"), asks, on=narrow)
    assert "  ! asks you, 0:50: Go on?" in rows
    assert "  cao attach k3f9/programmer" in rows
    assert any(row.startswith("  cao answer ") and row.endswith(" KEY") for row in rows)
