"""What is known about a request when no answer came."""

import socket

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable
from tests.third_party import ThirdParty


def test_a_refused_connection_was_not_received() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with (
        ApiClient(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ApiUnreachable, match="cao server") as caught,
    ):
        client.get_terminal("a1b2c3d4")
    assert not caught.value.maybe_received
    assert caught.value.url == f"http://127.0.0.1:{port}"
    assert caught.value.request == "GET /terminals/a1b2c3d4"


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("slow"),
        httpx.WriteTimeout("slow"),
        httpx.ReadError(""),
        httpx.WriteError("broken pipe"),
        httpx.RemoteProtocolError("disconnected"),
    ],
)
def test_any_later_failure_may_have_been_received(error: httpx.HTTPError) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    with (
        ApiClient(transport=httpx.MockTransport(fail)) as client,
        pytest.raises(ApiUnreachable) as caught,
    ):
        client.exit_terminal("a1b2c3d4")
    assert caught.value.maybe_received


@pytest.mark.parametrize(
    ("headers", "error"), [({"Retry-After": "1"}, ApiUnreachable), ({}, ApiRefused)]
)
def test_a_server_that_ends_has_not_received_what_it_says_to_ask_again(
    headers: dict[str, str], error: type[ApiError]
) -> None:
    def end(_: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json={"detail": "the server ends"}, headers=headers)

    with (
        ApiClient(transport=httpx.MockTransport(end)) as client,
        pytest.raises(error, match="the server ends") as caught,
    ):
        client.create_session("tester", provider="codex")
    if isinstance(caught.value, ApiUnreachable):
        assert not caught.value.maybe_received


def test_a_failed_message_is_not_told(theirs: ThirdParty) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(200, json={})
        raise httpx.ReadTimeout("slow", request=request)

    with (
        ApiClient(transport=httpx.MockTransport(fail)) as client,
        pytest.raises(ApiUnreachable) as caught,
    ):
        client.send_input("a1b2c3d4", "my secret prompt")
    assert "secret" not in str(caught.value)
