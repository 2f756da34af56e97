"""What an agent showed when its turn had ended, and the recordings of a run as they are read."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.ansi import Cast, Frame, frame_line, header_line
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import AgentView, TerminalFacts
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable, OrchestratorError
from cli_agent_orchestrator.runs.screens import (
    LARGEST_SCREEN,
    MOST_READ,
    keep_screen,
    read_cast,
    read_screen,
    recording_folder,
    roles_with_cast,
    screen_at,
    steps_of,
)
from cli_agent_orchestrator.settings.layout import RECORD_FILE, replay_folder

HEADER = header_line(1000, 120, 40, "tester")


@dataclass
class Showing:
    """An agent that shows a text, or cannot be asked."""

    text: str = "› all done ✓"
    failure: OrchestratorError | None = None
    records: tuple[str, ...] = ()

    def get_view(self, terminal_id: str) -> AgentView:
        assert terminal_id == "a1"
        if self.failure is not None:
            raise self.failure
        return AgentView(self.text, self.records)


@pytest.fixture
def run(folder: Folder) -> Folder:
    return folder


def kept(run: Folder, agent: Showing) -> str | None:
    """Return what is kept of what an agent shows."""
    keep_screen(run, agent.get_view, "a1", 7, "tester")
    return read_screen(run, 7, "tester")


def test_a_screen_is_kept_for_the_owner_alone(run: Folder) -> None:
    assert kept(run, Showing()) == "› all done ✓"
    path = run.path / "turns/007-tester.txt"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert read_screen(run, 8, "tester") is None


@pytest.mark.parametrize("text", ["", "› all done ✓"])
def test_it_is_noted_where_the_agent_keeps_its_records(run: Folder, text: str) -> None:
    kept(run, Showing(text, records=("/home/ada/a.jsonl",)))
    note = run.path / "records/a1.json"
    assert json.loads(note.read_bytes()) == {"records": ["/home/ada/a.jsonl"]}
    assert (note.stat().st_mode & 0o777, note.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_of_much_the_last_is_kept_and_half_a_character_is_no_obstacle(run: Folder) -> None:
    text = kept(run, Showing("first" + "é" * LARGEST_SCREEN + "!"))
    assert text == "é" * (LARGEST_SCREEN // 2 - 1) + "!"
    assert kept(run, Showing("a\udc80b")) == "a?b"


@pytest.mark.parametrize(
    "agent",
    [
        Showing(""),
        Showing(failure=ApiRefused("GET", "/terminals/a1/output", 422, "no such mode")),
        Showing(failure=ApiUnreachable("http://x", "gone", maybe_received=True)),
    ],
)
def test_what_cannot_be_seen_is_not_known(run: Folder, agent: Showing) -> None:
    assert kept(run, agent) is None


def test_what_cannot_be_kept_is_not_known(run: Folder, tmp_path: Path) -> None:
    (run.path / "turns").symlink_to(tmp_path)
    assert kept(run, Showing()) is None
    assert not list(tmp_path.glob("*.txt"))


@pytest.mark.parametrize("role", ["../../secret", "a/../secret", "", "x\0", ".", "pipe"])
def test_no_role_leads_elsewhere_or_is_waited_for(run: Folder, role: str) -> None:
    (run.path / "turns").mkdir()
    for folder in (run.path, run.path.parent):
        (folder / "secret.txt").write_text("secret")
    os.mkfifo(run.path / "turns/007-pipe.txt")
    assert read_screen(run, 7, role) is None


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
    (tmp_path / "tester.cast").write_bytes(HEADER)
    replay_folder(run).path.symlink_to(tmp_path)
    assert roles_with_cast(run) == []
    assert read_cast(run, "tester") is None


@pytest.mark.parametrize(
    "role", ["analyst", "../replay/tester", "", "tester.cast", "a\n", "linked", "pipe"]
)
def test_nothing_but_a_recording_is_read(run: Folder, role: str) -> None:
    replay = replay_folder(run)
    replay.create("tester.cast", HEADER)
    replay.create_link("linked.cast", "tester.cast")
    os.mkfifo(replay.path / "pipe.cast")
    assert read_cast(run, role) is None


def test_a_recording_is_read_once_for_each_version_of_it(run: Folder) -> None:
    replay_folder(run).create("tester.cast", HEADER)
    replay_folder(run).create("analyst.cast", HEADER)
    first = read_cast(run, "tester")
    assert first == Cast(1000, 120, 40, ())
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
    frames = (Frame(0, {0: "a", 2: "c"}), Frame(1, {2: ""}), Frame(2, {1: "b"}, is_whole=True))
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
