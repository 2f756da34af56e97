"""The event stream as the client reads it, and every way it ends."""

import json
import socket
import threading
from dataclasses import asdict

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable
from tests.server.running import WAIT_SECONDS, RunningApi
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


@pytest.mark.parametrize(
    "data",
    [
        "no json",
        "[]",
        "{}",
        '{"terminal_id": "x", "at": "then"}',
        f'{{"terminal_id": "x", "at": {"9" * 400}}}',
        "5",
        "[" * 100_000,
    ],
    ids=lambda data: data[:30],
)
def test_an_event_that_cannot_be_read_is_left_out_and_the_next_one_is_read(
    data: str, caplog: pytest.LogCaptureFixture
) -> None:
    with stream_of(f"id: 7\ndata: {data}\n\n{GOOD}") as client:
        assert [event.id for event in client.events()] == ["8"]
    (record,) = caplog.records
    assert "cannot be read" in record.getMessage()
    assert len(record.getMessage()) < 500


@pytest.mark.parametrize("quiet", [": ping\n\n", "retry: 10\n\n", "event: x\n\n", "mood: 5\n\n"])
def test_what_carries_no_data_is_no_event(quiet: str, caplog: pytest.LogCaptureFixture) -> None:
    with stream_of(GOOD + quiet * 3 + GOOD) as client:
        assert [event.kind for event in client.events()] == ["status", "status"]
    assert caplog.records == []


@pytest.mark.parametrize("odd", ["\x01", "é", "7" * 201])
def test_an_id_that_could_not_be_sent_back_is_not_kept(odd: str) -> None:
    with stream_of(GOOD.replace("id: 8", f"id: {odd}")) as client:
        assert [event.id for event in client.events()] == [""]


def test_it_is_told_when_the_stream_is_open(server: RunningApi, client: ApiClient) -> None:
    opened = threading.Event()
    reader = threading.Thread(target=lambda: list(client.events(opened=opened.set)))
    reader.start()
    assert opened.wait(WAIT_SECONDS)
    client.close_events()
    reader.join(WAIT_SECONDS)


def test_an_event_has_all_that_the_server_tells() -> None:
    told = TerminalEvent(
        id="7",
        kind="exited",
        terminal_id="x",
        session_name="cao-1",
        status=TerminalStatus.ERROR,
        reason="it ended with 137",
        at=1_700_000_000.5,
        alive=False,
        exit_code=137,
        action="make test",
    )
    with stream_of(f"event: exited\nid: 7\ndata: {json.dumps(asdict(told))}\n\n") as client:
        assert list(client.events()) == [told]


def test_what_is_no_stream_is_refused(theirs: ThirdParty, guest: ApiClient) -> None:
    with pytest.raises(ApiRefused) as caught:
        next(guest.events())
    assert caught.value.status_code == 404
    theirs.answers["/events"] = (200, b"{}")
    with pytest.raises(ApiRefused, match="no event stream"):
        next(guest.events())
