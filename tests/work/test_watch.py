"""What others change in a repository that can start a program."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.work.git import RepositoryWatch
from tests.work.projects import Project, git, make_project, write


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path / "project")
    git(project.folder, "config", "remote.origin.url", "https://example.org/a.git")
    return project


def watch_of(project: Project, kept_in: Folder | None = None) -> RepositoryWatch:
    return RepositoryWatch(project.repository(), kept_in, os.environ)


HARMS = {
    ".git/config (core.fsmonitor)": {".git/config": "[core]\nfsmonitor = evil\n"},
    ".git/config (alias.x, filter.evil.clean)": {
        ".git/config": '[filter "evil"]\nclean = evil\n[alias]\nx = !evil\n'
    },
    ".git/hooks/post-checkout (new)": {".git/hooks/post-checkout": "#!/bin/sh\n"},
    ".git/info/attributes (new)": {".git/info/attributes": "* filter=evil\n"},
}


@pytest.mark.parametrize(("named", "files"), HARMS.items(), ids=HARMS)
def test_what_is_planted_is_named_once(project: Project, named: str, files: dict[str, str]) -> None:
    watch = watch_of(project)
    assert watch.begin() == watch.look() == ()
    for name, text in files.items():
        before = project.folder / name
        old = before.read_text() if before.exists() else ""
        write(project.folder, {name: old + text})
    assert watch.look() == (named,)
    assert watch.look() == ()


def test_git_at_work_and_sample_hooks_are_no_change(project: Project) -> None:
    watch = watch_of(project)
    watch.begin()
    project.commit({"a.txt": "2\n"})
    project.git("branch", "side")
    write(project.folder, {".git/hooks/pre-commit.sample": "#!/bin/sh\n"})
    assert watch.look() == ()


def test_what_was_seen_outlives_the_process(project: Project, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", private=True)
    first = watch_of(project, folder)
    assert first.begin() == ()
    write(project.folder, {".git/hooks/pre-push": "#!/bin/sh\n"})
    again = watch_of(project, folder)
    assert again.begin() == (".git/hooks/pre-push (new)",)
    (project.folder / ".git/hooks/pre-push").unlink()
    assert watch_of(project, folder).begin() == (".git/hooks/pre-push (gone)",)


def test_settings_of_a_push_are_compared_with_the_start(project: Project, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", private=True)
    assert watch_of(project, folder).settings_since_start() is None
    watch = watch_of(project, folder)
    watch.begin()
    git(project.folder, "config", "user.name", "another")
    git(project.folder, "config", "remote.origin.pushurl", "https://evil.example/a.git")
    watch.look()
    assert watch_of(project, folder).settings_since_start() == ("remote.origin.pushurl",)
    write(project.folder, {".git/config.worktree": "[core]\nsshCommand = evil\n"})
    changed = ("core.sshcommand", "remote.origin.pushurl")
    assert watch_of(project, folder).settings_since_start() == changed
