"""A terminal's screen as HTML: the text as it is, colors as classes, nothing breaks out."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.show.markup import color_rules, screen_lines
from tests.show.reading import Elements

CLASSES = r"(?:[fb](?:25[0-5]|2[0-4]\d|1?\d?\d)|[odiusrw])"

ATTRIBUTES = st.lists(st.integers(0, 110) | st.sampled_from([38, 48, 58, 5, 2, 255, 999])).map(
    lambda codes: f"\x1b[{';'.join(map(str, codes))}m"
)
OTHER = st.sampled_from(
    [
        "\x1b[2J", "\x1b[?25h", "\x1b[>4;2m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\",
        "\x1bP1$r0m\x1b\\", "\x1b(B", "\x1b7", "\x1b=", "\x07", "\x08", "\r",
        "\x7f", "\x80", "\x9b", "\x9f", "\x00", "\x1b[4:3m", "\x1b[38:2::1:2:3m", "\x1b[48:5:7m",
        "\x1b[38;2;1m", "\x1b[38m", "\x1b[;;m", "\x1b[38;5m", "\x1b[" + "1;" * 99 + "m",
    ]
)  # fmt: skip
# Nothing that an escape could end with, or go on in.
WORDS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1).map(
    lambda word: f" {word}"
)
PIECES = st.lists(
    st.tuples(st.just(False), ATTRIBUTES | OTHER)
    | st.tuples(st.just(True), WORDS | st.sampled_from(["<b>", "&lt;", '">', "\n", "漢字", "👍"]))
)

PALETTE = {
    int(number): tuple(bytes.fromhex(color))
    for number, color in re.findall(r"\.f(\d+)\{--f:#(\w+)\}", color_rules())
    if int(number) >= 16
}

REAL = (
    "\x1b[1m\x1b[31mred \x1b[4:3mcurly\x1b[0m\x1b[39m\x1b[49m \x1b[38;2;1;2;3m\x1b[48;5;208mtrue"
    "\x1b[39m\x1b[49m \x0elqk\x0f 漢字 \U0001f44d ❤️ é \x1b[7mrev\n"
    " over\x1b[0m\x1b[39m\x1b[49m <b>&\n"
    "link \x1b[9mgone\x1b[0m\x1b[39m\x1b[49m \x1b[2mdim\x1b[3m it\n"
)
"""What tmux 3.3a says of a screen, with `capture-pane -e -p`."""


@given(PIECES)
def test_the_text_is_the_one_without_escapes(pieces: list[tuple[bool, str]]) -> None:
    lines = screen_lines("".join(piece for _, piece in pieces))
    seen = "\n".join(Elements(line).written for line in lines)
    assert seen == "".join(piece for is_text, piece in pieces if is_text)


@given(st.text() | st.lists(OTHER | ATTRIBUTES | WORDS).map("".join))
def test_nothing_breaks_out_of_a_line(ansi: str) -> None:
    lines = screen_lines(ansi)
    assert len(lines) == ansi.count("\n") + 1
    for line in lines:
        read = Elements(line)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", read.written)
        assert line.count("<span") == line.count("</span>") == len(read.found)
        assert line.count("<") == 2 * len(read.found)
        for name, attributes in read.found:
            [(key, value)] = attributes.items()
            assert (name, key) == ("span", "class")
            assert re.fullmatch(f"{CLASSES}(?: {CLASSES})*", value or "")


@given(ATTRIBUTES | OTHER, st.sampled_from(["a", "<", "漢"]))
def test_what_is_drawn_in_a_color_stays_so_over_the_end_of_a_line(escape: str, word: str) -> None:
    [on_one_line] = screen_lines(f"{escape}{word}")
    assert screen_lines(f"{escape}\n\n{word}") == ["", "", on_one_line]


def test_a_real_screen() -> None:
    assert screen_lines(REAL) == [
        '<span class="f1 o">red </span><span class="f1 o u">curly</span> '
        '<span class="f16 b208">true</span> ┌─┐ <span class="w">漢</span><span class="w">字</span> '
        '<span class="w">\U0001f44d</span> ❤️ é <span class="r">rev</span>',
        '<span class="r"> over</span> &lt;b&gt;&amp;',
        'link <span class="s">gone</span> <span class="d">dim</span><span class="d i"> it</span>',
        "",
    ]


@pytest.mark.parametrize(
    ("codes", "classes"),
    [
        ("31", "f1"), ("97", "f15"), ("40", "b0"), ("107", "b15"), ("38;5;208", "f208"),
        ("48;5;0", "b0"), ("38;2;255;0;0", "f196"), ("48;2;255;255;255", "b231"),
        ("38:2::95:135:175", "f67"), ("38;2;9;9;9", "f232"), ("38;2;128;128;128", "f244"),
        ("38;2;0;0;0", "f16"), ("38;2;238;238;238", "f255"), ("1;2;3;4;7;9", "d i o r s u"),
        ("31;42;39", "b2"), ("5", ""), ("", ""),
    ],
)  # fmt: skip
def test_numbers_become_classes(codes: str, classes: str) -> None:
    [line] = screen_lines(f"\x1b[{codes}mx")
    assert line == (f'<span class="{classes}">x</span>' if classes else "x")


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_a_color_becomes_the_nearest_that_there_is(color: tuple[int, int, int]) -> None:
    [line] = screen_lines("\x1b[38;2;{};{};{}mx".format(*color))
    found = re.search(r"f(\d+)", line)
    assert found

    def distance(number: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(PALETTE[number], color, strict=True))

    assert distance(int(found[1])) == min(map(distance, PALETTE))


@given(st.characters(exclude_categories=["C", "M", "Z"]))
def test_a_letter_of_two_cells_is_in_an_element_of_its_own(letter: str) -> None:
    [line] = screen_lines(letter)
    assert ("span" in line) == (unicodedata.east_asian_width(letter) in "WF")


def test_a_wide_letter_keeps_its_marks_and_its_color() -> None:
    [line] = screen_lines("\x1b[7m漢\u0301\u20dd\u200da")
    assert line == '<span class="r"><span class="w">漢\u0301\u20dd\u200d</span>a</span>'


def test_an_escape_that_does_not_end_takes_its_line_with_it_and_no_more() -> None:
    assert screen_lines("\x1b]0;title\nnext") == ["", "next"]
    assert screen_lines("a\x1b") == ["a"]


def test_there_is_a_rule_for_every_class() -> None:
    rules = color_rules()
    for side in "fb":
        numbers = re.findall(rf"\.{side}(\d+)\{{--{side}:#[0-9a-f]{{6}}\}}", rules)
        assert [*map(int, numbers)] == [*range(256)]
    for mark in "odiusrw":
        assert f".screen .{mark}{{" in rules
    for number, color in ((16, "000000"), (59, "5f5f5f"), (231, "ffffff"), (255, "eeeeee")):
        assert f".f{number}{{--f:#{color}}}" in rules
