"""The recordings of a run, as they are read."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.ansi import frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import TerminalFacts
from cli_agent_orchestrator.runs.screens import (
    MOST_READ,
    Cast,
    Frame,
    read_cast,
    recording_folder,
    roles_with_cast,
    screen_at,
    steps_of,
)
from cli_agent_orchestrator.settings.layout import RECORD_FILE, replay_folder, run_folder

HEADER = header_line(1000, 120, 40, "tester")


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    return run_folder(tmp_path, "20261115-084037-k3f9")


def cast_of(*changed: dict[int, str]) -> Cast:
    return Cast(1000, 120, 40, tuple(Frame(n, lines) for n, lines in enumerate(changed)))


def test_only_of_a_run_that_is_there_a_terminal_is_recorded(run: Folder, tmp_path: Path) -> None:
    facts = TerminalFacts("t1", "x", "codex", f"cao-{run.path.name}", "p", "/", role="tester")
    assert recording_folder(tmp_path, facts) is None
    run.create(RECORD_FILE, b"{}")
    found = recording_folder(tmp_path, facts)
    assert found is not None
    assert found.path == run.path / "replay"


def test_roles_are_those_with_a_recording(run: Folder) -> None:
    assert roles_with_cast(run) == []
    replay = replay_folder(run)
    for name in ("tester.cast", "analyst.cast", "Bad name.cast", ".cast", "tester.txt"):
        replay.create(name, HEADER)
    assert roles_with_cast(run) == ["analyst", "tester"]


def test_a_folder_that_is_a_link_has_no_recordings(run: Folder, tmp_path: Path) -> None:
    run.make()
    (tmp_path / "tester.cast").write_bytes(HEADER)
    replay_folder(run).path.symlink_to(tmp_path)
    assert roles_with_cast(run) == []
    assert read_cast(run, "tester") is None


@pytest.mark.parametrize("role", ["analyst", "../replay/tester", "", "tester.cast", "a\n"])
def test_what_is_not_there_cannot_be_read(run: Folder, role: str) -> None:
    replay_folder(run).create("tester.cast", HEADER)
    assert read_cast(run, role) is None


def test_neither_a_link_nor_a_pipe_is_read(run: Folder) -> None:
    replay = replay_folder(run)
    replay.create("tester.cast", HEADER)
    replay.create_link("linked.cast", "tester.cast")
    os.mkfifo(replay.path / "pipe.cast")
    assert read_cast(run, "linked") is None
    assert read_cast(run, "pipe") is None
    assert read_cast(run, "tester") == Cast(1000, 120, 40, ())


def test_a_recording_is_read_once_for_each_version_of_it(run: Folder) -> None:
    replay_folder(run).create("tester.cast", HEADER)
    replay_folder(run).create("analyst.cast", HEADER)
    first = read_cast(run, "tester")
    assert read_cast(run, "tester") is first
    assert read_cast(run, "analyst") is not first
    with replay_folder(run).append("tester.cast") as file:
        file.write(frame_line(Frame(1, {0: "x"})))
    assert read_cast(run, "tester") == Cast(1000, 120, 40, (Frame(1, {0: "x"}),))
    (replay_folder(run).path / "tester.cast").unlink()
    assert read_cast(run, "tester") is None


def test_of_a_file_that_is_too_large_the_beginning_is_read(run: Folder) -> None:
    data = HEADER + frame_line(Frame(1, {0: "x"})) + b" " * MOST_READ
    replay_folder(run).create("tester.cast", data + b"\n" + frame_line(Frame(2, {0: "y"})))
    assert read_cast(run, "tester") == Cast(1000, 120, 40, (Frame(1, {0: "x"}),))


def test_a_screen_is_what_all_frames_up_to_it_have_made() -> None:
    frames = (
        Frame(0, {0: "a", 2: "c"}),
        Frame(1, {2: ""}),
        Frame(2, {1: "b"}, is_whole=True),
    )
    cast = Cast(1000, 120, 40, frames)
    assert [screen_at(cast, n) for n in range(-1, 4)] == ["", "a\n\nc", "a", "\nb", "\nb"]


def test_steps_are_where_much_has_changed() -> None:
    page = dict.fromkeys(range(20), "x")
    tick = {0: "x"}
    cast = cast_of(page, tick, tick, tick, page, tick, page)
    assert steps_of(cast, 3) == [2, 4, 6]
    assert steps_of(cast, 1) == [6]
    assert steps_of(cast, 100) == [*range(7)]
    assert steps_of(cast, 0) == []
    assert steps_of(cast_of(), 5) == []


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(1, 20))
def test_steps_are_few_and_end_with_the_last(sizes: list[int], most: int) -> None:
    cast = cast_of(*(dict.fromkeys(range(size), "x") for size in sizes))
    steps = steps_of(cast, most)
    assert steps == sorted(set(steps))
    assert 1 <= len(steps) <= most
    assert steps[-1] == len(sizes) - 1
