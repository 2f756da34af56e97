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

from cli_agent_orchestrator.client import LARGEST_ANSWER, ApiClient
from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable
from cli_agent_orchestrator.transport import TimedStream
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
        client._ask("GET", "/health", LIMIT)
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


def test_an_answer_that_is_too_deep_is_not_json() -> None:
    body = b"[" * 200_000
    with (
        answering(HEAD + b"Content-Length: %d\r\n\r\n" % len(body), body) as url,
        ApiClient(url) as client,
        pytest.raises(ApiRefused, match="not JSON"),
    ):
        client.health()
