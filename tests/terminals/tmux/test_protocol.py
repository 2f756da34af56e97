"""The control-mode stream, cut anywhere and with anything on the screen, and command lines."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.terminals.tmux.protocol import (
    Answer,
    Message,
    Notice,
    PaneOutput,
    Parser,
    parse_version,
    quote,
    unescape,
)

LOOKALIKES = [
    b"%end 1700000000 1 1",
    b"%end 1700000000 7",
    b"%end",
    b"%error 1700000000 8 1",
    b"%begin 1700000000 7 1",
    b"%output %1 not an output",
    b"%exit",
    b"%pause %1",
    b"%continue %1",
    b"",
    b"  %end 1700000000 7 1",
    b"%end 1700000000 7 1 ",
    b"%END 1700000000 7 1",
]


def parsed(*chunks: bytes) -> list[Message]:
    parser = Parser()
    return [message for chunk in chunks for message in parser.feed(chunk)]


def block(*lines: bytes, guard: bytes = b"1700000000 7 1", end: bytes = b"%end") -> bytes:
    return b"\n".join([b"%begin " + guard, *lines, end + b" " + guard, b""])


def test_a_block_is_the_answer_to_a_command() -> None:
    assert parsed(block(b"one", b"two")) == [Answer(ok=True, lines=(b"one", b"two"), ours=True)]
    assert parsed(block()) == [Answer(ok=True, lines=(), ours=True)]
    wrong = b"can't find pane: %9"
    assert parsed(block(wrong, end=b"%error")) == [Answer(ok=False, lines=(wrong,), ours=True)]
    others = b"1700000000 7 0"
    assert parsed(block(guard=others)) == [Answer(ok=True, lines=(), ours=False)]
    assert parsed(block(b"a\rb\r")) == [Answer(ok=True, lines=(b"a\rb\r",), ours=True)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"%output %12 a\\033[1mb\\134 c", PaneOutput("%12", b"a\\033[1mb\\134 c")),
        (b"%extended-output %3 150 : a : b", PaneOutput("%3", b"a : b")),
        (b"%output", PaneOutput("", b"")),
        (b"%output %1", PaneOutput("%1", b"")),
        (b"%extended-output %1 2", PaneOutput("%1", b"")),
        (b"%window-renamed @2 a  name", Notice("window-renamed", "@2 a  name")),
        (b"%sessions-changed", Notice("sessions-changed", "")),
        (b"%", Notice("", "")),
        # What is no text is replaced.
        (b"%window-renamed @2 \xff", Notice("window-renamed", "@2 \ufffd")),
        (b"%n\xff x", Notice("n\ufffd", "x")),
        (b"%output %\xff y", PaneOutput("%\ufffd", b"y")),
    ],
)
def test_a_line_outside_of_blocks_is_a_message_or_noise(line: bytes, message: Message) -> None:
    assert parsed(b"hook failed: no such thing\n\n" + line + b"\n\xff\xfe noise\n") == [message]


@pytest.mark.parametrize(
    "line",
    [b"%begin", b"%begin ", b"%begin x y z", b"%begin 1 2", b"%begin 1 2 3 4", b"%begin 1 2 3 "],
)
def test_a_malformed_begin_opens_no_block(line: bytes) -> None:
    assert parsed(line + b"\n%exit\n")[-1] == Notice("exit", "")


def test_a_line_is_taken_only_when_it_is_complete() -> None:
    parser = Parser()
    assert parser.feed(b"%output %1 a\\0") == []
    assert parser.feed(b"33\n%ex") == [PaneOutput("%1", b"a\\033")]


body_lines = st.lists(st.sampled_from(LOOKALIKES) | st.binary(max_size=30), max_size=6).map(
    lambda lines: [line.replace(b"\n", b"") for line in lines]
)
pieces = st.one_of(
    body_lines.map(lambda lines: block(*_without_real_end(lines))),
    body_lines.map(lambda lines: block(*_without_real_end(lines), end=b"%error")),
    st.binary(max_size=40).map(lambda data: b"%output %1 " + data.replace(b"\n", b"") + b"\n"),
    st.binary(max_size=40).map(lambda noise: b"~" + noise.replace(b"\n", b"") + b"\n"),
    st.sampled_from([b"%exit\n", b"%window-close @1\n", b"\n"]),
)


def _without_real_end(lines: list[bytes]) -> list[bytes]:
    real = {b"%end 1700000000 7 1", b"%error 1700000000 7 1"}
    return [line for line in lines if line not in real]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(pieces, max_size=8).map(b"".join), st.lists(st.integers(0, 10_000), max_size=20))
def test_any_cutting_of_a_stream_gives_the_same_messages(stream: bytes, places: list[int]) -> None:
    assert parsed(*cut(stream, places)) == parsed(stream)


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes_at_all_are_taken_without_complaint(chunks: list[bytes]) -> None:
    assert parsed(*chunks) == parsed(b"".join(chunks))


@given(body_lines, body_lines)
def test_any_screen_comes_back_as_it_is(first: list[bytes], second: list[bytes]) -> None:
    first, second = _without_real_end(first), _without_real_end(second)
    assert parsed(block(*first) + block(*second)) == [
        Answer(ok=True, lines=tuple(first), ours=True),
        Answer(ok=True, lines=tuple(second), ours=True),
    ]


@given(st.binary())
def test_unescape_gives_back_what_a_program_wrote(data: bytes) -> None:
    escaped = b"".join(
        b"\\%03o" % byte if byte < 0x20 or byte == 0x5C else bytes((byte,)) for byte in data
    )
    assert unescape(escaped) == data


def test_unescape_leaves_alone_what_is_no_escape() -> None:
    assert unescape(b"a\\000\\377b") == b"a\0\xffb"
    for data in (b"\\", b"\\12", b"\\8", b"\\400", b"\\777x"):
        assert unescape(data) == data


def read_word(quoted: str) -> str:
    """Read a quoted word the way tmux does, as far as `quote` makes use of it."""
    if not quoted.startswith("'"):
        return quoted
    parts = re.findall(r"""'([^']*)'|"((?:\\.|[^"\\])*)\"""", quoted)
    escapes = {"\\n": "\n", "\\r": "\r"}
    return "".join(single or escapes.get(double, double) for single, double in parts)


@given(st.text().filter(lambda word: "\0" not in word))
def test_any_word_is_one_argument_on_one_line(word: str) -> None:
    quoted = quote(word)
    assert "\n" not in quoted
    assert "\r" not in quoted
    assert read_word(quoted) == word


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("tmux 3.3a", (3, 3)),
        ("tmux next-3.6", (3, 6)),
        ("tmux openbsd-7.4", (7, 4)),
        ("tmux 2.9", (2, 9)),
        ("tmux master", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_what_tmux_says(
    said: str, version: tuple[int, int] | None
) -> None:
    assert parse_version(said) == version
