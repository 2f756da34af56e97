"""How an agent's window is entered and left, also from inside a person's own tmux."""

import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.terminals import LEAVE_NESTED, attach_command
from tests.cli.panes import Pane


@pytest.fixture
def servers() -> Iterator[tuple[Pane, Pane]]:
    """Return the tmux of a person and the one of the agents, in which one agent waits."""
    with tempfile.TemporaryDirectory(prefix="cao-") as name:
        folder = Path(name)
        with (
            closing(Pane(folder, "sh", name="person")) as person,
            closing(Pane(folder, "cat", name="agents")) as agents,
        ):
            agents.tmux("rename-window", "tester-1")
            yield person, agents


@pytest.mark.tmux
def test_attaching_inside_ones_own_tmux_tells_how_to_leave_and_that_works(
    servers: tuple[Pane, Pane],
) -> None:
    person, agents = servers
    words = attach_command("agents", "agents", "tester-1", LEAVE_NESTED)
    given = {**person.env, "TERM": "screen"}.items()
    env = [word for item in given for word in ("-e", "=".join(item))]
    person.tmux("set-option", "-w", "remain-on-exit", "on")
    person.tmux("respawn-pane", "-k", *env, shlex.join(["env", "-u", "TMUX", *words]))
    person.until_shown(re.escape(LEAVE_NESTED))
    assert agents.tmux("list-clients", "-F", "#{client_session}").split() == ["agents"]
    # What the own tmux hands on of Ctrl-b Ctrl-b d.
    person.press("C-b", "d")
    person.until(lambda lines: agents.tmux("list-clients") == "")
    assert agents.show("#{window_name}") == "tester-1"
