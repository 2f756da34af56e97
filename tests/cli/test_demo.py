"""What the demo says fits the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.demo import INTRODUCTION, NEXT_STEPS, WHO, wrapped
from cli_agent_orchestrator.cli.timeline import text_table
from cli_agent_orchestrator.runs.journal import TurnRecord

LONG = "APPROVED does not count: cycle 1 is too early, an approval counts from cycle 2 on"
TURN = TurnRecord(1, "analyst_review", 1, 1, "codex", 0.0, 9.0, 9.0, LONG, "001.md", "file")
PATH = "/a folder/" + "x" * 90
WIDEST_WORD = max(len(word) for word in (INTRODUCTION + NEXT_STEPS).split())


@given(st.integers(WIDEST_WORD, 200))
def test_words_are_never_broken_and_only_what_is_to_be_copied_is_wider(width: int) -> None:
    for text in (INTRODUCTION.format(project=PATH, who=WHO["loop"]), NEXT_STEPS.format(cao=PATH)):
        lines = wrapped(text, width).split("\n")
        assert " ".join(lines).split() == text.split()
        assert all(len(line) <= width for line in lines if not line.startswith("  "))
        assert [line for line in lines if line.startswith("  ")] == [
            line for line in text.split("\n") if line.startswith("  ")
        ]


@given(st.integers(1, 200))
def test_the_last_column_of_the_timeline_is_broken_between_words(width: int) -> None:
    heading, *lines = text_table([TURN, TURN], width).split("\n")
    start = heading.index("outcome")
    assert all(len(line) <= max(width, start + 20) for line in lines)
    told = " ".join(line[start:] for line in lines)
    assert told == f"{LONG} {LONG}"
    assert {line[:start].strip() for line in lines if "codex" not in line} <= {""}
