"""Which snapshots a word means."""

import pytest

from cli_agent_orchestrator.errors import NotFound
from cli_agent_orchestrator.runs.moments import (
    AFTER_LABEL,
    before,
    find_moment,
    find_span,
    has_moment,
    in_order,
    last_of_run,
    name_of,
)
from cli_agent_orchestrator.work.snapshots import Snapshot


def snapshot(sequence: int, label: str, at: float) -> Snapshot:
    return Snapshot(f"c{sequence}", f"t{sequence}", sequence, label, at, ())


START = snapshot(0, "start", 10.0)
FIRST = snapshot(1, "programmer", 11.0)
GATE = snapshot(2, "tests", 12.0)
SECOND = snapshot(10, "programmer", 13.0)
TAKEN = (START, FIRST, GATE, SECOND)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("start", START),
        ("0", START),
        ("1", FIRST),
        ("10", SECOND),
        ("programmer", SECOND),
        ("tests", GATE),
    ],
)
def test_a_moment_is_named_by_number_or_by_who_worked(word: str, meant: Snapshot) -> None:
    assert find_moment(TAKEN, word) is meant
    assert has_moment(TAKEN, word)


@pytest.mark.parametrize("word", ["3", "01", "tester", "prog", "-1", ""])
def test_a_word_that_means_none_is_answered_with_those_there_are(word: str) -> None:
    assert not has_moment(TAKEN, word)
    with pytest.raises(NotFound, match=r"0 \(start\), 1 \(programmer\), 2 \(tests\)"):
        find_moment(TAKEN, word)


@pytest.mark.parametrize(
    ("word", "old", "new"),
    [
        ("", START, SECOND),
        ("start", START, SECOND),
        ("..", START, SECOND),
        ("1", START, FIRST),
        ("2", FIRST, GATE),
        ("programmer", GATE, SECOND),
        ("0", START, START),
        ("1..programmer", FIRST, SECOND),
        ("2..1", GATE, FIRST),
        ("tests..", GATE, SECOND),
        ("..1", START, FIRST),
    ],
)
def test_a_span_is_all_or_one_turn_or_between_two(word: str, old: Snapshot, new: Snapshot) -> None:
    assert find_span(TAKEN, word) == (old, new)


def test_what_a_person_kept_by_going_back_is_not_of_the_run() -> None:
    # These labels are in the snapshots that there are.
    back = (snapshot(11, "before going back", 14.0), snapshot(12, "after going back", 15.0))
    kept = (*TAKEN, *back)
    assert last_of_run(kept) is SECOND
    assert find_span(kept, "") == (START, SECOND)
    assert find_moment(kept, "11") is kept[-2]


def test_nor_is_what_was_kept_of_a_work_tree_that_was_discarded() -> None:
    # That label too is in the snapshots that there are.
    kept = (*TAKEN, snapshot(11, "after going back", 14.0), snapshot(12, "discarded", 15.0))
    assert last_of_run(kept) is SECOND
    assert find_span(kept, "") == (START, SECOND)
    assert find_moment(kept, "discarded") is kept[-1]


def test_a_turn_that_ended_after_somebody_went_back_began_there() -> None:
    back = snapshot(4, AFTER_LABEL, 14.0)
    turn = snapshot(3, "tester", 15.0)
    taken = in_order((START, FIRST, turn, back))
    assert taken == (START, FIRST, back, turn)
    assert find_span(taken, "3") == (back, turn)
    assert before(taken, START) is START


def test_those_of_one_moment_are_in_the_order_of_their_numbers() -> None:
    one, two = snapshot(1, "a", 1.0), snapshot(2, "b", 1.0)
    assert in_order((two, one)) == (one, two)
    assert name_of(two) == "2 (b)"
