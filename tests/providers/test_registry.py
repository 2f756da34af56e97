"""Finding a provider by its name."""

import pytest

from cli_agent_orchestrator.errors import UnknownName
from cli_agent_orchestrator.providers import PROVIDERS, get_provider
from tests.agents.installs import AGENTS, FURTHER_AGENTS, Agent
from tests.providers.samples import SCREENS
from tests.providers.test_screens import CAPTURES


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_agent_can_be_made_to_quit_and_its_box_be_emptied(name: str) -> None:
    provider = get_provider(name)
    assert provider.name == name
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
