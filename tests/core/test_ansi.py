"""Text with colors: read as tmux writes it, written by us alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.ansi import (
    MOST_LETTERS,
    MOST_ROWS,
    Style,
    after,
    clean_line,
    clean_lines,
    cut_line,
    plain_text,
    read_lines,
)
from cli_agent_orchestrator.core.text import columns_of

# All that may ever be written: letters, and attributes in our own form.
OURS = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|\x1b\[0(?:;[0-9]+)*m)*")
PIECES = (
    *("a", "bc ", " ", "\n", "漢", "e\u0301", "q", "m", "\t", "\r", "\x07", "\x0e", "\x0f"),
    *("\x1b", "\x1b[", "\x1b[0m", "\x1b[31m", "\x1b[1;4m", "\x1b[39;49m", "\x1b[7m", "\x1b[27m"),
    *("\x1b[38;5;208m", "\x1b[48;2;1;2;3m", "\x1b[38:2::9:8:7m", "\x1b[4:3m", "\x1b[2J", "\x1b(B"),
    *("\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$r", "\x9b31m", "\u202e", "\ud800"),
)
ANY = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(ANY)
def test_nothing_is_written_but_letters_and_attributes_of_ours_and_that_stays(ansi: str) -> None:
    lines = clean_lines(ansi)
    assert all(map(OURS.fullmatch, lines))
    # so no line colors the next
    assert clean_lines("\n".join(lines)) == lines
    assert tuple(map(clean_line, lines)) == lines


@given(ANY, st.integers(0, 12))
def test_a_line_is_cut_to_the_columns_there_are(ansi: str, columns: int) -> None:
    line = clean_line(ansi)
    cut = cut_line(line, columns)
    assert columns_of(plain_text(cut)) <= columns
    assert plain_text(line).startswith(plain_text(cut))
    if columns_of(plain_text(line)) <= columns:
        assert cut == line


@pytest.mark.parametrize(
    ("ansi", "lines"),
    [
        ("\n\n", ()),
        ("a\n\nb\n\n", ("a", "", "b")),
        # tmux carries attributes over the line end
        ("\x1b[3mital\nic\x1b[0m.", ("\x1b[0;3mital\x1b[0m", "\x1b[0;3mic\x1b[0m.")),
        ("\x1b[1mx\x1b[22my", ("\x1b[0;1mx\x1b[0my",)),
        ("\x1b[1;2mx\x1b[0;39;49my", ("\x1b[0;1;2mx\x1b[0my",)),
        ("\x1b[31;42mx\x1b[39my\x1b[49mz", ("\x1b[0;31;42mx\x1b[0;42my\x1b[0mz",)),
        ("\x1b[4:3mx\x1b[4:0my", ("\x1b[0;4mx\x1b[0my",)),
        ("\x1b[31ma\x1b[31mb", ("\x1b[0;31mab\x1b[0m",)),
        # blanks at the end are seen only if they have a color or a line
        ("a  ", ("a",)),
        ("a\x1b[31m  ", ("a",)),
        ("a\x1b[41m  ", ("a\x1b[0;41m  \x1b[0m",)),
        *((f"a\x1b[{mark}m ", (f"a\x1b[0;{mark}m \x1b[0m",)) for mark in "479"),
        *((f"a\x1b[{mark}m ", ("a",)) for mark in "12358"),
        # letters that draw lines
        ("\x0elqk\x0fq", ("┌─┐q",)),
        ("\x0eq\nq", ("─", "─")),
        ("a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\c\x1b[2Jd\x1b(Be\tf\x07", ("abcdef",)),
        ("a\u202eb\u2028c\ud800d", ("abcd",)),
    ],
)
def test_lines_stand_for_themselves(ansi: str, lines: tuple[str, ...]) -> None:
    assert clean_lines(ansi) == lines


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("", Style()),
        ("0", Style()),
        ("01", Style("31", "42", frozenset("15"))),
        ("25", Style("31", "42")),
        *(
            (f"{mark};{end}", Style("31", "42", frozenset("5") - {mark}))
            for mark, end in zip("12345789", (22, 22, 23, 24, 25, 27, 28, 29), strict=True)
        ),
        *((str(code), Style(str(code), "42", frozenset("5"))) for code in (30, 37, 90, 97)),
        *((str(code), Style("31", str(code), frozenset("5"))) for code in (40, 47, 100, 107)),
        *((str(code), Style("31", "42", frozenset("5"))) for code in (29, 89, 98, 99, 108)),
        ("53", Style("31", "42", frozenset("5"))),
        ("38;5;208", Style("38;5;208", "42", frozenset("5"))),
        ("38;5;007", Style("38;5;7", "42", frozenset("5"))),
        ("48;2;1;2;3;1", Style("31", "48;2;1;2;3", frozenset("15"))),
        ("38:5:9;1", Style("38;5;9", "42", frozenset("15"))),
        ("48:2::1:2:3", Style("31", "48;2;1;2;3", frozenset("5"))),
        # the color of an underline is not shown, nor taken for something else
        ("58;5;1;1", Style("31", "42", frozenset("15"))),
        ("58:2::1:2:3", Style("31", "42", frozenset("5"))),
        # what is no color
        ("38", Style("31", "42", frozenset("5"))),
        ("38;5;256", Style("31", "42", frozenset("5"))),
        ("38;2;1;2", Style("31", "42", frozenset("5"))),
        ("38;9;1", Style("31", "42", frozenset("15"))),
        ("9" * 5000, Style("31", "42", frozenset("5"))),
    ],
)
def test_a_sequence_changes_how_letters_look(parameters: str, style: Style) -> None:
    assert after(Style("31", "42", frozenset("5")), parameters) == style


def test_letters_take_one_column_or_two_or_none() -> None:
    assert columns_of("ab") == 2
    assert columns_of("漢e\u0301\u20dd\u200d🙂é") == 6
    assert cut_line("漢字", 3) == "漢"
    assert cut_line("\x1b[31mab\x1b[0mcd", 3) == "\x1b[0;31mab\x1b[0mc"


def test_no_line_and_no_screen_is_endless() -> None:
    assert clean_line("\x1b[31mx" * MOST_LETTERS * 2) == f"\x1b[0;31m{'x' * MOST_LETTERS}\x1b[0m"
    assert len(read_lines("x\n" * MOST_ROWS * 2)) == MOST_ROWS
    assert clean_line("a\nb") == "a"
