"""What an agent showed when its turn had ended."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.models import AgentView
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable, OrchestratorError
from cli_agent_orchestrator.runs.screens import LARGEST_SCREEN, Screens, read_screen
from cli_agent_orchestrator.settings.layout import run_folder


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
def run(tmp_path: Path) -> Folder:
    folder = run_folder(tmp_path, "20261115-084037-k3f9")
    folder.make()
    return folder


def kept(run: Folder, agent: Showing) -> str | None:
    """Return what is kept of what an agent shows."""
    Screens(agent, run).keep("a1", 7, "tester")
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


def test_of_much_the_last_is_kept(run: Folder) -> None:
    text = kept(run, Showing("first" + "é" * LARGEST_SCREEN + "!"))
    assert text == "é" * (LARGEST_SCREEN // 2 - 1) + "!"


def test_half_a_character_is_no_obstacle(run: Folder) -> None:
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


@pytest.mark.parametrize("role", ["../../secret", "a/../secret", "", "x\0", "."])
def test_no_role_leads_elsewhere(run: Folder, role: str) -> None:
    (run.path / "turns").mkdir()
    for folder in (run.path, run.path.parent):
        (folder / "secret.txt").write_text("secret")
    assert read_screen(run, 7, role) is None


def test_a_pipe_is_not_waited_for(run: Folder) -> None:
    (run.path / "turns").mkdir()
    os.mkfifo(run.path / "turns/007-tester.txt")
    assert read_screen(run, 7, "tester") is None
