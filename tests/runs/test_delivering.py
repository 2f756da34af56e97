"""What becomes of the work trees of runs: real repositories, and records as runs leave them."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError, NotSteerable, RunError
from cli_agent_orchestrator.pipeline.reply import Output
from cli_agent_orchestrator.pipeline.state import FinalStatus, Progress
from cli_agent_orchestrator.runs.deliver import (
    apply_run,
    discard_run,
    ended_run,
    known_runs,
    plan_cleanup,
    remove_folder,
    request_run,
)
from cli_agent_orchestrator.runs.record import Fate, RunStatus, read_record, write_record
from cli_agent_orchestrator.runs.state_file import StateFile
from cli_agent_orchestrator.runs.tree import OwnTree, plan_tree, store_of
from cli_agent_orchestrator.runs.view import Turn
from cli_agent_orchestrator.settings.layout import (
    REQUEST_FILE,
    run_folder,
    turns_folder,
)
from cli_agent_orchestrator.work.delivery import MergeKind, MergeResult
from cli_agent_orchestrator.work.git import RepositoryWatch
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.handoff.fakes import FakeClock
from tests.runs.kept_runs import make_run
from tests.runs.test_own_tree import RUN, STATE, record_of
from tests.work.projects import (
    Project,
    is_intact,
    make_project,
    make_repository,
    with_other_git,
    write,
)

LATER = 1e9
TURN = Turn(1, "analyst", 1, 1, "codex", "a1", 1.0)


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
        assert record.tree.delivered is Fate.DISCARDED

    @pytest.mark.parametrize("stage", STAGES)
    def test_nothing_of_it_can_be_delivered(
        self, project: Project, state: Path, stage: str
    ) -> None:
        tree = self.leave(project, state, stage)
        removes = f"`cao discard {RUN}` removes what is left of this one"
        with ended_run(state, RUN, os.environ) as ended:
            for deliver in (apply_run, partial(request_run, title="", draft=False)):
                with pytest.raises(NotSteerable, match="nothing was done in the run") as caught:
                    deliver(ended)
                assert "start a new one with `cao run`" in str(caught.value)
                assert (removes in str(caught.value)) == (stage != "planned")
                assert str(tree.wd) not in str(caught.value)

    @pytest.mark.parametrize("stage", STAGES)
    def test_it_is_cleaned_up(self, project: Project, state: Path, stage: str) -> None:
        tree = self.leave(project, state, stage)
        plan = plan_cleanup(known_runs(state, os.environ), LATER)
        assert [run.record.id for run in plan.folders] == [RUN]
        assert not remove_folder(state, RUN, os.environ)
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
        assert "has commits that no snapshot has" in remove_folder(state, RUN, os.environ)

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


class TestNotCommittedYet:
    """A run has passed, and is killed before its work is committed."""

    def leave(self, project: Project, state: Path, status: FinalStatus) -> OwnTree:
        """Leave a changed file and the saved state of a run that has ended so."""
        tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
        write_record(run_folder(state, RUN), record_of(tree))
        (tree.wd / "new.txt").write_text("new")
        saved = replace(STATE, wd=str(tree.wd), final_status=status)
        StateFile(run_folder(state, RUN), FakeClock()).save_state(saved)
        return tree

    def apply(self, state: Path) -> MergeResult:
        with ended_run(state, RUN, os.environ) as ended:
            return apply_run(ended)

    def test_it_is_committed_when_it_is_applied(self, project: Project, state: Path) -> None:
        self.leave(project, state, FinalStatus.PASS)
        assert self.apply(state).kind is MergeKind.FAST_FORWARDED
        assert (project.folder / "new.txt").read_text() == "new"
        assert f"Cao-Run: {RUN}" in project.git("log", "-1", "--format=%B")

    def test_though_an_agent_broke_the_work_tree(self, project: Project, state: Path) -> None:
        tree = self.leave(project, state, FinalStatus.PASS)
        (tree.worktree.folder / ".git").unlink()
        assert self.apply(state).kind is MergeKind.FAST_FORWARDED
        assert (project.folder / "new.txt").read_text() == "new"

    def test_it_comes_into_no_other_branch_than_it_began_on(
        self, project: Project, state: Path
    ) -> None:
        self.leave(project, state, FinalStatus.PASS)
        project.git("switch", "-q", "-c", "other")
        done = self.apply(state)
        assert done.kind is MergeKind.REFUSED
        assert "git switch main" in done.reason
        assert not (project.folder / "new.txt").exists()
        record = read_record(run_folder(state, RUN))
        assert record is not None
        assert record.tree is not None
        assert record.tree.delivered is Fate.NOT_YET

    @pytest.mark.parametrize("applied", [False, True])
    def test_a_request_is_noted_unless_the_work_is_applied_already(
        self, project: Project, state: Path, tmp_path: Path, applied: bool
    ) -> None:
        project.git("init", "-q", "--bare", str(tmp_path / "other.git"))
        project.git("remote", "add", "origin", str(tmp_path / "other.git"))
        self.leave(project, state, FinalStatus.PASS)
        if applied:
            self.apply(state)
        with ended_run(state, RUN, os.environ) as ended:
            assert request_run(ended, "", draft=False).remote == "origin"
        body = run_folder(state, RUN).read(REQUEST_FILE).decode()
        assert body.startswith("Do it\n\nNo gate was run")
        assert f"\n    Cao-Run: {RUN}\n    Cao-Round: 1\n" in body
        assert str(tmp_path) not in body
        with ended_run(state, RUN, os.environ) as ended:
            request_run(ended, "", draft=False, page="What it is")
        body = run_folder(state, RUN).read(REQUEST_FILE).decode()
        assert body.startswith("What it is\n\nNo gate was run")
        record = read_record(run_folder(state, RUN))
        assert record is not None
        assert record.tree is not None
        assert record.tree.delivered is (Fate.APPLIED if applied else Fate.REQUESTED)

    def test_nothing_is_pushed_where_an_agent_has_said_to(
        self, project: Project, state: Path, tmp_path: Path
    ) -> None:
        project.git("init", "-q", "--bare", str(tmp_path / "other.git"))
        project.git("remote", "add", "origin", str(tmp_path / "other.git"))
        tree = self.leave(project, state, FinalStatus.PASS)
        RepositoryWatch(tree.repository, run_folder(state, RUN), os.environ).begin()
        project.git("config", "remote.origin.pushurl", str(tmp_path / "evil.git"))
        with (
            ended_run(state, RUN, os.environ) as ended,
            pytest.raises(NotSteerable, match=r"remote\.origin\.pushurl"),
        ):
            request_run(ended, "", draft=False)

    def test_no_request_is_made_if_nobody_knows_for_which_branch(
        self, project: Project, state: Path
    ) -> None:
        project.git("checkout", "-q", "--detach")
        tree = self.leave(project, state, FinalStatus.PASS)
        with (
            ended_run(state, RUN, os.environ) as ended,
            pytest.raises(NotSteerable, match=f"git push origin {tree.worktree.branch}"),
        ):
            request_run(ended, "", draft=False)

    def test_what_is_discarded_is_kept_though_the_repository_is_cleaned_up(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state, FinalStatus.PASS)
        start = tree.snapshots(store_of(state, RUN)).take(0, "start")
        committed, _ = tree.commit(store_of(state, RUN), RUN, STATE, "Do it")
        write_record(run_folder(state, RUN), record_of(committed))
        with ended_run(state, RUN, os.environ) as ended:
            assert discard_run(ended)
        project.git("gc", "-q", "--prune=now")
        snapshots = Snapshots(store_of(state, RUN), tree.wd, None, os.environ)
        first, last = snapshots.all()
        assert first == start
        assert snapshots.read(last.tree, "new.txt", 99) == b"new"
        assert is_intact(snapshots)

    def test_nothing_is_while_the_run_is_at_work(self, project: Project, state: Path) -> None:
        self.leave(project, state, FinalStatus.PASS)
        with (
            run_folder(state, RUN).locked(),
            pytest.raises(NotSteerable, match=f"{RUN} is at work"),
        ):
            self.apply(state)

    def test_what_failed_is_not(self, project: Project, state: Path) -> None:
        self.leave(project, state, FinalStatus.FAIL)
        before = project.state()
        with pytest.raises(NotSteerable, match="has not passed"):
            self.apply(state)
        assert project.state() == before


class TestTurns:
    def test_they_outlive_the_tree(self, project: Project, state: Path) -> None:
        tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
        folder = run_folder(state, RUN)
        write_record(folder, record_of(tree))
        turns_folder(folder).create("001-analyst.md", b"reply")
        with ended_run(state, RUN, os.environ) as ended:
            discard_run(ended)
        assert not tree.worktree.folder.exists()
        assert turns_folder(folder).read("001-analyst.md") == b"reply"


class TestClean:
    """A run whose work was applied is removed with its work tree, but no work of others."""

    def apply(self, project: Project, state: Path) -> OwnTree:
        tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
        write(tree.wd, {"new.txt": "new\n"})
        store = store_of(state, RUN)
        tree.snapshots(store).take(1, "programmer")
        tree, _ = tree.commit(store, RUN, STATE, "Do it")
        write_record(run_folder(state, RUN), record_of(tree))
        with ended_run(state, RUN, os.environ) as ended:
            apply_run(ended)
        return tree

    def test_it_is_removed(self, project: Project, state: Path) -> None:
        tree = self.apply(project, state)
        write(tree.wd, {"__pycache__/a.pyc": "x"})
        assert [
            run.record.id for run in plan_cleanup(known_runs(state, os.environ), LATER).folders
        ] == [RUN]
        assert not remove_folder(state, RUN, os.environ)
        assert not tree.wd.exists()

    def leave_unchanged(self, project: Project, state: Path) -> OwnTree:
        tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
        tree.snapshots(store_of(state, RUN)).take(0, "start")
        write_record(run_folder(state, RUN), replace(record_of(tree), status=RunStatus.PASS))
        saved = replace(STATE, wd=str(tree.wd), final_status=FinalStatus.PASS)
        StateFile(run_folder(state, RUN), FakeClock()).save_state(saved)
        return tree

    def test_so_is_one_in_which_no_file_was_changed(self, project: Project, state: Path) -> None:
        tree = self.leave_unchanged(project, state)
        plan = plan_cleanup(known_runs(state, os.environ), LATER)
        assert ([run.record.id for run in plan.folders], plan.waiting) == ([RUN], ())
        assert not remove_folder(state, RUN, os.environ)
        assert not tree.wd.exists()
        assert tree.worktree.branch not in project.git("branch", "--format=%(refname:short)")

    @pytest.mark.parametrize("is_committed", [False, True])
    def test_but_not_one_with_work_that_nobody_applied(
        self, project: Project, state: Path, is_committed: bool
    ) -> None:
        tree = self.leave_unchanged(project, state)
        write(tree.wd, {"new.txt": "new\n"})
        if is_committed:
            project.git("-C", str(tree.wd), "add", "new.txt")
            project.git("-C", str(tree.wd), "commit", "-qm", "By an agent")
        assert [
            run.record.id for run in plan_cleanup(known_runs(state, os.environ), LATER).waiting
        ] == [RUN]
        left = remove_folder(state, RUN, os.environ)
        assert left == "its work is neither applied nor discarded"
        assert (tree.wd / "new.txt").exists()

    def test_of_what_is_discarded_only_work_that_nobody_has_can_be_had_back(
        self, project: Project, state: Path
    ) -> None:
        self.leave_unchanged(project, state)
        with ended_run(state, RUN, os.environ) as ended:
            assert not discard_run(ended)

    def test_what_was_discarded_before_its_end_is_cleaned_up(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave_unchanged(project, state)
        write_record(run_folder(state, RUN), replace(record_of(tree), status=RunStatus.FAILED))
        unfinished = replace(STATE, wd=str(tree.wd), progress=Progress(archive=RUN))
        StateFile(run_folder(state, RUN), FakeClock()).save_state(unfinished)
        with ended_run(state, RUN, os.environ) as ended:
            discard_run(ended)
        plan = plan_cleanup(known_runs(state, os.environ), LATER)
        assert [run.record.id for run in plan.folders] == [RUN]
        assert not remove_folder(state, RUN, os.environ)
        assert not run_folder(state, RUN).path.exists()

    @pytest.mark.parametrize("is_later", [False, True])
    def test_and_of_what_was_applied_only_what_came_later(
        self, project: Project, state: Path, is_later: bool
    ) -> None:
        tree = self.apply(project, state)
        if is_later:
            write(tree.wd, {"mine.txt": "mine\n"})
        with ended_run(state, RUN, os.environ) as ended:
            assert discard_run(ended) is is_later

    @pytest.mark.parametrize("name", ["mine.txt", "new.txt"])
    def test_what_somebody_did_there_since_stays(
        self, project: Project, state: Path, name: str
    ) -> None:
        tree = self.apply(project, state)
        write(tree.wd, {name: "hours of work\n"})
        plan = plan_cleanup(known_runs(state, os.environ), LATER)
        assert plan.folders == ()
        assert [run.record.id for run in plan.waiting] == [RUN]
        left = remove_folder(state, RUN, os.environ)
        assert left == f"{tree.wd} was changed since its work was applied"
        assert (tree.wd / name).read_text() == "hours of work\n"
        assert read_record(run_folder(state, RUN)) is not None


def test_files_that_are_the_users_alone_are_delivered_by_nobody(
    project: Project, state: Path
) -> None:
    project.commit({".worktreeinclude": ".env\n", ".gitignore": ".env\n"})
    project.write({".env": "secret\n"})
    tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
    project.git("add", "-f", ".env", folder=tree.wd)
    project.git("commit", "-q", "-m", "by an agent", folder=tree.wd)
    project.git("rm", "-q", "--cached", ".env", folder=tree.wd)
    project.git("commit", "-q", "-m", "hides it again", folder=tree.wd)
    write(tree.wd, {"new.txt": "new\n"})
    tree, _ = tree.commit(store_of(state, RUN), RUN, STATE, "Do it")
    write_record(run_folder(state, RUN), record_of(tree))
    before = project.state()
    for deliver in (apply_run, lambda ended: request_run(ended, "", draft=False)):
        with (
            ended_run(state, RUN, os.environ) as ended,
            pytest.raises(NotSteerable, match=r"yours alone, '\.env'"),
        ):
            deliver(ended)
    assert project.state() == before


class TestNotCommitted:
    """A run has passed, and its work could not be committed."""

    def leave(self, project: Project, state: Path) -> OwnTree:
        """Leave a run whose agent has changed a file, after the snapshot of its start."""
        tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
        write_record(run_folder(state, RUN), record_of(tree))
        outputs = {"programmer": Output("done", f"{tree.wd}/.tmp/{RUN}/001-programmer.md")}
        passed = replace(STATE, final_status=FinalStatus.PASS, outputs=outputs)
        StateFile(run_folder(state, RUN), FakeClock()).save_state(passed)
        tree.snapshots(store_of(state, RUN)).take(0, "start")
        write(tree.wd, {"a.txt": "by the agent\n"})
        return tree

    def test_work_whose_turn_has_no_snapshot_is_kept_and_committed(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state)
        with ended_run(state, RUN, os.environ) as ended:
            done = apply_run(ended)
        assert done.kind is MergeKind.FAST_FORWARDED
        assert "programmer" in done.remarks[0]
        assert (project.folder / "a.txt").read_text() == "by the agent\n"
        assert (tree.wd / "a.txt").read_text() == "by the agent\n"

    def test_where_it_cannot_be_kept_nothing_is_put_back(
        self, project: Project, state: Path, tmp_path: Path
    ) -> None:
        tree = self.leave(project, state)
        full = "*commit-tree*) echo no room >&2; exit 1;;"
        without_room = with_other_git(tmp_path / "other", full)
        refused = rf"nothing was delivered: .*no room.*is in {tree.wd}.*cao apply {RUN}"
        with (
            ended_run(state, RUN, without_room) as ended,
            pytest.raises(RunError, match=refused),
        ):
            apply_run(ended)
        assert (tree.wd / "a.txt").read_text() == "by the agent\n"

    def test_what_was_kept_late_is_committed_also_at_a_second_try(
        self, project: Project, state: Path, tmp_path: Path
    ) -> None:
        tree = self.leave(project, state)
        refusing = with_other_git(tmp_path / "other", "*commit-tree*-p*) exit 1;;")
        with ended_run(state, RUN, refusing) as ended, pytest.raises(RunError):
            apply_run(ended)
        write(tree.wd, {"a.txt": "later\n"})
        with ended_run(state, RUN, os.environ) as ended:
            apply_run(ended)
        assert (project.folder / "a.txt").read_text() == "by the agent\n"

    def test_what_was_changed_after_the_last_turn_is_not_committed(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state)
        tree.snapshots(store_of(state, RUN)).take(1, "programmer")
        write(tree.wd, {"a.txt": "later\n"})
        with ended_run(state, RUN, os.environ) as ended:
            apply_run(ended)
        assert (project.folder / "a.txt").read_text() == "by the agent\n"


@pytest.mark.parametrize(
    ("number", "why"),
    [(1, r"worked in .*/project itself: .*; `cao undo "), (0, "ended before its first turn")],
)
def test_of_a_run_without_a_work_tree_nothing_is_delivered(
    tmp_path: Path, number: int, why: str
) -> None:
    wd = make_repository(tmp_path / "project", {"a.txt": "1\n"})
    folder = make_run(tmp_path / "state", wd)
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, round=number))
    with (
        pytest.raises(NotSteerable, match=why),
        ended_run(tmp_path / "state", record.id, os.environ),
    ):
        pass
