"""What is known about a request when no answer came."""

import socket

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ApiUnreachable


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


def failure_of(answer: httpx.Response | httpx.HTTPError) -> ApiError:
    """Return how sending a message fails at a server that knows no bodies."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(200, json={})
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer

    client = ApiClient(transport=httpx.MockTransport(respond))
    with client, pytest.raises(ApiError) as caught:
        client.send_input("a1b2c3d4", "my secret prompt")
    return caught.value


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), httpx.WriteError("broken pipe")])
def test_any_later_failure_may_have_been_received_and_quotes_no_message(
    error: httpx.HTTPError,
) -> None:
    failure = failure_of(error)
    assert isinstance(failure, ApiUnreachable)
    assert failure.maybe_received
    assert "secret" not in str(failure)


def test_a_server_that_ends_has_not_received_what_it_says_to_ask_again() -> None:
    ends = {"detail": "the server ends"}
    failure = failure_of(httpx.Response(503, json=ends, headers={"Retry-After": "1"}))
    assert isinstance(failure, ApiUnreachable)
    assert not failure.maybe_received
    assert "the server ends" in str(failure)
    assert isinstance(failure_of(httpx.Response(503, json=ends)), ApiRefused)
