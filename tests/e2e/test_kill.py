"""A run that is killed at any point goes on as if nothing had happened."""

import json
import signal
from itertools import product
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.killed_run import CHECKPOINTS
from tests.e2e.runs import assert_five_turns_once, prepare, rule, runs_of, script, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

KILLED_RUN = Path(__file__).with_name("killed_run.py")


def die_at(machine: Machine, checkpoint: str, role: str) -> None:
    ended = machine.warm.run([str(KILLED_RUN), checkpoint, role], machine.env, machine.work)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("checkpoint", "role"),
    [*product(CHECKPOINTS, ["analyst", "programmer_review"]), ("after archiving", "tester")],
)
def test_a_killed_run_loses_no_turn_and_asks_none_twice(
    machine: Machine, checkpoint: str, role: str
) -> None:
    prepare(machine, script(rule(role, seconds="1")))
    die_at(machine, checkpoint, role)
    assert state_of(machine)["final_status"] == "RUNNING"
    machine.cao("run", "task.md", code=0)
    assert state_of(machine)["final_status"] == "PASS"
    assert_five_turns_once(machine)


def test_a_reply_that_was_archived_before_the_agent_was_lost_still_counts(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", seconds="1")))
    die_at(machine, "after archiving", "programmer")
    machine.tmux("kill-server")
    machine.cao("run", "--replace-terminals", code=0)
    assert_five_turns_once(machine)


def test_a_run_that_could_not_write_its_end_has_ended_all_the_same(machine: Machine) -> None:
    prepare(machine, script())
    machine.cao("run", "task.md", code=0)
    (record,) = (machine.home / "state" / "runs").glob("*/run.json")
    running = {"status": "running", "ended": None, "exit_code": None}
    record.write_text(json.dumps({**json.loads(record.read_text()), **running}))
    for lost in (b"", b'"run_ended"'):  # the last event too, if it was killed before
        events = record.with_name("events.jsonl")
        lines = events.read_bytes().splitlines(keepends=True)
        events.write_bytes(b"".join(line for line in lines if not lost or lost not in line))
        (found,) = runs_of(machine)
        assert (found["status"], found["ended"] is not None) == ("PASS", True)
    machine.cao("resume", code=2)
    machine.cao("watch", code=0)
    done = machine.cao("run", "task.md")
    assert (done.returncode, "unfinished" in done.stdout + done.stderr) == (0, False)
    assert len(runs_of(machine)) == 2
    record.write_text("rubbish")
    refused = machine.cao("resume", record.parent.name, code=2)
    assert "its run.json cannot be read" in refused.stderr
