"""`cao run` against a server by somebody else, which knows the common routes and nothing more."""

import contextlib
import json
import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import REPLIES, TASK, replies_of, state_of

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
class TheirServer:
    """Sessions, terminals, input, status, output and exit; no token, no health, no events."""

    url: str = ""
    agents: dict[str, Agent] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    """What was asked for and is not known here."""
    headers: list[str | None] = field(default_factory=list)
    mute: str = ""
    """The role that writes no file."""

    def answer(self, method: str, path: str, query: dict[str, str]) -> tuple[int, object]:
        match method, path.strip("/").split("/"):
            case "POST", ["sessions"]:
                return 201, self._start(query)
            case "POST", ["sessions", "theirs", "terminals"]:
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
        self.unknown.append(f"{method} {path}")
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


@contextlib.contextmanager
def their_server() -> Iterator[TheirServer]:
    state = TheirServer()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            with lock:
                state.headers.append(self.headers.get("Authorization"))
                code, content = state.answer(self.command, address.path, query)
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def prepared(machine: Machine) -> Machine:
    (machine.work / "task.md").write_text(TASK, encoding="utf-8")
    machine.env |= {
        "PROMPT_FILE": "task.md",
        "PROVIDER": "their_agent",
        "POLL_SECONDS": "0.05",
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
        "CLEANUP_ON_EXIT": "1",
    }
    return machine


def test_variables_alone_and_their_server_are_enough_for_a_pass(prepared: Machine) -> None:
    with their_server() as theirs:
        prepared.env["CAO_API"] = theirs.url
        done = prepared.cao("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert state_of(prepared)["api"] == theirs.url
    assert next(agent.role for agent in theirs.agents.values()) == "analyst"
    assert sorted(agent.role for agent in theirs.agents.values()) == sorted(REPLIES)
    assert all(len(agent.prompts) == 1 for agent in theirs.agents.values())
    assert all(agent.exited for agent in theirs.agents.values())
    assert set(theirs.unknown) <= {"GET /health"}
    assert set(theirs.headers) == {None}
    assert len(replies_of(prepared)) == 5


def test_a_server_that_knows_no_permissions_is_said_to_know_none(prepared: Machine) -> None:
    with their_server() as theirs:
        prepared.env["CAO_API"] = theirs.url
        done = prepared.cao("run", "--permissions", "ask")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"the server at {theirs.url} does not take --permissions" in done.stdout


def test_without_a_file_the_run_stops_and_the_next_one_goes_on(prepared: Machine) -> None:
    prepared.env |= {"IDLE_GRACE_SECONDS": "0.5", "MAX_FILE_REMINDERS": "0", "CLEANUP_ON_EXIT": "0"}
    with their_server() as theirs:
        prepared.env["CAO_API"] = theirs.url
        theirs.mute = "programmer"
        stopped = prepared.cao("run")
        assert stopped.returncode == 3
        assert "without writing" in stopped.stderr
        (programmer,) = [a for a in theirs.agents.values() if a.role == "programmer"]
        write_reply(programmer)
        theirs.mute = ""
        del prepared.env["CAO_API"]
        done = prepared.cao("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(len(agent.prompts) == 1 for agent in theirs.agents.values())


def test_their_output_has_to_do_if_the_handoff_is_not_strict(prepared: Machine) -> None:
    prepared.env |= {"IDLE_GRACE_SECONDS": "0.5", "STRICT_FILE_HANDOFF": "no"}
    with their_server() as theirs:
        prepared.env["CAO_API"] = theirs.url
        theirs.mute = "tester"
        done = prepared.cao("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "there is no response file" in done.stdout
