"""Which agents can be started: their programs are looked for, and never run."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from cli_agent_orchestrator._internal.config import ServerConfig
from cli_agent_orchestrator._internal.providers import PROVIDERS, scripted
from cli_agent_orchestrator._internal.providers.base import Provider


def find_program(
    provider: Provider, config: ServerConfig, environ: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return by which name the program of an agent is looked for, and where it is, if it is."""
    wanted = config.provider(provider.name).command or provider.program
    return wanted, shutil.which(str(Path(wanted).expanduser()), path=environ.get("PATH"))


def startable_agents(config: ServerConfig) -> list[str]:
    """Return the agents whose programs are there, and the one that is built in."""
    return [
        name
        for name, provider in PROVIDERS.items()
        if name == scripted.name or find_program(provider, config, config.environ)[1]
    ]
