"""`cao server` as its users meet it: clients of others, crashes, and our own commands."""

import contextlib
import copy
import http.client
import json
import os
import signal
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cli_agent_orchestrator import Client
from cli_agent_orchestrator.errors import ApiRefused
from cli_agent_orchestrator.server.routes import STILL_ASKS
from tests.e2e.conftest import CAO, Machine
from tests.e2e.runs import wait_until

pytestmark = pytest.mark.tmux

HANG = '[[rule]]\ncontains = "hang"\nmisbehave = { hang = true }\n'


def call(method: str, url: str, **parameters: str) -> Any:
    """Do what a client does that knows the routes and nothing else: query parameters, JSON."""
    query = urllib.parse.urlencode(parameters)
    request = urllib.request.Request(f"{url}?{query}" if query else url, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_client_that_knows_only_the_routes_can_do_a_turn(machine: Machine) -> None:
    machine.script('[[rule]]\nseconds = 0.2\nanswer = "the answer is 42"\n')
    with machine.server("--no-auth") as server:
        assert call("GET", f"{server.url}/health")["status"] == "ok"
        terminal = call(
            "POST",
            f"{server.url}/sessions",
            provider="scripted",
            agent_profile="tester",
            working_directory=str(machine.work),
        )
        own = f"{server.url}/terminals/{terminal['id']}"
        assert terminal["session_name"].startswith("cao-")
        assert call("POST", f"{own}/input", message="what is it?")["success"] is True
        wait_until(lambda: call("GET", own)["status"] == "completed")
        assert "the answer is 42" in call("GET", f"{own}/output", mode="last")["output"]
        assert "what is it?" in call("GET", f"{own}/output", mode="full")["output"]
        assert call("GET", f"{own}/working-directory") == {"working_directory": str(machine.work)}
        assert call("POST", f"{own}/exit") == {"success": True}
        assert call("GET", f"{server.url}/sessions") == []


def test_of_two_clients_that_answer_a_question_one_does(machine: Machine) -> None:
    machine.script('[[rule]]\nmisbehave = { ask = "delete everything" }\n')
    with machine.server("--no-auth") as server, Client(server.url) as client:
        terminal = client.create_session("tester", provider="scripted")["id"]
        assert client.get_question(terminal) is None
        assert client.send_input(terminal, "work").confirmed
        wait_until(lambda: bool((client.get_question(terminal) or {}).get("choices")))
        asked = client.get_question(terminal)
        assert asked is not None
        assert asked["text"] == "permission needed\ndelete everything"
        assert asked["choices"][0] == {"key": "1", "label": "Yes"}

        def answer(_: int) -> str:
            try:
                return str(client.answer_agent(terminal, "1", asked["fingerprint"])["text"])
            except ApiRefused as refused:
                return f"{refused.status_code}: {refused.detail}"

        with ThreadPoolExecutor() as threads:
            told = sorted(threads.map(answer, range(2)))
        assert told[0].startswith("409: ")
        assert told[0].endswith(f"{terminal} was answered already; nothing was pressed")
        assert told[1] in ("The question is answered.", STILL_ASKS)  # not seen in time
        wait_until(lambda: client.get_status(terminal) == "completed")
        assert "scripted ❯ Say what to do" in client.get_output(terminal, "screen")


def test_without_the_token_nobody_gets_in(machine: Machine) -> None:
    with machine.server() as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            call("GET", f"{server.url}/sessions")
        assert refused.value.code == 401
        refused.value.close()
        token = machine.home / "state" / "token"
        assert token.stat().st_mode & 0o077 == 0


def test_killing_the_server_while_ten_agents_work_loses_none_of_them(machine: Machine) -> None:
    machine.script(HANG)
    with machine.server("--no-auth") as server:
        parameters = {
            "provider": "scripted",
            "agent_profile": "programmer",
            "working_directory": str(machine.work),
        }
        first = call("POST", f"{server.url}/sessions", session_name="ten", **parameters)
        terminals = [first["id"]]
        for _ in range(9):
            url = f"{server.url}/sessions/cao-ten/terminals"
            terminals.append(call("POST", url, **parameters)["id"])
        for terminal in terminals:
            message = f"hang {terminal}"
            call("POST", f"{server.url}/terminals/{terminal}/input", message=message)
        pids = machine.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_pid}")
        server.kill()
    with machine.server("--no-auth") as server:
        found = call("GET", f"{server.url}/sessions/cao-ten/terminals")
        assert {terminal["id"] for terminal in found} == set(terminals)
        assert {terminal["status"] for terminal in found} == {"processing"}
        assert machine.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_pid}") == pids
        for terminal in terminals:
            output = call("GET", f"{server.url}/terminals/{terminal}/output", mode="full")
            assert f"hang {terminal}" in output["output"]


@contextlib.contextmanager
def waiting_for_a_step(machine: Machine, url: str) -> Iterator[list[str]]:
    """Ask for a step that never ends; after the block the list has its outcome."""
    step = {
        "provider": "scripted",
        "agent": "tester",
        "prompt": "hang",
        "working_directory": str(machine.work),
    }
    told: list[str] = []

    def ask() -> None:
        request = urllib.request.Request(
            f"{url}/terminals/run-step",
            json.dumps(step).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except urllib.error.HTTPError as error:
            with error:
                told.append(f"{error.code} {json.load(error)['detail']}")
        except (OSError, http.client.HTTPException):
            pass

    def works() -> bool:
        sessions = call("GET", f"{url}/sessions")
        return any(t["status"] == "processing" for s in sessions for t in s["terminals"])

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(works)
    yield told
    asking.join()


def test_a_server_told_to_stop_ends_its_steps_and_says_so(machine: Machine) -> None:
    machine.script(HANG)
    with machine.server("--no-auth") as server:
        with waiting_for_a_step(machine, server.url) as told:
            server.process.terminate()
        assert server.process.wait(60) == 0
        assert [line[:27] for line in told] == ["503 the server is stopping:"]
        log = b"".join(server.process.communicate())
        assert b"Traceback" not in log
        assert b"never retrieved" not in log
    assert machine.tmux("list-panes", "-a", "-F", "#{@cao_id}") == ""


def test_the_agent_of_a_step_does_not_outlive_the_server_that_waits_for_it(
    machine: Machine,
) -> None:
    machine.script(HANG)
    with machine.server("--no-auth") as server, waiting_for_a_step(machine, server.url):
        server.kill()
    with machine.server("--no-auth") as server:
        assert call("GET", f"{server.url}/sessions") == []
        assert machine.tmux("list-panes", "-a", "-F", "#{@cao_id}") == ""


def test_agents_that_finish_or_die_while_there_is_no_server_are_seen_as_that(
    machine: Machine,
) -> None:
    machine.script(
        '[[rule]]\ncontains = "finish"\nseconds = 1.5\nanswer = "finished meanwhile"\n' + HANG
    )
    with machine.server("--no-auth") as server:
        parameters = {
            "provider": "scripted",
            "agent_profile": "programmer",
            "working_directory": str(machine.work),
        }
        finishes = call("POST", f"{server.url}/sessions", **parameters)["id"]
        dies = call("POST", f"{server.url}/sessions", **parameters)["id"]
        for terminal, message in ((finishes, "finish"), (dies, "hang")):
            call("POST", f"{server.url}/terminals/{terminal}/input", message=message)
        server.kill()
    panes = machine.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_pid}").splitlines()
    pids = dict(pane.split() for pane in panes if len(pane.split()) == 2)
    os.kill(int(pids[dies]), signal.SIGKILL)
    wait_until(
        lambda: (
            "turn 1 over" in machine.tmux("capture-pane", "-p", "-t", f"{_pane(machine, finishes)}")
        )
    )
    with machine.server("--no-auth") as server:
        finished = call("GET", f"{server.url}/terminals/{finishes}")
        assert finished["status"] == "completed"
        output = call("GET", f"{server.url}/terminals/{finishes}/output", mode="last")
        assert output["output"].strip() == "finished meanwhile"
        dead = call("GET", f"{server.url}/terminals/{dies}")
        assert (dead["status"], dead["alive"], dead["exit_code"]) == ("error", False, 137)


def _pane(machine: Machine, terminal: str) -> str:
    panes = machine.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_id}").splitlines()
    return dict(pane.split() for pane in panes if len(pane.split()) == 2)[terminal]


def test_a_second_server_on_the_same_folder_is_refused(machine: Machine) -> None:
    with machine.server():
        second = machine.cao("server", "--port", "0")
    assert second.returncode == 3
    assert "another server" in second.stderr
    assert str(machine.home / "state") in second.stderr


def test_a_port_that_another_server_has_is_named(machine: Machine) -> None:
    with machine.server() as server:
        port = server.url.rpartition(":")[2]
        machine.env["CAO_STATE_DIR"] = str(machine.home / "other")
        second = machine.cao("server", "--port", port)
        machine.env["CAO_STATE_DIR"] = str(machine.home / "state")
    assert second.returncode == 3
    assert port in second.stderr


def test_a_missing_tmux_is_said_in_one_line(machine: Machine) -> None:
    path, machine.env["PATH"] = machine.env["PATH"], str(machine.home)
    ended = machine.cao("server", "--port", "0")
    machine.env["PATH"] = path
    assert ended.returncode == 2
    assert "tmux" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_commands_do_what_they_say(machine: Machine) -> None:
    machine.script('[[rule]]\nanswer = "hello, {role}"\n')
    with machine.server("--no-auth") as server:
        terminal = call(
            "POST",
            f"{server.url}/sessions",
            provider="scripted",
            agent_profile="tester",
            working_directory=str(machine.work),
        )
        listed = machine.cao("ls")
        assert terminal["id"] in listed.stdout
        assert "idle" in listed.stdout
        assert json.loads(machine.cao("ls", "--json").stdout)[0]["id"] == terminal["id"]
        sent = machine.cao("send", terminal["id"][:6], "-", stdin="good morning")
        assert sent.returncode == 0, sent.stderr
        assert "Sent" in sent.stdout
        own = f"{server.url}/terminals/{terminal['id']}"
        wait_until(lambda: call("GET", own)["status"] == "completed")
        assert machine.cao("output", terminal["name"]).stdout.strip() == "hello, tester"
        assert "good morning" in machine.cao("output", terminal["id"], "--full").stdout
        # The end of a turn is told before its screen is drawn.
        screen = ("output", terminal["id"], "--screen")
        wait_until(lambda: "turn 1 over" in machine.cao(*screen).stdout)
        explained = machine.cao("output", terminal["id"], "--why")
        assert "is completed" in explained.stdout
        assert "hook" in explained.stdout
        unknown = machine.cao("output", "nonesuch", "--why")
        assert unknown.returncode == 2
        assert terminal["id"] in unknown.stderr
        assert machine.cao("stop").returncode == 2
        assert machine.cao("stop", terminal["id"]).returncode == 0
        assert "No terminals" in machine.cao("ls").stdout


def test_commands_find_agents_again_when_no_server_runs(machine: Machine) -> None:
    with machine.server("--no-auth") as server:
        terminal = call(
            "POST",
            f"{server.url}/sessions",
            provider="scripted",
            agent_profile="tester",
            working_directory=str(machine.work),
        )
    del machine.env["CAO_API"]
    listed = machine.cao("ls")
    assert terminal["id"] in listed.stdout, listed.stderr
    assert machine.cao("stop", "--all").returncode == 0


def test_ctrl_c_ends_the_server_and_the_agents_go_on(machine: Machine) -> None:
    with machine.server("--no-auth") as server:
        call(
            "POST",
            f"{server.url}/sessions",
            provider="scripted",
            agent_profile="tester",
            working_directory=str(machine.work),
        )
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
    assert len(machine.tmux("list-panes", "-a", "-F", "#{@cao_id}").split()) >= 1


def test_attach_shows_the_agent_in_a_real_tmux(machine: Machine) -> None:
    # The person's own terminal is a tmux as well, as it often is: not that of the agents.
    person_at = copy.copy(machine)
    person_at.env = machine.env | {"CAO_STATE_DIR": str(machine.home / "own")}
    own_tmux = person_at.tmux
    with machine.server("--no-auth") as server, contextlib.ExitStack() as undo:
        terminal = call(
            "POST",
            f"{server.url}/sessions",
            provider="scripted",
            agent_profile="tester",
            working_directory=str(machine.work),
        )
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
