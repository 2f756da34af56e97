"""The client that a command is given."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.find import Discovery, discover
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.core.identity import Found
from cli_agent_orchestrator.errors import ApiUnreachable, FolderTaken, ServerConflict, ServerSilent
from cli_agent_orchestrator.hosting import connect as transports
from cli_agent_orchestrator.hosting.connect import (
    client_for,
    find_or_start,
    run_own_server,
    server_for,
)
from cli_agent_orchestrator.settings.run_config import RunConfig
from tests.server.running import TOKEN, running_api
from tests.third_party import third_party


def test_who_takes_the_port_after_the_proof_is_sent_neither_token_nor_message(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    environ = {"CAO_STATE_DIR": str(tmp_path)}
    with ExitStack() as stack:
        ours = stack.enter_context(running_api())
        with client_for(environ, None, print, default_port=ours.port) as client:
            stack.close()
            with third_party(ours.port) as thief, pytest.raises(ApiUnreachable):
                client.send_input("0badcafe", "a secret")
    assert {asked.path for asked in thief.asked} == {"/identity"}
    assert {asked.authorization for asked in thief.asked} == {None}


@pytest.mark.parametrize("is_named", [True, False])
def test_nor_is_who_takes_the_port_of_the_server_of_a_run(tmp_path: Path, is_named: bool) -> None:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    environ = {"CAO_STATE_DIR": str(tmp_path)}
    with ExitStack() as stack:
        ours = stack.enter_context(running_api())
        api = {"API": f"http://127.0.0.1:{ours.port}"} if is_named else {}
        config = RunConfig.from_env({"WD": str(tmp_path), **api}, "--api" if is_named else "")
        with server_for(config, environ, print, default_port=ours.port) as link:
            stack.close()
            with third_party(ours.port) as thief, pytest.raises(ApiUnreachable):
                link.client.send_input("0badcafe", "a secret")
    assert {asked.path for asked in thief.asked} == {"/identity"}
    assert {asked.authorization for asked in thief.asked} == {None}


OURS = Found("http://127.0.0.1:1", "token", "the one that runs", proved=True)


def ours() -> Found:
    return OURS


def own() -> Found:
    return Found("http://127.0.0.1:2", "token", "its own")


def conflict() -> Found:
    raise ServerConflict("another server uses the state folder")


def tell(folder: Path) -> Found:
    """Tell where the other server is, which keeps ours from starting."""
    (folder / "server").write_text("1 http://127.0.0.1:1", encoding="utf-8")
    return conflict()


def test_whose_server_lost_the_race_uses_the_one_that_won(tmp_path: Path) -> None:
    looks = iter([Discovery(None, ("a remark",)), Discovery(None, ("a remark",)), Discovery(OURS)])
    remarks: list[str] = []
    found = find_or_start(lambda: next(looks), lambda: tell(tmp_path), remarks.append, tmp_path)
    assert found == OURS
    assert remarks == ["a remark"]


def test_the_one_that_won_is_found_when_it_tells_where_it_is_and_not_looked_for_till_then(
    tmp_path: Path,
) -> None:
    looks: list[bool] = []

    def announce() -> None:
        Folder(tmp_path).replace("server", b"1 http://127.0.0.1:1")

    def find() -> Discovery:
        looks.append((tmp_path / "server").exists())
        return Discovery(OURS if looks[-1] else None)

    # Time enough to look several times, if one did.
    winner = threading.Timer(0.5, announce)
    winner.start()
    assert find_or_start(find, conflict, print, tmp_path, patience=600) == OURS
    winner.join()
    assert looks == [False, False, True]


def test_who_cannot_find_the_one_that_won_says_so_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(ServerConflict, match="another server uses"):
        find_or_start(lambda: Discovery(None), conflict, print, tmp_path, patience=0)


def taken_by(pid: int) -> Callable[[], Found]:
    def start() -> Found:
        raise FolderTaken("/state", pid)

    return start


def test_who_has_the_folder_and_does_not_answer_is_named_with_what_can_be_done(
    tmp_path: Path,
) -> None:
    with pytest.raises(ServerSilent, match=r"\(process \d+\) .* no answer .* `kill -9 \d+`"):
        find_or_start(lambda: Discovery(None), taken_by(os.getpid()), print, tmp_path, patience=0)


def test_a_server_that_is_stopped_is_told_at_once_and_by_one_message(tmp_path: Path) -> None:
    remarks: list[str] = []
    stopped = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        stopped.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
        with pytest.raises(ServerSilent, match=f"is stopped; .* `kill -CONT {stopped.pid}`, or "):
            find_or_start(
                lambda: Discovery(None, ("is not used: it did not answer",)),
                taken_by(stopped.pid),
                remarks.append,
                tmp_path,
                patience=600,
            )
    finally:
        stopped.kill()
        stopped.communicate()
    assert remarks == []


def test_if_the_one_that_won_has_ended_a_server_is_started_after_all(tmp_path: Path) -> None:
    starts = iter([conflict, lambda: tell(tmp_path), ours])
    found = find_or_start(lambda: Discovery(None), lambda: next(starts)(), print, tmp_path)
    assert found == OURS


PASSING = Discovery(None, passing=OURS)


def test_a_run_waits_for_the_end_of_a_server_that_a_short_command_hosts(tmp_path: Path) -> None:
    starts = iter([conflict, lambda: tell(tmp_path), own])
    found = find_or_start(lambda: PASSING, lambda: next(starts)(), print, tmp_path)
    assert found == own()


def test_it_uses_one_that_does_not_end_in_time_after_all(tmp_path: Path) -> None:
    assert find_or_start(lambda: PASSING, conflict, print, tmp_path, patience=0) == OURS


def of_a_user(home: Path) -> dict[str, str]:
    """Return the environment of somebody who has nothing but the programs."""
    return {
        "CAO_STATE_DIR": str(home / "state"),
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CAO_PORT": "0",
    }


@pytest.mark.tmux
def test_a_run_does_not_go_over_to_the_server_of_a_command_that_ends(tmp_path: Path) -> None:
    environ = of_a_user(tmp_path)
    config = RunConfig.from_env({"WD": str(tmp_path)})
    with ExitStack() as command:
        client = command.enter_context(client_for(environ, None, print))
        another, run = discover(environ), discover(environ, lasting=True)
        assert another.found is not None
        assert another.found.url == client.base_url
        assert (run.found, run.passing) == (None, another.found)
        end = threading.Timer(0.3, command.close)
        end.start()
        with server_for(config, environ, print) as link:
            end.join()
            assert link.how.startswith("its own")
            lasting = discover(environ, lasting=True).found
            assert lasting is not None
            assert lasting.url == link.url


@pytest.mark.tmux
def test_the_server_of_a_run_in_place_of_one_that_was_ended_takes_its_port_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an open page comes back, and whoever has named the port."""
    monkeypatch.setattr(transports, "ABSENCE_SECONDS", 0.0)
    environ = of_a_user(tmp_path)
    config = RunConfig.from_env({"WD": str(tmp_path)})
    with ExitStack() as server:
        ended = server.enter_context(run_own_server(environ, 0))
        with server_for(config, environ, print) as link:
            assert link.url == ended.url
            server.close()
            with pytest.raises(ApiUnreachable):
                link.client.health()
            assert link.client.health()
            found = discover(environ).found
            assert found is not None
            assert found.url == ended.url


@pytest.mark.tmux
def test_a_server_of_our_own_asks_nothing_of_whoever_has_the_usual_port(tmp_path: Path) -> None:
    environ = {"CAO_STATE_DIR": str(tmp_path / "state"), "PATH": os.environ["PATH"]}
    with third_party() as stranger:
        port = int(stranger.url.rpartition(":")[2])
        with run_own_server(environ, port) as own:
            assert own.url != stranger.url
    assert stranger.asked == []
