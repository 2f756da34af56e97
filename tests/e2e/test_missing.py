"""A run that stopped because an agent wrote no file goes on as a person decides."""

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import prepare, rule, saved_of, script

pytestmark = pytest.mark.tmux

FORGETS = "{ ignore_file = true }"


def stop_at(machine: Machine, role: str) -> None:
    """Take a run to the first turn of a role, which leaves no file."""
    prepare(machine, script(rule(role, turn="1", misbehave=FORGETS)))
    machine.env |= {"IDLE_GRACE_SECONDS": "0.5", "MAX_FILE_REMINDERS": "0"}
    stopped = machine.cao("run", "task.md")
    assert stopped.returncode == 3, stopped.stdout + stopped.stderr
    assert "--missing take" in stopped.stderr
    assert saved_of(machine)["progress"]["in_flight"]["turn"]["role"] == role
    machine.env["IDLE_GRACE_SECONDS"] = "30"


def test_its_last_answer_is_taken_and_the_report_says_so(machine: Machine) -> None:
    stop_at(machine, "programmer")
    wrong = machine.cao("run", "--missing", "skip")
    assert wrong.returncode == 2
    assert "only a review can be skipped" in wrong.stderr
    done = machine.cao("run", "--missing", "take")
    assert done.returncode == 0, done.stdout + done.stderr
    page = machine.cao("report").stdout
    assert "the last answer of programmer was taken in place of its file, in round 1" in page


def test_a_review_is_skipped_by_resume(machine: Machine) -> None:
    stop_at(machine, "analyst_review")
    done = machine.cao("resume", "--missing", "skip")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it counts as approved" in machine.cao("report").stdout


def test_where_nothing_is_missing_nothing_is_started(machine: Machine) -> None:
    prepare(machine, script())
    done = machine.cao("run", "task.md", "--missing", "ask")
    assert done.returncode == 2
    assert "--missing is for a saved run that is resumed" in done.stderr
