"""What of the user's is in no commit yet, with real git and settings of all kinds."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.work.repository import Repository, find_repository
from cli_agent_orchestrator.work.uncommitted import Comparison, compare_with_commit, uncommitted
from tests.work.repositories import git, make_repository, write


def repository_of(folder: Path) -> Repository:
    found = find_repository(folder, os.environ)
    assert found is not None
    return found


def test_line_ends_that_the_user_has_set_for_all_repositories_count(tmp_path: Path) -> None:
    make_repository(tmp_path / "origin", {"a.txt": "1\n2\n", "b.txt": "1\n"})
    git(tmp_path, "-c", "core.autocrlf=true", "clone", "-q", "origin", "project")
    folder = tmp_path / "project"
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    (folder / "a.txt").touch()
    write(folder, {"b.txt": "2\r\n"})
    environ = {**os.environ, "HOME": str(tmp_path)}
    assert uncommitted(repository_of(folder), environ) == ("b.txt",)
    found = compare_with_commit(repository_of(folder), ["a.txt", "b.txt"], environ)
    assert found == Comparison(frozenset({"b.txt"}), frozenset())


@pytest.fixture
def filtered(tmp_path: Path) -> Path:
    """Return a fresh clone in which a filter has written three files."""
    names = {"same.txt": "a\n", "edited.txt": "b\n", "staged.txt": "c\n"}
    make_repository(tmp_path / "origin", {".gitattributes": "*.txt filter=up\n", **names})
    upper = ("-c", "filter.up.smudge=tr a-z A-Z", "-c", "filter.up.clean=tr A-Z a-z")
    git(tmp_path, "clone", "-q", *upper, "origin", "project")
    return tmp_path / "project"


def test_where_a_filter_would_tell_the_notes_of_git_do(filtered: Path) -> None:
    write(filtered, {"edited.txt": "OTHER\n", "staged.txt": "OTHER\n", "new.txt": "NEW\n"})
    git(filtered, "add", "staged.txt")
    names = ("edited.txt", "staged.txt", "new.txt")
    assert uncommitted(repository_of(filtered), os.environ) == names
    found = compare_with_commit(repository_of(filtered), ["same.txt", *names], os.environ)
    assert found == Comparison(frozenset({"staged.txt"}), frozenset({"edited.txt"}))
    asked = compare_with_commit(repository_of(filtered), ["same.txt"], os.environ)
    assert asked == Comparison(frozenset(), frozenset())


@pytest.mark.parametrize("index", [None, b"", b"nothing of git's"])
def test_without_an_index_that_can_be_read_all_is_changed(
    tmp_path: Path, index: bytes | None
) -> None:
    folder = make_repository(tmp_path / "project", {"a.txt": "1\n"})
    (folder / ".git/index").unlink()
    if index is not None:
        (folder / ".git/index").write_bytes(index)
    assert compare_with_commit(repository_of(folder), ["a.txt"], os.environ).changed == {"a.txt"}
