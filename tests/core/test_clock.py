"""How long an agent has worked, and the schedule of tries: what is worth another one, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.clock import GIVE_UP_SECONDS, Retry, Stopwatch, is_transient
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable


def test_what_was_counted_before_counts_and_a_clock_put_back_takes_nothing_away() -> None:
    assert Stopwatch(45, at=1000).worked_by(1010) == 55
    assert Stopwatch(5, at=1000).see(400, waiting=False).worked_by(300) == 5


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=20))
def test_worked_time_is_what_was_not_spent_asking(seen: list[tuple[bool, int]]) -> None:
    watch, now, expected = Stopwatch(0, at=0), 0, 0
    asking = False
    for asks, passed in seen:
        now += passed
        expected += 0 if asking else passed
        watch, asking = watch.see(now, asks), asks
    assert watch.worked_by(now) == expected


def refused(status_code: int) -> ApiRefused:
    return ApiRefused("GET", "/x", status_code, "")


def test_no_answer_and_not_now_are_transient_and_a_no_is_final() -> None:
    for maybe in (True, False):
        assert is_transient(ApiUnreachable("http://localhost", "reset", maybe_received=maybe))
    codes = [400, 401, 404, 408, 409, 422, 425, 429, 499, 500, 503, 599]
    assert [code for code in codes if is_transient(refused(code))] == [408, 425, 429, 500, 503, 599]
    assert not is_transient(ApiError("no JSON"))


def test_the_pause_doubles_up_to_ten_seconds() -> None:
    pauses = [Retry(0, failures=n).pause for n in (*range(1, 9), 100_000)]
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10]


def test_each_failure_makes_the_next_try_later() -> None:
    once = Retry(since=100).after_failure()
    assert (once.pause, once.next_try(100)) == (0.25, 100.25)
    assert once.after_failure().next_try(101) == 101.5
    assert Retry(100, failures=9).next_try(150, longest_pause=2) == 152
    assert Retry(100, failures=1).next_try(150, longest_pause=2) == 150.25


@pytest.mark.parametrize("limit", [GIVE_UP_SECONDS, 20.0])
def test_the_last_try_is_made_when_it_is_time_to_give_up(limit: float) -> None:
    retry = Retry(since=100, failures=9, limit=limit)
    assert not retry.is_over(100 + limit - 0.1)
    assert retry.is_over(100 + limit)
    assert retry.next_try(100 + limit - 5) == 100 + limit
    assert retry.seconds(400) == 300


def test_people_are_spared_routes_and_numbers() -> None:
    assert ApiUnreachable("http://x", "reset", maybe_received=True).summary == (
        "the server does not answer"
    )
    assert ApiRefused("GET", "/x", 409, "the agent is busy").summary == "the agent is busy"
    assert refused(502).summary == "the server answered 502"
