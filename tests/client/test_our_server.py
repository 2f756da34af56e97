"""The verbs of the client, against our own server."""

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import (
    AgentView,
    Delivery,
    NewTerminal,
    OutputMode,
    TerminalStatus,
)
from cli_agent_orchestrator.errors import ApiRefused, InputRefused
from tests.fakes import Sent
from tests.server.running import RunningApi


def test_create_session(server: RunningApi, client: ApiClient) -> None:
    """Scenario: Create session returns terminal ID and session name"""
    created = client.create_session("system_analyst")
    assert server.service.created == [NewTerminal("codex", "system_analyst", "/home/ada/shop")]
    assert created["id"] in server.service.known
    assert created["session_name"] == "cao-unnamed"


def test_send_input(server: RunningApi, client: ApiClient) -> None:
    """Scenario: Send input to terminal"""
    server.service.add()
    delivery = client.send_input("a1b2c3d4", "do it\nnow", idempotency_key="run/1")
    assert server.service.sent == [Sent("a1b2c3d4", "do it\nnow", "run/1")]
    assert delivery == Delivery(True, "the agent started to work", enter_presses=1)


def test_terminals_have_role_and_run_and_are_recorded_if_that_is_wanted(
    server: RunningApi, client: ApiClient
) -> None:
    client.create_session("tester", role="tester")
    client.run_index, client.record = 0, True
    client.create_session("tester", role="tester")
    name = client.create_session("tester")["session_name"]
    assert client.create_terminal(name, "tester", provider="scripted")["session_name"] == name
    assert server.service.created.pop().provider == "scripted"
    made = [(new.role, new.run_index, new.record) for new in server.service.created]
    assert made == [("tester", None, False), ("tester", 0, True), (None, 0, False)]


def test_a_refusal_carries_status_and_reason(server: RunningApi, client: ApiClient) -> None:
    server.service.failure = InputRefused("a1b2c3d4", "a dialog is open")
    with pytest.raises(ApiRefused, match="a dialog is open") as caught:
        client.send_input("a1b2c3d4", "go")
    assert caught.value.status_code == 409


def test_status_output_and_explanation_are_read(server: RunningApi, client: ApiClient) -> None:
    server.service.add()
    server.service.outputs = {mode: f"{mode} text" for mode in OutputMode}
    assert client.get_status("a1b2c3d4") is TerminalStatus.IDLE
    assert client.get_last_output("a1b2c3d4") == "last text"
    assert client.get_output("a1b2c3d4") == "full text"
    server.service.kept_records = ["/home/ada/record.jsonl"]
    view = AgentView("screen text", ("/home/ada/record.jsonl",))
    assert client.get_view("a1b2c3d4") == view
    assert client.explain("a1b2c3d4")["reason"] == "the title says so"


def test_a_wrong_token_is_refused(server: RunningApi) -> None:
    with (
        ApiClient(server.url, token="wrong") as stranger,
        pytest.raises(ApiRefused, match="set CAO_TOKEN") as caught,
    ):
        stranger.list_sessions()
    assert caught.value.status_code == 401


def test_features_are_asked_for_once(server: RunningApi, client: ApiClient) -> None:
    assert client.features() >= {"input-body", "events", "explain", "permissions"}
    server.stop()
    assert "events" in client.features()
