"""The event stream as the client reads it, and every way it ends."""

import socket
import threading

import httpx
import pytest

from cli_agent_orchestrator.client import ApiClient
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
)
from cli_agent_orchestrator.models import TerminalEvent, TerminalStatus
from tests.api.running import WAIT_SECONDS, RunningApi
from tests.third_party import ThirdParty


def test_events_are_read_and_resumed(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    first = next(client.events())
    assert (first.kind, first.terminal_id, first.status) == (
        "snapshot",
        "a1b2c3d4",
        TerminalStatus.IDLE,
    )
    server.call(lambda: server.service.change("a1b2c3d4", TerminalStatus.ERROR))
    change = next(client.events(after=first.id))
    assert (change.kind, change.status, change.at) == (
        "status",
        TerminalStatus.ERROR,
        1_700_000_000.5,
    )


@pytest.mark.parametrize("ending", ["close_events", "close"])
def test_a_waiting_reader_is_woken_from_another_thread(
    server: RunningApi, client: ApiClient, ending: str
) -> None:
    server.service.add()
    read: list[TerminalEvent] = []
    began = threading.Event()

    def follow() -> None:
        for event in client.events():
            read.append(event)
            began.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert began.wait(WAIT_SECONDS)
    getattr(client, ending)()
    reader.join(WAIT_SECONDS)
    assert not reader.is_alive()
    assert [event.kind for event in read] == ["snapshot"]
    server.wait_until(lambda: server.service.listeners == 0)


def test_closed_events_end_before_they_began(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    events = client.events()
    client.close_events()
    assert list(events) == []


def test_events_may_be_followed_again_after_closing(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    client.close_events()
    assert next(client.events()).kind == "snapshot"


def test_a_server_that_stops_ends_the_events(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    events = client.events()
    next(events)
    server.stop()
    assert list(events) == []


def test_a_connection_that_breaks_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_half() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n8\r\n: ping\n\n\r\n"
            )
            connection.close()

        thread = threading.Thread(target=answer_half)
        thread.start()
        port = listener.getsockname()[1]
        with (
            ApiClient(f"http://127.0.0.1:{port}") as client,
            pytest.raises(ApiUnreachable) as caught,
        ):
            next(client.events())
        thread.join()
    assert caught.value.maybe_received


@pytest.mark.parametrize("data", ["no json", "[]", "{}", '{"terminal_id": "x", "at": "then"}', "5"])
def test_an_event_that_cannot_be_read_is_refused(data: str) -> None:
    stream = httpx.Response(
        200, headers={"Content-Type": "text/event-stream"}, text=f"data: {data}\n\n"
    )
    with (
        ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client,
        pytest.raises(ApiRefused, match="cannot be read"),
    ):
        next(client.events())


def test_words_of_later_versions_are_no_problem() -> None:
    data = '{"terminal_id": "x", "status": "dreaming", "mood": "fine"}'
    stream = httpx.Response(
        200,
        headers={"Content-Type": "text/event-stream"},
        text=f"event: mood\nid: 7\ndata: {data}\n\n",
    )
    with ApiClient(transport=httpx.MockTransport(lambda _: stream)) as client:
        event = next(client.events())
    assert (event.id, event.kind, event.status) == ("7", "mood", TerminalStatus.UNKNOWN)


def test_what_is_no_stream_is_refused(theirs: ThirdParty, guest: ApiClient) -> None:
    with pytest.raises(ApiRefused) as caught:
        next(guest.events())
    assert caught.value.status_code == 404
    theirs.answers["/events"] = (200, b"{}")
    with pytest.raises(ApiRefused, match="no event stream"):
        next(guest.events())
