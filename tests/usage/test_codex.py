"""What a session record of Codex says about its calls."""

import pytest

from cli_agent_orchestrator.core.models import Tokens
from cli_agent_orchestrator.usage.tokens import (
    Call,
    Head,
    codex_calls,
    family_of,
    read_head,
    sum_between,
)
from tests.usage.lines import (
    NOON,
    codex_head,
    codex_usage,
    encode,
    stamp,
    sub_agent_head,
    token_count,
    usage_record,
)

HEAD = codex_head()
FORK = codex_head("t2", forked_from_id="t1")
USAGE = codex_usage(1003, 503, 103, 13)
TOKENS = Tokens(1003, 503, 103, 13)


def calls_of(*lines: bytes) -> list[Call]:
    found = codex_calls(lines)
    assert found is not None
    return found


def tokens_of(*lines: bytes) -> list[Tokens | None]:
    return [call.tokens for call in calls_of(*lines)]


class TestHead:
    @pytest.mark.parametrize(
        ("line", "head"),
        [
            (HEAD, Head("t1", "t1", "", is_own=True, is_forked=False)),
            (
                codex_head(session_id=7, parent_thread_id=[]),
                Head("t1", "t1", "", is_own=True, is_forked=False),
            ),
            (FORK, Head("t2", "t2", "", is_own=True, is_forked=True)),
            (
                sub_agent_head("t2", "t1", "t0"),
                Head("t2", "t0", "t1", is_own=False, is_forked=False),
            ),
            (
                codex_head("t2", source={"subagent": "x"}, parent_thread_id="t1"),
                Head("t2", "t2", "t1", is_own=False, is_forked=False),
            ),
            (codex_head("t2", source="exec"), Head("t2", "t2", "", is_own=False, is_forked=False)),
            (b"", None),
            (HEAD[:-1], None),
            (codex_head().replace(b"session_meta", b"turn_context"), None),
            (encode({"type": "session_meta", "payload": {"id": 7}}), None),
        ],
    )
    def test_whose_a_record_is(self, line: bytes, head: Head | None) -> None:
        assert read_head(line) == head


class TestFamily:
    HEADS = (
        Head("t1", "t1", "", is_own=True, is_forked=False),
        Head("sub", "t1", "t1", is_own=False, is_forked=False),
        Head("sub-sub", "x", "sub", is_own=False, is_forked=False),
        Head("other", "other", "", is_own=True, is_forked=False),
        Head("other-sub", "other", "other", is_own=False, is_forked=False),
    )

    @pytest.mark.parametrize("heads", [HEADS, HEADS[::-1]])
    def test_sub_agents_belong_to_whoever_started_them(self, heads: tuple[Head, ...]) -> None:
        assert family_of(heads, ["t1"]) == {"t1", "sub", "sub-sub"}
        assert family_of(heads, ["other"]) == {"other", "other-sub"}
        assert family_of(heads, []) == set()


class TestNewVersions:
    def test_a_session_that_an_older_version_began_has_both(self) -> None:
        old = [token_count(NOON + 1, codex_usage(10, 1, 5, 0))]
        total = codex_usage(1013, 504, 108, 13)
        new = [usage_record(NOON + 2, "r1", USAGE), token_count(NOON + 3, total)]
        assert tokens_of(HEAD, *old, *new) == [Tokens(10, 1, 5, 0), TOKENS]

    def test_a_copy_counts_none_of_what_was_before_it(self) -> None:
        before = token_count(NOON, codex_usage(5000, 0, 50, 0))
        record = usage_record(NOON + 1, "r9", USAGE)
        after = token_count(NOON + 2, codex_usage(6003, 503, 153, 13))
        assert tokens_of(FORK, before, before, record, after) == [TOKENS]
        assert tokens_of(FORK, before) == []

    @pytest.mark.parametrize(
        "usage",
        [None, [], {}, codex_usage(1, 2, 3, 0), codex_usage(1, 1, 3, 4), {"input_tokens": 5}],
    )
    def test_a_call_that_does_not_tell_what_it_took_is_one(self, usage: object) -> None:
        assert calls_of(HEAD, usage_record(NOON, "r1", usage)) == [Call("r1", NOON, None)]

    def test_without_a_name_totals_count(self) -> None:
        record = usage_record(NOON, 7, USAGE)
        assert tokens_of(HEAD, record, token_count(NOON, USAGE)) == [TOKENS]

    def test_what_has_no_time_or_is_cut_off_is_left_out(self) -> None:
        record = usage_record(NOON, "r1", USAGE)
        timeless = record.replace(stamp(NOON).encode(), b"soon")
        assert calls_of(HEAD, timeless, record[:-1], b"", encode(["session_meta"])) == []


class TestOldVersions:
    def test_what_totals_grow_by_is_what_calls_took(self) -> None:
        first, second = codex_usage(1001, 501, 101, 11), codex_usage(2003, 1003, 203, 23)
        lines = [
            HEAD,
            token_count(NOON, None),
            token_count(NOON + 1, first),
            token_count(NOON + 2, first),
            token_count(NOON + 3, second),
            token_count(NOON + 4, second),
        ]
        told = [(call.at - NOON, call.tokens) for call in calls_of(*lines)]
        assert told == [(1, Tokens(1001, 501, 101, 11)), (3, Tokens(1002, 502, 102, 12))]

    def test_calls_of_different_sessions_are_different_calls(self) -> None:
        one = calls_of(HEAD, token_count(NOON, USAGE))
        other = calls_of(codex_head("t9"), token_count(NOON, USAGE))
        assert sum_between(one + other, NOON, NOON + 1) == TOKENS + TOKENS

    def test_a_copy_cannot_be_counted(self) -> None:
        lines = [token_count(NOON, codex_usage(n, 0, n, 0)) for n in (5, 10)]
        assert codex_calls([FORK, *lines]) is None
        assert codex_calls([FORK, *lines, usage_record(NOON, "r1", USAGE)]) is None

    def test_a_total_that_falls_is_not_understood(self) -> None:
        lines = [token_count(NOON, codex_usage(n, 0, n, 0)) for n in (10, 4, 6)]
        told = tokens_of(HEAD, *lines)
        assert told == [Tokens(10, 0, 10, 0), None, Tokens(2, 0, 2, 0)]

    def test_reasoning_that_is_not_told_is_not_known(self) -> None:
        totals = [dict(codex_usage(n, 0, n, 0)) for n in (5, 10)]
        for total in totals:
            del total["reasoning_output_tokens"]
        told = tokens_of(HEAD, *(token_count(NOON, total) for total in totals))
        assert told == [Tokens(5, 0, 5, None), Tokens(5, 0, 5, None)]


@pytest.mark.parametrize("lines", [[], [b"x"], [usage_record(NOON, "r1", USAGE)]])
def test_what_begins_otherwise_is_no_record(lines: list[bytes]) -> None:
    assert codex_calls(lines) is None


def test_the_head_of_a_copied_record_is_not_that_of_the_record() -> None:
    lines = [HEAD, FORK, token_count(NOON, USAGE)]
    assert [call.tokens for call in codex_calls(lines) or ()] == [TOKENS]
