"""Where a token goes that a client was given."""

import httpx
import pytest

from cli_agent_orchestrator.client.client import ApiClient, is_loopback
from cli_agent_orchestrator.errors import ApiRefused
from tests.third_party import ThirdParty


def test_the_token_goes_with_every_request(theirs: ThirdParty) -> None:
    with ApiClient(theirs.url, token="t0ken") as client:
        client.health()
        client.get_terminal("0badcafe")
    assert {asked.authorization for asked in theirs.asked} == {"Bearer t0ken"}


def test_the_token_does_not_follow_a_redirection(theirs: ThirdParty) -> None:
    seen: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"Location": "http://evil.example/"})

    with (
        ApiClient(token="t0ken", transport=httpx.MockTransport(redirect)) as client,
        pytest.raises(ApiRefused),
    ):
        client.get_terminal("a1b2c3d4")
    assert seen == ["localhost"]


def test_a_strange_address_is_not_this_machine() -> None:
    assert not is_loopback("http://[::1")
