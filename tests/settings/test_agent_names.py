"""Agents are found by their names, and by as much of these as no other agent has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import ConfigError, UnknownName
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from cli_agent_orchestrator.settings.config import RunConfig
from cli_agent_orchestrator.settings.table import AGENTS, full_name, meant_by
from cli_agent_orchestrator.settings.values import read_role_providers, read_word


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("claude", "claude_code"),
        ("gemini", "gemini_cli"),
        ("copilot", "copilot_cli"),
        ("kiro", "kiro_cli"),
        ("q", "q_cli"),
        ("Claude-Code", "claude_code"),
        (" cod ", "codex"),
        ("codex", "codex"),
        ("co", "co"),
        ("", ""),
        ("My-Own", "My-Own"),
    ],
)
def test_a_beginning_that_no_other_has_is_enough(word: str, name: str) -> None:
    assert full_name(word) == name


def test_a_whole_name_is_itself_even_if_another_begins_so() -> None:
    assert meant_by("a", ["ab", "a"]) == ["a"]
    assert full_name("a", ["ab", "a"]) == "a"


@given(st.sampled_from(AGENTS), st.integers(1, 20))
def test_no_beginning_of_a_name_means_an_agent_without_it(name: str, count: int) -> None:
    meant = meant_by(name[:count])
    assert name in meant
    assert all(one.startswith(name[:count]) for one in meant)
    assert full_name(name[:count]) in (name, name[:count])


def test_wherever_settings_name_an_agent_its_beginning_will_do() -> None:
    assert read_word({"PROVIDER": "claude"}, "PROVIDER") == "claude_code"
    texts = {"TESTER_PROVIDER": "gem", "ROLE_PROVIDERS": "designer=kiro, other=mine"}
    assert read_role_providers(texts) == {
        "designer": "kiro_cli",
        "other": "mine",
        "tester": "gemini_cli",
    }


@pytest.mark.parametrize("name", ["PROVIDER", "TESTER_PROVIDER", "ROLE_PROVIDERS"])
def test_what_could_be_several_is_refused(name: str) -> None:
    text = "a=co" if name == "ROLE_PROVIDERS" else "co"
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_env({name: text})
    assert str(caught.value) == (
        f"{name} is 'co', expected one agent; it could be codex or copilot_cli"
    )


def test_a_server_finds_them_as_well() -> None:
    assert get_provider("claude") is PROVIDERS["claude_code"]
    with pytest.raises(UnknownName, match="did you mean codex or copilot_cli"):
        get_provider("co")
