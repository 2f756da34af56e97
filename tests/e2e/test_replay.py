"""A run is recorded, and played from what was recorded."""

import signal

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.runs.screens import roles_with_cast
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.settings.layout import run_folder
from tests.e2e.conftest import Machine
from tests.e2e.runs import FIVE_TURNS, at, prepare, rule, running, script

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


def run_of(machine: Machine) -> Folder:
    state = machine.home / "state"
    (run,) = list_runs(state)
    return run_folder(state, run.id)


def test_what_the_agents_showed_can_be_played(machine: Machine) -> None:
    prepare(machine, script())
    machine.cao("run", "task.md", "--end-agents", code=0)
    assert roles_with_cast(run_of(machine)) == sorted(FIVE_TURNS)
    played = machine.cao("replay").stdout
    heads = [line.split()[3] for line in played.splitlines() if line.startswith("== ")]
    assert heads == FIVE_TURNS
    assert "\x1b" not in played
    assert machine.cao("replay", run_of(machine).path.name, "tester").stdout.startswith("== tester")


def test_a_run_whose_server_was_killed_is_recorded_to_its_end(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", seconds="3")))
    with running(machine, "task.md") as run:
        run.until(at("status", "programmer", status="processing"))
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
    before = machine.cao("replay", "", "programmer").stdout
    machine.cao("run", "--resume", "--end-agents", code=0)
    after = machine.cao("replay", "", "programmer").stdout
    assert "PROGRAMMER_SUMMARY" not in before
    assert after != before
    assert machine.cao("replay").stdout.count("== round 1, ") == len(FIVE_TURNS)
