"""Agents for the tests; what is started is ended."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.scripted_agent.driving import PtyAgent, TmuxAgent


@pytest.fixture
def in_tmux(tmp_path: Path) -> Iterator[Callable[..., TmuxAgent]]:
    """Start an agent in tmux: `in_tmux(script, profile)`."""
    with ExitStack() as stack:

        def start(script: str | None = "", profile: str = "programmer") -> TmuxAgent:
            return stack.enter_context(closing(TmuxAgent(tmp_path, script, profile)))

        yield start


@pytest.fixture
def on_pty(tmp_path: Path) -> Iterator[Callable[..., PtyAgent]]:
    """Start an agent on a pseudo-terminal: `on_pty(script, profile)`."""
    with ExitStack() as stack:

        def start(script: str | None = "", profile: str = "programmer") -> PtyAgent:
            return stack.enter_context(closing(PtyAgent(tmp_path, script, profile)))

        yield start
