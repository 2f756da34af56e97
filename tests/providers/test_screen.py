"""Reading a screen: escapes, dim text, lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers.screen import (
    dedent_cell,
    find,
    find_all,
    screen_lines,
    strip_escapes,
    tail,
    without_dim,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[1mbold\x1b[0m", "bold"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link", "link"),
        ("\x1b(Btext\x1b=\x1b7", "text"),
        ("an unfinished title \x1b]0;cut\nnext line", "an unfinished title \nnext line"),
        ("one\r\ntwo\rthree\a", "one\ntwothree"),
        ("❯\xa0box\ttab", "❯\xa0box\ttab"),
        ("\x1b[?25l\x1b[38:5:2mcolor", "color"),
    ],
)
def test_escapes_and_control_characters_are_taken_out(text: str, expected: str) -> None:
    assert strip_escapes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("› \x1b[2mAsk\x1b[0m!", "›    !"),
        ("\x1b[0;2mdim\x1b[22mnot", "   not"),
        ("\x1b[2mdim\nstill dim\x1b[mnot", "   \n" + " " * 9 + "not"),
        ("\x1b[38;5;2mgreen\x1b[48;2;2;2;2mboxed", "greenboxed"),
        ("\x1b[38;2;1;2mcut short", "cut short"),
        ("\x1b[38mtoo short", "too short"),
        ("\x1b[38;9;2mwho knows", " " * 9),
        ("\x1b[2;1mbold does not end it\x1b[0m", " " * 20),
        ("\x1b[2m漢字\x1b[0m|", "    |"),
        ("\x1b[2ma\tb\x1b[0m", " \t "),
    ],
)
def test_dim_text_is_blanked_in_place(text: str, expected: str) -> None:
    assert without_dim(text) == expected


@given(st.text())
def test_blanking_keeps_the_number_of_lines(text: str) -> None:
    assert without_dim(text).count("\n") == strip_escapes(text).count("\n")


def test_the_lines_of_a_screen_end_where_its_text_ends() -> None:
    assert screen_lines("\n a \t\r\n\nb  \n \n\n") == ["", " a", "", "b"]
    assert screen_lines("\n\n") == []


def test_the_tail_counts_only_lines_with_text() -> None:
    assert tail(["a", "", "b", " ", "c", ""], 2) == ["b", "c"]
    assert tail(["a"], 5) == ["a"]
    assert tail(["a"], 0) == []


def test_a_cell_is_moved_to_the_left_edge() -> None:
    assert dedent_cell(["• first", "  second", "", "    deep", ""], 2) == "first\nsecond\n\n  deep"


def test_line_anchors_mean_every_line() -> None:
    found = find("^b$", "a\nb\nc")
    assert found is not None
    assert found.start() == 2
    assert [match.start() for match in find_all("^.", "a\nb")] == [0, 2]
    assert find("^x", "a") is None
