"""How an agent's window is entered and left, also from inside a person's own tmux."""

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.terminals import (
    attach_command,
    key_words,
    leave_words,
    read_prefixes,
)

PATIENCE = 60.0
LOOK_SECONDS = 0.05


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("C-b", "Ctrl-b"),
        ("C-Space", "Ctrl-Space"),
        ("M-a", "Alt-a"),
        ("C-M-x", "Ctrl-Alt-x"),
        ("F12", "F12"),
        ("`", "`"),
        ("None", "Ctrl-b"),
        ("", "Ctrl-b"),
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


class Server:
    """A tmux server of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "LINES")}
        self.env = {
            **env,
            "TMUX_TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
            "TERM": "screen",
            # Not the user's own: it may be one that lets nobody in.
            "SHELL": "/bin/sh",
        }

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self.name, "-f", "/dev/null", *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, self.screen()
            time.sleep(LOOK_SECONDS)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "=person:")


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """Return the tmux of a person and the one of the agents, in which one agent waits."""
    with tempfile.TemporaryDirectory(prefix="cao-") as folder:
        person, agents = Server(Path(folder), "person"), Server(Path(folder), "agents")
        agents.tmux("new-session", "-d", "-s", "cao-x", "-n", "tester-1", "cat")
        person.tmux("new-session", "-d", "-s", "person", "-x", "100", "-y", "30", "sh")
        try:
            yield person, agents
        finally:
            person.tmux("kill-server")
            agents.tmux("kill-server")


@pytest.mark.tmux
def test_the_prefixes_are_those_that_the_servers_have(servers: tuple[Server, Server]) -> None:
    person, agents = servers
    agents.tmux("set-option", "-g", "prefix", "M-q")
    person.tmux("set-option", "-g", "prefix", "C-a")
    path = person.tmux("display-message", "-p", "#{socket_path},#{pid},0").strip()
    assert read_prefixes("agents", person.env) == ("M-q", None)
    assert read_prefixes("agents", {**person.env, "TMUX": path}) == ("M-q", "C-a")


@pytest.mark.tmux
def test_attaching_inside_ones_own_tmux_tells_how_to_leave_and_that_works(
    servers: tuple[Server, Server],
) -> None:
    person, agents = servers
    hint = leave_words("C-b", "C-b")
    words = attach_command("agents", "cao-x", "tester-1", hint)
    env = person.env
    given = [word for item in env.items() for word in ("-e", "=".join(item))]
    line = shlex.join(["env", "-u", "TMUX", *words])
    person.tmux("respawn-pane", "-k", "-t", "=person:", *given, line)
    person.tmux("set-option", "-t", "=person:", "remain-on-exit", "on")
    person.until(lambda: hint in person.screen())
    assert agents.tmux("list-clients", "-F", "#{client_session}").split() == ["cao-x"]
    # What the own tmux hands on of Ctrl-b Ctrl-b d.
    person.tmux("send-keys", "-t", "=person:", "C-b", "d")
    person.until(lambda: agents.tmux("list-clients") == "")
    assert agents.tmux("list-windows", "-t", "=cao-x", "-F", "#{window_name}").split() == [
        "tester-1"
    ]
