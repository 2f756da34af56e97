"""How an agent's window is entered and left, also from inside a person's own tmux."""

import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.terminals import attach_command, key_words, leave_words, read_prefix
from tests.cli.panes import Pane


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("C-b", "Ctrl-b"),
        ("C-M-x", "Ctrl-Alt-x"),
        ("F12", "F12"),
        ("None", "Ctrl-b"),
        ("\x1b]0;x\x07", "Ctrl-b"),
    ],
)
def test_a_key_is_named_as_on_a_keyboard(key: str, words: str) -> None:
    assert key_words(key) == words


def test_in_ones_own_tmux_the_prefix_is_pressed_twice() -> None:
    told = "Leave with Ctrl-b Ctrl-b d (the first Ctrl-b is for your own tmux)"
    assert leave_words("C-b", "C-b") == told
    assert leave_words("C-b", "C-a") == "Leave with Ctrl-b d"


def test_a_hint_is_shown_as_it_is() -> None:
    assert attach_command("s", "cao-x", "tester-1", "Leave with #(date)")[-1].endswith("##(date)")


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
def test_the_prefixes_are_those_that_the_servers_have(servers: tuple[Pane, Pane]) -> None:
    person, agents = servers
    agents.tmux("set-option", "-g", "prefix", "M-q")
    person.tmux("set-option", "-g", "prefix", "C-a")
    path = person.show("#{socket_path},#{pid},0")
    assert read_prefix(["-L", "agents"], person.env) == "M-q"
    assert read_prefix([], {**person.env, "TMUX": path}) == "C-a"


@pytest.mark.tmux
def test_attaching_inside_ones_own_tmux_tells_how_to_leave_and_that_works(
    servers: tuple[Pane, Pane],
) -> None:
    person, agents = servers
    hint = leave_words("C-b", "C-b")
    words = attach_command("agents", "agents", "tester-1", hint)
    given = {**person.env, "TERM": "screen"}.items()
    env = [word for item in given for word in ("-e", "=".join(item))]
    person.tmux("set-option", "-w", "remain-on-exit", "on")
    person.tmux("respawn-pane", "-k", *env, shlex.join(["env", "-u", "TMUX", *words]))
    person.until_shown(re.escape(hint))
    assert agents.tmux("list-clients", "-F", "#{client_session}").split() == ["agents"]
    # What the own tmux hands on of Ctrl-b Ctrl-b d.
    person.press("C-b", "d")
    person.until(lambda lines: agents.tmux("list-clients") == "")
    assert agents.show("#{window_name}") == "tester-1"
