"""Who gets an answer: Host, Origin and token, as hostile pages and programs would send them."""

import os
import socket
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.types import Message

from cli_agent_orchestrator.client.client import socket_transport
from cli_agent_orchestrator.core.sockets import LASTING, find_socket
from cli_agent_orchestrator.server.access import (
    LOOPBACK,
    Access,
    AccessRules,
    allowed_names,
    check,
    host_name,
)
from tests.fakes import FakeService
from tests.server.running import TOKEN, WAIT_SECONDS, RunningApi, running_api

RULES = AccessRules(TOKEN, frozenset({"box.lan"}))
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())
LOCAL = (b"host", b"localhost:9889")


def refused(*headers: tuple[bytes, bytes], path: str = "/sessions", method: str = "GET") -> int:
    """Return the status a request is refused with, 0 if it may pass."""
    refusal = check(RULES, {"method": method, "path": path, "headers": headers})
    return refusal.status_code if refusal else 0


def raw_exchange(api: RunningApi, request: bytes) -> bytes:
    """Send bytes that no HTTP client would send, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", api.port), WAIT_SECONDS) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


ANSWERED = ("localhost", "LocalHost:1", "127.0.0.1:9889", "[::1]", "[::1]:65535", "BOX.lan:7")
OTHERS = (
    *("evil.example", "evil.example:9889", "127.0.0.1.evil.example", "localhost."),
    *("0.0.0.0", "[::]", "[::ffff:127.0.0.1]"),
)
MALFORMED = (
    *("", ":9889", "localhost:", "localhost:9889:9889", "localhost@evil.example", "::1", "::1]"),
    *("localhost evil.example", "localhost\x00", "ſocalhost", "a" * 254),
)


@pytest.mark.parametrize(("hosts", "status"), [(ANSWERED, 0), (OTHERS, 421), (MALFORMED, 400)])
def test_only_loopback_names_and_allowed_ones_are_answered(
    hosts: tuple[str, ...], status: int
) -> None:
    assert {host: refused((b"host", host.encode()), BEARER) for host in hosts} == dict.fromkeys(
        hosts, status
    )


def test_allowed_hosts_may_be_addresses_but_not_all_of_them() -> None:
    hosts = ["Box.lan", "192.0.2.7", "fe80::1", "[fe80::2]", "0.0.0.0", "::"]
    assert allowed_names(hosts) == {"box.lan", "192.0.2.7", "[fe80::1]", "[fe80::2]"}


@given(st.text(max_size=60))
def test_no_text_is_taken_for_a_loopback_name_that_is_none(host: str) -> None:
    if host_name(host) in LOOPBACK:
        name, _, port = host.lower().rpartition(":") if host[-1:] != "]" else (host, "", "")
        assert (name or port) in LOOPBACK
        assert not port or port in LOOPBACK or port.isdecimal()


ORIGINS_OF_OTHERS = (
    *("http://evil.example", "https://localhost:9889", "http://localhost:3000", "null", ""),
    *("http://localhost:9889.evil.example", "http://localhost:9889 http://evil.example"),
)
WRONG = ("", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xe9")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, (BEARER,)),
        (400, (LOCAL, LOCAL, BEARER)),
        (400, (LOCAL, (b"host", b"evil.example"), BEARER)),
        *((403, (LOCAL, (b"origin", one.encode()), BEARER)) for one in ORIGINS_OF_OTHERS),
        (0, (LOCAL, (b"origin", b"http://LOCALHOST:9889"), BEARER)),
        # a page of an allowed name
        (403, ((b"host", b"box.lan:9889"), (b"origin", b"http://box.lan:9889"), BEARER)),
        # what a browser loads for another site
        (403, (LOCAL, (b"sec-fetch-site", b"cross-site"), BEARER)),
        (403, (LOCAL, (b"sec-fetch-site", b"same-site"), BEARER)),
        (0, (LOCAL, (b"sec-fetch-site", b"none"), BEARER)),
        *((401, (LOCAL, (b"authorization", one.encode("latin-1")))) for one in WRONG),
        (401, (LOCAL, BEARER, BEARER)),
        (0, (LOCAL, (b"authorization", f"bEARER {TOKEN}".encode()))),
    ],
)
def test_one_host_no_page_of_others_and_one_right_token_are_needed(
    status: int, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert refused(*headers) == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 0),
        ("POST", "/health", 401),
        ("GET", "/health/", 401),
        ("GET", "/no-such-route", 401),
        ("OPTIONS", "/sessions", 401),
    ],
)
def test_only_health_needs_no_token(method: str, path: str, status: int) -> None:
    assert refused(LOCAL, method=method, path=path) == status


def test_without_authentication_pages_are_still_refused() -> None:
    with running_api(token=None, allowed_hosts=["Box.LAN"]) as api, api.client(None) as http:
        assert http.get("/sessions").status_code == 200
        assert http.get("/sessions", headers={"Host": "box.lan:9889"}).status_code == 200
        assert http.get("/sessions", headers={"Host": "evil.example"}).status_code == 421
        # A refused client sees why, even while it still sends.
        foreign = {"Origin": "http://evil.example"}
        answer = http.post("/sessions", headers=foreign, content=b"x" * 8_000_000)
        assert answer.status_code == 403
        assert api.service.created == []


def test_no_answer_lets_other_origins_read_it(http: httpx.Client, api: RunningApi) -> None:
    own = http.get("/health", headers={"Origin": api.url})
    preflight = http.options(
        "/sessions",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert own.status_code == 200
    assert preflight.status_code == 403
    for answer in (own, preflight):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_absolute_address_does_not_replace_the_host(api: RunningApi) -> None:
    request = "GET http://localhost/sessions HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert raw_exchange(api, request.encode()).startswith(b"HTTP/1.1 421")


def test_a_websocket_is_not_opened(api: RunningApi) -> None:
    answer = raw_exchange(
        api,
        b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/terminals/..%2f..%2fetc%2fpasswd", 404),
        ("/terminals/%0d%0aX-Evil:%201", 404),
        ("/terminals/%ff%fe", 404),
        ("/terminals/" + "a" * 201, 422),
    ],
)
def test_strange_names_are_only_names(api: RunningApi, path: str, status: int) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Connection: close\r\n\r\n"
    )
    answer = raw_exchange(api, request.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"x-evil" not in answer.split(b"\r\n\r\n")[0].lower()
    assert len(answer) < 2000


async def test_a_client_without_an_address_needs_the_token_too() -> None:
    """One that has hung up already has none."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/runs", "headers": [LOCAL], "client": None}
    await Access(Starlette(), RULES)(scope, receive, send)
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert b"Authorization: Bearer" in sent[1]["body"]


class TestAgents:
    """What comes from inside an agent's terminal may look, not steer."""

    def test_they_may_look(self) -> None:
        service = FakeService(is_agent=True)
        with running_api(service) as api, api.client() as http:
            assert http.get("/sessions").status_code == 200
            assert service.clients == []
            for asked in (http.post("/terminals/abc/input?message=x"), http.delete("/sessions/x")):
                assert asked.status_code == 403
            assert [port for _, port in service.clients] == [api.port] * 2
            service.is_agent = False
            assert http.delete("/sessions/x").status_code == 404

    def test_over_the_socket_they_are_known_by_their_process(self, tmp_path: Path) -> None:
        service = FakeService(is_agent=True)
        with running_api(service, state=tmp_path) as api:
            path = find_socket(tmp_path, LASTING)
            assert path is not None
            transport = socket_transport(path)
            with httpx.Client(base_url="http://any", transport=transport) as client:
                assert client.get("/sessions").status_code == 200
                assert client.post("/runs/x/stop").status_code == 403
            # elsewhere a token is asked for first
            assert httpx.post(f"{api.url}/runs", timeout=WAIT_SECONDS).status_code == 401
        assert service.clients == [(os.getpid(), None)]
