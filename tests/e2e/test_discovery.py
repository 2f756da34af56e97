"""A stranger's server is where ours might be: no command tells him anything, or does him harm."""

import json
import os
from collections.abc import Iterator

import pytest

from cli_agent_orchestrator.cli.connect import all_terminals
from cli_agent_orchestrator.hosting.connect import client_for, server_for
from cli_agent_orchestrator.settings.run_config import RunConfig
from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, free_port, prepare, running, script
from tests.server.running import RunningApi, running_api
from tests.third_party import ThirdParty, third_party

pytestmark = pytest.mark.tmux


@pytest.fixture
def recorder() -> Iterator[ThirdParty]:
    """Somebody who says yes to everything, and keeps all that he is sent."""
    with third_party() as recorder:
        recorder.answers["/sessions"] = (200, b"[]")
        yield recorder


@pytest.fixture
def lets_all_in() -> Iterator[RunningApi]:
    """Another user's server, of our kind, that asks for no token."""
    with running_api(token=None, identity="the token of somebody else") as theirs:
        theirs.service.add("0badcafe")
        yield theirs


def announce(machine: Machine, url: str) -> None:
    """Leave an address in the state folder, as a server does that was killed afterwards."""
    state = machine.home / "state"
    state.mkdir(mode=0o700)
    (state / "token").write_text("our-own-secret-token", encoding="ascii")
    (state / "token").chmod(0o600)
    (state / "server").write_text(f"{os.getpid()} {url}", encoding="utf-8")


def naming_no_port(machine: Machine) -> dict[str, str]:
    """Return the environment of somebody who looks at the usual port, which a test chooses."""
    return {name: text for name, text in machine.env.items() if name != "CAO_PORT"}


def assert_told_nothing(recorder: ThirdParty) -> None:
    assert {asked.path for asked in recorder.asked} == {"/identity"}
    for asked in recorder.asked:
        assert set(asked.query) == {"challenge"}
        assert (asked.method, asked.authorization, asked.body) == ("GET", None, b"")


def test_a_run_tells_a_stranger_neither_token_nor_task(
    machine: Machine, recorder: ThirdParty
) -> None:
    prepare(machine, script())
    announce(machine, recorder.url)
    with running(machine, "task.md") as run:
        assert run.end() == 0, run.errors
    (server,) = run.told("server")
    assert server["url"] != recorder.url
    assert server["how"].startswith("its own")
    assert any(recorder.url in event["text"] for event in run.told("run_warning"))
    assert_told_nothing(recorder)


def test_commands_leave_a_strangers_server_alone(machine: Machine, recorder: ThirdParty) -> None:
    announce(machine, recorder.url)
    machine.env["CAO_PORT"] = "0"
    for words in (["ls"], ["stop", "--all"], ["stop", "--everywhere", "--yes"]):
        done = machine.cao(*words)
        assert done.returncode == 0, done.stderr
        assert f"the server at {recorder.url} (of your state folder) is not used" in done.stderr
        announce_again(machine, recorder.url)
    assert machine.cao("send", "0badcafe", "a secret").returncode == 2
    assert_told_nothing(recorder)


def announce_again(machine: Machine, url: str) -> None:
    """Put back the address that our own server removed at its end."""
    (machine.home / "state" / "server").write_text(f"{os.getpid()} {url}", encoding="utf-8")


def test_another_users_agents_at_the_usual_port_are_not_even_seen(
    machine: Machine, lets_all_in: RunningApi
) -> None:
    remarks: list[str] = []
    environ = naming_no_port(machine)
    with client_for(environ, None, remarks.append, default_port=lets_all_in.port) as client:
        assert all_terminals(client) == []
        assert client.base_url != lets_all_in.url
    (remark,) = remarks
    assert "does not prove that it knows your token" in remark
    assert list(lets_all_in.service.known) == ["0badcafe"]


def test_a_run_does_not_use_it_either(machine: Machine, lets_all_in: RunningApi) -> None:
    config = RunConfig.from_env({"WD": str(machine.work), "PROMPT": TASK})
    warnings: list[str] = []
    environ = naming_no_port(machine)
    with server_for(config, environ, warnings.append, default_port=lets_all_in.port) as link:
        assert link.client.list_sessions() == []
    assert len(warnings) == 1
    assert lets_all_in.service.created == []


def test_our_own_server_without_token_is_found_by_its_state_folder(machine: Machine) -> None:
    with machine.server("--no-auth") as server:
        del machine.env["CAO_API"]
        with client_for(machine.env, None, print, default_port=free_port()) as client:
            assert client.base_url == server.url
        assert (machine.home / "state" / "token").stat().st_mode & 0o777 == 0o600


def test_the_port_that_is_named_is_honoured_by_all_commands(
    machine: Machine, lets_all_in: RunningApi
) -> None:
    machine.env["CAO_PORT"] = str(lets_all_in.port)
    assert "0badcafe" in machine.cao("ls").stdout
    assert json.loads(machine.cao("ls", "--json").stdout)[0]["id"] == "0badcafe"
    assert machine.cao("stop", "--all").returncode == 0
    assert lets_all_in.service.ended == []
    machine.env["CAO_PORT"] = str(free_port())
    for words in (["ls"], ["stop", "--all"], ["output", "x"], ["run", "--prompt", TASK]):
        done = machine.cao(*words)
        assert done.returncode == (2 if words[0] == "run" else 3), done.stdout
        assert "(named by CAO_PORT): Connection refused; is the server" in done.stderr
    assert machine.cao("runs", "--json").stdout.strip() == "[]"


def test_a_run_says_which_server_was_named_and_by_what(
    machine: Machine, recorder: ThirdParty
) -> None:
    recorder.answers["/sessions"] = (500, b'{"detail": "no more agents"}')
    machine.env |= {"CAO_API": recorder.url, "API": "http://127.0.0.1:1", "PROMPT": TASK}
    done = machine.cao("run")
    assert f"Server: {recorder.url} (named by CAO_API)" in done.stdout
    assert "no more agents" in done.stderr
    del machine.env["CAO_API"], machine.env["API"]
    (machine.work / "cao.toml").write_text(f'api = "{recorder.url}"\n', encoding="utf-8")
    before = len(recorder.asked)
    done = machine.cao("run")
    assert done.returncode == 2
    assert f"CAO_API={recorder.url}" in done.stderr
    assert {one.path for one in recorder.asked[before:]} <= {"/health", "/identity"}
    assert {asked.authorization for asked in recorder.asked} == {None}


def test_the_address_is_written_for_its_owner_alone_and_through_no_link(machine: Machine) -> None:
    state = machine.home / "state"
    state.mkdir(mode=0o700)
    precious = machine.home / "precious"
    precious.write_text("mine", encoding="utf-8")
    (state / "server").symlink_to(precious)
    with machine.server() as server:
        assert (state / "server").read_text(encoding="utf-8").endswith(server.url)
        assert not (state / "server").is_symlink()
        assert (state / "server").stat().st_mode & 0o777 == 0o600
    assert precious.read_text(encoding="utf-8") == "mine"
    assert not (state / "server").exists()


def test_a_doctor_knows_the_port_of_a_server_of_ours(machine: Machine) -> None:
    with machine.server() as server:
        port = server.url.rpartition(":")[2]
        machine.env["CAO_PORT"] = port
        found = json.loads(machine.cao("doctor", "--json").stdout)["findings"]
    details = {finding["subject"]: finding["detail"] for finding in found}
    assert details["port"] == f"{port}, your server"
