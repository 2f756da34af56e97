"""Events folded into the picture of a run, and drawn as rows of a terminal of any size."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from rich.cells import cell_len

from cli_agent_orchestrator.cli.picture import WIDEST, Canvas, Doing, Keys, Moment, Picture, draw
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.core.text import UNSAFE_PATTERN
from cli_agent_orchestrator.events import (
    CheckBegan,
    CheckEnded,
    CheckOutput,
    EventKind,
    FilesChanged,
    NotConverging,
    PauseAsked,
    Paused,
    RunEnded,
    RunEvent,
    RunOpened,
    Unpaused,
    Warned,
)
from tests.cli.run_events import (
    BEGAN,
    NOON,
    OPENED,
    RUN,
    STARTING,
    a_whole_run,
    ended,
    events,
    handoff,
    picture_of,
    roles,
    started,
    status,
    texts,
    turn,
)

WORKING = (OPENED, BEGAN, turn("programmer"))
RESUMED = RunOpened(NOON + 5000, RUN, "/p", resumed=True)
ASKS = handoff(EventKind.WAITING_FOR_PERSON, "cao attach x", TerminalStatus.WAITING_USER_ANSWER)


def doing(picture: Picture, role: str = "programmer") -> Doing:
    (agent,) = [one for one in picture.agents(NOON) if one.role == role]
    return agent.doing


def now(*happened: RunEvent) -> Moment:
    """Return what is done after some events in the turn of the programmer."""
    picture = picture_of(*WORKING, *happened)
    assert picture.now is not None
    return picture.now


def test_agents_that_are_started_are_counted_until_the_run_begins() -> None:
    begun = (OPENED, STARTING, started("analyst"), started("tester"))
    assert drawn(*begun, on=replace(ROOMY, now=NOON + 3725))[0].endswith("   total 1:02:05")
    rows = drawn(*begun)
    assert rows[0] == "▶ Starting 3 of 5   total 1:10"
    assert rows[1] == "    analyst            codex        ready"
    assert rows[2] == "    analyst_review     claude_code  starting  1:10"
    anew = structs.replace(STARTING, providers={"tester": "codex"})
    assert len(drawn(OPENED, STARTING, anew)) == len(rows)
    picture = picture_of(OPENED, STARTING, started("tester"), BEGAN)
    assert {agent.doing for agent in picture.agents(NOON)} == {Doing.READY}
    assert (picture.max_rounds, picture.id) == (8, RUN)
    for most in (0, 2):
        began = structs.replace(BEGAN, max_rounds=most)
        assert drawn(OPENED, began, turn("tester", 3))[0].startswith("▶ Round 3   total")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (TerminalStatus.PROCESSING, Doing.WORKING),
        (TerminalStatus.COMPLETED, Doing.RESTING),
        (TerminalStatus.WAITING_USER_ANSWER, Doing.ASKING),
        (TerminalStatus.ERROR, Doing.FAILING),
    ],
)
def test_the_present_agent_does_what_its_status_says(told: TerminalStatus, shown: Doing) -> None:
    assert (now().doing, now().since) == (Doing.SENDING, NOON + 10)
    assert now(status(told)).doing is shown
    assert now(status(told, "tester")) == now(), "what another does changes nothing"


def test_an_agent_whose_turn_was_left_or_of_an_earlier_round_is_ready() -> None:
    tested: tuple[RunEvent, ...] = (OPENED, BEGAN, turn("tester"), ended("tester", "failed"))
    assert doing(picture_of(*tested, turn("analyst")), "tester") is Doing.DONE
    assert doing(picture_of(*tested, turn("analyst", 2)), "tester") is Doing.READY
    assert doing(picture_of(*WORKING, turn("tester"))) is Doing.READY
    assert doing(picture_of(*WORKING, RESUMED)) is Doing.READY


def test_an_approval_that_comes_too_early_speaks_against_nothing() -> None:
    early = structs.replace(ended("analyst_review", "sent_back", "REVISE", ""), early=True)
    picture = picture_of(OPENED, BEGAN, turn("analyst_review"), early)
    outcomes = [one.outcome for one in picture.agents(NOON) if one.outcome]
    assert (outcomes, picture.reasons()) == (["approved, second look follows"], [])


def test_a_gate_is_shown_as_a_command_with_what_it_runs_or_wrote_last() -> None:
    began = CheckBegan(NOON + 30, "gate", 2, 9, "make test")
    picture = picture_of(OPENED, BEGAN, began, CheckOutput(NOON + 31, "other", 2, 8, "nothing"))
    assert picture.now is not None
    assert (picture.now.action, picture.round) == ("make test", 2)
    picture.add(CheckOutput(NOON + 31, "gate", 2, 9, "3 of 7"))
    assert picture.now.action == "3 of 7"
    picture.add(CheckEnded(NOON, "gate", 2, 9, "failed", "FAIL: exit code 1", 7.0, "x"))
    assert picture.now is None
    assert picture.reasons() == ["round 2, gate FAIL: exit code 1"]


def test_a_resumed_run_keeps_its_reasons_and_counts_on() -> None:
    before = [*a_whole_run(), RunEnded(NOON + 100, "RUNNING", 1, 130)]
    picture = picture_of(*before, RESUMED, structs.replace(BEGAN, resumed=True))
    assert len(picture.reasons()) == 1
    assert (picture.is_open, picture.now) == (True, None)
    of_both = [one.agents(NOON) for one in (picture_of(*before), picture)]
    assert of_both[0] == of_both[1]
    assert picture.total(NOON + 5010) == 110.0


def test_a_killed_run_that_is_resumed_counts_to_its_last_event() -> None:
    assert picture_of(OPENED, Warned(NOON + 40, "odd"), RESUMED).total(NOON + 5000) == 40.0
    assert picture_of(BEGAN).total(NOON + 8) == 3.0
    assert Picture().total(NOON) == 0.0


ROOMY = Canvas(100, 40, NOON + 70)
ASKS_WHAT = structs.replace(ASKS, question="Go on?")


def drawn(*happened: RunEvent, on: Canvas = ROOMY, keys: Keys | None = None) -> list[str]:
    return [row.plain for row in draw(picture_of(*happened), on, keys)]


BASE = CheckBegan(NOON + 30, "tests", 1, 1, "make test", "base")
KNOWN = CheckEnded(NOON + 40, "tests", 1, 1, "base_passed", "x", 7.0, "x", "base")
MIDDLE = structs.replace(BASE, when="after_programmer", sequence=4)
MINE = FilesChanged(NOON + 30, "programmer", 1, 3, ("a.py",), 1, 4, 2)
THEIRS = FilesChanged(NOON + 30, "tester", 1, 3, ("a\nb.py",), 1, 4, 2, allowed=False)
STUCK = NotConverging(NOON + 30, "Not converging: F1 is open.")
AWAITED = structs.replace(handoff(EventKind.FILE_AWAITED, "it is reminded"), until=NOON + 95)
DELAYED = structs.replace(handoff(EventKind.DELAYED, "busy"), since=NOON)
ACTS = handoff(EventKind.ACTION, "Bash: make test")
ASKING = status(TerminalStatus.WAITING_USER_ANSWER)
ACTION, QUESTION = "  programmer: Bash: make test", "  ! asks you, 0:50"
PAUSING, PAUSED = "  ! pauses after this turn", "  ! paused for 1:00"
COUNTDOWN = "  ! at rest without its file; it is reminded in 0:25"
CHANGED, CIRCLES = "  programmer changed 1 file (+4 −2)", "  ! Not converging: F1 is open."
LATE = "  ! not delivered for 1:10: busy"


@pytest.mark.parametrize(
    ("happened", "row"),
    [
        ([BASE], "  ▶ tests on the base  command      working  0:40"),
        ([BASE, KNOWN], "  ✓ tests on the base  command      base passed  0:07"),
        (
            [BASE, structs.replace(KNOWN, outcome="base_failed")],
            "  ✗ tests on the base  command      base failed  0:07",
        ),
        ([BASE, KNOWN, MIDDLE], "  ▶ tests after the programmer  command      working  0:40"),
        (
            [BASE, KNOWN, MIDDLE, structs.replace(MIDDLE, when="after_tester")],
            "  ▶ tests              command      working  0:40",
        ),
        ([BASE, KNOWN, turn("analyst", 2)], "    tests              command      ready"),
        ([turn("programmer"), MINE], CHANGED),
        ([THEIRS], "  ✗ round 1, tester changed 1 file, which is not its task: 'a\\nb.py'"),
        ([STUCK, turn("analyst", 2)], CIRCLES),
        ([STUCK, structs.replace(MINE, allowed=False)], CIRCLES),
        ([STUCK, structs.replace(MINE, count=0)], CIRCLES),
        ([turn("programmer"), AWAITED, status(TerminalStatus.COMPLETED)], COUNTDOWN),
        ([turn("programmer"), DELAYED, status(TerminalStatus.PROCESSING)], LATE),
        ([turn("programmer"), ACTS], ACTION),
        ([turn("programmer"), ASKS, ASKING, structs.replace(ASKS, at=NOON + 60)], QUESTION),
        ([turn("programmer"), PauseAsked(NOON + 9)], PAUSING),
        ([turn("programmer"), PauseAsked(NOON + 9), Paused(NOON + 10)], PAUSED),
        (
            [ended("tester", "failed", "no RESULT line, round 2 follows")],
            "  ✗ round 1, tester no RESULT line, round 2 follows",
        ),
        (
            [ended("tester", "failed", "FAIL; round 2 follows", "2 tests fail")],
            "  ✗ round 1, tester FAIL: 2 tests fail",
        ),
    ],
)
def test_what_happens_has_a_row(happened: list[RunEvent], row: str) -> None:
    assert row in drawn(OPENED, BEGAN, *happened)


@pytest.mark.parametrize(
    ("happened", "row"),
    [
        ([turn("programmer"), MINE, turn("analyst", 2)], CHANGED),
        ([STUCK, structs.replace(MINE, round=2)], CIRCLES),
        ([turn("programmer"), DELAYED, handoff(EventKind.DISPATCHED)], LATE),
        ([turn("programmer"), ACTS, handoff(EventKind.ACTION, "")], ACTION),
        ([turn("programmer"), ASKS, status(TerminalStatus.PROCESSING)], QUESTION),
        ([turn("programmer"), AWAITED, status(TerminalStatus.PROCESSING)], COUNTDOWN),
        ([turn("programmer"), AWAITED, handoff(EventKind.FILE_SEEN)], COUNTDOWN),
        ([turn("programmer"), AWAITED, handoff(EventKind.REMINDED)], COUNTDOWN),
        ([turn("programmer"), PauseAsked(NOON + 9), Paused(NOON + 10)], PAUSING),
        ([turn("programmer"), PauseAsked(NOON + 9), Unpaused(NOON + 10)], PAUSING),
        ([turn("programmer"), Paused(NOON + 10), Unpaused(NOON + 11)], PAUSED),
        ([turn("programmer"), Paused(NOON + 10), turn("tester")], PAUSED),
    ],
)
def test_what_is_over_has_none(happened: list[RunEvent], row: str) -> None:
    assert row not in drawn(OPENED, BEGAN, *happened)


def test_where_it_is_narrow_commands_are_whole_in_rows_of_their_own() -> None:
    narrow = Canvas(40, 15, NOON + 70)
    rows = drawn(*a_whole_run(), turn("tester"), on=narrow, keys=Keys(attach_to="tester"))
    at = rows.index("  ! in another terminal:")
    assert rows[at + 1] == "  cao attach k3f9/tester"
    asks = structs.replace(ASKS_WHAT, text="cao attach k3f9/programmer")
    rows = drawn(*a_whole_run(), turn("programmer"), asks, on=narrow)
    assert {"  ! asks you, 0:50: Go on?", "  cao attach k3f9/programmer"} < {*rows}
    assert "  cao answer k3f9 KEY" in rows
    assert drawn(OPENED, BEGAN, turn("analyst_review"), on=replace(ROOMY, width=40))[-3:] == [
        "  cao attach k3f9/analyst_review",
        "  cao send k3f9 TEXT · cao pause k3f9",
        "  cao skip k3f9",
    ]


def test_the_line_that_is_typed_is_seen_whole_or_at_its_end() -> None:
    rows = drawn(OPENED, BEGAN, turn("tester"), keys=Keys(line="Mind the tabs."))
    assert rows[-2] == "  hint> Mind the tabs._"
    assert rows[-1] == "  Enter sends it with the next prompt · Esc cancels"
    for line, end in (("x" * 50 + "yz", "xxxxxxxxyz_"), ("日" * 50 + "本語z", "日日本語z_")):
        on = replace(ROOMY, width=20, height=4)
        rows = drawn(OPENED, BEGAN, turn("tester"), on=on, keys=Keys(line=line))
        assert rows[-1] == f"  hint> {end}"


@pytest.mark.parametrize("happened", [(), (OPENED,), (OPENED, BEGAN, RunEnded(NOON, "PASS", 1, 0))])
def test_nothing_is_drawn_of_a_run_that_has_no_agents_or_has_ended(
    happened: tuple[RunEvent, ...],
) -> None:
    assert drawn(*happened) == []


def test_what_is_needed_most_stays_when_rows_are_few() -> None:
    happened = [*a_whole_run(), structs.replace(ASKS_WHAT, role="analyst")]
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
    roles = [agent.role for agent in picture_of(*happened).agents(now)]
    assert len(roles) == len(set(roles))
    assert len(rows) <= max(height - 1, 1)
    for row in rows:
        most = width - 1 if row.startswith("  ✗ ") else min(width - 1, WIDEST)
        assert cell_len(row) <= max(most, 1)
        assert not re.search(UNSAFE_PATTERN, row)
        assert len(row.splitlines()) <= 1
        assert "\t" not in row


def test_the_picture_in_the_documentation_is_the_real_one() -> None:
    revise = ended("analyst_review", "sent_back", "REVISE", "Rounding of half cents is left open")
    rows = drawn(
        *(OPENED, BEGAN, turn("analyst"), ended("analyst", "delivered")),
        *(turn("analyst_review"), revise, turn("analyst", cycle=2)),
        structs.replace(ended("analyst", "delivered", cycle=2), seconds=41.0),
        turn("analyst_review", cycle=2),
        structs.replace(ended("analyst_review", "approved", cycle=2), seconds=38.0),
        turn("programmer", at=NOON + 200),
        status(TerminalStatus.PROCESSING),
        handoff(EventKind.ACTION, "Bash: make test"),
        on=Canvas(80, 24, NOON + 307),
    )
    page = Path(__file__).parents[2] / "docs" / "run.md"
    assert "".join(f"    {row}\n" for row in rows) in page.read_text(encoding="utf-8")


def test_of_a_run_that_no_other_terminal_finds_no_command_is_shown() -> None:
    alone = Canvas(100, 40, NOON + 70, is_alone=True)
    assert any("cao " in row for row in drawn(*a_whole_run()))
    assert not any("cao " in row for row in drawn(*a_whole_run(), on=alone))
