"""Rows fit the terminal, and nothing the agent says can look like a mark."""

from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.text import columns_of
from cli_agent_orchestrator.providers import scripted
from cli_agent_orchestrator.scripted_agent.console import (
    CONTINUED,
    LINE,
    answer_rows,
    erasing,
    message_row,
    plain,
)

columns = st.integers(16, 200)


@given(st.text(), columns)
def test_every_row_of_an_answer_fits_and_has_its_gutter(text: str, width: int) -> None:
    for row in answer_rows(text, width):
        assert columns_of(row) < width
        assert row[:1] in (LINE[:1], CONTINUED[:1])


@given(st.lists(st.text(alphabet="ab ▣│漢é", max_size=300), min_size=1), columns)
def test_an_answer_can_be_read_back_from_its_rows(text: list[str], width: int) -> None:
    answer = "\n".join(line.strip(" ") for line in text)
    rows = list(answer_rows(answer, width))
    drawn = "\n".join(["▌ message", *rows, "▣ turn 1 over · 0.1s", "scripted ❯ "])
    assert scripted.last_answer(drawn) == answer


def test_a_long_message_shows_its_head_and_its_length() -> None:
    assert message_row("\n  Fix it\nnow" + "x" * 4000, 60) == "▌ Fix it [4,013 chars]"
    assert message_row("Fix it", 60) == "▌ Fix it"


def test_control_characters_are_not_drawn() -> None:
    assert plain("a\x1b[2Jb\x9b\x00\udcff\x7fc") == "a[2Jbc"
    assert plain("a\tb") == "a   b"


def test_rows_that_a_narrower_terminal_has_wrapped_are_painted_over() -> None:
    assert erasing(["\x1b[2m" + "x" * 70, "y" * 30], 30, 20) == "\x1b[5A\r\x1b[J"
