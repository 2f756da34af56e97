"""What a user reads about an agent of a version that nobody has tested."""

import json

import pytest

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.core.models import TerminalStatus
from tests.e2e.conftest import Machine
from tests.future_codex import IDLE_LOOK, NEW_LOOK, write_future_codex

pytestmark = pytest.mark.tmux


def install(machine: Machine, *screens: str) -> None:
    """Make a Codex of the future the one that is used."""
    program = machine.home / "codex"
    write_future_codex(program, *screens)
    machine.env["CAO_CODEX_COMMAND"] = str(program)


def test_the_commands_say_that_its_screen_is_unknown_and_that_it_was_not_tested(
    machine: Machine,
) -> None:
    install(machine, IDLE_LOOK, NEW_LOOK)
    with machine.server("--no-auth") as server:
        place = str(machine.work)
        with ApiClient(server.url, provider="codex", working_directory=place) as client:
            terminal = client.create_session("tester")["id"]
            client.press_key(terminal, "Enter")
            assert any(event.status is TerminalStatus.UNKNOWN for event in client.events())
        refused = machine.cao("send", terminal, "Fix the basket", code=3)
        assert "its screen is not recognized" in refused.stderr
        explained = machine.cao("output", terminal, "--why").stdout
        assert "is unknown\n  reason: the screen matches nothing that is known\n" in explained
        assert f"`cao attach {terminal}` shows it" in explained
        machine.cao("stop", "--all", code=0)
    examined = json.loads(machine.cao("doctor", "--json").stdout)["findings"]
    [codex] = [finding for finding in examined if finding["subject"] == "agent codex"]
    assert codex["state"] == "note"
    assert "newer than any that was tested" in codex["detail"]
    assert "shown as `unknown`, never as idle" in codex["advice"]
