"""Which repository a folder belongs to, on real and on hostile ones."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import NotPlain
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.work.git import NOBODY, Identity
from cli_agent_orchestrator.work.repository import Repository, find_repository, user_identity
from tests.work.repositories import git, make_repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", {"a.txt": "a\n", "sub/b.txt": "b\n"})


def found(folder: Path) -> Repository:
    repository = find_repository(folder, os.environ)
    assert repository is not None
    return repository


def test_a_repository_is_found_from_any_folder_of_it(project: Path) -> None:
    head = git(project, "rev-parse", "HEAD")
    expected = Repository(project, project / ".git", project / ".git", "", head, "main", "")
    assert find_repository(project, os.environ) == expected
    assert find_repository(project / "sub", os.environ) == replace(expected, prefix="sub")


def test_a_folder_without_a_repository_has_none(tmp_path: Path) -> None:
    assert find_repository(tmp_path, os.environ) is None


def test_neither_a_commit_nor_a_branch_is_needed(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "first", "empty")
    assert (found(tmp_path / "empty").head, found(tmp_path / "empty").branch) == ("", "first")
    git(project, "checkout", "-q", "--detach")
    assert found(project).branch == ""
    assert found(project).head == git(project, "rev-parse", "HEAD")


def test_a_linked_work_tree_has_its_own_head(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    repository = found(tmp_path / "tree")
    assert repository.top == tmp_path / "tree"
    assert repository.git_dir == project / ".git/worktrees/tree"
    assert repository.common_dir == project / ".git"
    assert repository.branch == "side"


def test_a_submodule_is_a_repository(project: Path, tmp_path: Path) -> None:
    make_repository(tmp_path / "library", {"l.txt": "l\n"})
    git(project, "submodule", "add", "-q", str(tmp_path / "library"), "library")
    repository = found(project / "library")
    assert repository.git_dir == project / ".git/modules/library"
    assert repository.top == project / "library"


def test_what_the_configuration_says_leads_nowhere(project: Path, tmp_path: Path) -> None:
    git(project, "config", "core.worktree", "/etc")
    git(project, "config", "core.bare", "true")
    assert found(project).top == project
    assert found(project).branch == "main"


@pytest.mark.parametrize(
    "pointer",
    [
        b"gitdir: {other}/.git\n",
        b"gitdir: .git\n",
        b"gitdir: {linked}\n",
        b"gitdir: /dev/zero\n",
        b"gitdir: \0\n",
        b"gitdir:\n",
        b"anything",
        b"gitdir: " + b"a/" * 20_000,
    ],
)
def test_a_git_file_that_points_anywhere_else_is_not_followed(
    project: Path, tmp_path: Path, pointer: bytes
) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    folder = tmp_path / "strange"
    folder.mkdir()
    pointer = pointer.replace(b"{other}", os.fsencode(project))
    pointer = pointer.replace(b"{linked}", os.fsencode(project / ".git/worktrees/tree"))
    (folder / ".git").write_bytes(pointer)
    assert find_repository(folder, os.environ) is None


def test_a_link_a_pipe_or_an_empty_folder_is_no_repository(project: Path, tmp_path: Path) -> None:
    for name in ("link", "pipe", "loop", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "link/.git").symlink_to(project / ".git")
    (tmp_path / "loop/.git").symlink_to(".git")
    os.mkfifo(tmp_path / "pipe/.git")
    (tmp_path / "folder/.git").mkdir()
    for name in ("link", "pipe", "loop", "folder"):
        assert find_repository(tmp_path / name, os.environ) is None


@pytest.mark.parametrize("name", ["config", "packed-refs", "refs/heads/main"])
def test_a_pipe_in_the_git_directory_is_not_waited_for(project: Path, name: str) -> None:
    (project / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(project / ".git" / name)
    with pytest.raises(NotPlain, match=name):
        find_repository(project, os.environ)


def test_a_head_that_is_a_pipe_makes_no_repository(project: Path) -> None:
    (project / ".git/HEAD").unlink()
    os.mkfifo(project / ".git/HEAD")
    assert find_repository(project, os.environ) is None


@pytest.mark.parametrize("inside", ["", "hooks"])
def test_a_bare_repository_is_refused(tmp_path: Path, inside: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    (tmp_path / "bare/hooks").mkdir(exist_ok=True)
    with pytest.raises(UsageError, match="bare repository"):
        find_repository(tmp_path / "bare" / inside, os.environ)


def test_the_git_directory_itself_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="git directory"):
        find_repository(project / ".git", os.environ)


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
        (["revert", "--no-edit", "HEAD~1"], ["revert", "--abort"]),
        (["bisect", "start"], ["bisect", "reset"]),
    ):
        git(project, *words, check=False)
        seen.append(found(project).under_way)
        git(project, *end)
    assert seen == ["a merge", "a rebase", "a cherry-pick", "a revert", "a bisect"]
    assert found(project).under_way == ""


def test_the_user_is_who_git_says(project: Path, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    assert user_identity(found(project), environ) == NOBODY
    assert user_identity(None, environ) == NOBODY
    (tmp_path / ".gitconfig").write_text("[user]\nname = A B\nemail = a@b\n")
    user = ("A B", "a@b")
    assert user_identity(found(project), environ) == Identity(user, user)
    assert user_identity(None, environ) == Identity(user, user)
    git(project, "config", "user.email", "work@b")
    user = ("A B", "work@b")
    assert user_identity(found(project), environ) == Identity(user, user)
    environ |= {"GIT_AUTHOR_NAME": "Eve", "GIT_COMMITTER_EMAIL": "c@b", "GIT_AUTHOR_EMAIL": " "}
    assert user_identity(found(project), environ) == Identity(("Eve", "work@b"), ("A B", "c@b"))
    environ |= {"GIT_AUTHOR_EMAIL": "e@b", "GIT_COMMITTER_NAME": "Bot"}
    assert user_identity(None, environ) == Identity(("Eve", "e@b"), ("Bot", "c@b"))


def test_whoever_is_named_only_in_part_is_not_the_user(project: Path, tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    environ |= {"GIT_AUTHOR_NAME": "Eve", "GIT_AUTHOR_EMAIL": "e@b", "GIT_COMMITTER_NAME": "Bot"}
    identity = user_identity(found(project), environ)
    assert identity == Identity(("Eve", "e@b"), NOBODY.committer)


def test_a_repository_of_another_user_is_found(project: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (project, *project.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert found(project).branch == "main"
