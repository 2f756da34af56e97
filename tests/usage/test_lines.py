"""Lines of records hold JSON, or anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.codec import object_of
from cli_agent_orchestrator.usage.tokens import unix_time
from tests.usage.lines import NOON, stamp


def test_an_object_is_read() -> None:
    assert object_of('{"a": "é"}'.encode()) == {"a": "é"}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[1]",
        b'"a"',
        b"null",
        b'{"a":',
        b'{"a": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_object_has_no_fields(line: bytes) -> None:
    assert object_of(line) == {}


@given(st.binary())
def test_any_line_can_be_read(line: bytes) -> None:
    assert isinstance(object_of(line), dict)


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ("2026-11-17T12:00:00.000Z", NOON),
        ("2026-11-17T12:00:00.250Z", NOON + 0.25),
        ("2026-11-17T13:00:00+01:00", NOON),
        ("2026-11-17T12:00:00", None),
        ("yesterday", None),
        ("", None),
        (NOON, None),
        (None, None),
    ],
)
def test_a_time_is_read_that_is_the_same_everywhere(told: object, at: float | None) -> None:
    assert unix_time(told) == at


@given(st.integers(0, 4 * 10**12))
def test_times_are_read_as_they_are_written(milliseconds: int) -> None:
    at = milliseconds / 1000
    assert unix_time(stamp(at)) == pytest.approx(at, abs=0.001)
