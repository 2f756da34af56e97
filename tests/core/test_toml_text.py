"""TOML from anybody."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.codec import MOST_DOTS, read_toml, toml_value


def test_a_key_that_would_take_hours_is_refused() -> None:
    with pytest.raises(ValueError, match="at line 2"):
        read_toml("a = 1\n" + ".".join("a" * 500_000) + " = 1\n")


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="Too many brackets"):
        read_toml("a = " + "[" * 100_000)


def test_dots_that_people_write_are_read() -> None:
    text = "." * MOST_DOTS
    assert read_toml(f'a.b = "{text[1:]}"') == {"a": {"b": text[1:]}}


@given(st.one_of(st.text(), st.booleans(), st.lists(st.text())))
@example('\x7f\x00\x1b"\\\n')
def test_what_is_written_is_read_again(value: object) -> None:
    assert read_toml(f"key = {toml_value(value)}") == {"key": value}
