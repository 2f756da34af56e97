"""Spans of time in words."""

import pytest

from cli_agent_orchestrator.core.text import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3.0, "0.0 s"),
        (0.44, "0.4 s"),
        (59.9, "59.9 s"),
        (60.0, "1 min 00 s"),
        (125.0, "2 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3600.0, "1 h 00 min"),
        (4_215.0, "1 h 10 min"),
    ],
)
def test_a_span_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words
