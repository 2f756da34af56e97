"""What a run is asked to do: by options, environment, task and settings file, the first wins."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cli_agent_orchestrator.client import is_loopback
from cli_agent_orchestrator.discovery import name_server
from cli_agent_orchestrator.errors import ConfigError
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.runs.file_settings import read_file_settings
from cli_agent_orchestrator.runs.state_file import read_task_settings
from cli_agent_orchestrator.settings import SETTINGS_FILE, find_sources, merge_settings


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked for."""

    config: RunConfig
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Everything that was given, by variable name."""
    insisted: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What of it was given by option or variable, and does not merely stand in a task or file."""
    replace_terminals: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each setting came from: option, environment, task or file."""

    def chosen_provider(self, role: str) -> str:
        """Return the agent that was named for a role; empty if none was."""
        return self.config.providers.get(role) or self.settings.get("PROVIDER", "")


def build_request(
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    config_file: str | None = None,
    *,
    replace_terminals: bool = False,
) -> RunRequest:
    """Return what is asked for; raise what is wrong with it."""
    file = read_file_settings(options, environ, config_file)
    if config_file is None:
        _check_server(file)
    named = name_server(environ, options.get("API"))
    server = {"API": named.url} if named else {}
    named_by = named.by if named else config_file or SETTINGS_FILE
    without_task = merge_settings(options, environ, file) | server
    task = read_task_settings(RunConfig.from_env(without_task, named_by))
    settings = merge_settings(options, environ, task, file) | server
    sources = find_sources(option=options, environment=environ, task=task, file=file)
    if named is not None:
        sources["API"] = "option" if options.get("API") else "environment"
    return RunRequest(
        config=RunConfig.from_env(settings, named_by),
        settings=settings,
        insisted=merge_settings(options, environ),
        replace_terminals=replace_terminals,
        sources=sources,
    )


def _check_server(file: Mapping[str, str]) -> None:
    """Refuse a server elsewhere that a project's own file names, which may be anybody's."""
    api = file.get("API")
    if api and not is_loopback(api):
        expected = "a server on this machine; others only by option or API"
        raise ConfigError(f"api in {SETTINGS_FILE}", api, expected)
