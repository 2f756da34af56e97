"""The form of a recording: what we write is read again, and of other files no more than that."""

import json
from typing import Any

import pytest

from cli_agent_orchestrator.core.ansi import (
    MOST_COLUMNS,
    MOST_FRAMES,
    MOST_ROWS,
    Cast,
    Frame,
    changed_lines,
    frame_line,
    full_line,
    header_line,
    parse_cast,
    size_line,
)

HEADER = header_line(1000, 120, 40, "tester")


def frames_of(data: bytes) -> tuple[Frame, ...]:
    cast = parse_cast(HEADER + data)
    assert cast is not None
    return cast.frames


def event(*values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"


def test_a_recording_is_written_as_other_players_read_it() -> None:
    size = {"width": 120, "height": 40}
    assert json.loads(HEADER) == {"version": 2, **size, "timestamp": 1000, "title": "tester"}
    assert json.loads(frame_line(Frame(0.5, {0: "é", 6: ""}, is_whole=True))) == [
        0.5,
        "o",
        "\x1b[?7l\x1b[0m\x1b[2J\x1b[1;1H\x1b[0m\x1b[2Ké\x1b[7;1H\x1b[0m\x1b[2K",
    ]
    assert json.loads(frame_line(Frame(1, {2: "x"}))) == [1, "o", "\x1b[3;1H\x1b[0m\x1b[2Kx"]
    assert json.loads(size_line(2, 130, 50)) == [2, "r", "130x50"]
    assert json.loads(full_line(3)) == [3, "m", "full"]
    # as it is, since most text is none of ASCII's
    assert "é".encode() in frame_line(Frame(0.5, {0: "é"}))
    assert all(line.endswith(b"\n") for line in (HEADER, size_line(2, 1, 1), full_line(3)))


def test_what_was_written_is_read() -> None:
    frames = (Frame(0.5, {0: "a", 3: "\x1b[0;31mb\x1b[0m"}, is_whole=True), Frame(1.0, {0: ""}))
    data = HEADER + frame_line(frames[0]) + size_line(0.7, 110, 50) + frame_line(frames[1])
    assert parse_cast(data) == Cast(1000.0, 120, 50, frames)
    assert parse_cast(data + full_line(2.0)) == Cast(1000.0, 120, 50, frames, is_full=True)
    assert parse_cast(data + full_line(2.0) + b"x") == Cast(1000.0, 120, 50, frames, is_full=True)
    smallest = b'{"version": 2, "width": 1, "height": 1, "timestamp": 99999999999}'
    assert parse_cast(smallest) == Cast(99999999999.0, 1, 1, ())
    assert parse_cast(HEADER) == parse_cast(HEADER.strip()) == Cast(1000.0, 120, 40, ())


def test_only_rows_that_differ_have_changed() -> None:
    assert changed_lines(["a", "b"], ["a", "c"]) == {1: "c"}
    assert changed_lines(["a", "b"], ["a"]) == {1: ""}
    assert changed_lines(["a"], ["a", "", "c"]) == {2: "c"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 3, "width": 1, "height": 1, "timestamp": 1}',
        b'{"version": 2, "width": 0, "height": 1, "timestamp": 1}',
        b'{"version": 2, "width": 1, "height": 501, "timestamp": 1}',
        b'{"version": 2, "width": 1, "height": 1, "timestamp": 100000000000}',
        b'{"version": 2, "width": 1, "height": 1, "timestamp": NaN}',
    ],
)
def test_what_is_no_recording_is_none(data: bytes) -> None:
    assert parse_cast(data) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'["1", "o", "x"]',
        b'[NaN, "o", "x"]',
        b"[1" + b"0" * 5000 + b', "o", "x"]',
        b'[1, "m", "another"]',
        b'[1, "r", "2000x2000"]',
        b'[1, "r", "0x900"]',
        b'[1, "o", "\\u001b[1;1',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_passed_over(line: bytes) -> None:
    after = frame_line(Frame(2.0, {0: "x"}))
    assert parse_cast(HEADER + line + b"\n" + after) == parse_cast(HEADER + after)


def test_of_a_frame_nothing_is_read_but_lines_in_their_places() -> None:
    place = "\x1b[{};1H\x1b[0m\x1b[2K{}".format
    assert frames_of(event(1, "o", "\x1b]0;title\x07hello")) == (Frame(1.0, {}),)
    assert frames_of(event(1, "o", "hello" + place(2, "\x1b]0;t\x07a\x1b[2Jb\nc"))) == (
        Frame(1.0, {1: "ab"}),
    )
    assert [frame.at for frame in frames_of(b"".join(event(at, "o", "") for at in (2, 1, 3)))] == [
        2,
        2,
        3,
    ]
    assert len(frames_of(event(1, "o", "") * (MOST_FRAMES + 10))) == MOST_FRAMES
    cast = parse_cast(HEADER + size_line(1, MOST_COLUMNS, MOST_ROWS) + size_line(2, 10, 10))
    assert cast is not None
    assert (cast.width, cast.height) == (MOST_COLUMNS, MOST_ROWS)
    rows = place(0, "a") + place(MOST_ROWS, "b") + place(MOST_ROWS + 1, "c")
    assert frames_of(event(1, "o", rows)) == (Frame(1.0, {MOST_ROWS - 1: "b"}),)
