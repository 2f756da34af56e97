"""Whole runs with real agents: `cao run` as a user starts it, only the model is a stub."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import OutputMode, TerminalStatus
from cli_agent_orchestrator.hosting.user import make_token
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.settings.layout import state_folder
from tests.agents.driving import PATIENCE
from tests.agents.installs import AGENTS
from tests.agents.setups import agent_environment
from tests.agents.team import Team
from tests.e2e.conftest import Machine, Server
from tests.e2e.runs import FIVE_TURNS, TASK, replies_of, running, state_of
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
def stubs(team: Team) -> Iterator[dict[str, str]]:
    with OpenAIStub(team) as openai, AnthropicStub(team) as anthropic:
        yield {"codex": openai.url, "claude_code": anthropic.url}


@pytest.fixture
def team() -> Team:
    return Team()


def prepare(machine: Machine, stubs: dict[str, str]) -> None:
    """Write the task and make the machine one where both agents are set up."""
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    for name, url in stubs.items():
        newest = AGENTS[name].versions[0]
        setup = agent_environment(name, newest, url, machine.home / "home", machine.work)
        machine.env |= setup.server_environ()
    machine.env |= {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "RESPONSE_TIMEOUT": "120"}


@pytest.mark.parametrize("provider", ["codex", "claude_code"])
def test_five_agents_of_a_kind_take_a_run_to_a_pass(
    machine: Machine, stubs: dict[str, str], team: Team, provider: str
) -> None:
    prepare(machine, stubs)
    machine.env |= {"PROVIDER": provider, "AGENT_PERMISSIONS": "full"}
    with machine.server(), running(machine, "task.md") as run:
        assert run.end() == 0, run.errors
    assert team.roles == FIVE_TURNS
    assert state_of(machine)["final_status"] == "PASS"


@pytest.mark.parametrize("provider", ["codex", "claude_code"])
def test_a_failing_test_becomes_a_proven_pass_in_a_work_tree(
    machine: Machine, stubs: dict[str, str], team: Team, provider: str
) -> None:
    machine.work.rmdir()
    project = make_project(machine.work, BROKEN)
    prepare(machine, stubs)
    team.programmer_runs(Run("sed -i.old s/-/+/ total.py && rm total.py.old"))
    machine.env |= {"PROVIDER": provider, "PROOF": "require"}
    before = project.state()
    words = ("task.md", "--worktree", "--gate", "tests=python3 -B -m unittest -v", "--max-rounds=1")
    with machine.server(), running(machine, *words) as run:
        assert run.end() == 0, (run.errors, run.events[-8:])
    assert team.roles == FIVE_TURNS
    proof = [one["detail"] for one in run.told("check_ended") if one["gate"] == "proof"]
    assert "1 test that failed before now passes" in proof[0]
    assert project.state() == before
    machine.cao("apply", code=0)
    assert "a + b" in (machine.work / "total.py").read_text(encoding="utf-8")
    message = project.git("log", "-1", "--format=%B")
    assert "Cao-Gate: tests passed (1 test)" in message
    assert f"Cao-Reviewer: programmer_review ({provider})" in message


def test_mixed_agents_go_on_after_a_failed_round(
    machine: Machine, stubs: dict[str, str], team: Team
) -> None:
    team.fail_first()
    prepare(machine, stubs)
    machine.env |= MIXED | {"AGENT_PERMISSIONS": "full"}
    with machine.server(), running(machine, "task.md") as run:
        assert run.end() == 0, run.errors
    assert team.roles == FIVE_TURNS * 2
    assert len(replies_of(machine)) == 10


def test_a_run_goes_on_when_a_person_has_allowed_a_command(
    machine: Machine, stubs: dict[str, str], team: Team
) -> None:
    made = machine.home / "outside.txt"
    team.programmer_runs(Run(f"touch '{made}'", escalated=True))
    prepare(machine, stubs)
    machine.env |= {"PROVIDER": "codex", "AGENT_PERMISSIONS": "ask"}
    with (
        machine.server() as server,
        person(machine, server) as asked,
        running(machine, "task.md") as run,
    ):
        assert run.end() == 0, run.errors
    assert made.exists()
    assert len(asked) == 1
    assert team.roles == FIVE_TURNS


@contextmanager
def person(machine: Machine, server: Server) -> Iterator[list[str]]:
    """Have a person at hand who allows what a Codex asks; yields which terminals asked."""
    asked: list[str] = []
    token = make_token(state_folder(machine.env))
    with ApiClient(server.url, token=token) as client:
        watching = threading.Thread(target=_answer_dialogs, args=(client, asked))
        watching.start()
        try:
            yield asked
        finally:
            client.close_events()
            watching.join()


def _answer_dialogs(client: ApiClient, asked: list[str]) -> None:
    waiting = TerminalStatus.WAITING_USER_ANSWER
    for event in client.events():
        if event.status is not waiting or event.terminal_id in asked:
            continue
        asked.append(event.terminal_id)
        # Codex tells that it is going to ask up to a second before it does.
        deadline = time.monotonic() + PATIENCE
        while not _is_asking(client.get_output(event.terminal_id, OutputMode.SCREEN)):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        client.press_key(event.terminal_id, "y")


def _is_asking(screen: str) -> bool:
    codex = get_provider("codex")
    return codex.detect_status(screen) is TerminalStatus.WAITING_USER_ANSWER
