"""Which server commands use, and what strangers learn of it."""

from collections.abc import Iterator

import pytest

from cli_agent_orchestrator.client.find import find_server
from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, prepare, running, script
from tests.third_party import ThirdParty, third_party

pytestmark = pytest.mark.tmux


@pytest.fixture
def recorder() -> Iterator[ThirdParty]:
    """Somebody who says yes to everything, and keeps all that he is sent."""
    with third_party() as recorder:
        recorder.answers["/sessions"] = (200, b"[]")
        yield recorder


def test_nobody_is_told_anything_who_has_the_port_of_a_server_that_was_killed(
    machine: Machine, recorder: ThirdParty
) -> None:
    """Nor is it an error that the port is set and taken."""
    prepare(machine, script())
    state = machine.home / "state"
    state.mkdir(mode=0o700)
    (state / "server").write_text(recorder.url, encoding="utf-8")
    machine.env["CAO_PORT"] = recorder.url.rpartition(":")[2]
    with running(machine, "task.md") as run:
        assert run.end() == 0, run.errors
    (server,) = run.told("server")
    assert server["url"] != recorder.url
    assert server["how"].startswith("its own")
    for words in (["ls"], ["stop", "--all"], ["stop", "--everywhere", "--yes"]):
        machine.cao(*words, code=0)
    machine.cao("send", "0badcafe", "a secret", code=2)
    assert recorder.asked == []


def test_the_users_own_server_is_found_by_its_socket_whatever_port_is_set(
    machine: Machine, recorder: ThirdParty
) -> None:
    """Its address is written for its owner alone, and through no link."""
    state = machine.home / "state"
    state.mkdir(mode=0o700)
    precious = machine.home / "precious"
    precious.write_text("mine", encoding="utf-8")
    (state / "server").symlink_to(precious)
    with machine.server("--no-auth") as server:
        del machine.env["CAO_API"]
        machine.env["CAO_PORT"] = recorder.url.rpartition(":")[2]
        found = find_server(machine.env, lasting=True)
        assert found is not None
        assert found.url == server.url
        machine.cao("ls", code=0)
        assert (state / "server").read_text(encoding="utf-8").endswith(server.url)
        assert not (state / "server").is_symlink()
        for name in ("server", "token"):
            assert (state / name).stat().st_mode & 0o777 == 0o600
    assert recorder.asked == []
    assert precious.read_text(encoding="utf-8") == "mine"
    assert not (state / "server").exists()


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
    done = machine.cao("run", code=2)
    assert f"CAO_API={recorder.url}" in done.stderr
    assert {one.path for one in recorder.asked[before:]} <= {"/health"}
    assert {asked.authorization for asked in recorder.asked} == {None}
