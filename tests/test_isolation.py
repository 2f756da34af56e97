"""Tests do not meet a server that they did not start."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.settings.config import DEFAULT_API, DEFAULT_PORT, ServerConfig

CAO = [sys.executable, "-m", "cli_agent_orchestrator", "ls"]


def test_the_environment_names_neither_the_users_folders_nor_the_default_port() -> None:
    config = ServerConfig.from_env(os.environ)
    assert config.port != DEFAULT_PORT
    for folder in (config.state_dir, config.config_dir):
        assert not folder.exists()
        assert not folder.is_relative_to(Path.home() / ".local")


def test_using_the_default_port_fails_loudly() -> None:
    for use in (socket.socket.connect, socket.socket.bind):
        with socket.socket() as one, pytest.raises(AssertionError, match="must not use port"):
            use(one, ("127.0.0.1", DEFAULT_PORT))


@pytest.mark.parametrize(
    "env", [{}, {"CAO_PORT": ""}, {"CAO_PORT": str(DEFAULT_PORT)}, {"CAO_API": DEFAULT_API}]
)
def test_starting_our_program_at_the_default_port_fails_loudly(env: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="name a port of its own"):
        subprocess.run(CAO, env=env, check=False)
