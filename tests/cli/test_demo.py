"""What the demo says fits the terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.cli.flow import say, what_was_proven
from cli_agent_orchestrator.show.report_text import text_table
from tests.runs.views import a_turn

LONG = "APPROVED does not count: cycle 1 is too early, an approval counts from cycle 2 on"
TURN = a_turn(1, detail=LONG)


def test_words_are_never_broken_and_what_is_to_be_copied_stays_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"{'a-word ' * 20}\n  {'a-path ' * 20}")
    assert [len(line) > 100 for line in capsys.readouterr().out.splitlines()] == [
        False,
        False,
        True,
    ]


@given(st.integers(1, 200))
def test_the_last_column_of_the_timeline_is_broken_between_words(width: int) -> None:
    heading, *lines = text_table([TURN, TURN], width).split("\n")
    start = heading.index("outcome")
    assert all(len(line) <= max(width, start + 20) for line in lines)
    told = " ".join(line[start:] for line in lines)
    assert told == f"{LONG} {LONG}"
    assert {line[:start].strip() for line in lines if "codex" not in line} <= {""}


def test_the_end_tells_the_false_claim_and_what_was_proven() -> None:
    failed = replace(TURN, role="tests", outcome="failed", verdict="FAIL: 1 of 5 failed (a; b)")
    proof = replace(TURN, role="proof", round=2, why="proven: CI is as it was")
    told = what_was_proven([TURN, failed, proof])
    assert told.startswith("In round 1 the tester said PASS")
    assert "FAIL: 1 of 5 failed (a; b).\n" in told
    assert told.endswith(" Proven: CI is as it was.")


def test_an_approval_that_came_too_early_says_what_follows() -> None:
    assert "second look follows" in text_table([replace(TURN, early=True)], 200)
