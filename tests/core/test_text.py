"""Numbers and short lines for people."""

import pytest

from cli_agent_orchestrator.core.text import duration, short_line, twice_as_many


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3.0, "0.0 s"),
        (0.44, "0.4 s"),
        (60.0, "1 min 00 s"),
        (3599.4, "59 min 59 s"),
        (3600.0, "1 h 00 min"),
        (4_215.0, "1 h 10 min"),
    ],
)
def test_a_span_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_twice_as_many_rounds_are_proposed() -> None:
    assert [twice_as_many(rounds) for rounds in (0, 1, 8)] == [2, 2, 16]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n b\tc", "a b c"),
        ("12345678901", "12345678 …"),
        ("1234 67890123", "1234 …"),
        ("12345678 0123", "12345678 …"),
    ],
)
def test_a_text_becomes_a_short_line(text: str, line: str) -> None:
    assert short_line(text, 10) == line
