"""Running the server: ports, conflicts, threads and the end."""

import asyncio
import http.server
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice, repeat

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cli_agent_orchestrator import __version__
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import ServerConflict, UsageError
from cli_agent_orchestrator.server.app import create_app
from cli_agent_orchestrator.server.serve import (
    HEAD_LIMIT,
    MOST_CONNECTIONS,
    BackgroundServer,
    BoundedHttp,
    HttpServer,
    bind,
    configure,
    run,
    serve,
)
from cli_agent_orchestrator.server.stream import MOST_STREAMS
from tests.fakes import FakeService
from tests.server.running import TOKEN, RunningApi, running_api


@pytest.fixture
def foreign_port() -> Iterator[int]:
    """A port on which some other web server answers."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_port_taken_by_a_server_of_ours_is_said_to_be(api: RunningApi) -> None:
    with pytest.raises(ServerConflict, match=rf"cli-agent-orchestrator.*{__version__}") as caught:
        await bind("127.0.0.1", api.port)
    assert str(api.port) in str(caught.value)


async def test_a_port_taken_by_another_web_server_is_said_to_be(foreign_port: int) -> None:
    with pytest.raises(ServerConflict, match="another program"):
        await bind("127.0.0.1", foreign_port)


async def test_a_port_taken_by_something_that_is_no_web_server_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        threading.Thread(target=lambda: taken.accept()[0].close()).start()
        with pytest.raises(ServerConflict, match="another program"):
            await bind("127.0.0.1", port)


async def test_an_address_that_is_not_ours_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        await bind("192.0.2.1", 0)


async def test_a_name_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no-such-host"):
        await bind("no-such-host.invalid", 0)


def flood(api: RunningApi, opened: ExitStack, begun: bytes) -> list[socket.socket]:
    """Begin more requests than there may be connections; return these, in their order."""
    connections = []
    for _ in range(3 * MOST_CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", api.port), 60)
        connections.append(opened.enter_context(connection))
        connection.sendall(begun)
    return connections


def test_who_opens_connections_without_end_takes_no_files_from_the_others(api: RunningApi) -> None:
    api.service.add()
    with ExitStack() as opened, api.client() as client, client.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert "event: snapshot" in lines
        connections = flood(api, opened, b"GET /health HTTP/1.1\r\n")
        assert client.get("/sessions").status_code == 200
        api.call(lambda: api.service.change("a1b2c3d4", TerminalStatus.PROCESSING))
        assert "event: status" in lines
        ended = [one for one in connections if _is_ended(one)]
        assert len(connections) - len(ended) <= MOST_CONNECTIONS
        assert connections[0] in ended
        assert connections[-1] not in ended


HALF = (
    f"POST /terminals/run-step HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
).encode()
"""A request with the token whose body does not end."""


def test_who_opens_requests_without_end_leaves_room_for_the_others(api: RunningApi) -> None:
    api.service.add()
    with ExitStack() as opened, api.client() as client, client.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert "event: snapshot" in lines
        connections = flood(api, opened, HALF)
        with api.client() as other:
            for _ in range(3):
                assert other.get("/sessions").status_code == 200
        api.call(lambda: api.service.change("a1b2c3d4", TerminalStatus.PROCESSING))
        assert "event: status" in lines
        assert connections[0] in [one for one in connections if _is_ended(one)]


def test_who_keeps_connections_for_later_leaves_room_for_the_others(api: RunningApi) -> None:
    with ExitStack() as opened:
        connections = flood(api, opened, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with api.client() as client:
            assert client.get("/sessions").status_code == 200
        for one in connections[-2:]:
            assert one.recv(1024).startswith(b"HTTP/1.1 200")


WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(("asked", "seconds"), [(LARGE, 0.0), (LARGE + WHOLE, 3600.0)])
def test_who_does_not_read_its_answers_leaves_room_for_the_others(
    asked: bytes, seconds: float
) -> None:
    """At once if it has asked for more meanwhile, otherwise after a time."""
    unread = threading.Semaphore(0)

    class Small(BoundedHttp):
        unread_seconds = seconds
        most_connections = 5

        def pause_writing(self) -> None:
            super().pause_writing()
            unread.release()

    async def large(_: Request) -> Response:
        return StreamingResponse(repeat(1024 * 1024 * b"x"))

    app = create_app(FakeService(), token=None)
    app.router.routes.append(Route("/large", large))
    with serving(Small, app) as port, ExitStack() as opened:
        deaf = []
        for _ in range(Small.most_connections):
            connection = socket.create_connection(("127.0.0.1", port), 60)
            deaf.append(opened.enter_context(connection))
            connection.sendall(asked)
            assert unread.acquire(timeout=60)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), 60) as connection:
                connection.sendall(WHOLE)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert [_goes_on(one) for one in deaf] == [False, True, True, True, True]


@pytest.mark.parametrize(("count", "answered"), [(17, 17), (18, 0), (100_000, 0)])
def test_who_asks_on_and_on_without_waiting_is_not_heard_to_the_end(
    api: RunningApi, count: int, answered: int
) -> None:
    last = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    said = b""
    # What was sent and not read may end it before all is said.
    with (
        socket.create_connection(("127.0.0.1", api.port), 60) as connection,
        suppress(ConnectionError),
    ):
        connection.sendall((count - 1) * WHOLE + last)
        while part := connection.recv(65536):
            said += part
    assert said.count(b"HTTP/1.1 200 OK") == answered


def _goes_on(connection: socket.socket) -> bool:
    """Does more come than the system has kept?"""
    read = 0
    with suppress(ConnectionError):
        while read < 32 * 1024 * 1024 and (part := connection.recv(1024 * 1024)):
            read += len(part)
    return read >= 32 * 1024 * 1024


def test_streams_leave_room_for_who_asks_for_something(api: RunningApi) -> None:
    asked = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with ExitStack() as opened, api.client() as client:
        for number in range(MOST_STREAMS + 1):
            stream = opened.enter_context(socket.create_connection(("127.0.0.1", api.port), 60))
            stream.sendall(asked.encode())
            answer = stream.recv(65536)
            refused = number == MOST_STREAMS
            assert answer.startswith(b"HTTP/1.1 503" if refused else b"HTTP/1.1 200")
            assert (b"80 event streams are open" in answer) is refused
        assert client.get("/sessions").status_code == 200
    with api.client() as client, client.stream("GET", "/events") as again:
        assert again.status_code == 200


def test_a_head_that_does_not_end_is_not_read_on(api: RunningApi) -> None:
    with socket.create_connection(("127.0.0.1", api.port), 60) as connection:
        answer = b""
        with suppress(ConnectionError):
            connection.sendall(b"GET /health HTTP/1.1\r\nX: " + 2 * HEAD_LIMIT * b"x")
            answer = connection.recv(1024)
    # Nor is it waited for until its time is over.
    assert b" 408 " not in answer


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: loc", HALF])
def test_a_request_that_does_not_come_whole_is_given_up(hasty_port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", hasty_port), 60) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as answer:
            said = answer.read()
    assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"the whole request must come within 0.2 seconds" in said


def test_so_is_one_after_others_on_the_same_connection(hasty_port: int) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", hasty_port), 60) as connection:
        for _ in range(2):
            connection.sendall(whole)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.sendall(HALF)
        with connection.makefile("rb") as answer:
            assert b"HTTP/1.1 408 Request Timeout\r\n" in answer.read()


def test_one_that_comes_whole_may_be_answered_slowly(hasty_port: int) -> None:
    """An event stream lasts as long as its client wants it to."""
    url, headers = f"http://127.0.0.1:{hasty_port}", {"Authorization": f"Bearer {TOKEN}"}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client,
        client.stream("GET", "/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        with socket.create_connection(("127.0.0.1", hasty_port), 60) as idle:
            assert idle.recv(4).startswith(b"HTTP")
        # That took as long as a request may; the stream goes on for longer than that again.
        beats = (line for line in lines if line.startswith(":"))
        assert len(list(islice(beats, 10))) == 10
        assert client.get("/health").status_code == 200


class HastyHttp(BoundedHttp):
    request_seconds = 0.2


@pytest.fixture
def hasty_port() -> Iterator[int]:
    """The port of a server that does not wait long for a request."""
    with serving(HastyHttp, create_app(FakeService(), token=TOKEN, heartbeat=0.05)) as port:
        yield port


@contextmanager
def serving(http: type[BoundedHttp], app: Starlette) -> Iterator[int]:
    """Serve on a port with connections of a kind."""

    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        with await bind("127.0.0.1", 0) as listener:
            ready(listener.getsockname()[1])
            await HttpServer(configure(app, http), stop).serve(sockets=[listener])

    server = BackgroundServer(main)
    port = server.start()
    try:
        yield port
    finally:
        server.stop()


def _is_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_server_that_cannot_start_says_so_to_its_starter(api: RunningApi) -> None:
    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        app = create_app(FakeService(), token=None)
        await serve(app, "127.0.0.1", api.port, ready=ready, stop=stop)

    server = BackgroundServer(main)
    with pytest.raises(ServerConflict):
        server.start()
    server.stop()


def test_what_ends_a_server_is_raised_when_it_is_stopped() -> None:
    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        ready(1)
        raise ServerConflict("lost the state folder")

    server = BackgroundServer(main)
    assert server.start() == 1
    with pytest.raises(ServerConflict, match="state folder"):
        server.stop()


def test_a_request_in_progress_is_answered_before_the_server_ends() -> None:
    entered, release = threading.Event(), asyncio.Event()

    class Slow(FakeService):
        async def delete(self, terminal_id: str) -> None:
            entered.set()
            await release.wait()

    slow = Slow()
    slow.add()
    with running_api(slow) as running, running.client() as client:
        answers: list[int] = []
        asking = threading.Thread(
            target=lambda: answers.append(client.delete("/terminals/a1b2c3d4").status_code)
        )
        asking.start()
        assert entered.wait(60)
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        running.call(release.set)
        asking.join()
        stopping.join()
    assert answers == [200]


async def test_a_server_told_to_stop_before_it_began_ends_at_once() -> None:
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(60):
        await serve(create_app(FakeService(), token=None), "127.0.0.1", 0, stop=stop)


def test_a_connection_may_carry_any_number_of_requests(api: RunningApi) -> None:
    """Only the head of one request is limited, and a poll has nothing but a head."""
    with api.client() as client:
        long = {"X-Long": "x" * 50_000}
        answers = {client.get("/health", headers=long).status_code for _ in range(50)}
        assert answers == {200}
        assert client.get("/health").headers.get("connection") != "close"


def test_signals_are_left_to_the_caller() -> None:
    before = signal.getsignal(signal.SIGTERM)
    during: list[object] = []

    async def main() -> None:
        stop = asyncio.Event()

        async def ask(port: int) -> None:
            async with httpx.AsyncClient(trust_env=False) as http:
                await http.get(f"http://127.0.0.1:{port}/health")
            during.append(signal.getsignal(signal.SIGTERM))
            stop.set()

        asking: list[asyncio.Task[None]] = []
        app = create_app(FakeService(), token=None)

        def ready(port: int) -> None:
            asking.append(asyncio.create_task(ask(port)))

        await serve(app, "127.0.0.1", 0, ready=ready, stop=stop)

    run(main())
    assert [*during, signal.getsignal(signal.SIGTERM)] == [before, before]
