"""The server that a command is given: found, its own, or one in place of a lost one."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.client.find import Found, find_server
from cli_agent_orchestrator.core.sockets import LASTING, find_socket
from cli_agent_orchestrator.errors import ApiUnreachable, FolderTaken, ServerConflict
from cli_agent_orchestrator.hosting.connect import (
    ABSENCE_SECONDS,
    OwnServer,
    client_for,
    find_or_start,
    run_own_server,
    server_for,
)
from cli_agent_orchestrator.settings.config import RunConfig
from tests.handoff.fakes import FakeClock
from tests.server.running import running_api
from tests.third_party import third_party

OURS = Found("http://127.0.0.1:1", "the one that runs", Path("/s"))
OWN = Found("http://127.0.0.1:2", "its own", Path("/s"))


def taken(pid: int | None = None) -> Found:
    raise FolderTaken("/state", pid)


def none(lasting: bool) -> Found | None:
    return None


class TestRace:
    """Another command starts a server at the same moment."""

    def test_the_server_that_won_is_found_when_it_listens(self, tmp_path: Path) -> None:
        found = iter([None, None, OURS])
        assert find_or_start(lambda lasting: next(found), taken, tmp_path, patience=600) == OURS

    def test_if_it_has_ended_a_server_is_started_after_all(self, tmp_path: Path) -> None:
        starts: Iterator[Callable[[], Found]] = iter([taken, taken, lambda: OWN])
        assert find_or_start(none, lambda: next(starts)(), tmp_path, patience=0.1) == OWN

    def test_that_of_a_short_command_is_used_only_if_it_does_not_end_in_time(
        self, tmp_path: Path
    ) -> None:
        def passing(lasting: bool) -> Found | None:
            return None if lasting else OURS

        assert find_or_start(passing, lambda: OWN, tmp_path) == OWN
        assert find_or_start(passing, taken, tmp_path, patience=0) == OURS

    def test_one_that_does_not_answer_is_an_error_in_the_end(self, tmp_path: Path) -> None:
        with pytest.raises(ServerConflict, match=r"`kill -9 \d+`"):
            find_or_start(none, lambda: taken(os.getpid()), tmp_path, patience=0)

        def port_taken() -> Found:
            raise ServerConflict("the port is taken")

        with pytest.raises(ServerConflict):
            find_or_start(none, port_taken, tmp_path, patience=0)


class TestAbsence:
    """A server that was found goes away."""

    def test_after_a_longer_one_another_takes_its_place(self, tmp_path: Path) -> None:
        clock, tries = FakeClock(), Tries(tmp_path)
        path = tmp_path / "none"
        with running_api(state=tmp_path), ApiClient(transport=OwnServer(path, tries, clock)) as one:
            for _ in range(2):
                with pytest.raises(ApiUnreachable):
                    one.health()
                clock.time += ABSENCE_SECONDS
            assert one.health()["status"] == "ok"
            assert tries.count == 1
        # One that cannot be started is tried again, and not with every request.
        with ApiClient(transport=OwnServer(path, tries, clock)) as client:
            for seconds in (ABSENCE_SECONDS, ABSENCE_SECONDS, 0, 0):
                with pytest.raises(ApiUnreachable):
                    client.health()
                clock.time += seconds
        assert tries.count == 1 + 2

    def test_one_that_is_over_does_not_count(self, tmp_path: Path) -> None:
        clock, tries = FakeClock(), Tries(tmp_path)
        with running_api(state=tmp_path):
            path = tries()
        with ApiClient(transport=OwnServer(path, tries, clock)) as client:
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += ABSENCE_SECONDS
            with running_api(state=tmp_path):
                assert client.health()
            with pytest.raises(ApiUnreachable):
                client.health()
        assert tries.count == 1


class Tries:
    """Counts how often a successor is looked for."""

    def __init__(self, state: Path) -> None:
        self.count = 0
        self._state = state

    def __call__(self) -> Path:
        self.count += 1
        path = find_socket(self._state, LASTING)
        if path is None:
            raise ServerConflict("the state folder is in use")
        return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has nothing but the programs."""
    return {
        "CAO_STATE_DIR": str(tmp_path / "state"),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CAO_PORT": "0",
    }


@pytest.mark.tmux
class TestOwn:
    def test_a_run_does_not_use_the_server_of_a_command_that_ends(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        config = RunConfig.from_env({"WD": str(tmp_path)})
        with ExitStack() as command:
            command.enter_context(client_for(environ, None))
            assert find_server(environ) is not None
            assert find_server(environ, lasting=True) is None
            end = threading.Timer(0.3, command.close)
            end.start()
            with server_for(config, environ, print) as (_, link):
                end.join()
                assert link.how.startswith("its own")
                lasting = find_server(environ, lasting=True)
                assert lasting is not None
                assert lasting.url == link.url

    def test_it_asks_nothing_of_whoever_has_the_usual_port(self, environ: dict[str, str]) -> None:
        with third_party() as stranger:
            environ["CAO_PORT"] = stranger.url.rpartition(":")[2]
            with run_own_server(environ) as own:
                assert own.url != stranger.url
        assert stranger.asked == []
