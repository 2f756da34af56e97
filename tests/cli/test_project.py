"""A `cao run` that names no place finds the project above the folder in which it is typed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.cli.run import FolderSigns, choose_project, find_project

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


def test_a_folder_that_is_gone_has_no_project(home: Path) -> None:
    put(home / "project" / "cao.toml")
    assert find_project(home / "project" / "gone", home) is None


SEEN = st.builds(FolderSigns, st.none(), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(SEEN, min_size=1, max_size=6))
def test_it_is_the_first_project_and_nothing_in_between_forbids_it(
    folders: list[FolderSigns],
) -> None:
    rows = [
        FolderSigns(Path(f"/{number}"), seen.is_project, seen.is_top, seen.is_border)
        for number, seen in enumerate(folders)
    ]
    chosen = choose_project(rows[0], rows[1:])
    number = int(chosen.name)
    if number:
        assert rows[number].is_project
        assert not any(row.is_border for row in rows[: number + 1])
        assert not any(row.is_project or row.is_top for row in rows[:number])
    else:
        ends = (n for n, row in enumerate(rows) if row.is_border or row.is_top or row.is_project)
        end = next(ends, None)
        assert end in (None, 0) or rows[end].is_border or not rows[end].is_project
