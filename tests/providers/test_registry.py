"""Finding a provider by its name."""

import pytest

from cli_agent_orchestrator.errors import UnknownName
from cli_agent_orchestrator.providers import PROVIDERS, get_provider


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_found_by_its_own_name(name: str) -> None:
    assert get_provider(name).name == name


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="codex") as caught:
        get_provider("codec")
    assert caught.value.known == tuple(PROVIDERS)
