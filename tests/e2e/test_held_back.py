"""Tests that agents do not see: gates have them, and nothing that is delivered touches them."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import ASKS, answer, cut_short, prepare, record_of, rule, script
from tests.e2e.test_worktrees import tree_of
from tests.work.projects import Project, make_project

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

TEST = """\
import pathlib
import unittest


class TestIt(unittest.TestCase):
    def test_it(self):
        self.assertEqual(pathlib.Path("new.txt").read_text(), "good\\n")
"""
HELD = "acceptance/test_it.py"
GATE = "tests=python3 -m unittest discover -s acceptance -t ."
LOOKS = json.dumps(["sh", "-c", "find . -name test_it.py -o -name scenario.md >> ../seen"])
WORDS = ("task.md", "--worktree", "--held-back", "acceptance", "--held-back", "scenario.md")


def writes(text: str, **fields: str) -> str:
    files = f'[{{ path = "new.txt", content = "{text}\\n" }}]'
    return rule("programmer", write=files, run=f"[{LOOKS}]", **fields)


@pytest.fixture
def project(machine: Machine) -> Project:
    machine.work.rmdir()
    found = make_project(machine.work, {"a.txt": "a\n", HELD: "old\n", ".gitignore": "*.pyc\n"})
    # Not as it is committed, and not committed at all.
    found.write({HELD: TEST, "scenario.md": "secret\n", "acceptance/__init__.py": ""})
    return found


def seen_by_agents(machine: Machine) -> str:
    return (machine.home / "state/worktrees/seen").read_text()


def test_agents_do_not_see_what_the_gate_fails_by(machine: Machine, project: Project) -> None:
    prepare(machine, script(writes("bad", turn="1"), writes("good")))
    before = project.state()
    # Seen by the setup command, too, if it was there.
    machine.env["CAO_WORKTREE_SETUP"] = "test ! -e acceptance && test ! -e scenario.md"
    done = machine.cao("run", *WORDS, "--gate", GATE, code=0)
    assert seen_by_agents(machine) == ""
    assert "PASS, proven: 1 test that failed before now passes" in done.stdout
    assert "acceptance" not in machine.cao("diff").stdout
    run = record_of(machine)["id"]
    assert record_of(machine)["round"] == 2
    assert project.git("diff", "--name-status", "main", f"cao/{run}") == "A\tnew.txt"
    assert "to tests or settings" not in done.stdout
    machine.cao("apply", code=0)
    (machine.work / "new.txt").unlink()
    after = project.state()
    assert {name: after[name] for name in (HELD, "scenario.md")} == {
        name: before[name] for name in (HELD, "scenario.md")
    }
    machine.cao("discard", "--yes", code=0)


def test_a_file_in_their_place_changes_nothing_and_is_named_once(
    machine: Machine, project: Project
) -> None:
    fakes = f'[{{ path = "new.txt", content = "good\\n" }}, {{ path = "{HELD}", content = "x" }}]'
    prepare(machine, script(rule("programmer", write=fakes)))
    done = machine.cao("run", *WORDS, "--gate", GATE, code=0)
    assert done.stdout.count(f"{HELD} was made where your own is held back") == 1
    run = record_of(machine)["id"]
    assert project.git("diff", "--name-status", "main", f"cao/{run}") == "A\tnew.txt"
    machine.cao("undo", "--to", "0", "--yes", code=0)
    assert (tree_of(machine) / HELD).read_text() == "x"


def test_a_run_that_was_killed_goes_on_with_the_files_as_they_were(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script(ASKS, writes("good")))
    cut_short(machine, *WORDS, "--gate", GATE, number=signal.SIGKILL)
    project.write({HELD: "nonsense\n"})
    (tree_of(machine) / "new.txt").write_text("good\n")
    (tree_of(machine) / ".git").unlink()
    answer(machine, "programmer")
    machine.cao("resume", record_of(machine)["id"], code=0)
    assert not (tree_of(machine) / "acceptance").exists()
    assert project.git("status", "--porcelain", folder=tree_of(machine)) == ""


def test_where_files_cannot_be_held_back_nothing_is_started(
    machine: Machine, project: Project
) -> None:
    prepare(machine, script())

    def refusal(*words: str) -> str:
        done = machine.cao("run", "task.md", *words, code=2)
        assert not list(Path(machine.home / "state").glob("runs/*"))
        return done.stderr

    gate, held = ("--gate", GATE), ("--held-back", "acceptance")
    said = refusal(*held, *gate)
    assert "held_back (acceptance) needs a work tree" in said
    assert "agents would see the files. --worktree keeps them out" in said
    assert "is for gates, and none is given" in refusal("--worktree", *held)
    missing = refusal("--worktree", *gate, "--held-back", "acceptance,no/such")
    assert "there is no file no/such in" in missing
    assert "--held-back" in refusal("--worktree", *gate, "--held-back", "../x")
