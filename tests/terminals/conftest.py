"""A terminal service of its own for each test: private state folder, private tmux server."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.models import NewTerminal
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.terminals.service import TerminalService
from tests.terminals.tmux.rig import Rig, running_tmux


@dataclass
class Ground:
    """Where a test's servers live, and how they are started."""

    config: ServerConfig
    work: Path

    def script(self, text: str) -> None:
        """Give the scripted agent something else to do."""
        path = self.work.parent / "script.toml"
        path.write_text(text, encoding="utf-8")
        environ = {**self.config.environ, "CAO_SCRIPTED_ARGS": f"--script {path}"}
        self.config = replace(self.config, environ=environ)

    def new(self, profile: str = "tester") -> NewTerminal:
        return NewTerminal("scripted", profile, str(self.work))

    def program(self, agent: str, text: str) -> Path:
        """Let an agent be this shell script."""
        program = self.work.parent / agent
        program.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        program.chmod(0o755)
        environ = {**self.config.environ, f"CAO_{agent.upper()}_COMMAND": str(program)}
        self.config = replace(self.config, environ=environ)
        return program

    @asynccontextmanager
    async def service(self, script: str | None = None) -> AsyncIterator[TerminalService]:
        """Run a service; its agents outlive it."""
        if script is not None:
            self.script(script)
        service = TerminalService(self.config, SystemClock())
        await service.start()
        try:
            yield service
        finally:
            await service.close()

    def tmux(self, *words: str) -> str:
        """Run tmux by hand on the private socket."""
        done = subprocess.run(
            ["tmux", "-L", self.config.tmux_socket, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def traces(self) -> tuple[str, list[str]]:
        """Return what is left of terminals in tmux and among the event files."""
        windows = self.tmux("list-panes", "-a", "-F", "#{@cao_id}")
        return windows.strip(), [file.name for file in (self.config.state_dir / "events").iterdir()]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    work = tmp_path / "work"
    work.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CAO_")}
    environ["HOME"] = str(tmp_path)
    environ["CAO_STATE_DIR"] = str(tmp_path / "state")
    environ["CAO_CONFIG_DIR"] = str(tmp_path / "config")
    ground = Ground(ServerConfig.from_env(environ), work)
    ground.script("")
    yield ground
    socket = Path(ground.tmux("display-message", "-p", "#{socket_path}").strip() or "/nonexistent")
    ground.tmux("kill-server")
    socket.unlink(missing_ok=True)


@pytest.fixture
async def service(ground: Ground) -> AsyncIterator[TerminalService]:
    async with ground.service() as service:
        yield service


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running_tmux() as rig:
        yield rig
