"""How many rounds are proposed after those that were in vain."""

from cli_agent_orchestrator.core.text import twice_as_many


def test_twice_as_many_are_proposed() -> None:
    assert [twice_as_many(rounds) for rounds in (0, 1, 2, 8)] == [2, 2, 4, 16]
