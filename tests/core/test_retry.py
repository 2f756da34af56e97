"""The schedule of tries: what is worth another one, when, and until when."""

from itertools import accumulate, repeat

import pytest

from cli_agent_orchestrator.core.clock import GIVE_UP_SECONDS, Retry, is_transient, pause_after
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable


def refused(status_code: int) -> ApiRefused:
    return ApiRefused("GET", "/x", status_code, "")


@pytest.mark.parametrize(
    "error",
    [
        ApiUnreachable("http://localhost", "refused", maybe_received=False),
        ApiUnreachable("http://localhost", "timed out", maybe_received=True),
        *map(refused, (408, 425, 429, 500, 503, 599)),
    ],
    ids=str,
)
def test_no_answer_and_not_now_are_transient(error: ApiError) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error", [ApiError("no JSON"), *map(refused, (400, 401, 404, 409, 422, 499))], ids=str
)
def test_a_no_is_final(error: ApiError) -> None:
    assert not is_transient(error)


def test_the_pause_doubles_up_to_ten_seconds() -> None:
    assert [pause_after(n) for n in range(1, 9)] == [0.25, 0.5, 1, 2, 4, 8, 10, 10]


def test_the_pause_stays_finite_after_very_many_failures() -> None:
    assert pause_after(100_000) == 10


def test_each_failure_makes_the_next_try_later() -> None:
    once = Retry(since=100).after_failure()
    assert (once.pause, once.next_try(100)) == (0.25, 100.25)
    assert once.after_failure().next_try(101) == 101.5


def test_a_pause_can_be_kept_short() -> None:
    assert Retry(100, failures=9).next_try(150, longest_pause=2) == 152
    assert Retry(100, failures=1).next_try(150, longest_pause=2) == 150.25


def test_five_minutes_of_failures_are_enough() -> None:
    retry = Retry(since=100, failures=3)
    assert not retry.is_over(399.9)
    assert retry.is_over(400)
    assert retry.seconds(400) == GIVE_UP_SECONDS == 300


def test_the_last_try_is_made_when_it_is_time_to_give_up() -> None:
    assert Retry(since=100, failures=9).next_try(395) == 400


def test_one_may_give_up_sooner() -> None:
    retry = Retry(since=100, failures=9, limit=20)
    assert not retry.is_over(119.9)
    assert retry.is_over(120)
    assert retry.next_try(115) == 120


def test_time_that_shall_not_count_is_left_out_but_not_the_failures() -> None:
    retry = Retry(since=100, failures=9).counted_from(380)
    assert not retry.is_over(400)
    assert retry.next_try(400) == 410


def test_a_row_of_failures_always_comes_to_an_end() -> None:
    rows = accumulate(repeat(None, 100), lambda row, _: row.after_failure(), initial=Retry(0.0))
    now = 0.0
    for row in rows:
        if row.failures and not row.is_over(now):
            assert now < row.next_try(now) <= GIVE_UP_SECONDS
            now = row.next_try(now)
    assert now == GIVE_UP_SECONDS


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ApiError("no JSON"), "no JSON"),
        (ApiUnreachable("http://x", "reset", maybe_received=True), "the server does not answer"),
        (ApiRefused("GET", "/x", 409, "the agent is busy"), "the agent is busy"),
        (ApiRefused("GET", "/x", 502, ""), "the server answered 502"),
    ],
)
def test_people_are_spared_routes_and_numbers(error: ApiError, words: str) -> None:
    assert error.summary == words
