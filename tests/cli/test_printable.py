"""Nothing that an agent or a server says can control the user's terminal."""

import unicodedata

import pytest

from cli_agent_orchestrator.cli.narration import beside_time
from cli_agent_orchestrator.core.text import one_line, printable

KEPT = "plain, äöü, 漢字, 🙂, e\u0301, → │ ⠋"


def test_what_can_be_read_stays_as_it_is() -> None:
    assert printable(KEPT + "\n\ttwo\n") == KEPT + "\n\ttwo\n"
    assert one_line(KEPT) == KEPT


TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def test_no_control_character_of_any_kind_is_left_and_none_that_turns_the_direction() -> None:
    # None of them is among the others, which are many.
    for character in map(chr, (*range(0x3000), *range(0xD7FF, 0xE001))):
        is_control = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        if (is_control and character not in "\n\t") or unicodedata.bidirectional(
            character
        ) in TURNING:
            assert printable(character) == "�", hex(ord(character))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\t"])
def test_a_place_in_a_line_holds_one_line(end: str) -> None:
    shown = one_line(f"a{end}b")
    assert (shown[0], shown[-1], "�" in shown) == ("a", "b", True)
    assert shown.splitlines() == [shown]
    assert "\t" not in shown


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("exactly so many", ["exactly so many"]),
        ("one more than many", ["one more than", "many"]),
        ("first line\nsecond one, longer", ["first line", "second one,", "longer"]),
        ("  Press a key: cao answer", ["  Press a key:", "  cao answer"]),
        ("two  spaces  stay", ["two  spaces", "stay"]),
        ("see /a/path/that/is/too/long now", ["see", "/a/path/that/is/too/long", "now"]),
        ("漢字漢字漢字 漢字", ["漢字漢字漢字", "漢字"]),
        ("", [""]),
    ],
)
def test_a_line_that_is_too_long_goes_on_at_a_word_below_its_text(
    text: str, rows: list[str]
) -> None:
    below = "\n" + " " * 10
    assert beside_time(text, 10 + 15) == below.join(rows)
    assert beside_time("word " * 100) == "word " * 100
    assert beside_time("a\n12:00:00  PASS\x1b") == f"a{below}12:00:00  PASS�"
    assert beside_time("one two", 3).split() == ["one", "two"]
