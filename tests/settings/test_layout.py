"""Where everything of a run lies, with real folders and links."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.settings import layout
from cli_agent_orchestrator.settings.layout import check_place, path_inside, said_of_place


def test_run_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = layout.run_folder(tmp_path / "state", "20261115-084037-k3f9")
    assert folder.path.parent == layout.runs_folder(tmp_path / "state").path
    assert layout.runs_folder(tmp_path / "state").private
    folder.make()
    folder.replace(layout.RECORD_FILE, b"{}")
    folder.append(layout.EVENTS_FILE).close()
    assert folder.below(layout.TURNS_FOLDER).private
    for path in (folder.path, folder.path.parent, tmp_path / "state"):
        assert path.stat().st_mode & 0o777 == 0o700
    for name in (layout.RECORD_FILE, layout.EVENTS_FILE):
        assert (folder.path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("state", "wd", "said"),
    [
        ("/home/ada/.local/state/cao", "/home/ada", ["inside the work folder"]),
        ("/home/ada/.local/state/cao", "/home/ada/project", []),
        ("/home/ada/.local/state/cao", "/home/ad", []),
        ("/home/ada/state", "/home/ada/state/worktrees/k3f9", []),
        ("/tmp/state", "/home/ada", ["below /tmp"]),
        ("/tmp/ada/state", "/tmp/ada", ["inside the work folder", "below /tmp"]),
        ("/tmpstate", "/home/ada", []),
    ],
)
def test_it_is_said_where_agents_may_write(state: str, wd: str, said: list[str]) -> None:
    found = list(said_of_place(Path(state), Path(wd)))
    assert len(found) == len(said)
    for text, words in zip(found, said, strict=True):
        assert words in text
        assert state in text
        assert "set CAO_STATE_DIR to a folder elsewhere" in text.replace("Set", "set")


def test_links_count_as_what_they_lead_to(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "real").mkdir(parents=True)
    elsewhere.mkdir()
    (home / "inside").symlink_to("real")
    (home / "outside").symlink_to(elsewhere)
    (tmp_path / "link").symlink_to(home)
    assert path_inside(home, home / "inside/cao") == "real/cao"
    assert path_inside(tmp_path / "link", home / "real/cao") == "real/cao"
    assert path_inside(home, tmp_path / "link/real/cao") == "real/cao"
    assert path_inside(home, home / "outside/cao") == ""
    assert path_inside(home, home) == ""


def test_the_state_folder_itself_is_no_place_for_agents(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "link").symlink_to(state)
    for wd in (state, state / "runs", tmp_path / "link"):
        with pytest.raises(UsageError, match="name a folder of your project with --wd"):
            check_place(state, wd)
    check_place(state, state / "worktrees/k3f9")
    with pytest.raises(UsageError, match="CAO_STATE_DIR"):
        check_place(state, tmp_path)
