"""Nothing that an agent or a server says can control the user's terminal."""

import unicodedata

import pytest

from cli_agent_orchestrator.cli.narration import beside_time
from cli_agent_orchestrator.core.text import one_line, printable

KEPT = "plain, äöü, 漢字, 🙂, e\u0301, → │ ⠋"


def test_what_can_be_read_stays_as_it_is() -> None:
    assert printable(KEPT + "\n\ttwo\n") == KEPT + "\n\ttwo\n"
    assert one_line(KEPT) == KEPT


def test_no_control_character_of_any_kind_is_left() -> None:
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category in ("Cc", "Cs", "Zl", "Zp") and chr(code) not in "\n\t":
            assert printable(chr(code)) == "�", hex(code)


def test_no_character_that_turns_the_direction_is_left() -> None:
    turning = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.bidirectional(chr(code))
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]
    assert len(turning) == 9
    assert printable("".join(turning)) == "�" * 9


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\t"])
def test_a_place_in_a_line_holds_one_line(end: str) -> None:
    shown = one_line(f"a{end}b")
    assert (shown[0], shown[-1], "�" in shown) == ("a", "b", True)
    assert shown.splitlines() == [shown]
    assert "\t" not in shown


def test_what_is_shown_can_be_written() -> None:
    assert printable("half \ud83d of it").encode() == "half � of it".encode()


def test_no_line_of_a_text_looks_like_another_with_its_time() -> None:
    assert beside_time("a\n12:00:00  PASS\x1b") == "a\n          12:00:00  PASS�"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a short line", ["a short line"]),
        ("exactly so many", ["exactly so many"]),
        ("one more than many", ["one more than", "many"]),
        ("first line\nsecond one, longer", ["first line", "second one,", "longer"]),
        ("  Press a key: cao answer", ["  Press a key:", "  cao answer"]),
        ("two  spaces  stay", ["two  spaces", "stay"]),
        ("see /a/path/that/is/too/long now", ["see", "/a/path/that/is/too/long", "now"]),
        ("漢字漢字漢字 漢字", ["漢字漢字漢字", "漢字"]),
        ("e\u0301e\u0301e\u0301e\u0301e\u0301 and longer", ["e\u0301" * 5 + " and", "longer"]),
        ("", [""]),
    ],
)
def test_a_line_that_is_too_long_goes_on_at_a_word_below_its_text(
    text: str, rows: list[str]
) -> None:
    below = "\n" + " " * 10
    assert beside_time(text, 10 + 15) == below.join(rows)


def test_without_a_width_no_line_is_broken() -> None:
    assert beside_time("word " * 100) == "word " * 100


def test_no_terminal_is_too_narrow_to_write_to() -> None:
    assert beside_time("one two", 3).split() == ["one", "two"]
