"""Runs in work trees, as a user has them: to a PASS, side by side, killed, broken, delivered."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import at, prepare, rule, running, script
from tests.e2e.test_runs import ASKS, answer
from tests.workspace.projects import Project, make_hostile, make_project

pytestmark = pytest.mark.tmux

WRITES = rule("programmer", write='[{ path = "new.txt", content = "new\\n" }]')
GATE = "tests=test -f new.txt && echo '1 passed in 0.01s'"


@pytest.fixture
def project(machine: Machine) -> Project:
    machine.work.rmdir()
    found = make_project(machine.work)
    prepare(machine, script(WRITES))
    return found


# Any: JSON
def record_of(machine: Machine) -> dict[str, Any]:
    (path,) = (machine.home / "state" / "runs").glob("2*/run.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def tree_of(machine: Machine) -> Path:
    return Path(record_of(machine)["tree"]["folder"])


def run_to_pass(machine: Machine, *words: str) -> str:
    """Run in a work tree to its end, and return what was said."""
    done = machine.cao("run", "task.md", "--worktree", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_passes_in_a_work_tree_and_its_work_is_applied(
    machine: Machine, project: Project
) -> None:
    project.write({"a.txt": "mine\n"})
    before = project.state()
    said = run_to_pass(machine, "--gate", GATE)
    assert "what is not committed is not in the work tree: 'a.txt', 'task.md'" in said
    run = record_of(machine)["id"]
    ways = f"cao apply {run} | cao pr {run} | cao discard {run}"
    assert f"The work is on branch cao/{run}: {ways}" in said
    assert project.state() == before
    assert f"branch cao/{run}" in machine.cao("runs").stdout
    message = project.git("log", "-1", "--format=%an <%ae>%n%B", f"cao/{run}")
    assert message.splitlines() == [
        "Ada <ada@example.org>",
        "Make the parser accept empty lines.",
        "",
        f"Cao-Run: {run}",
        "Cao-Round: 1",
        "Cao-Flow: loop",
        "Cao-Gate: tests passed (1 tests)",
        "Cao-Reviewer: analyst_review (scripted)",
        "Cao-Reviewer: programmer_review (scripted)",
    ]
    done = machine.cao("apply", run)
    assert done.returncode == 0, done.stderr
    assert f"cao/{run} is in main now, at" in done.stdout
    assert (machine.work / "new.txt").read_text() == "new\n"
    assert (machine.work / "a.txt").read_text() == "mine\n"
    assert "cao apply" not in machine.cao("runs").stdout
