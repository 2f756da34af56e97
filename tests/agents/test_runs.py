"""Whole runs with real agents: `cao run` as a user starts it, only the model is a stub."""

from collections.abc import Iterator

import pytest

from tests.agents.driving import NEWEST, START_SECONDS, Kind, step
from tests.agents.setups import agent_environment
from tests.agents.team import Team
from tests.e2e.conftest import Machine
from tests.e2e.runs import FIVE_TURNS, TASK, at, replies_of, running, wait_until
from tests.stubs import AnthropicStub, OpenAIStub
from tests.stubs.script import Run
from tests.work.projects import make_project

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

MIXED = {
    "ANALYST_PROVIDER": "claude_code",
    "PROGRAMMER_PROVIDER": "codex",
    "TESTER_PROVIDER": "claude_code",
}


BROKEN = {
    "total.py": "def total(a, b):\n    return a - b\n",
    "test_total.py": (
        "import unittest\n\nfrom total import total\n\n\n"
        "class TotalTest(unittest.TestCase):\n"
        "    def test_two_numbers(self):\n        self.assertEqual(total(1, 2), 3)\n"
    ),
}
"""A small project with a failing test."""


@pytest.fixture
def stubs(team: Team) -> Iterator[dict[Kind, str]]:
    with OpenAIStub(team) as openai, AnthropicStub(team) as anthropic:
        yield dict(zip(NEWEST, (openai.url, anthropic.url), strict=True))


@pytest.fixture
def team() -> Team:
    return Team()


def prepare(machine: Machine, stubs: dict[Kind, str]) -> None:
    """Write the task and make the machine one where these agents are set up."""
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    for kind, url in stubs.items():
        home = machine.home / "home"
        machine.env |= agent_environment(kind.agent, kind.version, url, home, machine.work)
    machine.env |= {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "RESPONSE_TIMEOUT": "120"}
    machine.env |= {"CAO_START_SECONDS": START_SECONDS}


@step("whole run", NEWEST)
def test_a_failing_test_becomes_a_proven_pass_in_a_work_tree(
    machine: Machine, team: Team, kind: Kind
) -> None:
    machine.work.rmdir()
    project = make_project(machine.work, BROKEN)
    team.programmer_runs(Run("sed -i.old s/-/+/ total.py && rm total.py.old"))
    machine.env |= {"PROVIDER": kind.agent, "PROOF": "require"}
    words = ("task.md", "--worktree", "--gate", "tests=python3 -B -m unittest -v", "--max-rounds=1")
    with kind.manners.stub(team) as stub:
        prepare(machine, {kind: stub.url})
        before = project.state()
        with machine.server(), running(machine, *words) as run:
            # OpenCode takes minutes for its first start, which installs packages.
            run.until(lambda event: event["type"] == "run_ended")
            assert run.end() == 0, (run.errors, run.events[-8:])
    assert team.roles == FIVE_TURNS
    proof = [one["detail"] for one in run.told("check_ended") if one["gate"] == "proof"]
    assert "1 test that failed before now passes" in proof[0]
    assert project.state() == before
    machine.cao("apply", code=0)
    assert "a + b" in (machine.work / "total.py").read_text(encoding="utf-8")
    message = project.git("log", "-1", "--format=%B")
    assert "Cao-Gate: tests passed (1 test)" in message
    assert f"Cao-Reviewer: programmer_review ({kind.agent})" in message


def test_mixed_agents_go_on_after_a_failed_round(
    machine: Machine, stubs: dict[Kind, str], team: Team
) -> None:
    team.fail_first()
    prepare(machine, stubs)
    machine.env |= MIXED | {"AGENT_PERMISSIONS": "full"}
    with machine.server(), running(machine, "task.md") as run:
        assert run.end() == 0, run.errors
    assert team.roles == FIVE_TURNS * 2
    assert len(replies_of(machine)) == 10


def test_a_run_goes_on_when_a_person_has_allowed_a_command(
    machine: Machine, stubs: dict[Kind, str], team: Team
) -> None:
    made = machine.home / "outside.txt"
    team.programmer_runs(Run(f"touch '{made}'", escalated=True))
    prepare(machine, stubs)
    machine.env |= {"PROVIDER": "codex", "AGENT_PERMISSIONS": "ask"}
    with machine.server(), running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "programmer"))
        # Codex tells that it is going to ask up to a second before it does; 3: not seen in time.
        wait_until(lambda: machine.cao("answer", "y").returncode in (0, 3))
        assert run.end() == 0, run.errors
    assert made.exists()
    assert len(run.told("waiting_for_person")) == 1
    assert team.roles == FIVE_TURNS
