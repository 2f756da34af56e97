"""Agents are found by their names, and by as much of these as no other agent has."""

import pytest

from cli_agent_orchestrator.errors import ConfigError, UnknownName
from cli_agent_orchestrator.providers import get_provider
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import AGENTS, full_name, meant_by
from cli_agent_orchestrator.settings.values import read_role_providers, read_word
from tests.providers.samples import PROVIDERS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("claude", "claude_code"),
        ("q_", "q_cli"),
        ("q", "q"),
        ("Claude-Code", "claude_code"),
        (" cod ", "codex"),
        ("codex", "codex"),
        ("co", "co"),
        ("", ""),
        ("My-Own", "My-Own"),
        *((name, name) for name in AGENTS),
    ],
)
def test_a_beginning_that_no_other_has_is_enough(word: str, name: str) -> None:
    assert full_name(word) == name
    assert meant_by("codex", ["codex2", "codex"]) == ["codex"]


def test_wherever_settings_name_an_agent_its_beginning_will_do() -> None:
    assert read_word({"PROVIDER": "claude"}, "PROVIDER") == "claude_code"
    texts = {"TESTER_PROVIDER": "gem", "ROLE_PROVIDERS": "designer=kiro, other=mine"}
    assert read_role_providers(texts) == {
        "designer": "kiro_cli",
        "other": "mine",
        "tester": "gemini_cli",
    }


@pytest.mark.parametrize(
    ("name", "text"), [("PROVIDER", "co"), ("TESTER_PROVIDER", "co"), ("ROLE_PROVIDERS", "a=co")]
)
def test_what_could_be_several_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 'co', .* could be codex or copilot_cli"):
        RunConfig.from_env({name: text})


def test_a_server_finds_them_as_well() -> None:
    assert get_provider("claude") is PROVIDERS["claude_code"]
    with pytest.raises(UnknownName, match="did you mean codex or copilot_cli"):
        get_provider("co")
