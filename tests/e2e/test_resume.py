"""Runs that are taken up again after something went wrong, with real processes and terminals."""

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import FIVE_TURNS, REPLIES, prepare, replies_of, rule, running, script, state_of

pytestmark = pytest.mark.tmux

USAGE_LIMIT = '{ error = "usage limit reached" }'


def texts_of(machine: Machine, role: str) -> list[str]:
    return [text for name, text in replies_of(machine).items() if name[4:-3] == role]


class TestAfterAFailedTurn:
    def test_the_failed_turn_is_asked_again_and_the_run_passes(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", turn="1", misbehave=USAGE_LIMIT)))
        failed = machine.cao("run", "task.md")
        assert failed.returncode == 3, failed.stdout + failed.stderr
        assert "error state" in failed.stderr
        assert "--replace-terminals" in failed.stderr
        assert state_of(machine)["progress"]["in_flight"]["sent"] == "failed"
        with running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
        assert [event["role"] for event in run.told("asked_again")] == ["programmer"]
        assert run.told("reminded") == []
        assert texts_of(machine, "programmer") == [REPLIES["programmer"].replace("{turn}", "2")]
        assert list(replies_of(machine)) == [
            f"{number:03d}-{role}.md" for number, role in enumerate(FIVE_TURNS, 1)
        ]

    def test_a_turn_that_fails_each_time_can_be_resumed_each_time(self, machine: Machine) -> None:
        prepare(machine, script(rule("tester", turn="[1, 2]", misbehave=USAGE_LIMIT)))
        assert machine.cao("run", "task.md").returncode == 3
        assert machine.cao("run").returncode == 3
        done = machine.cao("run")
        assert done.returncode == 0, done.stdout + done.stderr
        assert texts_of(machine, "tester") == [REPLIES["tester"].replace("{turn}", "3")]

    def test_a_failed_agent_can_be_replaced(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", misbehave=USAGE_LIMIT)))
        assert machine.cao("run", "task.md").returncode == 3
        before = state_of(machine)["terminals"]
        machine.script(script())
        done = machine.cao("run", "--replace-terminals")
        assert done.returncode == 0, done.stdout + done.stderr
        after = state_of(machine)["terminals"]
        assert [name for name in before if before[name] != after[name]] == ["programmer"]
        assert texts_of(machine, "programmer") == [REPLIES["programmer"].replace("{turn}", "1")]
