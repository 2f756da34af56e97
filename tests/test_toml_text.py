"""TOML from anybody."""

import pytest

from cli_agent_orchestrator._internal.toml_text import MOST_DOTS, read_toml


def test_a_key_that_would_take_hours_is_refused() -> None:
    with pytest.raises(ValueError, match="at line 2"):
        read_toml("a = 1\n" + ".".join("a" * 500_000) + " = 1\n")


def test_dots_that_people_write_are_read() -> None:
    text = "." * MOST_DOTS
    assert read_toml(f'a.b = "{text[1:]}"') == {"a": {"b": text[1:]}}
