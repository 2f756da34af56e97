"""`cao run` against a server by somebody else, which knows the common routes and nothing more."""

import json
import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import REPLIES, TASK, replies_of, state_of
from tests.third_party import Asked, ThirdParty, third_party

ROLES = {
    "system_analyst": "analyst",
    "peer_system_analyst": "analyst_review",
    "programmer": "programmer",
    "peer_programmer": "programmer_review",
    "tester": "tester",
}
LOOKS_UNTIL_DONE = 2


@dataclass
class Agent:
    """An agent that is done when its status has been asked for often enough."""

    role: str
    prompts: list[str] = field(default_factory=list)
    looks_left: int = 0
    exited: bool = False


@dataclass
class TheirServer(ThirdParty):
    """Sessions, terminals, input, status, output and exit; no token, no health, no events."""

    agents: dict[str, Agent] = field(default_factory=dict)
    mute: str = ""
    """The role that writes no file."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        with self._lock:
            self.asked.append(asked)
            code, content = self._told(asked.method, asked.path, asked.query)
        return code, json.dumps(content).encode()

    def _told(self, method: str, path: str, query: dict[str, str]) -> tuple[int, object]:
        match method, path.strip("/").split("/"):
            case "POST", ["sessions"] | ["sessions", "theirs", "terminals"]:
                return 201, self._start(query)
            case "GET", ["terminals", name] if name in self.agents:
                return 200, {"id": name, "status": self._look(self.agents[name])}
            case "POST", ["terminals", name, "input"] if name in self.agents:
                self.agents[name].prompts.append(query["message"])
                self.agents[name].looks_left = LOOKS_UNTIL_DONE
                return 200, {"success": True}
            case "GET", ["terminals", name, "output"] if name in self.agents:
                return 200, {"output": REPLIES[self.agents[name].role], "mode": query["mode"]}
            case "POST", ["terminals", name, "exit"] if name in self.agents:
                self.agents[name].exited = True
                return 200, {"success": True}
        assert path == "/health", path
        return 404, {"detail": "Not Found"}

    def _start(self, query: dict[str, str]) -> dict[str, str]:
        assert query["provider"] == "their_agent"
        name = f"t{len(self.agents) + 1}"
        self.agents[name] = Agent(ROLES[query["agent_profile"]])
        return {"id": name, "session_name": "theirs", "name": name}

    def _look(self, agent: Agent) -> str:
        if agent.looks_left:
            agent.looks_left -= 1
            if agent.looks_left == 0 and agent.role != self.mute:
                write_reply(agent)
        return "processing" if agent.looks_left else "idle"


def write_reply(agent: Agent) -> None:
    """Do what an agent does that obeys its prompt."""
    found = re.search(r"^cat > (.*) <<'", agent.prompts[-1], re.MULTILINE)
    assert found is not None
    Path(shlex.split(found[1])[0]).write_text(REPLIES[agent.role], encoding="utf-8")


@pytest.fixture
def theirs() -> Iterator[TheirServer]:
    theirs = TheirServer()
    with third_party(own=theirs):
        yield theirs


@pytest.fixture
def prepared(machine: Machine, theirs: TheirServer) -> Machine:
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    machine.env |= {
        "PROMPT_FILE": "task.md",
        "PROVIDER": "their_agent",
        "POLL_SECONDS": "0.05",
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
        "CLEANUP_ON_EXIT": "1",
        "CAO_API": theirs.url,
    }
    return machine


def test_variables_alone_and_their_server_are_enough_for_a_pass(
    prepared: Machine, theirs: TheirServer
) -> None:
    prepared.cao("run", code=0)
    assert state_of(prepared)["api"] == theirs.url
    agents = list(theirs.agents.values())
    assert agents[0].role == "analyst"
    assert sorted(agent.role for agent in agents) == sorted(REPLIES)
    assert all(len(agent.prompts) == 1 and agent.exited for agent in agents)
    assert {asked.authorization for asked in theirs.asked} == {None}
    assert len(replies_of(prepared)) == 5


def test_where_a_file_is_missing_the_run_stops_or_makes_do_with_their_output(
    prepared: Machine, theirs: TheirServer
) -> None:
    prepared.env |= {"IDLE_GRACE_SECONDS": "0.5", "MAX_FILE_REMINDERS": "0", "CLEANUP_ON_EXIT": "0"}
    theirs.mute = "programmer"
    refused = prepared.cao("run", "--permissions", "ask", code=3)
    assert "without writing" in refused.stderr
    assert f"the server at {theirs.url} does not take --permissions" in refused.stdout
    (programmer,) = [a for a in theirs.agents.values() if a.role == "programmer"]
    write_reply(programmer)
    theirs.mute = "tester"
    del prepared.env["CAO_API"]
    prepared.env["STRICT_FILE_HANDOFF"] = "no"
    done = prepared.cao("run", code=0)
    assert "there is no response file" in done.stdout
    assert all(len(agent.prompts) == 1 for agent in theirs.agents.values())
