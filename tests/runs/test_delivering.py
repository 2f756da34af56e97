"""What becomes of the work trees of runs: real repositories, and records as runs leave them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.runs.cleaning import (
    known_runs,
    plan_cleanup,
    remove_folder,
)
from cli_agent_orchestrator._internal.runs.delivering import discard_run, ended_run
from cli_agent_orchestrator._internal.runs.own_tree import OwnTree, plan_tree
from cli_agent_orchestrator._internal.runs.run_record import Delivered, read_record, write_record
from cli_agent_orchestrator.errors import GitError, NotSteerable
from tests.runs.test_own_tree import RUN, record_of
from tests.workspace.projects import Project, make_project

LATER = 1e9


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    run_folder(folder, RUN).make()
    return folder


class TestHalfMade:
    """A run is killed while its work tree is made."""

    STAGES = ("planned", "branch", "entry", "added", "index lock", "half filled", "full")

    def leave(self, project: Project, state: Path, stage: str) -> OwnTree:
        """Leave what a run that was killed at a stage has left."""
        tree, _ = plan_tree(project.folder, state, RUN, os.environ)
        write_record(run_folder(state, RUN), record_of(tree))
        made = tree.worktree
        number = self.STAGES.index(stage)
        if stage == "full":
            tree.make()
            return tree
        if stage == "branch":
            project.git("branch", made.branch)
        if number >= 2:
            words = ("-q", "--lock", "--no-checkout", "-b", made.branch)
            project.git("worktree", "add", *words, str(made.folder))
        entry = project.folder / ".git/worktrees" / RUN
        if stage == "entry":
            made.link._clear()
            (made.folder / ".git").unlink()
            made.folder.rmdir()
            for name in ("HEAD", "commondir", "gitdir"):
                (entry / name).unlink()
            (entry / "locked").write_text("initializing")
        if number >= 4:
            (entry / "index.lock").write_bytes(b"DIRC")
        if stage == "half filled":
            (made.folder / "a.txt").write_text("")
        return tree

    def assert_gone(self, project: Project, tree: OwnTree) -> None:
        assert not tree.worktree.folder.exists()
        assert project.git("branch", "--list", "cao/*") == ""
        assert project.git("worktree", "list").count("\n") == 0
        assert not (project.folder / ".git/worktrees" / RUN).exists()

    @pytest.mark.parametrize("stage", STAGES)
    def test_it_can_be_discarded(self, project: Project, state: Path, stage: str) -> None:
        before = project.state()
        tree = self.leave(project, state, stage)
        with ended_run(state, RUN, os.environ) as ended:
            discard_run(ended)
        self.assert_gone(project, tree)
        assert project.state() == before
        record = read_record(run_folder(state, RUN))
        assert record is not None
        assert record.tree is not None
        assert record.tree.delivered is Delivered.DISCARDED

    @pytest.mark.parametrize("stage", STAGES)
    def test_it_is_cleaned_up(self, project: Project, state: Path, stage: str) -> None:
        tree = self.leave(project, state, stage)
        plan = plan_cleanup(known_runs(state), LATER)
        assert [run.record.id for run in plan.folders] == [RUN]
        assert remove_folder(state, RUN)
        self.assert_gone(project, tree)
        assert not run_folder(state, RUN).path.exists()

    def test_what_is_not_ours_stays(self, project: Project, state: Path) -> None:
        tree = self.leave(project, state, "index lock")
        project.git("commit", "-q", "--allow-empty", "-m", "mine")
        project.git("update-ref", f"refs/heads/{tree.worktree.branch}", "HEAD")
        with (
            ended_run(state, RUN, os.environ) as ended,
            pytest.raises(NotSteerable, match="has commits that no snapshot has"),
        ):
            discard_run(ended)
        assert tree.worktree.folder.exists()
        assert not remove_folder(state, RUN)

    def test_nor_is_a_folder_removed_that_is_not_in_our_state_folder(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state, "index lock")
        record = replace(record_of(tree), tree=replace(tree.saved, folder=str(project.folder)))
        write_record(run_folder(state, RUN), record)
        with (
            pytest.raises(GitError),
            ended_run(state, RUN, os.environ) as ended,
        ):
            discard_run(ended)
        assert (project.folder / "a.txt").exists()
