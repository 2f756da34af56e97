from math import inf

from cli_agent_orchestrator.core.models import FileChange
from cli_agent_orchestrator.handoff.wait import FileState, Signature

HALF = Signature(inode=1, size=10, modified_ns=100)
WHOLE = Signature(inode=1, size=20, modified_ns=200)
NOTHING = FileState(unchanged_seconds=2)


def test_a_file_that_is_not_there_never_becomes_complete() -> None:
    assert NOTHING.on_look(None, 5).complete_at == inf


def test_a_closed_file_is_complete_at_once() -> None:
    assert NOTHING.on_event(FileChange.CLOSED).on_look(WHOLE, 5).complete_at == 5


def test_a_file_that_was_there_already_must_stay_the_same_for_a_while() -> None:
    assert NOTHING.on_look(WHOLE, 5).on_look(WHOLE, 6).complete_at == 7


def test_a_file_that_grows_begins_anew() -> None:
    assert NOTHING.on_look(HALF, 5).on_look(WHOLE, 6).complete_at == 8


def test_a_closing_counts_for_the_look_after_it_alone() -> None:
    seen = NOTHING.on_look(HALF, 5).on_event(FileChange.CLOSED).on_look(HALF, 6)
    assert seen.complete_at == 5
    assert seen.on_look(WHOLE, 7).complete_at == 9


def test_a_file_with_a_writer_must_stay_the_same_for_a_good_while() -> None:
    seen = NOTHING.on_event(FileChange.WRITING).on_look(HALF, 5).on_look(HALF, 7)
    assert seen.complete_at == 15


def test_a_writer_that_closes_makes_it_complete() -> None:
    seen = (
        NOTHING.on_event(FileChange.WRITING)
        .on_look(HALF, 5)
        .on_event(FileChange.CLOSED)
        .on_look(WHOLE, 6)
    )
    assert seen.complete_at == 6


def test_closing_an_unchanged_file_makes_it_complete() -> None:
    assert (
        NOTHING.on_look(WHOLE, 5).on_event(FileChange.CLOSED).on_look(WHOLE, 5.5).complete_at <= 5.5
    )


def test_a_writer_that_begins_after_the_closing_makes_it_incomplete() -> None:
    seen = NOTHING.on_event(FileChange.CLOSED).on_event(FileChange.WRITING).on_look(HALF, 5)
    assert seen.complete_at == 15


def test_writing_after_it_was_complete_makes_it_incomplete_again() -> None:
    complete = NOTHING.on_event(FileChange.CLOSED).on_look(HALF, 5)
    assert complete.on_event(FileChange.WRITING).on_look(WHOLE, 6).complete_at == 16


def test_a_change_that_leaves_the_content_alone_is_none() -> None:
    complete = NOTHING.on_event(FileChange.CLOSED).on_look(WHOLE, 5)
    assert complete.on_event(FileChange.WRITING).on_look(WHOLE, 6).complete_at == 5


def test_where_nobody_reports_closing_a_touch_says_nothing() -> None:
    assert NOTHING.on_event(FileChange.TOUCHED).on_look(WHOLE, 5).complete_at == 7


def test_a_file_that_vanishes_is_forgotten() -> None:
    gone = NOTHING.on_event(FileChange.CLOSED).on_look(WHOLE, 5).on_look(None, 6)
    assert gone.complete_at == inf
    assert gone.on_look(WHOLE, 7).complete_at == 9
