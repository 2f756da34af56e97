"""How a run is played: order, pauses, and what is drawn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.replay import (
    AFTER_SECONDS,
    Scene,
    draw_screen,
    play,
    scenes_of,
    text_of,
    title_of,
)
from cli_agent_orchestrator.core.ansi import clean_line
from cli_agent_orchestrator.runs.screens import Cast, Frame, screen_at
from cli_agent_orchestrator.runs.view import Turn
from tests.core.test_ansi import ANY

DRAWN = re.compile(
    r"(?:[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
    r"|\x1b\[0(?:;[0-9]+)*m|\x1b\[[0-9]+;1H|\x1b\[2K)*"
)


def cast_of(*times: float) -> Cast:
    frames = (Frame(at, {0: f"at {at:g}"}, is_whole=not n) for n, at in enumerate(times))
    return Cast(1000.0, 120, 40, tuple(frames))


def turn(role: str, began: float, ended: float | None, outcome: str = "delivered") -> Turn:
    return Turn(1, role, 1, 1, "codex", "a1", began, ended, outcome=outcome)


def times_of(scene: Scene) -> list[float]:
    return [frame.at for frame in scene.cast.frames[scene.first : scene.end]]


def test_the_turns_of_a_run_are_played_in_their_order() -> None:
    casts = {"analyst": cast_of(0, 5, 6, 30, 35), "tester": cast_of(0, 12, 18)}
    turns = [
        turn("analyst", 1004, 1007),
        turn("tester", 1010, 1020),
        turn("tests", 1020, 1021),
        turn("analyst", 1025, None, ""),
    ]
    scenes = scenes_of(turns, casts)
    assert [scene.title for scene in scenes] == [
        "round 1, analyst (codex): delivered",
        "round 1, tester (codex): delivered",
        "round 1, analyst (codex)",
    ]
    # Each begins with what the agent showed at that time.
    assert list(map(times_of, scenes)) == [[0, 5, 6], [0, 12, 18], [6, 30, 35]]


def test_an_agent_that_is_not_known_is_not_named() -> None:
    unknown = Turn(1, "tester", 2, 1, "", "", 1000.0)
    assert scenes_of([unknown], {"tester": cast_of(1)})[0].title == "round 2, tester"


def test_a_turn_ends_a_little_later_and_never_after_the_next_began() -> None:
    cast = cast_of(1, 4, 7, 9, 11)
    first, second = turn("tester", 1000, 1003), turn("tester", 1006, 1007)
    assert [times_of(s) for s in scenes_of([first, second], {"tester": cast})] == [
        [1, 4],
        [4, 7, 9, 11],
    ]
    late = cast_of(1, 3 + AFTER_SECONDS)
    assert times_of(scenes_of([first], {"tester": late})[0]) == [1]


def test_recordings_without_turns_are_played_as_a_whole() -> None:
    casts = {"analyst": cast_of(1, 2), "empty": cast_of(), "tester": cast_of(3)}
    scenes = scenes_of([], casts)
    assert [(scene.title, times_of(scene)) for scene in scenes] == [
        ("analyst", [1, 2]),
        ("tester", [3]),
    ]
    # of a turn before anything was recorded there is nothing
    assert scenes_of([turn("analyst", 1.0, 2.0)], {"analyst": cast_of(1)})[0].title == "analyst"
    assert scenes_of([turn("empty", 1.0, 2.0)], {"empty": cast_of()}) == []


def test_no_screen_stays_too_long() -> None:
    scene = Scene("x", cast_of(0, 1, 60, 61), 1, 4)
    assert list(play(scene, 1, 2)) == [
        (("at 1",), 2),
        (("at 60",), 1),
        (("at 61",), 2),
    ]
    assert [seconds for _, seconds in play(scene, 4, 2)] == [0.5, 0.25, 0.5]
    assert [seconds for _, seconds in play(scene, 1, 0)] == [0, 0, 0]


ROWS = st.dictionaries(st.integers(0, 5), st.sampled_from(["", "a", "b"]))


@given(st.lists(st.tuples(ROWS, st.booleans()), min_size=1), st.data())
def test_what_is_played_is_what_was_on_the_screen(
    changes: list[tuple[dict[int, str], bool]], data: st.DataObject
) -> None:
    frames = tuple(Frame(n, lines, whole) for n, (lines, whole) in enumerate(changes))
    cast = Cast(1000, 120, 40, frames)
    first = data.draw(st.integers(0, len(frames) - 1))
    shown = ["\n".join(lines).rstrip("\n") for lines, _ in play(Scene("x", cast, first, 99), 1, 1)]
    assert shown == [screen_at(cast, n) for n in range(first, len(frames))]


def test_a_screen_is_drawn_row_by_row() -> None:
    assert draw_screen(["a", "\x1b[0;31mbc\x1b[0m", ""], "who", 80, 4) == (
        "\x1b[1;1H\x1b[0m\x1b[2Ka"
        "\x1b[2;1H\x1b[0m\x1b[2K\x1b[0;31mbc\x1b[0m"
        "\x1b[3;1H\x1b[0m\x1b[2K"
        "\x1b[4;1H\x1b[0;7m\x1b[2Kwho\x1b[0m"
    )


def test_of_a_larger_screen_the_end_of_it_is_shown() -> None:
    drawn = draw_screen(["a", "b", "cdef", "", ""], "whose", 3, 3)
    assert re.findall(r"[a-z]+(?=\x1b|$)", re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "\x1b", drawn)) == [
        "b",
        "cde",
        "who",
    ]
    assert draw_screen(["a"], "x", 80, 0).count("1H") == 2


@given(st.lists(ANY.map(clean_line)), ANY, st.integers(1, 30), st.integers(1, 10))
def test_nothing_is_drawn_but_letters_attributes_and_places(
    lines: list[str], title: str, columns: int, rows: int
) -> None:
    drawn = draw_screen(lines, title, columns, rows)
    assert DRAWN.fullmatch(drawn)
    assert max(map(int, re.findall(r"\x1b\[([0-9]+);1H", drawn))) <= max(rows, 2)


@pytest.mark.parametrize(
    ("columns", "rows", "cut"), [(120, 41, False), (119, 41, True), (120, 40, True)]
)
def test_the_last_row_says_whose_screen_it_is_and_whether_it_is_cut(
    columns: int, rows: int, cut: bool
) -> None:
    title = title_of(Scene("tester", cast_of(1), 0, 1), "[1/3]", columns, rows)
    size = ", cut from 120x40" if cut else ""
    assert title == f"[1/3] tester{size}  n: next  q: leave"


def test_as_text_a_scene_is_its_last_screen() -> None:
    frames = (Frame(0, {0: "\x1b[0;31mred\x1b[0m", 1: "\x1b[0;7m x \x1b[0m"}), Frame(1, {0: "no"}))
    assert text_of(Scene("a\x1b\n", Cast(0, 9, 9, frames), 0, 1)) == "== a\ufffd\ufffd ==\nred\n x"
