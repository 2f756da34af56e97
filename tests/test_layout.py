"""Where everything of a run lies."""

from pathlib import Path

import pytest

from cli_agent_orchestrator import layout
from cli_agent_orchestrator.errors import UsageError

HERE = Path("/p")


def test_all_that_is_in_the_project_is_in_one_folder() -> None:
    assert layout.temporary_folder(HERE).path == Path("/p/.tmp")
    assert layout.response_folder(HERE).path == Path("/p/.tmp/agent-responses")
    assert layout.archive_folder(HERE, "20250131-120000").path == Path("/p/.tmp/20250131-120000")
    assert (HERE / layout.STATE_FILE).parent == Path("/p/.tmp")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "agent-responses", "a\n", "a\0b"])
def test_an_archive_is_never_elsewhere(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name"):
        layout.archive_folder(HERE, name)


def test_what_is_kept_has_number_role_and_label() -> None:
    assert layout.kept_name(7, "analyst") == "007-analyst.md"
    assert layout.kept_name(7, "analyst", layout.PROMPT_LABEL) == "007-analyst-prompt.md"


def test_run_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = layout.run_folder(tmp_path / "state", "20261115-084037-k3f9")
    folder.make()
    folder.replace(layout.RECORD_FILE, b"{}")
    folder.append(layout.EVENTS_FILE).close()
    for path in (folder.path, folder.path.parent, tmp_path / "state"):
        assert path.stat().st_mode & 0o777 == 0o700
    for name in (layout.RECORD_FILE, layout.EVENTS_FILE):
        assert (folder.path / name).stat().st_mode & 0o777 == 0o600
