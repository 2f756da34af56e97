"""Answers that come drop by drop, never end, or are larger than they look."""

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator

import httpcore
import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.client.connection import LARGEST_ANSWER, LARGEST_EVENT, TimedStream
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable
from tests.third_party import listening

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DROP_SECONDS = 0.1
DROPS = 50
LIMIT = httpx.Timeout(DROP_SECONDS * DROPS / 5)
"""Longer than a drop takes, shorter than all of them."""


@contextlib.contextmanager
def answering(*parts: bytes, drops: bytes = b"") -> Iterator[str]:
    """Answer each request with some parts; then drops, one after the other."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
            for drop in drops:
                over.wait(DROP_SECONDS)
                connection.sendall(bytes([drop]))

    with listening(answer) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            over.set()


@pytest.mark.parametrize(
    ("head", "drops"),
    [
        (HEAD + b"Content-Length: %d\r\n\r\n" % DROPS, b'"' + b"x" * (DROPS - 2) + b'"'),
        (HEAD + b"Content-Length: 2\r\nX-Slow: ", b"x" * DROPS + b"\r\n\r\n{}"),
    ],
    ids=["body", "head"],
)
def test_an_answer_that_comes_drop_by_drop_is_not_waited_for(head: bytes, drops: bytes) -> None:
    with (
        answering(head, drops=drops) as url,
        ApiClient(url) as client,
        pytest.raises(ApiUnreachable) as caught,
    ):
        client._server.ask("GET", "/health", LIMIT)
    assert caught.value.maybe_received


class Endless(httpcore.NetworkStream):
    """Always has another drop."""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        assert timeout

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        assert timeout
        return b"x"


def test_only_a_stream_that_is_followed_may_go_on_without_end() -> None:
    no_time = 1e-9
    stream = TimedStream(Endless())
    stream.write(b"GET /events", 60)
    assert stream.read(1, 60) == b"x"
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1, no_time)
    stream.follow()
    assert stream.read(1, no_time) == b"x"
    stream.write(b"GET /health", 60)
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1, no_time)
    with pytest.raises(httpcore.WriteTimeout):
        TimedStream(Endless()).write(b"POST", no_time)


def chunked(chunk: bytes, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"%x\r\n%b\r\n" % (len(chunk), chunk)


ASK: list[Callable[[ApiClient], object]] = [
    lambda client: client.get_output("0badcafe"),
    lambda client: list(client.events()),
]


@pytest.mark.parametrize("ask", ASK, ids=["output", "events"])
def test_an_answer_without_end_is_cut_off(ask: Callable[[ApiClient], object]) -> None:
    megabyte = b"x" * 1024 * 1024
    parts = chunked(megabyte, LARGEST_ANSWER // len(megabyte) + 1)
    head = HEAD.replace(b"200 OK", b"500 No") + b"Transfer-Encoding: chunked\r\n\r\n"
    with (
        answering(head, *parts) as url,
        ApiClient(url) as client,
        pytest.raises(ApiRefused, match="more than 64 MB"),
    ):
        ask(client)


@pytest.mark.parametrize("ask", ASK, ids=["output", "events"])
def test_a_packed_answer_is_not_unpacked(ask: Callable[[ApiClient], object]) -> None:
    body = gzip.compress(json.dumps({"output": "x" * 1_000_000}).encode())
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    with (
        answering(head + body) as url,
        ApiClient(url) as client,
        pytest.raises(ApiRefused, match="compressed"),
    ):
        ask(client)


EVENTS = HEAD.replace(b"application/json", b"text/event-stream") + b"Connection: close\r\n\r\n"
EVENT = b'event: status\ndata: {"terminal_id": "0badcafe", "status": "idle"}\n\n'


@pytest.mark.parametrize("part", [b"x", b"data: x\r\n"], ids=["line", "event"])
def test_an_event_without_end_is_cut_off(part: bytes) -> None:
    over = threading.Event()
    sent: list[int] = []

    def babble(connection: socket.socket) -> None:
        connection.recv(65536)
        with contextlib.suppress(OSError):
            connection.sendall(EVENTS + EVENT)
            while not over.is_set() and sum(sent) < 64 * LARGEST_EVENT:
                sent.append(connection.send(part * 10_000))

    with listening(babble) as port, ApiClient(f"http://127.0.0.1:{port}") as client:
        events = client.events()
        assert next(events).terminal_id == "0badcafe"
        with pytest.raises(ApiRefused, match="more than 1 MB"):
            next(events)
        over.set()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_many_events_are_as_many_as_they_are(end: bytes) -> None:
    count = LARGEST_EVENT // 20_000
    filled = EVENT.replace(b"idle", b'idle", "reason": "' + b"x" * 30_000)
    many = filled.replace(b"\n", end) * count
    parts = [many[start : start + 9_973] for start in range(0, len(many), 9_973)]
    with answering(EVENTS, *parts) as url, ApiClient(url) as client:
        events = list(client.events())
    assert len(events) == count


def test_an_answer_that_is_too_deep_is_not_json() -> None:
    body = b"[" * 200_000
    with (
        answering(HEAD + b"Content-Length: %d\r\n\r\n" % len(body), body) as url,
        ApiClient(url) as client,
        pytest.raises(ApiRefused, match="not JSON"),
    ):
        client.health()
