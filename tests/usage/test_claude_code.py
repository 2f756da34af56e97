"""What a session record of Claude Code says about its calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.usage.tokens import Call, Tokens, claude_calls, sum_between
from tests.usage.lines import NOON, claude_line, claude_usage, encode, stamp

USAGE = claude_usage(12, 102, 1002, 202, 30)
TOKENS = Tokens(12 + 102 + 1002, 1002, 202, 30)
COUNT = st.integers(0, 10**6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_a_call_is_read() -> None:
    assert list(claude_calls([claude_line(NOON, "msg_1", USAGE)])) == [Call("msg_1", NOON, TOKENS)]


def test_the_parts_of_an_answer_are_one_call() -> None:
    parts = [claude_line(NOON + part, "msg_1", USAGE) for part in range(4)]
    other = claude_line(NOON + 9, "msg_2", USAGE)
    found = sum_between(claude_calls([*parts, other]), NOON, NOON + 60)
    assert found == TOKENS + TOKENS


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 5, "output_tokens": 3}, Tokens(5, 0, 3, None)),
        (
            {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": None},
            Tokens(5, 0, 3, None),
        ),
        (
            {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": 1},
            Tokens(5, 0, 3, None),
        ),
        (claude_usage(0, 0, 9, 1, 1), Tokens(9, 9, 1, 1)),
        (claude_usage(0, 9, 0, 1, 0), Tokens(9, 0, 1, 0)),
        (claude_usage(1, 0, 0, 1, 2), None),
        (claude_usage(-1, 5, 0, 1, 0), None),
        (claude_usage(1, -1, 5, 1, 0), None),
        (claude_usage(5, 5, -1, 1, 0), None),
        ({"output_tokens": 3}, None),
        ({"input_tokens": 5}, None),
        ({"input_tokens": "5", "output_tokens": 3}, None),
        ({"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": "1"}, None),
        ({"input_tokens": 5, "output_tokens": 3, "cache_creation_input_tokens": [1]}, None),
        ([], None),
        (None, None),
    ],
)
def test_tokens_have_one_meaning(usage: object, tokens: Tokens | None) -> None:
    assert list(claude_calls([claude_line(NOON, "m", usage)])) == [Call("m", NOON, tokens)]


@pytest.mark.parametrize(
    "line",
    [
        claude_line(NOON, "m", USAGE, model="<synthetic>"),
        claude_line(NOON, "m", USAGE, isApiErrorMessage=True),
        claude_line(NOON, "m", USAGE, type="user"),
        claude_line(NOON, "m", USAGE, timestamp="soon"),
        claude_line(NOON, "m", USAGE, timestamp=None),
        claude_line(NOON, None, USAGE),
        claude_line(NOON, "m", USAGE, message="usage"),
        claude_line(NOON, "m", USAGE)[:-1],
        encode({"type": "assistant", "timestamp": stamp(NOON), "message": {"id": "m"}}),
        encode({"type": "cost-state", "modelUsage": {}, "usage": USAGE}),
        encode(["usage"]),
        b"",
    ],
)
def test_what_is_no_call_is_left_out(line: bytes) -> None:
    assert list(claude_calls([line])) == []


def test_an_error_of_another_kind_is_a_call() -> None:
    assert list(claude_calls([claude_line(NOON, "m", USAGE, isApiErrorMessage=False)]))


@given(st.lists(st.tuples(COUNT, COUNT, COUNT, COUNT), max_size=20))
def test_each_call_counts_once_however_many_parts_it_has(
    numbers: list[tuple[int, int, int, int]],
) -> None:
    lines, total = [], Tokens(0, 0, 0, 0)
    for place, (fresh, written, read, made) in enumerate(numbers):
        usage = claude_usage(fresh, written, read, made, made // 2)
        lines += [claude_line(NOON + place, f"msg_{place}", usage)] * (1 + place % 3)
        total += Tokens(fresh + written + read, read, made, made // 2)
    found = sum_between(claude_calls(lines), NOON, NOON + 99)
    assert found == (total if total.input + total.output else None)


@given(JSON, JSON, JSON)
def test_nothing_that_json_can_hold_is_an_obstacle(name: object, usage: object, at: object) -> None:
    for call in claude_calls([claude_line(NOON, name, usage, timestamp=at)]):
        assert isinstance(call.id, str)
