"""Finding a provider by its name."""

from dataclasses import dataclass, field

import pytest

from cli_agent_orchestrator.errors import UnknownName
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from tests.agents.installs import AGENTS, FURTHER_AGENTS, Agent
from tests.providers.test_screens import CAPTURES, SCREENS


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True)
class Known:
    """What users and other modules count on."""

    program: str
    to_install: str
    """What the hint for installing it must name."""
    completes: str = ""
    keeps_record: bool = False
    guards: dict[str, str] = field(default_factory=dict)
    """What is typed before a message that begins with one of these."""
    marks_pastes: bool = False


KNOWN = {
    "codex": Known(
        "codex",
        "npm install -g @openai/codex",
        "$@",
        keeps_record=True,
        guards={"!": "\u2800", "/": " "},
    ),
    "claude_code": Known(
        "claude",
        "npm install -g @anthropic-ai/claude-code",
        "@",
        guards={"!": " ", "#": " ", "/": "\u2800"},
    ),
    "gemini_cli": Known(
        "gemini",
        "npm install -g @google/gemini-cli",
        "@",
        guards={"/": "\u2800"},
        marks_pastes=True,
    ),
    "copilot_cli": Known(
        "copilot",
        "npm install -g @github/copilot",
        "@",
        guards={"!": "\u2800", "/": "\u2800"},
    ),
    "opencode": Known("opencode", "npm install -g opencode-ai", "@", guards={"/": " "}),
    "kiro_cli": Known("kiro-cli", "kiro-cli login"),
    "q_cli": Known("q", "kiro_cli"),
    "scripted": Known("python", "interpreter"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_provider_is_found_by_its_own_name(name: str) -> None:
    assert get_provider(name).name == name


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_names_its_program_and_where_it_comes_from(name: str) -> None:
    provider = get_provider(name)
    assert provider.program == KNOWN[name].program
    assert KNOWN[name].to_install in provider.install_hint


@pytest.mark.parametrize("name", PROVIDERS)
def test_words_are_guarded_against_completion_where_an_agent_completes(name: str) -> None:
    assert get_provider(name).completes == KNOWN[name].completes


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_message_is_guarded_against_being_taken_for_a_command(name: str) -> None:
    assert get_provider(name).guards == KNOWN[name].guards
    assert get_provider(name).marks_pastes == KNOWN[name].marks_pastes


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_session_record_is_looked_for_where_an_agent_keeps_one(name: str) -> None:
    assert bool(get_provider(name).record_pattern) == KNOWN[name].keeps_record


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_agent_can_be_made_to_quit_and_its_box_be_emptied(name: str) -> None:
    provider = get_provider(name)
    assert all(provider.exit_keys)
    assert all(provider.clear_keys)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="codex") as caught:
        get_provider("codec")
    assert caught.value.known == tuple(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_of_every_version_that_is_said_to_be_tested_there_are_screens(name: str) -> None:
    files = [file.name for file in CAPTURES if file.relative_to(SCREENS).parts[0] == name]
    for version in get_provider(name).tested_versions:
        assert any(file.startswith(f"{'.'.join(map(str, version))}-") for file in files)


@pytest.mark.parametrize("agent", (AGENTS | FURTHER_AGENTS).values(), ids=AGENTS | FURTHER_AGENTS)
def test_every_version_that_the_tests_run_on_is_said_to_be_tested(agent: Agent) -> None:
    tested = get_provider(agent.name).tested_versions
    assert {numbers(version) for version in agent.versions} <= set(tested)
