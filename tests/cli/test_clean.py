"""What `cao clean` says that it has done."""

import pytest

from cli_agent_orchestrator._internal.cli.clean import ended_words


@pytest.mark.parametrize(
    ("ended", "listed", "words"),
    [
        (27, 27, "Ended 27 agents."),
        (25, 27, "Ended 25 agents; 2 were gone already."),
        (1, 2, "Ended 1 agent; 1 was gone already."),
        (0, 1, "Ended 0 agents; 1 was gone already."),
    ],
)
def test_fewer_agents_than_were_listed_are_explained(ended: int, listed: int, words: str) -> None:
    assert ended_words(ended, listed) == words
