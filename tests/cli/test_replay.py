"""`cao replay`: what is played and drawn, in a real terminal and into a pipe."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.replay import (
    AFTER_SECONDS,
    Scene,
    draw_screen,
    play,
    replay,
    scenes_of,
    text_of,
    title_of,
)
from cli_agent_orchestrator.core.ansi import Cast, Frame, clean_line, frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotFound, UsageError
from cli_agent_orchestrator.events import TurnBegan, TurnEnded
from cli_agent_orchestrator.runs.screens import screen_at
from cli_agent_orchestrator.runs.view import Turn
from cli_agent_orchestrator.settings.layout import cast_name, replay_folder
from tests.cli.panes import Pane
from tests.core.test_ansi import ANY
from tests.runs.kept_runs import RUN, make_run

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x1b[2J\x1b[?1049l\u202e end"


def turns(*roles: str) -> tuple[TurnBegan | TurnEnded, ...]:
    """Return the events of some turns, of ten seconds each."""
    events: list[TurnBegan | TurnEnded] = []
    for number, role in enumerate(roles):
        began = 1000.0 + 10 * number
        events += [
            TurnBegan(began, role, 1, 1, number + 1, "a1", "codex"),
            TurnEnded(
                began + 9, role, 1, 1, number + 1, "delivered", "there", 9.0, "/p/1.md", True, ""
            ),
        ]
    return tuple(events)


def record(run: Folder, role: str, *screens: tuple[float, str]) -> None:
    data = header_line(1000, 120, 40, role)
    for at, text in screens:
        data += frame_line(Frame(at, {0: text}))
    replay_folder(run).create(cast_name(role), data)


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    folder = make_run(tmp_path / "state", tmp_path, events=turns("analyst", "tester", "analyst"))
    record(folder, "analyst", (1, "first plan"), (5, "the plan  "), (25, "another plan"))
    record(folder, "tester", (12, HOSTILE))
    return folder


def replayed(run: Folder, *words: str) -> Result:
    environ = {"CAO_STATE_DIR": str(run.root)}
    return CliRunner().invoke(replay, list(words), env=environ, catch_exceptions=False)


def test_into_a_pipe_goes_the_last_screen_of_each_turn(run: Folder) -> None:
    assert replayed(run, RUN).stdout == (
        "== round 1, analyst (codex): delivered ==\nthe plan\n\n"
        "== round 1, tester (codex): delivered ==\nred end\n\n"
        "== round 1, analyst (codex): delivered ==\nanother plan\n"
    )
    assert replayed(run, "k3f9", "tester").stdout == "== tester ==\nred end\n"


def test_what_was_not_recorded_cannot_be_played(run: Folder, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no recording of 'programmer'; there are: analyst, tester"):
        replayed(run, RUN, "programmer")
    other = "20261116-084037-x2x2"
    make_run(run.root, tmp_path, other)
    for words in ((other,), (other, "tester")):
        with pytest.raises(UsageError, match=r"no screens of run x2x2 can be read in .*replay"):
            replayed(run, *words)


@pytest.mark.parametrize("kind", ["link", "pipe", "empty", "damaged", "blank"])
def test_a_recording_that_cannot_be_played_is_named(run: Folder, kind: str) -> None:
    file = replay_folder(run).path / cast_name("tester")
    file.unlink()
    match kind:
        case "link":
            file.symlink_to(file.with_name(cast_name("analyst")))
        case "pipe":
            os.mkfifo(file)
        case "blank":
            file.write_bytes(header_line(1000, 120, 40, "tester"))
        case _:
            file.write_bytes(b"" if kind == "empty" else b"[")
    with pytest.raises(UsageError, match="no screens of run k3f9 can be read"):
        replayed(run, RUN, "tester")
    assert "another plan" in replayed(run, RUN).stdout


PROGRAM = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, lambda *_: None)
print("before", flush=True)
words = [{sys.executable!r}, "-m", "cli_agent_orchestrator", "replay", {RUN!r}]
done = subprocess.run([*words, *sys.argv[1:]])
print("ended with", done.returncode, flush=True)
sys.stdin.read()
"""


@contextmanager
def playing(run: Folder, *words: str, width: int = 130) -> Iterator[Pane]:
    """Play in a terminal of its own, after which a shell's next line would come."""
    command = (sys.executable, "-c", PROGRAM, *words)
    env = {**os.environ, "CAO_STATE_DIR": str(run.root)}
    with (
        tempfile.TemporaryDirectory(prefix="cao-") as folder,
        closing(Pane(Path(folder), *command, width=width, env=env)) as pane,
    ):
        yield pane
        pane.until_shown("ended with")
        assert pane.show("#{alternate_on} #{cursor_flag} #{wrap_flag}") == "0 1 1"


@pytest.mark.tmux
def test_a_run_is_played_in_the_terminal_which_is_then_as_it_was(run: Folder) -> None:
    with playing(run, "--idle", "0.2") as pane:
        pane.until(lambda lines: lines == ["before", "ended with 0"])


@pytest.mark.tmux
@pytest.mark.parametrize(("key", "code"), [("q", 0), ("C-c", 130)])
def test_who_has_seen_enough_leaves(run: Folder, key: str, code: int) -> None:
    with playing(run, "--idle", "3600", "--speed", "0.1", width=80) as pane:
        pane.until_shown(r"\[1/3\] round 1, analyst")
        assert pane.lines()[0] == "first plan"
        assert "cut from 120x40" in pane.lines()[-1]
        pane.press("C-z")
        pane.press("n")
        pane.until_shown(r"\[2/3\] round 1, tester")
        # Whatever stands in the file, letters and colors alone are shown.
        assert pane.lines()[0] == "red end"
        assert pane.show("#{pane_title}") != "owned"
        pane.press(key)
        pane.until(lambda lines: lines == ["before", f"ended with {code}"])


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
    unknown = Turn(1, "tester", 2, 1, "", "", 1000.0)
    assert scenes_of([unknown], casts)[0].title == "round 2, tester"
    # of a turn before anything was recorded there is nothing
    assert scenes_of([turn("analyst", 1.0, 2.0)], {"analyst": cast_of(1)})[0].title == "analyst"
    assert scenes_of([turn("empty", 1.0, 2.0)], {"empty": cast_of()}) == []


def test_no_screen_stays_too_long() -> None:
    scene = Scene("x", cast_of(0, 1, 60, 61), 1, 4)
    assert list(play(scene, 1, 2)) == [(("at 1",), 2), (("at 60",), 1), (("at 61",), 2)]
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


def test_of_a_larger_screen_the_end_of_it_is_shown() -> None:
    assert draw_screen(["b", "c\x1b[0;31mdef\x1b[0m", ""], "whose", 3, 3) == (
        "\x1b[1;1H\x1b[0m\x1b[2Kb"
        "\x1b[2;1H\x1b[0m\x1b[2Kc\x1b[0;31mde\x1b[0m"
        "\x1b[3;1H\x1b[0;7m\x1b[2Kwho\x1b[0m"
    )
    assert draw_screen(["a", "b", "c", ""], "x", 9, 3).startswith("\x1b[1;1H\x1b[0m\x1b[2Kb")
    assert draw_screen(["a"], "x", 80, 0).count("1H") == 2


@given(st.lists(ANY.map(clean_line)), ANY, st.integers(1, 30), st.integers(1, 10))
def test_nothing_is_drawn_but_letters_attributes_and_places(
    lines: list[str], title: str, columns: int, rows: int
) -> None:
    drawn = draw_screen(lines, title, columns, rows)
    assert DRAWN.fullmatch(drawn)
    assert max(map(int, re.findall(r"\x1b\[([0-9]+);1H", drawn))) <= max(rows, 2)


def test_the_last_row_says_whose_screen_it_is_and_whether_it_is_cut() -> None:
    scene = Scene("tester", cast_of(1), 0, 1)
    assert title_of(scene, "[1/3]", 120, 41) == "[1/3] tester  n: next  q: leave"
    for size in ((119, 41), (120, 40)):
        assert title_of(scene, "[1/3]", *size).startswith("[1/3] tester, cut from 120x40  ")


def test_a_title_is_one_line() -> None:
    assert text_of(Scene("a\x1b\n", cast_of(1), 0, 1)) == "== a\ufffd\ufffd ==\nat 1"
