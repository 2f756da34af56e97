"""Tokens have one meaning, and no call is counted twice."""

import pytest

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.usage.tokens import (
    MOST_TOKENS,
    NONE_USED,
    Call,
    read_tokens,
    sum_between,
    unix_time,
)
from tests.usage.lines import NOON


@pytest.mark.parametrize(
    "numbers",
    [
        (5, 6, 7, 0),
        (5, 0, 7, 8),
        (MOST_TOKENS + 1, 0, 0, 0),
        (5.0, 0, 7, 0),
        (5, "0", None, 0),
        (5, 0, 7, [1]),
    ],
)
def test_what_cannot_be_is_not_known(numbers: tuple[object, ...]) -> None:
    assert read_tokens(*numbers) is None


@pytest.mark.parametrize(("one", "other"), [(1, None), (None, 1), (None, None), (0, None)])
def test_reasoning_that_one_call_does_not_tell_is_not_known(
    one: int | None, other: int | None
) -> None:
    assert (Tokens(5, 1, 5, one) + Tokens(5, 1, 5, other)).reasoning is None


def test_the_calls_of_a_stretch_of_time_are_added_up() -> None:
    calls = [Call(str(at), at, Tokens(10**at, 0, 1, 0)) for at in range(5)]
    assert sum_between(calls, 1, 3) == Tokens(110, 0, 2, 0)


def test_a_call_that_is_told_of_again_counts_when_it_was_first_told_of() -> None:
    call = Call("a", 5, Tokens(10, 1, 2, 0))
    copy = Call("a", 9, Tokens(10, 1, 2, 0))
    for calls in ([call, copy], [copy, call], [call, copy, copy]):
        assert sum_between(calls, 0, 6) == call.tokens
        assert sum_between(calls, 6, 99) is None


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Tokens(9, 9, 4, 4), Tokens(5, 0, 5, 0)),
        (Tokens(8, 8, 5, 5), Tokens(9, 0, 5, 0)),
        (Tokens(9, 9, 5, 4), Tokens(9, 0, 5, 5)),
        (Tokens(9, 9, 5, None), Tokens(9, 0, 5, 0)),
        (Tokens(9, 8, 5, 4), Tokens(9, 9, 5, 4)),
    ],
)
def test_what_says_more_of_a_call_counts(less: Tokens, more: Tokens) -> None:
    for pair in ((less, more), (more, less)):
        assert sum_between([Call("a", 1, tokens) for tokens in pair], 0, 9) == more


def test_one_unknown_call_makes_the_sum_unknown_unless_it_is_known_somewhere() -> None:
    call, unknown = Call("a", 1, Tokens(1, 0, 1, 0)), Call("b", 2, None)
    known = Call("b", 2, Tokens(0, 0, 0, 0))
    assert sum_between([call, unknown], 0, 9) is None
    assert sum_between([call, unknown], 0, 2) == call.tokens
    assert sum_between([call, unknown, known], 0, 9) == call.tokens
    assert sum_between([known, unknown, call], 0, 9) == call.tokens


@pytest.mark.parametrize("calls", [[], [Call("a", 1, NONE_USED)], [Call("a", 9, NONE_USED)]])
def test_nothing_is_not_known_rather_than_none(calls: list[Call]) -> None:
    assert sum_between(calls, 0, 5) is None


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ("2026-11-17T12:00:00.000Z", NOON),
        ("2026-11-17T13:00:00+01:00", NOON),
        ("2026-11-17T12:00:00", None),
        ("yesterday", None),
        (NOON, None),
    ],
)
def test_a_time_is_read_that_is_the_same_everywhere(told: object, at: float | None) -> None:
    assert unix_time(told) == at
