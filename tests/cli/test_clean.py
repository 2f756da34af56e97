"""What `cao clean` says that it has done."""

import pytest

from cli_agent_orchestrator._internal.cli.clean import ended_words, unlisted_among
from cli_agent_orchestrator._internal.cli.listing import Listed, read_terminal

RUN = "20261115-084037-k3f9"


def agent(name: str, session: str, status: str = "idle") -> Listed:
    return read_terminal({"id": name, "session_name": session, "status": status})


def test_agents_are_unlisted_whose_session_has_the_name_of_a_run_that_is_not_listed() -> None:
    agents = [agent("1", f"cao-{RUN}"), agent("2", "cao-shop"), agent("3", f"cao-{RUN}")]
    assert unlisted_among(agents, {}) == {RUN: [agents[0], agents[2]]}
    assert unlisted_among(agents, {RUN}) == {}


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
