"""The event stream as the client reads it, and every way it ends."""

import json
import socket
import threading

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core import codec
from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable
from tests.server.running import WAIT_SECONDS, RunningApi
from tests.third_party import ThirdParty


def test_events_are_read_and_resumed(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    first = next(client.events())
    assert (first.kind, first.terminal_id, first.status) == ("snapshot", "a1b2c3d4", "idle")
    server.call(lambda: server.service.change("a1b2c3d4", TerminalStatus.ERROR))
    change = next(client.events(after=first.id))
    assert (change.kind, change.status, change.at) == ("status", "error", 1_700_000_000.5)


def test_a_waiting_reader_is_woken_from_another_thread(
    server: RunningApi, client: ApiClient
) -> None:
    read: list[TerminalEvent] = []
    opened = threading.Event()
    reader = threading.Thread(target=lambda: read.extend(client.events(opened=opened.set)))
    reader.start()
    assert opened.wait(WAIT_SECONDS)
    client.close()
    reader.join(WAIT_SECONDS)
    assert not reader.is_alive()
    assert read == []
    server.wait_until(lambda: server.service.listeners == 0)


def test_closed_events_end_before_they_began_and_those_of_others_are_read_whole() -> None:
    told = TerminalEvent(
        *("7", "exited", "x", "cao-1", TerminalStatus.ERROR, "it ended with 137", 1_700_000_000.5),
        *(False, 137, "make test"),
    )
    with stream_of(f"event: exited\nid: 7\ndata: {json.dumps(codec.plain(told))}\n\n") as client:
        events = client.events()
        client.close_events()
        assert list(events) == []
        assert list(client.events()) == [told]


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


def stream_of(text: str) -> ApiClient:
    """Return a client whose server sends this as its event stream, and then ends it."""
    stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=text)
    return ApiClient(transport=httpx.MockTransport(lambda _: stream))


GOOD = 'event: status\nid: 8\ndata: {"terminal_id": "x", "status": "idle"}\n\n'


@pytest.mark.parametrize("data", ["no json", "[]", "{}", "[" * 100_000], ids=lambda data: data[:9])
def test_an_event_that_cannot_be_read_is_left_out_and_the_next_one_is_read(
    data: str, caplog: pytest.LogCaptureFixture
) -> None:
    signs_of_life = ": ping\n\nretry: 10\n\nevent: x\n\n"
    with stream_of(f"{signs_of_life}id: 7\ndata: {data}\n\n{GOOD}") as client:
        assert [event.id for event in client.events()] == ["8"]
    (record,) = caplog.records
    assert "cannot be read" in record.getMessage()
    assert len(record.getMessage()) < 500


def test_what_is_no_stream_is_refused(theirs: ThirdParty, guest: ApiClient) -> None:
    with pytest.raises(ApiRefused) as caught:
        next(guest.events())
    assert caught.value.status_code == 404
    theirs.answers["/events"] = (200, b"{}")
    with pytest.raises(ApiRefused, match="no event stream"):
        next(guest.events())
