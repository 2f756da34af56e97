"""`cao server` as its users meet it: clients of others, crashes, and our own commands."""

import contextlib
import copy
import json
import os
import signal
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from tests.e2e.conftest import CAO, Machine
from tests.e2e.runs import wait_until
from tests.terminals.boxes import box_program

pytestmark = pytest.mark.tmux


def call(method: str, url: str, **parameters: str) -> Any:
    """Do what a client does that knows the routes and nothing else: query parameters, JSON."""
    query = urllib.parse.urlencode(parameters)
    request = urllib.request.Request(f"{url}?{query}" if query else url, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def session(machine: Machine, url: str, profile: str = "tester", **more: str) -> Any:
    """Start an agent in a session of its own."""
    place = str(machine.work)
    more |= {"provider": "scripted", "agent_profile": profile, "working_directory": place}
    return call("POST", f"{url}/sessions", **more)


def test_agents_outlive_a_server_that_is_killed(machine: Machine) -> None:
    finish = '[[rule]]\ncontains = "finish"\nseconds = 1.5\nanswer = "finished meanwhile"\n'
    machine.script(finish + '[[rule]]\ncontains = "hang"\nmisbehave = { hang = true }\n')
    with machine.server("--no-auth") as server:
        terminals = [session(machine, server.url, "programmer")["id"] for _ in range(3)]
        for terminal in terminals:
            message = "finish" if terminal == terminals[0] else f"hang {terminal}"
            call("POST", f"{server.url}/terminals/{terminal}/input", message=message)
        finishes, dies, works = terminals
        pids = machine.panes("pane_pid")
        server.kill()
    os.kill(int(pids[dies]), signal.SIGKILL)
    shown = ("capture-pane", "-p", "-t", machine.panes()[finishes])
    wait_until(lambda: "turn 1 over" in machine.tmux(*shown))
    with machine.server("--no-auth") as server:

        def found(terminal: str) -> Any:
            return call("GET", f"{server.url}/terminals/{terminal}")

        def output(terminal: str, mode: str) -> str:
            own = f"{server.url}/terminals/{terminal}/output"
            return str(call("GET", own, mode=mode)["output"])

        sessions = call("GET", f"{server.url}/sessions")
        assert {t["id"] for s in sessions for t in s["terminals"]} == set(terminals)
        assert found(finishes)["status"] == "completed"
        assert output(finishes, "last").strip() == "finished meanwhile"
        dead = found(dies)
        assert (dead["status"], dead["alive"], dead["exit_code"]) == ("error", False, 137)
        now = machine.panes("pane_pid")
        assert now[works] == pids[works]
        assert found(works)["status"] == "processing"
        assert f"hang {works}" in output(works, "full")


def test_an_agent_that_is_known_by_its_box_alone_is_so_after_a_server_was_killed(
    machine: Machine,
) -> None:
    program = machine.home / "agent"
    program.write_text(box_program("@said\n\nagent> @box"), encoding="utf-8")
    program.chmod(0o755)
    machine.env["CAO_SCRIPTED_COMMAND"] = str(program)
    with machine.server("--no-auth") as server:
        path = f"/terminals/{session(machine, server.url)['id']}"
        assert call("POST", f"{server.url}{path}/input", message="one")["confirmed"]
        server.kill()
    with machine.server("--no-auth") as again:
        own = f"{again.url}{path}"
        wait_until(lambda: call("GET", own)["status"] in ("idle", "completed"))
        assert call("POST", f"{own}/input", message="two")["confirmed"]
    assert (machine.work / "taken.txt").read_text().split() == ["one", "two"]


def test_where_another_server_is_in_the_way_that_is_said(machine: Machine) -> None:
    with machine.server() as server:
        second = machine.cao("server", "--port", "0", code=3)
        assert "another server" in second.stderr
        assert str(machine.home / "state") in second.stderr
        port = server.url.rpartition(":")[2]
        machine.env["CAO_STATE_DIR"] = str(machine.home / "other")
        assert port in machine.cao("server", "--port", port, code=3).stderr
        machine.env["CAO_STATE_DIR"] = str(machine.home / "state")


def test_routes_and_commands_lead_to_the_same_agents(machine: Machine) -> None:
    machine.script('[[rule]]\nanswer = "hello, {role}"\n')
    with machine.server("--no-auth") as server:
        terminal = session(machine, server.url)
        assert terminal["session_name"].startswith("cao-")
        own = f"{server.url}/terminals/{terminal['id']}"
        assert call("POST", f"{own}/input", message="what is it?")["success"] is True
        wait_until(lambda: call("GET", own)["status"] == "completed")
        assert "hello, tester" in call("GET", f"{own}/output", mode="last")["output"]
        assert call("GET", f"{own}/working-directory") == {"working_directory": str(machine.work)}
        listed = machine.cao("ls")
        assert terminal["id"] in listed.stdout
        assert "completed" in listed.stdout
        sent = machine.cao("send", terminal["id"][:6], "-", stdin="good morning", code=0)
        assert "Sent" in sent.stdout
        # The end of a turn is told before its screen is drawn.
        screen = ("output", terminal["id"], "--screen")
        wait_until(lambda: "turn 2 over" in machine.cao(*screen).stdout)
        assert machine.cao("output", terminal["name"]).stdout.strip() == "hello, tester"
        assert "good morning" in machine.cao("output", terminal["id"], "--full").stdout
        explained = machine.cao("output", terminal["id"], "--why")
        assert "is completed" in explained.stdout
        assert "hook" in explained.stdout
        unknown = machine.cao("output", "nonesuch", "--why", code=2)
        assert terminal["id"] in unknown.stderr
        machine.cao("stop", code=2)
        machine.cao("stop", terminal["id"], code=0)
        assert "No terminals" in machine.cao("ls").stdout
        other = session(machine, server.url)["id"]
        assert call("POST", f"{server.url}/terminals/{other}/exit") == {"success": True}
        assert call("GET", f"{server.url}/sessions") == []


def test_attach_shows_the_agent_in_a_real_tmux(machine: Machine) -> None:
    # The person's own terminal is a tmux as well, as it often is: not that of the agents.
    person_at = copy.copy(machine)
    person_at.env = machine.env | {"CAO_STATE_DIR": str(machine.home / "own")}
    own_tmux = person_at.tmux
    with machine.server("--no-auth") as server, contextlib.ExitStack() as undo:
        terminal = session(machine, server.url)
        environ = [word for item in machine.env.items() for word in ("-e", "=".join(item))]
        size = ["-x", "150", "-y", "50"]
        attach = [*CAO, "attach", terminal["id"][:8]]
        undo.callback(own_tmux, "kill-server")
        own_tmux("new-session", "-d", "-s", "person", *size, *environ, *attach)
        person = ["-t", "=person:"]
        wait_until(lambda: "scripted ❯" in own_tmux("capture-pane", "-p", *person))
        hint = "Leave with Ctrl-b Ctrl-b d"
        wait_until(lambda: hint in own_tmux("capture-pane", "-p", *person))
        own_tmux("send-keys", *person, "typed by a person", "Enter")
        own = f"{server.url}/terminals/{terminal['id']}"
        wait_until(lambda: call("GET", own)["status"] == "completed")
        assert "typed by a person" in call("GET", f"{own}/output", mode="full")["output"]
