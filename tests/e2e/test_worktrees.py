"""Runs in work trees, as a user has them: to a PASS, side by side, killed, broken, delivered."""

import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from cli_agent_orchestrator.runs.record import short_name
from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    ASKS,
    answer,
    archive_of,
    cut_short,
    prepare,
    record_of,
    rule,
    runs_of,
    script,
)
from tests.work.projects import Project, make_hostile, with_other_git

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

GATE = "tests=test -f new.txt && echo '1 passed in 0.01s'"


def tree_of(machine: Machine) -> Path:
    return Path(record_of(machine)["tree"]["folder"])


def run_to_pass(machine: Machine, *words: str) -> str:
    """Run in a work tree to its end, and return what was said."""
    done = machine.cao("run", "task.md", "--worktree", *words, code=0)
    return done.stdout


def apply(machine: Machine) -> None:
    """Bring the work of the only run to the user's branch."""
    machine.cao("apply", code=0)
    assert (machine.work / "new.txt").read_text() == "new\n"


def test_a_run_that_a_git_alias_starts_leaves_the_users_branch_and_index_alone(
    machine: Machine, project: Project
) -> None:
    commit = "echo two > a.txt; git add a.txt; git commit -qm by-the-agent"
    deed = f'[["sh", "-ec", "{commit}"]]'
    prepare(machine, script(rule("programmer", run=deed)))
    project.write({"b.txt": "staged\n"})
    project.git("add", "b.txt")
    before = project.state()
    top = str(machine.work)
    machine.env |= {
        "GIT_DIR": f"{top}/.git",
        "GIT_WORK_TREE": top,
        "GIT_INDEX_FILE": f"{top}/.git/index",
        "GIT_PREFIX": "",
        **{f"GIT_{who}_NAME": "Bob" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "bob@example.org" for who in ("AUTHOR", "COMMITTER")},
    }
    gate = "tests=git rev-parse --show-toplevel; git log -1 --format=%s; echo '1 passed in 0.01s'"
    setup = 'test "$(git rev-parse --show-toplevel)" = "$PWD"'
    machine.env["CAO_WORKTREE_SETUP"] = setup
    run_to_pass(machine, "--gate", gate)
    logs = (machine.home / "state" / "runs").glob("2*/gates/*tests.log")
    said = [log.read_text(encoding="utf-8").splitlines() for log in logs]
    assert not [lines for lines in said if top in lines]
    assert [lines for lines in said if "by-the-agent" in lines]
    assert project.state() == before


def test_a_run_passes_in_a_work_tree_and_its_work_is_applied(
    machine: Machine, project: Project
) -> None:
    project.write({"a.txt": "mine\n"})
    before = project.state()
    said = run_to_pass(machine, "--gate", GATE)
    assert "what is not committed is not in the work tree: a.txt\n" in said
    (prompt,) = archive_of(machine).glob("*programmer-prompt.md")
    assert "=== WHERE YOU WORK ===" in prompt.read_text()
    assert "Do not commit" in prompt.read_text()
    run = record_of(machine)["id"]
    assert f" after 1 round, on branch cao/{run}\n" in said
    assert f"cao apply {short_name(run)}\n" in said
    assert f"cao discard {short_name(run)}\n" in said
    assert project.state() == before
    assert f"branch cao/{run}" in machine.cao("runs").stdout
    report = machine.cao("report").stdout
    assert f"\n- Folder: ~/{machine.work.name}\n- Branch: cao/{run}\n" in report
    assert f"\n- Next: `cao apply {run}`" in report
    message = project.git("log", "-1", "--format=%an <%ae>%n%B", f"cao/{run}")
    assert message.splitlines() == [
        "Ada <ada@example.org>",
        "Make the parser accept empty lines.",
        "",
        f"Cao-Run: {run}",
        "Cao-Round: 1",
        "Cao-Flow: loop",
        "Cao-Gate: tests passed (1 test)",
        "Cao-Proof: not proven: no test was made or changed, and none that failed before now "
        "passes",
        "Cao-Reviewer: analyst_review (scripted)",
        "Cao-Reviewer: programmer_review (scripted)",
    ]
    done = machine.cao("apply", run, code=0)
    assert f"cao/{run} is in main now, at" in done.stdout
    assert (machine.work / "new.txt").read_text() == "new\n"
    assert (machine.work / "a.txt").read_text() == "mine\n"
    assert "cao apply" not in machine.cao("runs").stdout
    # It stays applied when its tree is removed.
    machine.cao("discard", run, "--yes", code=0)
    assert not tree_of(machine).exists()
    (found,) = runs_of(machine)
    assert (found["applied"], found["discarded"]) == (True, False)
    again = machine.cao("apply", run, code=2).stderr
    assert f"the work of the run {run} was applied, and its work tree is removed" in again
    assert (machine.work / "new.txt").read_text() == "new\n"


def test_a_run_that_was_killed_is_resumed_in_its_work_tree(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script(ASKS))
    cut_short(machine, "task.md", "--worktree", number=signal.SIGKILL)
    (tree_of(machine) / "kept.txt").write_text("kept\n")
    answer(machine, "programmer")
    machine.cao("resume", code=0)
    assert [one["status"] for one in runs_of(machine)] == ["PASS"]
    machine.cao("apply", code=0)
    assert (machine.work / "kept.txt").read_text() == "kept\n"


def test_work_that_is_being_applied_when_a_signal_comes_is_applied(
    machine: Machine, project: Project, tmp_path: Path
) -> None:
    run_to_pass(machine)
    other = with_other_git(tmp_path / "other", "*merge*--ff-only*) kill -INT $PPID;;")
    machine.env["PATH"] = other["PATH"]
    done = machine.cao("apply", code=0)
    assert "brought to its end first" in done.stderr
    assert (machine.work / "new.txt").read_text() == "new\n"
    assert project.git("status", "--porcelain", "--untracked-files=no") == ""
    assert project.git("log", "-1", "--format=%b").startswith("Cao-Run: ")


def test_nothing_of_a_hostile_repository_is_run(machine: Machine, project: Project) -> None:
    marks = machine.home / "marks"
    make_hostile(project, marks)
    for mark in marks.iterdir():
        mark.unlink()
    run_to_pass(machine)
    apply(machine)
    assert list(marks.iterdir()) == []


def test_a_run_is_discarded_and_a_snapshot_keeps_it(machine: Machine, project: Project) -> None:
    run_to_pass(machine)
    project.git("commit", "-q", "--allow-empty", "-m", "after", folder=tree_of(machine))
    # Only what the run committed is applied.
    assert "is not where the run left it" in machine.cao("apply", code=3).stderr
    project.git("reset", "-q", "HEAD~", folder=tree_of(machine))
    (tree_of(machine) / "late.txt").write_text("late\n")
    record = record_of(machine)
    machine.cao("discard", code=2)
    assert tree_of(machine).exists()
    said = machine.cao("discard", "--yes", code=0).stdout
    assert not tree_of(machine).exists()
    assert project.git("branch", "--list", "cao/*") == ""
    assert project.git("worktree", "list").count("\n") == 0
    # The command that is printed brings it back, from any folder.
    name = short_name(record["id"])
    line = f"  cao diff {name} start..discarded --raw | git -C {project.folder} apply"
    assert line in said.splitlines()
    patch = machine.cao("diff", name, "start..discarded", "--raw").stdout
    apply = line.partition(" | ")[2]
    subprocess.run(apply, input=patch, text=True, shell=True, check=True, cwd=machine.work / "src")
    assert (machine.work / "new.txt").read_text() == "new\n"
    assert (machine.work / "late.txt").read_text() == "late\n"


def test_a_branch_is_pushed_only_when_it_is_asked_for(machine: Machine, project: Project) -> None:
    other = machine.home / "other.git"
    project.git("init", "-q", "--bare", str(other))
    project.git("remote", "add", "origin", str(other))
    run_to_pass(machine)
    branch = f"cao/{record_of(machine)['id']}"
    assert project.git("--git-dir", str(other), "branch", "--list") == ""
    done = machine.cao("pr", "--draft", code=0)
    assert f"Pushed {branch} to origin: git push origin {branch}" in done.stdout
    assert "a new draft request" in done.stdout
    assert "### What changed: 1 file, +" in done.stdout
    assert f"Cao-Run: {branch.removeprefix('cao/')}" in done.stdout
    assert branch in project.git("--git-dir", str(other), "branch", "--list")
    discarded = machine.cao("discard", "--yes")
    told = "The branch that was pushed to origin stays there. To delete it:\n  git "
    _, _, command = discarded.stdout.partition(told)
    project.git(*shlex.split(command.partition("\n")[0]))
    assert project.git("--git-dir", str(other), "branch", "--list") == ""


def test_if_the_setup_fails_no_agent_is_started_and_nothing_is_left(
    machine: Machine, project: Project
) -> None:
    machine.env["CAO_WORKTREE_SETUP"] = "echo no network; exit 3"
    done = machine.cao("run", "task.md", "--worktree", code=2)
    assert "prepares the work tree failed" in done.stderr
    assert "no network" in done.stderr
    assert not tree_of(machine).exists()
    assert project.git("branch", "--list", "cao/*") == ""
