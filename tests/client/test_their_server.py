"""The client against a server that has none of our extras."""

import httpx
import pytest

from cli_agent_orchestrator.client.client import QUERY_LIMIT, ApiClient, is_loopback
from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.errors import ApiRefused, UsageError
from tests.third_party import ThirdParty


def test_a_whole_turn_needs_none_of_our_extras(theirs: ThirdParty, guest: ApiClient) -> None:
    created = guest.create_session("system_analyst", role="analyst")
    assert (created["id"], created["session_name"]) == ("0badcafe", "cao-theirs")
    guest.create_terminal("cao-theirs", "tester", role="tester")
    assert not any("role" in one.query for one in theirs.asked)
    assert guest.features() == frozenset()
    guest.send_input("0badcafe", "fix it & go")
    theirs.status = "completed"
    assert guest.get_status("0badcafe") is TerminalStatus.COMPLETED
    assert guest.get_last_output("0badcafe") == "their answer"
    assert guest.get_view("0badcafe").records == ()
    guest.exit_terminal("0badcafe")
    guest.delete_terminal("0badcafe")


def test_a_message_goes_into_the_query(theirs: ThirdParty, guest: ApiClient) -> None:
    """Scenario: Send input to terminal"""
    delivery = guest.send_input("0badcafe", "fix it & go\n100 %")
    asked = theirs.asked[-1]
    assert (asked.method, asked.path) == ("POST", "/terminals/0badcafe/input")
    assert asked.query == {"message": "fix it & go\n100 %"}
    assert asked.body == b""
    assert not delivery.confirmed
    assert "took the message" in delivery.detail
    theirs.answers["/terminals/0badcafe/input"] = (200, b'{"success": false}')
    assert "did not take" in guest.send_input("0badcafe", "go").detail


@pytest.mark.parametrize("message", ["x" * QUERY_LIMIT, "漢" * (QUERY_LIMIT // 9)])
def test_a_message_too_long_for_an_address_is_a_clear_error(guest: ApiClient, message: str) -> None:
    with pytest.raises(UsageError, match=r"takes 640\d\d bytes.*up to 64000.*cao server"):
        guest.send_input("0badcafe", message)


@pytest.mark.parametrize("word", ["dreaming", None, ["idle"]])
def test_a_status_we_do_not_know_is_unknown(
    theirs: ThirdParty, guest: ApiClient, word: object
) -> None:
    theirs.status = word
    assert guest.get_status("0badcafe") is TerminalStatus.UNKNOWN


@pytest.mark.parametrize("health", [(404, b"{}"), (200, b'{"features": "all"}')])
def test_a_strange_health_means_no_features(
    theirs: ThirdParty, guest: ApiClient, health: tuple[int, bytes]
) -> None:
    theirs.answers["/health"] = health
    assert guest.features() == frozenset()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"<html>"), "not JSON"),
        ((200, b"[]"), "not a JSON object"),
        ((500, b"<html>oops"), "oops"),
        ((422, b'{"detail": [{"msg": "this"}, "that"]}'), "this; that"),
        ((302, b"{}"), "302"),
    ],
)
def test_strange_answers_are_refused(
    theirs: ThirdParty, guest: ApiClient, answer: tuple[int, bytes], message: str
) -> None:
    theirs.answers["/terminals/0badcafe"] = answer
    with pytest.raises(ApiRefused, match=message):
        guest.get_terminal("0badcafe")


def test_the_token_does_not_follow_a_redirection() -> None:
    seen: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"Location": "http://evil.example/"})

    transport = httpx.MockTransport(redirect)
    with ApiClient(token="t0ken", transport=transport) as client, pytest.raises(ApiRefused):
        client.get_terminal("a1b2c3d4")
    assert seen == ["localhost"]


def test_a_strange_address_is_not_this_machine() -> None:
    assert not is_loopback("http://[::1")
