"""What a client asked for that hung up before it had the answer."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from cli_agent_orchestrator.core.models import Delivery, NewTerminal, Step, StepAnswer, Terminal
from cli_agent_orchestrator.server.answers import while_connected
from cli_agent_orchestrator.server.app import create_app
from tests.fakes import FakeService
from tests.server.running import TOKEN, running_api


class SlowService(FakeService):
    """Never gets an agent started, and notes when it is told to give up."""

    starting = False
    given_up = False

    async def create_session(self, new: NewTerminal, session_name: str | None = None) -> Terminal:
        return await self._wait()

    async def run_step(self, step: Step) -> StepAnswer:
        await self._wait()
        raise AssertionError

    async def send(self, terminal_id: str, message: str, key: str | None = None) -> Delivery:
        await self._wait()
        raise AssertionError

    async def _wait(self) -> Terminal:
        self.starting = True
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True
        raise AssertionError


def test_an_agent_that_nobody_waits_for_any_more_is_not_started() -> None:
    service = SlowService()
    with running_api(service) as api:
        with socket.create_connection(("127.0.0.1", api.port)) as client:
            client.sendall(
                f"POST /sessions?provider=codex&agent_profile=tester HTTP/1.1\r\n"
                f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                "Content-Length: 0\r\n\r\n".encode()
            )
            api.wait_until(lambda: service.starting)
            assert not service.given_up
        api.wait_until(lambda: service.given_up)


async def end_when_hung_up(
    work: Coroutine[Any, Any, str], has_hung_up: Callable[[], bool]
) -> list[str]:
    """Work for a client that hangs up, and return what was taken back."""
    taken_back: list[str] = []

    async def receive() -> Message:
        while not has_hung_up():
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def take_back(made: str) -> None:
        taken_back.append(made)

    app = create_app(FakeService(), token=None)
    request = Request({"type": "http", "app": app}, receive)
    with pytest.raises(ClientDisconnect):
        await while_connected(request, work, take_back)
    return taken_back


async def test_when_a_client_hangs_up_the_work_is_undone_before_that_is_told() -> None:
    events: list[str] = []

    async def work() -> str:
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            events.append("undone")
        return "made"

    assert await end_when_hung_up(work(), lambda: bool(events)) == []
    assert events == ["begun", "undone"]


async def test_what_is_made_while_the_client_hangs_up_is_taken_back() -> None:
    async def make() -> str:
        return "a1b2c3d4"

    assert await end_when_hung_up(make(), lambda: True) == ["a1b2c3d4"]


STEP = {"provider": "codex", "agent": "tester", "prompt": "hello"}


@pytest.mark.parametrize(
    ("path", "body", "undone"),
    [
        ("/terminals/run-step", STEP, True),
        ("/terminals/a1b2c3d4/input", {"message": "hello"}, False),
    ],
)
def test_a_server_that_ends_says_so_to_whom_it_lets_wait(
    path: str, body: dict[str, str] | None, undone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    service = SlowService()
    answers: list[httpx.Response] = []
    with running_api(service, grace=0.1) as api, api.client() as client:
        asking = threading.Thread(target=lambda: answers.append(client.post(path, json=body)))
        asking.start()
        api.wait_until(lambda: service.starting)
        with caplog.at_level(logging.WARNING):
            api.stop()
        asking.join()
    [answer] = answers
    assert answer.status_code == 503
    assert "the server is stopping" in answer.json()["detail"]
    assert ("Retry-After" in answer.headers) == undone
    assert service.given_up
    assert not any(record.exc_info for record in caplog.records)
