"""The one way to git, on real repositories."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import GitError, GitFailed, GitMissing
from cli_agent_orchestrator.work.git import Git, find_program
from tests.work.projects import with_other_git


@pytest.fixture
def repository(tmp_path: Path) -> Git:
    folder = tmp_path / "project"
    folder.mkdir()
    git = Git(folder / ".git", folder, os.environ)
    git.run("init", "-q", "-b", "main")
    return git


def test_it_is_looked_for_in_the_environment_that_is_given_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = with_other_git(tmp_path / "other", "*) exit 1;;")
    monkeypatch.setenv("PATH", others["PATH"])
    assert find_program("git", os.environ) == str(tmp_path / "other/git")
    assert find_program("git", {}) != str(tmp_path / "other/git")
    assert find_program("git", {"PATH": ""}) is None


def test_a_refusal_says_why(repository: Git) -> None:
    with pytest.raises(GitFailed, match=r"git cat-file failed \(128\): fatal: .*nowhere"):
        repository.run("cat-file", "-p", "nowhere")
    assert repository.ask("rev-parse", "--verify", "-q", "nowhere").code == 1


def test_without_git_it_is_said(repository: Git, tmp_path: Path) -> None:
    with pytest.raises(GitMissing, match="git is not installed"):
        Git(repository.git_dir, repository.work_tree, environ={"PATH": str(tmp_path)}).run("init")


def test_one_that_does_not_end_is_ended(repository: Git, tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nsleep 600 & sleep 600\n")
    program.chmod(0o755)
    slow = replace(repository, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"}, seconds=0.1)
    # It returns: nobody holds the output any more, so the whole group was ended.
    with pytest.raises(GitError, match="git status was ended: it took over 0 seconds"):
        slow.run("status")


def test_looking_changes_nothing_in_the_repository(repository: Git) -> None:
    file = repository.work_tree / "a"
    file.write_text("a")
    repository.run("add", "a")
    os.utime(file, (1, 1))
    before = (Path(str(repository.git_dir)) / "index").read_bytes()
    assert repository.text("status", "--porcelain") == "A  a"
    assert (Path(str(repository.git_dir)) / "index").read_bytes() == before


@pytest.mark.parametrize("name", ["commit.gpgSign", "submodule.recurse"])
def test_what_a_repository_sets_to_start_more_is_overruled(repository: Git, name: str) -> None:
    repository.run("config", "--local", name, "true")
    assert repository.text("config", "--get", name) == "false"


def test_no_variable_leads_git_elsewhere(repository: Git, tmp_path: Path) -> None:
    elsewhere = {
        "PATH": "/usr/bin:/bin",
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
    }
    git = Git(repository.git_dir, repository.work_tree, environ=elsewhere)
    (git.work_tree / "a").write_text("a")
    git.run("add", "a")
    assert git.text("rev-parse", "--show-toplevel") == str(git.work_tree)
    assert repository.names("ls-files", "-z") == ["a"]
    assert not (tmp_path / "index").exists()
    assert not (tmp_path / "objects").exists()
