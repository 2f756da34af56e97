"""Screens become a recording."""

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli_agent_orchestrator.core.ansi import Cast, clean_lines, parse_cast
from cli_agent_orchestrator.runs.screens import screen_at
from cli_agent_orchestrator.terminals.screens import (
    FRAME_SECONDS,
    LARGEST_CAST,
    Tape,
    add_screen,
    begin,
    go_on,
    pause_after,
)
from tests.core.test_ansi import ANY


def recorded(screens: list[str], began: float = 1000.25) -> bytes:
    """Return the recording of some screens, one each second."""
    tape, data = begin(began, 120, 40, "tester")
    for seconds, screen in enumerate(screens):
        tape, added = add_screen(tape, screen, began + seconds)
        data += added
        assert tape.size == len(data)
    return data


def read(data: bytes) -> Cast:
    cast = parse_cast(data)
    assert cast is not None
    return cast


@given(st.lists(ANY, max_size=6), st.lists(ANY, max_size=4), st.integers(-100, 100))
def test_each_screen_can_be_seen_again_also_after_a_restart(
    first: list[str], second: list[str], later: int
) -> None:
    data = recorded(first)
    tape = go_on(read(data), len(data))
    for screen in second:
        tape, added = add_screen(tape, screen, 1000.25 + later)
        data += added
    assert tape.size == len(data)
    cast = read(data)
    shown = ["\n".join(clean_lines(screen)) for screen in (*first, *second)]
    # A screen that is as the one before it is no frame; after a restart the first one always is.
    begins = (0, len(first))
    changes = [text for n, text in enumerate(shown) if n in begins or text != shown[n - 1]]
    assert [screen_at(cast, n) for n in range(len(cast.frames))] == changes
    times = [frame.at for frame in cast.frames]
    assert times == sorted(times)


def test_the_size_is_the_largest_that_was_needed() -> None:
    cast = read(recorded(["a", "漢" * 65, "a"]))
    assert (cast.width, cast.height) == (130, 40)
    cast = read(recorded(["a", "x\n" * 49 + "x", "y"]))
    assert (cast.width, cast.height) == (120, 50)
    assert read(recorded(["x" * 1500])).width == 1000


def test_only_what_changed_is_written() -> None:
    screen = "\n".join(f"line {n}" for n in range(40))
    data = recorded([screen, screen.replace("line 7", "line seven")])
    assert json.loads(data.splitlines()[-1])[2] == "\x1b[8;1H\x1b[0m\x1b[2Kline seven"


def test_a_recording_ends_at_its_largest_size_and_says_so() -> None:
    def rows(number: int) -> str:
        return "\n".join([f"{number % 10}" * 1000] * 20)

    tape, data = begin(1000, 120, 40, "tester")
    tape = replace(tape, size=LARGEST_CAST - 200_000)
    seconds = 0
    while not tape.is_full:
        tape, added = add_screen(tape, f"{seconds}\n" + rows(seconds), 1000 + seconds)
        data += added
        seconds += 1
    assert 170_000 < len(data) <= 200_000
    assert add_screen(tape, "more", 2000) == (tape, b"")
    cast = read(data)
    assert cast.is_full
    assert screen_at(cast, len(cast.frames)).startswith(f"{seconds - 2}\n")
    assert add_screen(go_on(cast, len(data)), "more", 9000)[1] == b""


def test_frames_come_less_often_as_a_recording_grows() -> None:
    quarter = LARGEST_CAST // 4
    sizes = (0, quarter - 1, quarter, 2 * quarter, 3 * quarter)
    pauses = [pause_after(Tape(0, 120, 40, size, changed=9)) for size in sizes]
    assert pauses == [FRAME_SECONDS * times for times in (1, 1, 2, 4, 8)]


def test_where_little_changes_frames_come_half_as_often() -> None:
    tape, _ = begin(1000, 120, 40, "tester")
    screens = ("a\nb\nc", "a\nx\ny", "1\n2\n3", "4\n2\n3")
    pauses = []
    for seconds, screen in enumerate(screens):
        tape, _ = add_screen(tape, screen, 1000 + seconds)
        pauses.append(pause_after(tape))
    assert pauses == [FRAME_SECONDS * times for times in (1, 2, 1, 2)]
