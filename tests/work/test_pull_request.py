"""A branch is pushed and becomes a pull request, with a remote and programs of our own."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError, GitFailed
from cli_agent_orchestrator.work.delivery import PullRequest, forge_program, host_of, pull_request
from tests.work.projects import Project, make_project

BRANCH = "cao/r1"
LINK = "https://github.example.org/team/project/pull/7"


@dataclass(frozen=True)
class Home:
    """A user with a project, a remote, and a folder of programs."""

    project: Project
    remote: Path
    programs: Path
    body: Path

    def request(self, title: str = "Slugify: keep digits") -> PullRequest:
        environ = {"PATH": str(self.programs), "HOME": str(self.programs), "MINE": "kept"}
        return pull_request(
            self.project.repository(),
            BRANCH,
            {**environ, "GIT_DIR": "/nowhere"},
            onto="main",
            title=title,
            body_file=self.body,
        )

    def install(self, name: str, script: str) -> None:
        """Put a program there that notes how it was called."""
        path = self.programs / name
        note = f'for word; do printf "%s\\n" "$word"; done > {self.programs}/{name}.called'
        path.write_text(f"#!/bin/sh\n{note}\n{script}\n")
        path.chmod(0o755)

    def called(self, name: str) -> list[str]:
        return (self.programs / f"{name}.called").read_text().split("\n")[:-1]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    project = make_project(tmp_path / "project")
    remote = tmp_path / "remote.git"
    project.git("init", "-q", "--bare", str(remote))
    project.git("remote", "add", "origin", str(remote))
    project.git("branch", BRANCH)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "sh", "touch", "cat"):
        (programs / name).symlink_to(shutil.which(name) or "")
    body = tmp_path / "body.md"
    body.write_text("What was done.\n")
    return Home(project, remote, programs, body)


GIT_THAT_SAYS = """case "$*" in *get-url*) echo {url};; *) exec {real} "$@";; esac"""


def with_host(home: Home, url: str) -> None:
    """Let the user's git say that the remote is somewhere else than in a folder."""
    (home.programs / "git").unlink()
    home.install("git", GIT_THAT_SAYS.format(real=shutil.which("git"), url=url))


def pushed(home: Home) -> str:
    return home.project.git("for-each-ref", "--format=%(refname)", folder=home.remote)


def test_the_branch_alone_is_pushed_and_no_hook_is_run(home: Home) -> None:
    hook = home.project.folder / ".git/hooks/pre-push"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {home.programs}/hook\n")
    hook.chmod(0o755)
    before = home.project.state()
    result = home.request()
    assert pushed(home) == "refs/heads/cao/r1"
    assert not (home.programs / "hook").exists()
    assert result.remote == "origin"
    assert result.url == result.to_type == ""
    assert "cao/r1 -> cao/r1" in result.said
    assert home.project.state() == before


def test_gh_opens_a_request(home: Home) -> None:
    home.install("gh", f'echo Creating; echo {LINK}; echo "$GH_PROMPT_DISABLED" > {home.body}.env')
    with_host(home, "git@github.com:team/project.git")
    result = home.request("# -t\nmore")
    assert result == PullRequest("origin", LINK)
    assert home.called("gh") == [
        "pr", "create", "--head=cao/r1", "--base=main", "--title=-t", f"--body-file={home.body}",
    ]  # fmt: skip
    assert Path(f"{home.body}.env").read_text() == "1\n"


def test_glab_opens_a_request(home: Home) -> None:
    with_host(home, "https://me:secret@gitlab.example.org/team/project.git")
    home.install("glab", f"echo {LINK}")
    home.install("gh", "exit 1")
    home.body.write_bytes(b"Text with 'quotes' \0and \xff.")
    result = home.request(" ")
    assert result == PullRequest("origin", LINK)
    assert home.called("glab") == [
        "mr", "create", "--source-branch=cao/r1", "--target-branch=main", "--title=cao/r1",
        "--yes", "--no-editor", "--description=Text with 'quotes' and \ufffd.",
    ]  # fmt: skip
    assert not (home.programs / "gh.called").exists()


def test_without_the_program_it_is_said_what_to_type(home: Home) -> None:
    with_host(home, "git@gitlab.com:team/project.git")
    result = home.request()
    assert pushed(home) == "refs/heads/cao/r1"
    assert result.url == ""
    assert result.to_type == (
        "glab mr create --source-branch=cao/r1 --target-branch=main "
        "'--title=Slugify: keep digits' --yes --no-editor "
        f'--description="$(cat {home.body})"'
    )


def test_a_program_that_opens_nothing_is_heard(home: Home) -> None:
    with_host(home, "git@github.com:team/project.git")
    home.install("gh", "echo not logged in >&2; exit 4")
    result = home.request()
    assert result.url == ""
    assert result.said == "not logged in"
    assert result.to_type.startswith("gh pr create ")
    (home.programs / "gh").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(GitError, match="gh"):
        home.request()


def test_a_branch_with_other_commits_is_not_written_over(home: Home) -> None:
    home.project.git("push", "-q", "origin", BRANCH)
    there = home.project.git("rev-parse", BRANCH, folder=home.remote)
    home.project.git("switch", "-q", BRANCH)
    home.project.git("commit", "-q", "--amend", "-m", "another")
    with pytest.raises(GitFailed, match="rejected"):
        home.request()
    assert home.project.git("rev-parse", BRANCH, folder=home.remote) == there


def test_the_remote_is_the_one_that_the_user_pushes_to(home: Home, tmp_path: Path) -> None:
    git = home.project.git
    git("init", "-q", "--bare", str(tmp_path / "fork.git"))
    git("remote", "add", "fork", str(tmp_path / "fork.git"))
    assert home.request().remote == "origin"
    git("config", "branch.main.remote", "fork")
    assert home.request().remote == "fork"
    git("config", "remote.pushDefault", "origin")
    assert home.request().remote == "origin"
    git("config", "branch.main.pushRemote", "fork")
    assert home.request().remote == "fork"
    git("config", "branch.main.pushRemote", "gone")
    assert home.request().remote == "origin"


def test_without_a_remote_it_is_said(home: Home, tmp_path: Path) -> None:
    git = home.project.git
    git("remote", "rename", "origin", "other")
    assert home.request().remote == "other"
    git("remote", "add", "another", str(tmp_path))
    with pytest.raises(GitError, match="several remotes"):
        home.request()
    git("remote", "remove", "other")
    git("remote", "remove", "another")
    with pytest.raises(GitError, match="no remote to push to"):
        home.request()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("git@GitHub.com:a/b.git", "github.com"),
        ("ssh://git@gitlab.com:22/a/b", "gitlab.com"),
        ("https://me:secret@example.org/a/b", "example.org"),
        ("/srv/github.git", ""),
        ("../gitlab:x", ""),
    ],
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("host", "installed", "program"),
    [
        ("github.com", [], "gh"),
        ("gitlab.com", ["gh"], "glab"),
        ("git.example.org", ["gh"], "gh"),
        ("git.example.org", ["gh", "glab"], ""),
        ("git.example.org", [], ""),
        ("", ["gh"], ""),
    ],
)
def test_which_program_opens_requests(host: str, installed: list[str], program: str) -> None:
    assert forge_program(host, installed) == program
