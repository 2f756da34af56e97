"""Reading a screen: escapes, dim text, lines; and what agents do, on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.providers.screen import (
    LONGEST_ACTION,
    action_line,
    screen_lines,
    strip_escapes,
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


FITS = "x" * (LONGEST_ACTION - len("Bash: "))


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Bash", {"description": "Runs", "command": "make\n  test"}, "Bash: make test"),
        ("shell", {"command": ["make", "test"]}, "shell: make test"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
        ("a\x1b[2Jb", {"path": "c\x07"}, "a�[2Jb: c�"),
        ("Bash", {"command": ""}, "Bash"),
        ("Bash", {"command": FITS}, f"Bash: {FITS}"),
        ("Bash", {"command": f"{FITS}x"}, f"Bash: {FITS[:-1]}…"),
    ],
)
def test_a_tool_is_told_with_what_says_most(
    tool: str, arguments: dict[str, object], line: str
) -> None:
    assert action_line(tool, arguments) == line


def test_agents_have_different_names_for_what_says_most() -> None:
    for name in (
        *("command", "cmd", "file_path", "filePath", "notebook_path", "path", "pattern", "url"),
        *("query", "description", "told"),
    ):
        assert action_line("Tool", {"other": "x", name: "this"}) == "Tool: this"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(st.sampled_from(["command", "path", "x"]), JSON))
def test_an_action_is_one_short_line_whatever_it_is(
    tool: str, arguments: dict[str, object]
) -> None:
    line = action_line(tool, arguments)
    assert len(line) <= LONGEST_ACTION
    assert len(line.splitlines()) <= 1
    assert line.isprintable() or not set(line) & {"\x1b", "\t", "\x07", "\x9b"}
