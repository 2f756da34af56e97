"""A server that was found and goes away is succeeded by one of our own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.link import PATIENCE_SECONDS, Address, Lifeline, find_running_server
from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.errors import ApiUnreachable, ServerConflict
from tests.e2e.runs import free_port
from tests.handoff.fakes import FakeClock
from tests.third_party import ThirdParty, third_party


@pytest.fixture
def successor() -> Iterator[ThirdParty]:
    with third_party() as server:
        yield server


def lost_server() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_a_short_absence_starts_nothing(successor: ThirdParty) -> None:
    clock = FakeClock()
    starts: list[str] = []

    def start() -> Address:
        starts.append("started")
        return Address(successor.url, None)

    with ApiClient(lost_server(), transport=Lifeline(start, clock)) as client:
        for _ in range(2):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += PATIENCE_SECONDS / 2
    assert starts == []


def test_after_a_longer_one_requests_go_to_the_successor_with_its_token(
    successor: ThirdParty,
) -> None:
    clock = FakeClock()
    lifeline = Lifeline(lambda: Address(successor.url, "its token"), clock)
    with ApiClient(lost_server(), token="the old one", transport=lifeline) as client:
        with pytest.raises(ApiUnreachable):
            client.health()
        clock.time += PATIENCE_SECONDS
        with pytest.raises(ApiUnreachable):
            client.health()
        assert client.health()["service"] == "theirs"
    assert successor.asked[0].authorization == "Bearer its token"


def test_a_successor_that_cannot_be_started_is_tried_again(successor: ThirdParty) -> None:
    clock = FakeClock()
    tries: list[str] = []

    def start() -> Address:
        tries.append("tried")
        if len(tries) == 1:
            raise ServerConflict("the state folder is in use")
        return Address(successor.url, None)

    with ApiClient(lost_server(), transport=Lifeline(start, clock)) as client:
        for _ in range(3):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += PATIENCE_SECONDS
        assert client.health()["service"] == "theirs"
    assert len(tries) == 2


def test_a_server_that_is_there_stays_the_one(successor: ThirdParty) -> None:
    def start() -> Address:
        raise AssertionError("nobody is to be started")

    with ApiClient(successor.url, transport=Lifeline(start, FakeClock())) as client:
        assert client.health()["service"] == "theirs"


class TestFinding:
    def test_without_a_usual_port_only_the_state_folder_tells(self, tmp_path: Path) -> None:
        environ = {"CAO_PORT": "0", "CAO_STATE_DIR": str(tmp_path)}
        assert find_running_server(environ) is None

    def test_nobody_there_is_nothing_found(self, tmp_path: Path) -> None:
        environ = {"CAO_PORT": str(free_port()), "CAO_STATE_DIR": str(tmp_path)}
        assert find_running_server(environ) is None

    def test_a_server_that_lets_us_in_is_found(self, successor: ThirdParty, tmp_path: Path) -> None:
        port = successor.url.rpartition(":")[2]
        successor.answers["/sessions"] = (200, b"[]")
        environ = {"CAO_PORT": port, "CAO_STATE_DIR": str(tmp_path)}
        assert find_running_server(environ) == f"http://localhost:{port}"

    def test_the_server_of_our_state_folder_is_found_at_any_port(
        self, successor: ThirdParty, tmp_path: Path
    ) -> None:
        successor.answers["/sessions"] = (200, b"[]")
        (tmp_path / "server").write_text(f"{os.getpid()} {successor.url}", encoding="utf-8")
        environ = {"CAO_PORT": "0", "CAO_STATE_DIR": str(tmp_path)}
        assert find_running_server(environ) == successor.url

    def test_a_server_that_does_not_let_us_in_is_somebody_elses(
        self, successor: ThirdParty, tmp_path: Path
    ) -> None:
        port = successor.url.rpartition(":")[2]
        successor.answers["/sessions"] = (401, b'{"detail": "token missing"}')
        assert find_running_server({"CAO_PORT": port, "CAO_STATE_DIR": str(tmp_path)}) is None
