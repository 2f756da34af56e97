"""Agents for the tests; what is started is ended."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.scripted_agent.driving import PtyAgent, prompt_with_file


@pytest.fixture
def on_pty(tmp_path: Path) -> Iterator[Callable[..., PtyAgent]]:
    """Start an agent on a pseudo-terminal: `on_pty(script, profile)`."""
    with ExitStack() as stack:

        def start(script: str | None = "", profile: str = "programmer") -> PtyAgent:
            return stack.enter_context(closing(PtyAgent(tmp_path, script, profile)))

        yield start


@pytest.fixture
def started(on_pty: Callable[..., PtyAgent]) -> Callable[..., PtyAgent]:
    """Start an agent and wait until it takes messages."""

    def start(script: str | None = "", profile: str = "programmer") -> PtyAgent:
        agent = on_pty(script, profile)
        agent.wait_for("scripted ❯")
        return agent

    return start


@pytest.fixture
def play(started: Callable[..., PtyAgent], tmp_path: Path) -> Callable[..., PtyAgent]:
    """Start an agent that obeys one rule, and send it a prompt that wants a response file."""

    def start(*lines: str) -> PtyAgent:
        agent = started("\n".join(["[[rule]]", "turn = 1", *lines]))
        agent.send(prompt_with_file(tmp_path / "response.md"))
        return agent

    return start
