"""What a session record of Claude Code says about its calls."""

import pytest

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.usage.tokens import Call, claude_calls
from tests.usage.lines import NOON, claude_line, claude_usage, encode, stamp

USAGE = claude_usage(12, 102, 1002, 202, 30)
TOKENS = Tokens(12 + 102 + 1002, 1002, 202, 30)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 5, "output_tokens": 3}, Tokens(5, 0, 3, None)),
        (
            {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": 1},
            Tokens(5, 0, 3, None),
        ),
        (claude_usage(0, 9, 0, 1, 0), Tokens(9, 0, 1, 0)),
        (claude_usage(1, 0, 0, 1, 2), None),
        (claude_usage(-1, 5, 0, 1, 0), None),
        (claude_usage(1, -1, 5, 1, 0), None),
        (claude_usage(5, 5, -1, 1, 0), None),
        ({"output_tokens": 3}, None),
        ({"input_tokens": 5}, None),
        ({"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": "1"}, None),
        ([], None),
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
        claude_line(NOON, None, USAGE),
        claude_line(NOON, "m", USAGE, message="usage"),
        claude_line(NOON, "m", USAGE)[:-1],
        encode({"type": "assistant", "timestamp": stamp(NOON), "message": {"id": "m"}}),
        encode({"type": "cost-state", "modelUsage": {}, "usage": USAGE}),
        b"",
    ],
)
def test_what_is_no_call_is_left_out(line: bytes) -> None:
    assert list(claude_calls([line])) == []
