"""A run that is killed at any point goes on as if nothing had happened."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.killed_run import CHECKPOINTS
from tests.e2e.runs import assert_five_turns_once, prepare, rule, script, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

KILLED_RUN = Path(__file__).with_name("killed_run.py")


def die_at(machine: Machine, checkpoint: str, role: str) -> None:
    ended = machine.warm.run([str(KILLED_RUN), checkpoint, role], machine.env, machine.work)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr


@pytest.mark.parametrize("role", ["analyst", "programmer_review"])
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_killed_run_loses_no_turn_and_asks_none_twice(
    machine: Machine, checkpoint: str, role: str
) -> None:
    prepare(machine, script(rule(role, seconds="1")))
    die_at(machine, checkpoint, role)
    assert state_of(machine)["final_status"] == "RUNNING"
    done = machine.cao("run", "task.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert state_of(machine)["final_status"] == "PASS"
    assert_five_turns_once(machine)


def test_a_reply_that_was_archived_before_the_agent_was_lost_still_counts(
    machine: Machine,
) -> None:
    prepare(machine, script(rule("programmer", seconds="1")))
    die_at(machine, "after archiving", "programmer")
    machine.tmux("kill-server")
    done = machine.cao("run", "--replace-terminals")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_five_turns_once(machine)


def test_a_run_that_could_not_write_its_end_has_ended_all_the_same(machine: Machine) -> None:
    prepare(machine, script())
    assert machine.cao("run", "task.md").returncode == 0
    (record,) = (machine.home / "state" / "runs").glob("*/run.json")
    running = {"status": "running", "ended": None, "exit_code": None}
    record.write_text(json.dumps({**json.loads(record.read_text()), **running}))
    for lost in (b"", b'"run_ended"'):  # the last event too, if it was killed before
        events = record.with_name("events.jsonl")
        lines = events.read_bytes().splitlines(keepends=True)
        events.write_bytes(b"".join(line for line in lines if not lost or lost not in line))
        (found,) = json.loads(machine.cao("runs", "--json").stdout)
        assert (found["status"], found["ended"] is not None) == ("PASS", True)
    assert machine.cao("resume").returncode == 2
    assert machine.cao("watch").returncode == 0
    done = machine.cao("run", "task.md")
    assert (done.returncode, "unfinished" in done.stdout + done.stderr) == (0, False)
    assert len(json.loads(machine.cao("runs", "--json").stdout)) == 2


def test_the_tester_may_be_killed_too(machine: Machine) -> None:
    prepare(machine, script(rule("tester", seconds="1")))
    die_at(machine, "after archiving", "tester")
    done = machine.cao("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_five_turns_once(machine)
