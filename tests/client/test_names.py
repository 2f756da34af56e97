"""Names, addresses and messages that cannot be used."""

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.errors import ApiRefused, ConfigError, OrchestratorError, UsageError
from tests.server.running import RunningApi


def test_a_name_stays_one_part_of_the_path(server: RunningApi, client: ApiClient) -> None:
    server.service.add("other")
    for name in ("../sessions", "a/b", "a?b=c", "a#b", "%2e%2e", "é\x00\n", ";"):
        with pytest.raises(ApiRefused) as caught:
            client.delete_terminal(name)
        assert caught.value.status_code in (404, 405)
    assert list(server.service.known) == ["other"]


def test_what_cannot_be_a_name_is_refused() -> None:
    with ApiClient() as client:
        for name in ("", ".", ".."):
            with pytest.raises(UsageError, match="not the name"):
                client.delete_session(name)
    with ApiClient("http://a..b:9889") as client, pytest.raises(OrchestratorError):
        client.health()


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:9889", "ftp://localhost", "http://", "http://localhost/?a=b"),
        *("http://[::1", "http://127.0.0.1:0", "http://127.0.0.1:65536"),
        "http://ada:secret@localhost:9889",
    ],
)
def test_a_bad_address_is_a_clear_error(url: str) -> None:
    with pytest.raises(ConfigError, match=r"API is .*expected an address such as") as caught:
        ApiClient(url)
    assert "secret" not in str(caught.value)
