"""A `cao run` that names no place finds the project above the folder in which it is typed."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.run import find_project

STATE_FILE = ".tmp/orchestrator-loop-state.json"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "project" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "home"


def put(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


@pytest.mark.parametrize("mark", ["cao.toml", STATE_FILE])
def test_the_nearest_project_above_is_found(home: Path, mark: str) -> None:
    project = home / "project"
    put(project / mark)
    assert find_project(project / "src" / "deep", home) == project
    assert find_project(project / "src", home) == project
    assert find_project(project, home) is None
    put(project / "src" / mark)
    assert find_project(project / "src" / "deep", home) == project / "src"


def test_a_folder_below_a_link_is_where_the_link_leads(home: Path) -> None:
    put(home / "project" / "cao.toml")
    (home / "link").symlink_to(home / "project" / "src")
    assert find_project(home / "link", home) == home / "project"
    assert find_project(home / "project" / "gone", home) == home / "project"


def test_the_home_folder_is_no_project_for_what_is_below_it(home: Path) -> None:
    put(home / "cao.toml")
    put(home.parent / "cao.toml")
    assert find_project(home / "project" / "src", home) is None
    assert find_project(home, home) is None
    assert find_project(home / "project" / "src", Path("/nowhere")) == home


def test_nothing_is_looked_for_outside_of_a_repository(home: Path) -> None:
    project = home / "project"
    put(project / "cao.toml")
    (project / "src" / ".git").touch()
    assert find_project(project / "src", home) is None
    assert find_project(project / "src" / "deep", home) is None
    put(project / "src" / "cao.toml")
    assert find_project(project / "src" / "deep", home) == project / "src"


def test_a_folder_in_which_anybody_can_write_is_nobodys_project(home: Path) -> None:
    project = home / "project"
    put(project / "cao.toml")
    project.chmod(0o1777)
    assert find_project(project / "src", home) is None
