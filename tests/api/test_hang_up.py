"""What a client asked for that hung up before it had the answer."""

import asyncio
import socket

import pytest
from starlette.requests import ClientDisconnect, Request

from cli_agent_orchestrator.api.hang_up import while_connected
from cli_agent_orchestrator.models import NewTerminal, Terminal
from tests.api.running import TOKEN, running_api
from tests.fakes import FakeService


class SlowService(FakeService):
    """Never gets an agent started, and notes when it is told to give up."""

    starting = False
    given_up = False

    async def create_session(self, new: NewTerminal, session_name: str | None = None) -> Terminal:
        return await self._wait()

    async def create_terminal(self, session_name: str, new: NewTerminal) -> Terminal:
        return await self._wait()

    async def _wait(self) -> Terminal:
        self.starting = True
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True
        raise AssertionError


@pytest.mark.parametrize("path", ["/sessions", "/sessions/cao-shop/terminals"])
def test_an_agent_that_nobody_waits_for_any_more_is_not_started(path: str) -> None:
    service = SlowService()
    with running_api(service) as api:
        with socket.create_connection(("127.0.0.1", api.port)) as client:
            client.sendall(
                f"POST {path}?provider=codex&agent_profile=tester HTTP/1.1\r\n"
                f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                "Content-Length: 0\r\n\r\n".encode()
            )
            api.wait_until(lambda: service.starting)
            assert not service.given_up
        api.wait_until(lambda: service.given_up)


async def test_when_a_client_hangs_up_the_work_is_undone_before_that_is_told() -> None:
    events: list[str] = []

    async def hung_up() -> dict[str, str]:
        while not events:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def work() -> None:
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            events.append("undone")

    with pytest.raises(ClientDisconnect):
        await while_connected(Request({"type": "http"}, hung_up), work())
    assert events == ["begun", "undone"]
