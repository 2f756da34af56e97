"""Finding a provider by its name."""

import pytest

from cli_agent_orchestrator.errors import UnknownName
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from tests.agents.installs import AGENTS, FURTHER_AGENTS, Agent
from tests.providers.test_screens import CAPTURES, SCREENS


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_found_by_its_own_name(name: str) -> None:
    assert get_provider(name).name == name


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="codex") as caught:
        get_provider("codec")
    assert caught.value.known == tuple(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_of_every_version_that_is_said_to_be_tried_there_are_screens(name: str) -> None:
    files = [file.name for file in CAPTURES if file.relative_to(SCREENS).parts[0] == name]
    for version in get_provider(name).tried_versions:
        assert any(file.startswith(f"{'.'.join(map(str, version))}-") for file in files)


@pytest.mark.parametrize("agent", (AGENTS | FURTHER_AGENTS).values(), ids=AGENTS | FURTHER_AGENTS)
def test_every_version_that_the_tests_run_on_is_said_to_be_tried(agent: Agent) -> None:
    tried = get_provider(agent.name).tried_versions
    assert {numbers(version) for version in agent.versions} <= set(tried)
