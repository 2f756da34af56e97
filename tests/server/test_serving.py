"""Running the server: ports, conflicts, sockets, threads and the end."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from cli_agent_orchestrator.client.client import socket_transport
from cli_agent_orchestrator.core.sockets import LASTING, find_socket
from cli_agent_orchestrator.errors import ServerConflict, UsageError
from cli_agent_orchestrator.server.app import (
    MOST_CONNECTIONS,
    bind,
    create_app,
    in_background,
)
from tests.fakes import FakeService
from tests.server.running import WAIT_SECONDS, RunningApi, running_api, serve_at


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_an_address_that_is_not_ours_is_a_usage_error(host: str) -> None:
    with pytest.raises(UsageError, match=host):
        await bind(host, 0)


@contextmanager
def taken_by_another(host: str) -> Iterator[int]:
    """Let another program have a port of one address of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("name", ["127.0.0.1", "[::1]", "localhost"])
def test_whichever_address_localhost_leads_to_is_ours(api: RunningApi, name: str) -> None:
    """`ssh -L 9889:localhost:9889` must not lead to another user's program."""
    with taken_by_another("::1"):
        pass
    answer = httpx.get(f"http://{name}:{api.port}/health", timeout=WAIT_SECONDS)
    assert answer.json()["service"] == "cli-agent-orchestrator"


@pytest.mark.parametrize(("host", "other"), [("127.0.0.1", "::1"), ("::1", "127.0.0.1")])
async def test_a_port_of_which_another_has_one_address_is_taken(host: str, other: str) -> None:
    with taken_by_another(other) as port:
        with pytest.raises(ServerConflict) as caught:
            await bind(host, port)
        assert f"port {port} on {other}" in str(caught.value)


def one_more(api: RunningApi, opened: ExitStack) -> socket.socket:
    one = opened.enter_context(socket.create_connection(("127.0.0.1", api.port), WAIT_SECONDS))
    with contextlib.suppress(OSError):
        one.sendall(b"GE")
    return one


def test_who_opens_connections_without_end_keeps_others_out_but_not_the_user(
    tmp_path: Path,
) -> None:
    """Any user of the machine can open them; only we can open the socket of our commands."""
    with ExitStack() as opened:
        api = opened.enter_context(running_api(state=tmp_path))
        first = [one_more(api, opened) for _ in range(MOST_CONNECTIONS)]
        with api.client() as client:
            assert client.get("/health").status_code == 503
        first[0].sendall(b"T")
        with httpx.Client(
            transport=socket_transport(find_socket(tmp_path, LASTING) or tmp_path), base_url=api.url
        ) as client:
            assert client.get("/health").status_code == 200


def test_a_server_that_cannot_start_says_so_to_its_starter(api: RunningApi) -> None:
    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        await serve_at(api.port, create_app(FakeService(), token=None), ready, stop)

    with pytest.raises(ServerConflict), in_background(main):
        pass


def test_what_ends_a_server_is_raised_when_it_is_stopped() -> None:
    async def main(ready: Callable[[int], None], stop: asyncio.Event) -> None:
        ready(1)
        raise ServerConflict("lost the state folder")

    with pytest.raises(ServerConflict, match="state folder"), in_background(main) as port:
        assert port == 1


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
        await serve_at(0, create_app(FakeService(), token=None), lambda port: None, stop)
