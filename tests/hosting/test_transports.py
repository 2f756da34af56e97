"""A server that was found and goes away is succeeded by another."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.identity import Found
from cli_agent_orchestrator.errors import ApiUnreachable, ServerConflict
from cli_agent_orchestrator.hosting.connect import (
    ABSENCE_SECONDS,
    FailoverTransport,
    GuardedTransport,
)
from cli_agent_orchestrator.server.schemas import SERVICE_NAME
from tests.e2e.runs import free_port
from tests.handoff.fakes import FakeClock
from tests.server.running import TOKEN, running_api
from tests.third_party import ThirdParty, third_party


@pytest.fixture
def successor() -> Iterator[ThirdParty]:
    with third_party() as server:
        yield server


def lost_server() -> str:
    return f"http://127.0.0.1:{free_port()}"


def own(server: ThirdParty, token: str | None = None) -> Found:
    return Found(server.url, token, "its own")


def absent() -> bool:
    """Ask somebody who is not there for a proof."""
    return False


def never() -> Found:
    raise AssertionError("nobody is to be started")


def test_a_short_absence_starts_nothing(successor: ThirdParty) -> None:
    clock = FakeClock()
    starts: list[str] = []

    def start() -> Found:
        starts.append("started")
        return own(successor)

    with ApiClient(lost_server(), transport=FailoverTransport(start, absent, clock)) as client:
        for _ in range(2):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += ABSENCE_SECONDS / 2
    assert starts == []


def test_after_a_longer_one_requests_go_to_the_successor_with_its_token(
    successor: ThirdParty,
) -> None:
    clock = FakeClock()
    failover = FailoverTransport(lambda: own(successor, "its token"), absent, clock)
    with ApiClient(lost_server(), token="the old one", transport=failover) as client:
        with pytest.raises(ApiUnreachable):
            client.health()
        clock.time += ABSENCE_SECONDS
        with pytest.raises(ApiUnreachable):
            client.health()
        assert client.health()["service"] == "theirs"
    assert successor.asked[0].authorization == "Bearer its token"
    assert successor.asked[0].host == successor.url.removeprefix("http://")


def test_an_absence_that_is_over_does_not_count(successor: ThirdParty) -> None:
    clock, answers = FakeClock(), iter([False, True, False])
    failover = FailoverTransport(never, lambda: next(answers), clock)
    # Each request over a connection of its own, which must be proved.
    with httpx.Client(transport=failover, headers={"Connection": "close"}) as client:
        with pytest.raises(httpx.ConnectError):
            client.get(f"{successor.url}/health")
        clock.time += ABSENCE_SECONDS
        assert client.get(f"{successor.url}/health").is_success
        with pytest.raises(httpx.ConnectError):
            client.get(f"{successor.url}/health")


def test_a_server_of_its_own_is_not_succeeded_again() -> None:
    clock = FakeClock()
    starts: list[str] = []

    def start() -> Found:
        starts.append("started")
        return Found(lost_server(), None, "its own")

    with ApiClient(lost_server(), transport=FailoverTransport(start, absent, clock)) as client:
        for _ in range(5):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += ABSENCE_SECONDS
    assert starts == ["started"]


def test_a_successor_that_cannot_be_started_is_not_tried_with_every_request() -> None:
    clock = FakeClock()
    tries: list[str] = []

    def start() -> Found:
        tries.append("tried")
        raise ServerConflict("the state folder is in use")

    with ApiClient(lost_server(), transport=FailoverTransport(start, absent, clock)) as client:
        for seconds in (ABSENCE_SECONDS, 0, 0, ABSENCE_SECONDS, 0):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += seconds
    assert tries == ["tried"] * 2


def test_a_successor_that_cannot_be_started_is_tried_again(successor: ThirdParty) -> None:
    clock = FakeClock()
    tries: list[str] = []

    def start() -> Found:
        tries.append("tried")
        if len(tries) == 1:
            raise ServerConflict("the state folder is in use")
        return own(successor)

    with ApiClient(lost_server(), transport=FailoverTransport(start, absent, clock)) as client:
        for _ in range(3):
            with pytest.raises(ApiUnreachable):
                client.health()
            clock.time += ABSENCE_SECONDS
        assert client.health()["service"] == "theirs"
    assert len(tries) == 2


def test_a_server_that_is_there_stays_the_one(successor: ThirdParty) -> None:
    with ApiClient(
        successor.url, transport=FailoverTransport(never, lambda: True, FakeClock())
    ) as client:
        assert client.health()["service"] == "theirs"


def test_who_took_the_port_of_a_lost_server_is_sent_nothing(successor: ThirdParty) -> None:
    clock = FakeClock()
    with third_party() as thief:
        failover = FailoverTransport(lambda: own(successor), absent, clock)
        with ApiClient(thief.url, token="the old one", transport=failover) as client:
            with pytest.raises(ApiUnreachable):
                list(client.events())
            with pytest.raises(ApiUnreachable):
                client.send_input("0badcafe", "the task")
            clock.time += ABSENCE_SECONDS
            with pytest.raises(ApiUnreachable):
                client.health()
            assert client.health()["service"] == "theirs"
        assert thief.asked == []


def test_a_successor_that_was_found_must_prove_itself_and_may_be_succeeded_too(
    successor: ThirdParty,
) -> None:
    clock = FakeClock()
    with ExitStack() as stack:
        ours = stack.enter_context(running_api())
        found = Found(ours.url, TOKEN, "of another run", proved=True)
        successors = iter([found, own(successor)])
        failover = FailoverTransport(lambda: next(successors), absent, clock)
        with ApiClient(lost_server(), transport=failover) as client:

            def lose() -> None:
                for _ in range(2):
                    with pytest.raises(ApiUnreachable):
                        client.health()
                    clock.time += ABSENCE_SECONDS

            lose()
            assert client.health()["service"] == SERVICE_NAME
            stack.close()
            with third_party(ours.port) as thief:
                lose()
            assert {asked.path for asked in thief.asked} == {"/identity"}
            assert client.health()["service"] == "theirs"


def test_every_new_connection_is_proved_and_no_other(successor: ThirdParty) -> None:
    proofs: list[str] = []

    def is_still_ours() -> bool:
        proofs.append("asked")
        return len(proofs) > 1

    with ApiClient(successor.url, transport=GuardedTransport(is_still_ours)) as client:
        with pytest.raises(ApiUnreachable) as refused:
            client.health()
        assert not refused.value.maybe_received
        assert successor.asked == []
        assert client.health()["service"] == "theirs"
        assert client.health()["service"] == "theirs"
    assert len(proofs) == 2
