"""What becomes of the work trees of runs: real repositories, and records as runs leave them."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

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
from cli_agent_orchestrator.runs.recorder import StateFile
from cli_agent_orchestrator.runs.tree import commit_tree, plan_tree, saved_tree, store_of
from cli_agent_orchestrator.settings.layout import REQUEST_FILE, run_folder, turns_folder
from cli_agent_orchestrator.work.delivery import MergeResult, PullRequest
from cli_agent_orchestrator.work.git import RepositoryWatch
from cli_agent_orchestrator.work.snapshots import Snapshot, Snapshots
from cli_agent_orchestrator.work.worktree import Worktree
from tests.handoff.fakes import FakeClock
from tests.runs.kept_runs import make_run
from tests.runs.test_own_tree import RUN, STATE, record_of
from tests.work.projects import Project, git, is_intact, make_repository, with_other_git, write

LATER = 1e9


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    run_folder(folder, RUN).make()
    return folder


def fate(state: Path) -> Fate:
    """Return what the record says of the work."""
    record = read_record(run_folder(state, RUN))
    assert record is not None
    assert record.tree is not None
    return record.tree.delivered


def make_tree(project: Project, state: Path, status: RunStatus = RunStatus.RUNNING) -> Worktree:
    """Make the work tree of a run and its record."""
    tree = plan_tree(project.folder, state, RUN, os.environ)[0].make()[0]
    write_record(run_folder(state, RUN), replace(record_of(tree), status=status))
    return tree


def save_state(state: Path, tree: Worktree, status: FinalStatus, **more: Any) -> None:
    saved = replace(STATE, wd=str(tree.wd), final_status=status, **more)
    StateFile(run_folder(state, RUN), FakeClock()).save_state(saved)


def take(state: Path, tree: Worktree, number: int, label: str) -> Snapshot:
    return tree.snapshots(store_of(state, RUN)).take(number, label)


def commit(state: Path, tree: Worktree) -> None:
    committed, _ = commit_tree(tree, store_of(state, RUN), RUN, STATE, "Do it")
    write_record(run_folder(state, RUN), record_of(committed))


def assert_cleaned_up(state: Path) -> None:
    """Let `cao clean` remove the run, of which nothing waits."""
    plan = plan_cleanup(known_runs(state, os.environ), LATER)
    assert ([run.record.id for run in plan.folders], plan.waiting) == ([RUN], ())
    assert not remove_folder(state, RUN, os.environ)
    assert not run_folder(state, RUN).path.exists()


def assert_not_cleaned_up(state: Path, why: str) -> None:
    plan = plan_cleanup(known_runs(state, os.environ), LATER)
    assert ([run.record.id for run in plan.waiting], plan.folders) == ([RUN], ())
    assert remove_folder(state, RUN, os.environ) == why


def apply(state: Path) -> MergeResult:
    with ended_run(state, RUN, os.environ) as ended:
        return apply_run(ended)


def discard(state: Path) -> bool:
    with ended_run(state, RUN, os.environ) as ended:
        return discard_run(ended)


def request(state: Path, page: str = "") -> PullRequest:
    with ended_run(state, RUN, os.environ) as ended:
        return request_run(ended, "", draft=False, page=page)


class TestHalfMade:
    """A run is killed while its work tree is made."""

    STAGES = ("planned", "branch", "entry", "index lock", "half filled", "full")

    def leave(self, project: Project, state: Path, stage: str) -> Worktree:
        """Leave what a run that was killed at a stage has left."""
        tree, _ = plan_tree(project.folder, state, RUN, os.environ)
        write_record(run_folder(state, RUN), record_of(tree))
        made = tree
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
        if number >= 3:
            (entry / "index.lock").write_bytes(b"DIRC")
        if stage == "half filled":
            (made.folder / "a.txt").write_text("")
        return tree

    def assert_gone(self, project: Project, tree: Worktree) -> None:
        assert not tree.folder.exists()
        assert project.git("branch", "--list", "cao/*") == ""
        assert project.git("worktree", "list").count("\n") == 0
        assert not (project.folder / ".git/worktrees" / RUN).exists()

    @pytest.mark.parametrize("stage", STAGES)
    def test_nothing_of_it_can_be_delivered_and_it_can_be_discarded(
        self, project: Project, state: Path, stage: str
    ) -> None:
        before = project.state()
        tree = self.leave(project, state, stage)
        removes = f"`cao discard {RUN}` removes what is left of this one"
        for deliver in (apply, request):
            with pytest.raises(NotSteerable, match="nothing was done in the run") as caught:
                deliver(state)
            assert removes in str(caught.value)
        discard(state)
        self.assert_gone(project, tree)
        assert project.state() == before
        assert fate(state) is Fate.DISCARDED

    def test_what_is_not_ours_stays(self, project: Project, state: Path) -> None:
        tree = self.leave(project, state, "index lock")
        project.git("commit", "-q", "--allow-empty", "-m", "mine")
        project.git("update-ref", f"refs/heads/{tree.branch}", "HEAD")
        with pytest.raises(GitError, match="has commits that no snapshot has"):
            discard(state)
        assert tree.folder.exists()
        assert "has commits that no snapshot has" in remove_folder(state, RUN, os.environ)

    def test_nor_is_a_folder_removed_that_is_not_in_our_state_folder(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state, "index lock")
        record = replace(
            record_of(tree), tree=replace(saved_tree(tree), folder=str(project.folder))
        )
        write_record(run_folder(state, RUN), record)
        with pytest.raises(GitError):
            discard(state)
        assert (project.folder / "a.txt").exists()


class TestNotCommittedYet:
    """A run has passed, and is killed before its work is committed."""

    def leave(self, project: Project, state: Path, status: FinalStatus) -> Worktree:
        """Leave a changed file and the saved state of a run that has ended so."""
        tree = make_tree(project, state)
        (tree.wd / "new.txt").write_text("new")
        save_state(state, tree, status)
        return tree

    @pytest.mark.parametrize("is_broken", [False, True])
    def test_it_is_committed_when_it_is_applied_though_an_agent_broke_the_work_tree(
        self, project: Project, state: Path, is_broken: bool
    ) -> None:
        tree = self.leave(project, state, FinalStatus.PASS)
        if is_broken:
            (tree.folder / ".git").unlink()
        assert apply(state).kind == "fast-forwarded"
        assert (project.folder / "new.txt").read_text() == "new"
        assert f"Cao-Run: {RUN}" in project.git("log", "-1", "--format=%B")

    def test_it_comes_into_no_other_branch_than_it_began_on(
        self, project: Project, state: Path
    ) -> None:
        self.leave(project, state, FinalStatus.PASS)
        project.git("switch", "-q", "-c", "other")
        with pytest.raises(RunError, match="git switch main"):
            apply(state)
        assert not (project.folder / "new.txt").exists()
        assert fate(state) is Fate.NOT_YET

    @pytest.mark.parametrize("applied", [False, True])
    def test_a_request_is_noted_unless_the_work_is_applied_already(
        self, project: Project, state: Path, tmp_path: Path, applied: bool
    ) -> None:
        project.git("init", "-q", "--bare", str(tmp_path / "other.git"))
        project.git("remote", "add", "origin", str(tmp_path / "other.git"))
        self.leave(project, state, FinalStatus.PASS)
        if applied:
            apply(state)
        assert request(state).remote == "origin"
        body = run_folder(state, RUN).read(REQUEST_FILE).decode()
        assert body.startswith("Do it\n\nNo gate was run")
        assert f"\n    Cao-Run: {RUN}\n    Cao-Round: 1\n" in body
        assert str(tmp_path) not in body
        request(state, "What it is")
        body = run_folder(state, RUN).read(REQUEST_FILE).decode()
        assert body.startswith("What it is\n\nNo gate was run")
        assert fate(state) is (Fate.APPLIED if applied else Fate.REQUESTED)

    def test_nothing_is_pushed_where_an_agent_has_said_to(
        self, project: Project, state: Path, tmp_path: Path
    ) -> None:
        project.git("init", "-q", "--bare", str(tmp_path / "other.git"))
        project.git("remote", "add", "origin", str(tmp_path / "other.git"))
        tree = self.leave(project, state, FinalStatus.PASS)
        RepositoryWatch(tree.own_repository, run_folder(state, RUN), os.environ).begin()
        project.git("config", "remote.origin.pushurl", str(tmp_path / "evil.git"))
        with pytest.raises(GitError, match=r"remote\.origin\.pushurl"):
            request(state)

    def test_no_request_is_made_if_nobody_knows_for_which_branch(
        self, project: Project, state: Path
    ) -> None:
        project.git("checkout", "-q", "--detach")
        tree = self.leave(project, state, FinalStatus.PASS)
        with pytest.raises(NotSteerable, match=f"git push origin {tree.branch}"):
            request(state)

    def test_what_is_discarded_is_kept_though_the_repository_is_cleaned_up(
        self, project: Project, state: Path
    ) -> None:
        tree = self.leave(project, state, FinalStatus.PASS)
        # An agent commits: only the repository has it.
        write(tree.wd, {"late.txt": "late"})
        git(tree.wd, "add", "late.txt")
        git(tree.wd, "commit", "-q", "-m", "late")
        start = take(state, tree, 0, "start")
        commit(state, tree)
        assert discard(state)
        project.git("gc", "-q", "--prune=now")
        snapshots = Snapshots(store_of(state, RUN), tree.wd, None, os.environ)
        first, *_, last = snapshots.all()
        assert first == start
        assert snapshots.read(last.tree, "new.txt", 99) == b"new"
        assert snapshots.read(last.tree, "late.txt", 99) == b"late"
        assert is_intact(snapshots)

    def test_nothing_is_while_the_run_is_at_work_or_if_it_failed(
        self, project: Project, state: Path
    ) -> None:
        self.leave(project, state, FinalStatus.FAIL)
        before, folder = project.state(), run_folder(state, RUN)
        with folder.locked(), pytest.raises(NotSteerable, match=f"{RUN} is at work"):
            apply(state)
        with pytest.raises(NotSteerable, match="has not passed"):
            apply(state)
        assert project.state() == before


class TestClean:
    """A run whose work was applied is removed with its work tree, but no work of others."""

    def applied(self, project: Project, state: Path) -> Worktree:
        tree = make_tree(project, state)
        write(tree.wd, {"new.txt": "new\n"})
        take(state, tree, 1, "programmer")
        commit(state, tree)
        apply(state)
        return tree

    def test_it_is_removed(self, project: Project, state: Path) -> None:
        tree = self.applied(project, state)
        write(tree.wd, {"__pycache__/a.pyc": "x"})
        assert_cleaned_up(state)
        assert not tree.wd.exists()

    def leave_unchanged(
        self, project: Project, state: Path, final: FinalStatus = FinalStatus.PASS
    ) -> Worktree:
        status = RunStatus.PASS if final is FinalStatus.PASS else RunStatus.FAILED
        tree = make_tree(project, state, status)
        take(state, tree, 0, "start")
        save_state(state, tree, final, progress=Progress(archive=RUN))
        return tree

    def test_so_is_one_in_which_no_file_was_changed(self, project: Project, state: Path) -> None:
        tree = self.leave_unchanged(project, state)
        assert_cleaned_up(state)
        assert not tree.wd.exists()
        assert tree.branch not in project.git("branch", "--format=%(refname:short)")

    @pytest.mark.parametrize("is_committed", [False, True])
    def test_but_not_one_with_work_that_nobody_applied(
        self, project: Project, state: Path, is_committed: bool
    ) -> None:
        tree = self.leave_unchanged(project, state)
        write(tree.wd, {"new.txt": "new\n"})
        if is_committed:
            project.git("-C", str(tree.wd), "add", "new.txt")
            project.git("-C", str(tree.wd), "commit", "-qm", "By an agent")
        assert_not_cleaned_up(state, "its work is neither applied nor discarded")
        assert (tree.wd / "new.txt").exists()

    @pytest.mark.parametrize("final", [FinalStatus.PASS, FinalStatus.RUNNING])
    def test_so_is_one_that_was_discarded_and_has_left_nothing_that_could_be_had_back(
        self, project: Project, state: Path, final: FinalStatus
    ) -> None:
        tree = self.leave_unchanged(project, state, final)
        turns = turns_folder(run_folder(state, RUN))
        turns.create("001-analyst.md", b"reply")
        assert not discard(state)
        assert not tree.folder.exists()
        assert turns.read("001-analyst.md") == b"reply", "turns outlive the tree"
        assert_cleaned_up(state)

    @pytest.mark.parametrize("name", ["mine.txt", "new.txt"])
    def test_what_somebody_did_there_since_stays_until_it_is_discarded(
        self, project: Project, state: Path, name: str
    ) -> None:
        tree = self.applied(project, state)
        write(tree.wd, {name: "hours of work\n"})
        assert_not_cleaned_up(state, f"{tree.wd} was changed since its work was applied")
        assert (tree.wd / name).read_text() == "hours of work\n"
        assert read_record(run_folder(state, RUN)) is not None
        assert discard(state), "a snapshot has it"


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
    commit(state, tree)
    before = project.state()
    for deliver in (apply, request):
        with pytest.raises(GitError, match=r"yours alone, \.env"):
            deliver(state)
    assert project.state() == before


class TestNotCommitted:
    """A run has passed, and its work could not be committed."""

    def leave(self, project: Project, state: Path) -> Worktree:
        """Leave a run whose agent has changed a file, after the snapshot of its start."""
        tree = make_tree(project, state)
        outputs = {"programmer": Output("done", f"{tree.wd}/.tmp/{RUN}/001-programmer.md")}
        save_state(state, tree, FinalStatus.PASS, outputs=outputs)
        take(state, tree, 0, "start")
        write(tree.wd, {"a.txt": "by the agent\n"})
        return tree

    def test_where_it_cannot_be_kept_nothing_is_put_back(
        self, project: Project, state: Path, tmp_path: Path
    ) -> None:
        tree = self.leave(project, state)
        full = "*commit-tree*) echo no room >&2; exit 1;;"
        without_room = with_other_git(tmp_path / "other", full)
        refused = rf"nothing was delivered: .*no room.*is in {tree.wd}.*cao apply {RUN}"
        with ended_run(state, RUN, without_room) as ended, pytest.raises(RunError, match=refused):
            apply_run(ended)
        assert (tree.wd / "a.txt").read_text() == "by the agent\n"

    @pytest.mark.parametrize("tries", [1, 2])
    def test_work_whose_turn_has_no_snapshot_is_kept_and_committed_at_last(
        self, project: Project, state: Path, tmp_path: Path, tries: int
    ) -> None:
        tree = self.leave(project, state)
        if tries == 2:
            refusing = with_other_git(tmp_path / "other", "*commit-tree*-p*) exit 1;;")
            with ended_run(state, RUN, refusing) as ended, pytest.raises(RunError):
                apply_run(ended)
            write(tree.wd, {"a.txt": "later\n"})
        done = apply(state)
        assert done.kind == "fast-forwarded"
        assert tries == 2 or "programmer" in done.remarks[0]
        assert (project.folder / "a.txt").read_text() == "by the agent\n"
        assert (tree.wd / "a.txt").read_text() == "by the agent\n"


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
