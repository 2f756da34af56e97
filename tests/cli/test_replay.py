"""`cao replay` in a real terminal, and into a pipe."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.replay import replay
from cli_agent_orchestrator.core.ansi import Frame, frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import NotFound, UsageError
from cli_agent_orchestrator.events import TurnBegan, TurnEnded
from cli_agent_orchestrator.settings.layout import cast_name, replay_folder
from tests.cli.test_live_in_tmux import Pane
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
    record(folder, "analyst", (1, "first plan"), (5, "the plan"), (25, "another plan"))
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
        with pytest.raises(UsageError, match=r"no screens of run x2x2 were recorded in .*replay"):
            replayed(run, *words)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("link", "cannot be read: it is a symbolic link, not a regular file"),
        ("pipe", "cannot be read: it is a pipe, not a regular file"),
        ("empty", "is empty"),
        ("damaged", "is damaged"),
        ("blank", "shows nothing"),
    ],
)
def test_of_a_recording_that_is_there_it_is_said_why_it_cannot_be_played(
    run: Folder, kind: str, said: str
) -> None:
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
    with pytest.raises(UsageError, match=f"nothing can be played of run k3f9: {file} {said}"):
        replayed(run, RUN, "tester")
    assert "another plan" in replayed(run, RUN).stdout


PROGRAM = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, lambda *_: None)
print("before", flush=True)
words = [{sys.executable!r}, "-m", "cli_agent_orchestrator", "replay", {RUN!r}]
done = subprocess.run([*words, *os.environ["REPLAY_WORDS"].split()])
print("ended with", done.returncode, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def playing(run: Folder, tmp_path: Path) -> Iterator[Callable[..., Pane]]:
    """Play in a terminal of its own, after which a shell's next line would come."""
    panes = []

    def play(*words: str, width: int = 130) -> Pane:
        os.environ["REPLAY_WORDS"] = " ".join(words)
        os.environ["CAO_STATE_DIR"] = str(run.root)
        panes.append(Pane(tmp_path, width, 0, PROGRAM))
        return panes[-1]

    before = dict(os.environ)
    yield play
    os.environ.clear()
    os.environ.update(before)
    for pane in panes:
        pane.tmux("kill-server")


def left(lines: list[str]) -> list[str]:
    """Return what is on the screen once the player has ended."""
    return lines if any("ended with" in line for line in lines) else []


def is_as_before(pane: Pane) -> bool:
    flags = "#{alternate_on} #{cursor_flag} #{wrap_flag}"
    return pane.tmux("display-message", "-p", flags).strip() == "0 1 1"


@pytest.mark.tmux
def test_a_run_is_played_in_the_terminal_which_is_then_as_it_was(
    playing: Callable[..., Pane],
) -> None:
    pane = playing("--idle", "0.2")
    pane.until(lambda lines: bool(left(lines)))
    assert pane.lines() == ["before", "ended with 0"]
    assert is_as_before(pane)


@pytest.mark.tmux
@pytest.mark.parametrize(("key", "code"), [("q", 0), ("C-c", 130)])
def test_who_has_seen_enough_leaves(playing: Callable[..., Pane], key: str, code: int) -> None:
    pane = playing("--idle", "3600", "--speed", "0.1", width=80)
    pane.until(lambda lines: any("[1/3] round 1, analyst" in line for line in lines))
    assert pane.lines()[0] == "first plan"
    assert "cut from 120x40" in pane.lines()[-1]
    pane.tmux("send-keys", "C-z")
    pane.tmux("send-keys", "n")
    pane.until(lambda lines: any("[2/3] round 1, tester" in line for line in lines))
    # Whatever stands in the file, letters and colors alone are shown.
    assert pane.lines()[0] == "red end"
    assert pane.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"
    pane.tmux("send-keys", key)
    pane.until(lambda lines: bool(left(lines)))
    assert pane.lines() == ["before", f"ended with {code}"]
    assert is_as_before(pane)
