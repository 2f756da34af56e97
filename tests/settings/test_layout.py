"""Where everything of a run lies."""

import re
from pathlib import Path

import pytest

from cli_agent_orchestrator.settings import layout

HERE = Path("/p")


def test_all_that_is_in_the_project_is_in_one_folder() -> None:
    assert layout.temporary_folder(HERE).path == Path("/p/.tmp")
    assert layout.response_folder(HERE).path == Path("/p/.tmp/agent-responses")
    assert (HERE / layout.STATE_FILE).parent == Path("/p/.tmp")


@pytest.mark.parametrize(
    "name",
    [
        *(layout.IGNORE_FILE, layout.STATE_FILE, layout.LOG_FILE, layout.REPLACED_STATE),
        *(layout.RECORD_FILE, layout.EVENTS_FILE, layout.CONTROL_FILE),
        *(layout.WATCH_FILE, layout.REQUEST_FILE, layout.STATE_NAME),
    ],
)
def test_every_file_is_told_to_readers(name: str) -> None:
    assert f"/{name} " in (layout.__doc__ or "")


def test_what_is_kept_has_number_role_and_label() -> None:
    assert layout.kept_name(7, "analyst") == "007-analyst.md"
    assert layout.kept_name(7, "analyst", layout.PROMPT_LABEL) == "007-analyst-prompt.md"


def test_screens_are_in_the_folder_of_the_run() -> None:
    run = layout.run_folder(HERE, "20261115-084037-k3f9")
    folder = layout.turns_folder(run)
    assert (folder.path, folder.private) == (run.path / "turns", True)
    assert layout.screen_name(7, "analyst") == "007-analyst.txt"


def test_where_agents_keep_their_records_is_noted_in_the_folder_of_the_run() -> None:
    run = layout.run_folder(HERE, "20261115-084037-k3f9")
    folder = layout.records_folder(run)
    assert (folder.path, folder.private) == (run.path / "records", True)
    assert layout.records_name("9f3c2a7b") == "9f3c2a7b.json"


@pytest.mark.parametrize(
    ("name", "number"), [("007-analyst.md", "007"), ("1000-a-stale.md", "1000")]
)
def test_what_is_kept_is_known_by_its_number(name: str, number: str) -> None:
    kept = re.fullmatch(layout.KEPT_PATTERN, name)
    assert kept is not None
    assert kept[1] == number


def test_run_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = layout.run_folder(tmp_path / "state", "20261115-084037-k3f9")
    assert folder.path.parent == layout.runs_folder(tmp_path / "state").path
    assert layout.runs_folder(tmp_path / "state").private
    folder.make()
    folder.replace(layout.RECORD_FILE, b"{}")
    folder.append(layout.EVENTS_FILE).close()
    for path in (folder.path, folder.path.parent, tmp_path / "state"):
        assert path.stat().st_mode & 0o777 == 0o700
    for name in (layout.RECORD_FILE, layout.EVENTS_FILE):
        assert (folder.path / name).stat().st_mode & 0o777 == 0o600
