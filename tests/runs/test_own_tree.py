"""The work tree of a run: what its commit says, what its record has, what becomes of it."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.gates.check import BaseResult
from cli_agent_orchestrator.pipeline.reply import Excerpt, Output
from cli_agent_orchestrator.pipeline.state import OpenNotes, Progress, RunState
from cli_agent_orchestrator.runs.deliver import has_tree, why_kept
from cli_agent_orchestrator.runs.record import Fate, RunRecord, read_record, write_record
from cli_agent_orchestrator.runs.tree import (
    FOLDER_GONE,
    check_held_back,
    commit_tree,
    plan_tree,
    reopen_tree,
    repair_tree,
    saved_tree,
    store_of,
    work_of,
)
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.delivery import trailers
from cli_agent_orchestrator.work.worktree import Worktree
from tests.work.projects import Project, write

RUN = "20261115-084037-k3f9"
STATE = RunState("", "codex", "/p", "do it")


def made(project: Project, state: Path) -> Worktree:
    return plan_tree(project.folder, state, RUN, {})[0].make()[0]


def record_of(tree: Worktree) -> RunRecord:
    return RunRecord(
        RUN, str(tree.wd), "", "Do it", "Do it", 1.0,
        project=str(tree.project), tree=saved_tree(tree),
    )  # fmt: skip


def test_the_trailers_name_gates_with_their_tests_and_reviewers_that_approved() -> None:
    progress = Progress(
        providers={"programmer_review": "claude_code"},
        passed={"tests": BaseResult(0, 12), "lint": BaseResult(0)},
        open_notes=(OpenNotes("analyst_review", 2, Excerpt("no")),),
    )
    outputs = {"analyst_review": Output("no"), "programmer_review": Output("yes")}
    state = replace(STATE, round=2, progress=progress, outputs=outputs)
    assert trailers(work_of(RUN, state)).split("\n") == [
        f"Cao-Run: {RUN}",
        "Cao-Round: 2",
        "Cao-Flow: loop",
        "Cao-Gate: tests passed (12 tests)",
        "Cao-Gate: lint passed",
        "Cao-Reviewer: programmer_review (claude_code)",
    ]


def test_a_tree_is_found_again_by_its_record(project: Project, tmp_path: Path) -> None:
    tree = made(project, tmp_path)
    folder = run_folder(tmp_path, RUN)
    folder.make()
    write_record(folder, record_of(tree))
    record = read_record(folder)
    assert record is not None
    assert record.tree == saved_tree(tree)
    again = reopen_tree(record, saved_tree(tree), {})
    assert saved_tree(again) == saved_tree(tree)
    assert again.wd == tree.wd
    assert not again.faults()
    assert (again.base, again.onto) == (project.git("rev-parse", "HEAD"), "main")
    elsewhere = replace(record.tree, common_dir="/elsewhere/.git")
    with pytest.raises(UsageError, match="belongs to /elsewhere"):
        reopen_tree(record, elsewhere, {})


@pytest.mark.parametrize("left", [None, {".tmp/cao.log": "we were here\n"}])
def test_a_tree_whose_files_are_gone_gets_them_back_and_the_users_own_too(
    project: Project, tmp_path: Path, left: dict[str, str] | None
) -> None:
    project.commit({".gitignore": ".env\n", ".worktreeinclude": ".env\n"})
    project.write({".env": "A=1\n"})
    tree = plan_tree(project.folder, tmp_path, RUN, os.environ)[0].make()[0]
    tree.snapshots(tmp_path / "store").take(0, "start")
    (tree.wd / "a.txt").write_text("changed\n")
    tree.snapshots(tmp_path / "store").take(1, "programmer")
    shutil.rmtree(tree.folder)
    if left is not None:
        tree.folder.mkdir()
        write(tree.folder, left)
    assert repair_tree(tree, tmp_path / "store")[0] == FOLDER_GONE
    assert (tree.wd / "a.txt").read_text() == "changed\n"
    assert (tree.wd / ".env").read_text() == "A=1\n"
    assert not tree.faults()


def test_what_is_held_back_of_a_folder_within_a_repository_is_the_same_when_its_run_goes_on(
    project: Project, tmp_path: Path
) -> None:
    project.commit({"sub/hidden.txt": "1\n", "sub/other.txt": "1\n"})
    tree, _ = plan_tree(project.folder / "sub", tmp_path, RUN, {}, ["hidden.txt"])
    check_held_back(tree, ["hidden.txt"])
    with pytest.raises(UsageError, match="settled when a run begins"):
        check_held_back(tree, ["other.txt"])


def test_a_folder_that_is_in_no_commit_is_refused(project: Project, tmp_path: Path) -> None:
    project.write({"new/a.txt": "a\n"})
    with pytest.raises(UsageError, match="is in no commit yet"):
        plan_tree(project.folder / "new", tmp_path, RUN, {})


def test_only_work_that_nobody_has_seen_to_waits(project: Project, tmp_path: Path) -> None:
    record = record_of(made(project, tmp_path))
    assert record.tree is not None
    assert not has_tree(tmp_path, record), "nobody has worked there yet"
    run_folder(tmp_path, RUN).create("state.json", b"{}")
    assert has_tree(tmp_path, record)
    for fate in (Fate.REQUESTED, Fate.APPLIED, Fate.DISCARDED):
        assert not has_tree(tmp_path, replace(record, tree=replace(record.tree, delivered=fate)))
    assert not has_tree(tmp_path, replace(record, tree=None))


def test_what_changed_after_the_verdict_is_not_committed(project: Project, tmp_path: Path) -> None:
    tree, store = made(project, tmp_path / "state"), tmp_path / "store"
    snapshots = tree.snapshots(store)
    snapshots.take(0, "start")
    write(tree.wd, {"new.txt": "judged\n", "kept.txt": "judged\n"})
    snapshots.take(1, "tester")
    write(tree.wd, {"new.txt": "later\n", "evil.txt": "later\n", "__pycache__/a.pyc": "x"})
    tree, done = commit_tree(tree, store, RUN, STATE, "Do it")
    tip = tree.tip
    assert project.git("show", f"{tip}:new.txt") == "judged"
    names = project.git("diff", "--name-only", "HEAD", tip).split()
    assert names == ["kept.txt", "new.txt"]
    assert done.remarks == ("changed after the verdict, and not committed: evil.txt, new.txt",)
    assert [(one.path, "left behind" in one.reason) for one in done.left_out] == [
        ("__pycache__", True)
    ]
    last = snapshots.all()[2]
    assert (last.sequence, last.label) == (2, "after the verdict")
    assert snapshots.read(last.tree, "evil.txt", 100) == b"later\n"
    # Nor is it when that is tried again.
    assert commit_tree(tree, store, RUN, STATE, "Do it")[1].id == tree.tip


def test_what_the_setup_made_is_committed_only_where_it_was_changed_since(
    project: Project, tmp_path: Path
) -> None:
    tree, store = made(project, tmp_path / "state"), tmp_path / "store"
    write(tree.wd, dict.fromkeys(("a.txt", "b.txt", "back.txt", "new/made.txt"), "setup\n"))
    snapshots = tree.snapshots(store)
    start = snapshots.take(0, "start")
    snapshots.keep_base(start)
    write(tree.wd, dict.fromkeys(("back.txt", "b.txt", "new/work.txt"), "work\n"))
    project.git("add", "back.txt", folder=tree.folder)
    project.git("commit", "-q", "-m", "by an agent", folder=tree.folder)
    write(tree.wd, {"back.txt": "setup\n"})
    snapshots.take(1, "programmer")
    tree, done = commit_tree(tree, store, RUN, STATE, "Do it")
    names = project.git("diff", "--name-only", "HEAD", tree.tip).split()
    assert names == ["b.txt", "back.txt", "new/work.txt"]
    assert project.git("show", f"{tree.tip}:back.txt") == "setup"
    assert done.left_out == ()
    assert (tree.wd / "a.txt").read_text() == "setup\n"
    record = record_of(tree)
    assert record.tree is not None
    record = replace(record, tree=replace(record.tree, delivered=Fate.APPLIED))
    shutil.copytree(store, store_of(tmp_path, RUN))
    assert why_kept(tmp_path, record, {}) == ""
    write(tree.wd, {"a.txt": "mine\n"})
    assert "was changed since its work was applied" in why_kept(tmp_path, record, {})


def test_what_the_project_has_committed_is_its_own_also_a_cache_or_an_empty_file(
    project: Project, tmp_path: Path
) -> None:
    project.commit({"node_modules/own.js": "1\n", ".codex": "the project's own\n"})
    tree, store = made(project, tmp_path / "state"), tmp_path / "store"
    write(tree.wd, {"node_modules/own.js": "2\n", ".codex": ""})
    tree.snapshots(store).take(0, "programmer")
    tree, done = commit_tree(tree, store, RUN, STATE, "Do it")
    assert project.git("show", f"{tree.tip}:node_modules/own.js") == "2"
    assert project.git("show", f"{tree.tip}:.codex") == ""
    assert (done.remarks, done.left_out) == ((), ())


def test_all_of_a_tree_is_seen_though_agents_work_in_a_folder_of_it(
    project: Project, tmp_path: Path
) -> None:
    project.commit({"sub/x.py": "1\n", "root.py": "1\n"})
    tree, store = made(Project(project.folder / "sub"), tmp_path / "state"), tmp_path / "store"
    top = tree.folder
    snapshots = tree.snapshots(store)
    start = snapshots.take(0, "start")
    write(top, {"root.py": "judged\n", "beside/y": "judged\n", "sub/.tmp/reply": "", ".codex": ""})
    judged = snapshots.take(1, "tester")
    changes = snapshots.changes(start.tree, judged.tree)
    assert [one.path for one in changes] == ["beside/y", "root.py"]
    write(top, {"root.py": "later\n", "other/z": "later\n"})
    tree, done = commit_tree(tree, store, RUN, STATE, "Do it")
    tip = tree.tip
    assert project.git("show", f"{tip}:root.py") == "judged"
    assert project.git("diff", "--name-only", "HEAD", tip).split() == ["beside/y", "root.py"]
    assert done.remarks == ("changed after the verdict, and not committed: other/z, root.py",)
