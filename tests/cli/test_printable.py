"""Nothing that an agent or a server says can control the user's terminal."""

import unicodedata

import pytest

from cli_agent_orchestrator._internal.cli.printable import beside_time, one_line, printable

KEPT = "plain, äöü, 漢字, 🙂, e\u0301, → │ ⠋"


def test_what_can_be_read_stays_as_it_is() -> None:
    assert printable(KEPT + "\n\ttwo\n") == KEPT + "\n\ttwo\n"
    assert one_line(KEPT) == KEPT


def test_no_control_character_of_any_kind_is_left() -> None:
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category in ("Cc", "Cs") and chr(code) not in "\n\t":
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
