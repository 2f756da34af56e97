"""Which repository a folder belongs to, found by real git."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError, UsageError
from cli_agent_orchestrator.work.git import (
    NOBODY,
    Repository,
    find_repository,
    uncommitted,
    user_identity,
)
from tests.work.projects import git, make_repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", {"a.txt": "a\n", "src/deep/b.txt": "b\n"})


def found(folder: Path) -> Repository:
    repository = find_repository(folder, os.environ)
    assert repository is not None
    return repository


def test_a_repository_is_found_from_any_folder_of_it(project: Path, tmp_path: Path) -> None:
    head, own = git(project, "rev-parse", "HEAD"), project / ".git"
    assert found(project) == Repository(project, own, own, "", head, "main", "")
    (tmp_path / "link").symlink_to(project / "src")
    below = found(tmp_path / "link/deep")
    assert (below.top, below.prefix) == (project, "src/deep")
    assert find_repository(tmp_path, os.environ) is None


def test_neither_a_commit_nor_a_branch_is_needed(project: Path, tmp_path: Path) -> None:
    git(project, "checkout", "-q", "--detach")
    assert (found(project).branch, len(found(project).head)) == ("", 40)
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "-b", "trunk")
    assert (found(tmp_path / "new").branch, found(tmp_path / "new").head) == ("trunk", "")


def test_linked_work_trees_and_submodules_are_repositories(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    linked = found(tmp_path / "side")
    assert (linked.branch, linked.common_dir) == ("side", project / ".git")
    assert linked.git_dir == project / ".git/worktrees/side"
    other = make_repository(tmp_path / "other")
    git(project, "submodule", "--quiet", "add", str(other), "sub")
    assert found(project / "sub").top == project / "sub"


def test_a_setting_that_names_another_folder_leads_nowhere(project: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    git(project, "config", "core.worktree", str(tmp_path / "victim"))
    with pytest.raises(GitError):
        find_repository(project, os.environ)


@pytest.mark.parametrize("inside", ["", "objects"])
def test_a_bare_repository_and_a_git_directory_are_refused(
    project: Path, tmp_path: Path, inside: str
) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    for folder in (tmp_path / "bare", project / ".git"):
        with pytest.raises(UsageError):
            find_repository(folder / inside, os.environ)


def test_a_work_tree_of_a_bare_repository_is_one_to_work_in(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(project), "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", str(tmp_path / "tree"), "main")
    assert found(tmp_path / "tree").common_dir == tmp_path / "bare"


def test_what_the_user_has_begun_is_told(project: Path) -> None:
    git(project, "checkout", "-q", "-b", "side")
    write(project, {"a.txt": "side\n"})
    git(project, "commit", "-q", "-a", "-m", "side")
    git(project, "checkout", "-q", "main")
    write(project, {"a.txt": "main\n"})
    git(project, "commit", "-q", "-a", "-m", "main")
    seen = []
    for words, end in (
        (["merge", "side"], ["merge", "--abort"]),
        (["rebase", "side"], ["rebase", "--abort"]),
        (["cherry-pick", "side"], ["cherry-pick", "--abort"]),
        (["bisect", "start"], ["bisect", "reset"]),
    ):
        git(project, *words, check=False)
        seen.append(found(project).under_way)
        git(project, *end)
    assert seen == ["a merge", "a rebase", "a cherry-pick", "a bisect"]
    assert found(project).under_way == ""


def person(kind: str, name: str, address: str) -> dict[str, str]:
    return {f"GIT_{kind}_NAME": name, f"GIT_{kind}_EMAIL": address}


def test_the_user_is_who_git_says(project: Path, tmp_path: Path) -> None:
    git(project, "config", "--remove-section", "user")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    author = person("AUTHOR", "Eve", "e@b")
    assert user_identity(found(project), environ) == user_identity(None, environ) == NOBODY
    partly = {**author, "GIT_COMMITTER_NAME": "Bot"}
    assert user_identity(None, environ | partly) == {**NOBODY, **author}
    (tmp_path / ".gitconfig").write_text("[user]\nname = A B\nemail = a@b\n")
    committer = person("COMMITTER", "A B", "a@b")
    assert user_identity(None, environ) == person("AUTHOR", "A B", "a@b") | committer
    git(project, "config", "user.email", "work@b")
    environ |= {"GIT_AUTHOR_NAME": "Eve", "GIT_COMMITTER_EMAIL": "c@b", "GIT_AUTHOR_EMAIL": " "}
    expected = person("AUTHOR", "Eve", "work@b") | person("COMMITTER", "A B", "c@b")
    assert user_identity(found(project), environ) == expected


def test_it_is_noticed_that_it_is_gone_or_another(project: Path) -> None:
    before = found(project)
    assert before.became(os.environ) == ""
    (project / ".git").rename(project / "old")
    assert (before.inodes, before.became(os.environ)) == ((), "removed")
    git(project, "init", "-q")
    assert before.inodes != ()
    assert before.became(os.environ) == "replaced by another one"


def test_what_is_in_no_commit_is_named_by_the_users_line_ends(tmp_path: Path) -> None:
    make_repository(tmp_path / "origin", {"a.txt": "1\n2\n", "b.txt": "1\n"})
    git(tmp_path, "-c", "core.autocrlf=true", "clone", "-q", "origin", "project")
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    (tmp_path / "project/a.txt").touch()
    write(tmp_path / "project", {"b.txt": "2\r\n", "new/c.txt": "c\n"})
    environ = {**os.environ, "HOME": str(tmp_path)}
    assert uncommitted(found(tmp_path / "project"), environ) == {"b.txt": " M", "new/": "??"}
