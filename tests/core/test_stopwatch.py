"""How long an agent has worked on a turn."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.clock import Stopwatch
from cli_agent_orchestrator.core.models import TerminalStatus

WORKS, ASKS = TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER


def test_the_time_a_person_was_waited_for_does_not_count() -> None:
    watch = Stopwatch(0, at=100).see(WORKS, 110).see(ASKS, 120).see(WORKS, 500)
    assert watch.worked_by(530) == 20 + 30


def test_while_a_person_is_waited_for_the_watch_stands_still() -> None:
    watch = Stopwatch(0, at=100).see(ASKS, 120)
    assert watch.worked_by(120) == watch.worked_by(9999) == 20


def test_what_was_counted_before_a_stop_counts_on() -> None:
    assert Stopwatch(45, at=1000).worked_by(1010) == 55


def test_a_clock_that_was_put_back_takes_nothing_away() -> None:
    watch = Stopwatch(5, at=1000).see(WORKS, 400)
    assert watch.worked_by(300) == 5


@given(
    st.lists(st.tuples(st.sampled_from(TerminalStatus), st.integers(0, 1000)), max_size=20),
)
def test_worked_time_is_what_was_not_spent_asking(seen: list[tuple[TerminalStatus, int]]) -> None:
    watch, now, expected = Stopwatch(0, at=0), 0, 0
    asking = False
    for status, passed in seen:
        now += passed
        expected += 0 if asking else passed
        watch, asking = watch.see(status, now), status is ASKS
    assert watch.worked_by(now) == expected
