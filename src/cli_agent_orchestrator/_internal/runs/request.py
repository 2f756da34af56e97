"""What a run is asked to do: by options, environment, task and settings file, the first wins."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cli_agent_orchestrator._internal.client import is_loopback
from cli_agent_orchestrator._internal.discovery import ARGUMENT, OPTION, Named, name_server
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.file_settings import read_file_settings
from cli_agent_orchestrator._internal.runs.records.state_file import read_task_settings
from cli_agent_orchestrator._internal.settings.levels import (
    find_sources,
    merge_settings,
    name_as_given,
    read_environment,
)
from cli_agent_orchestrator._internal.settings.table import BY_NAME, COMMANDS, SETTINGS_FILE
from cli_agent_orchestrator._internal.settings.values import expand_path, read_word
from cli_agent_orchestrator.errors import ConfigError


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
    project_commands: Mapping[str, str] = field(default_factory=dict)
    """What of the project's own file, which may be anybody's, is a command, by variable name."""
    project_file: str = ""
    """That file, if it was named and is not the `cao.toml` of the work folder."""
    run: str = ""
    """The id of the run in a work tree that is to go on; empty if it is none of these."""

    def chosen_provider(self, role: str) -> str:
        """Return the agent that was named for a role; empty if none was."""
        return self.config.providers.get(role) or read_word(self.settings, "PROVIDER")


def build_request(
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    config_file: str | None = None,
    *,
    replace_terminals: bool = False,
    called: str = "",
) -> RunRequest:
    """Return what is asked for; raise what is wrong with it, named as it was given.

    `called` is the function whose arguments the options are, if they are.
    """
    with _naming_as_given(options, environ, config_file or SETTINGS_FILE, called):
        server = name_server(
            environ, options.get("API"), bare=True, by=ARGUMENT if called else OPTION
        )
        return _build_request(options, environ, config_file, replace_terminals, server)


@contextmanager
def _naming_as_given(
    options: Mapping[str, str | None], environ: Mapping[str, str], file: str, called: str
) -> Iterator[None]:
    """Name a setting that has a bad value as it was given."""
    try:
        yield
    except ConfigError as error:
        if error.variable not in BY_NAME:
            raise
        named = name_as_given(error.variable, options, environ, file, called)
        raise ConfigError(named, error.value, error.expected) from error


def _build_request(
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    config_file: str | None,
    replace_terminals: bool,
    named: Named | None,
) -> RunRequest:
    variables = read_environment(environ, bare=True)
    file = read_file_settings(options, variables, config_file)
    if config_file is None:
        _check_server(file)
    server = {"API": named.url} if named else {}
    named_by = named.by if named else config_file or SETTINGS_FILE
    without_task = merge_settings(options, variables, file) | server
    task = read_task_settings(RunConfig.from_env(without_task, named_by))
    settings = merge_settings(options, variables, task, file) | server
    sources = find_sources(option=options, environment=variables, task=task, file=file)
    if named is not None:
        sources["API"] = "option" if options.get("API") else "environment"
    config = RunConfig.from_env(settings, named_by)
    asked_for = expand_path("WD", merge_settings(options, variables).get("WD") or ".")
    from_project = config_file is None or _is_of(config_file, asked_for, config.wd)
    commands = [name for name in COMMANDS if from_project and sources.get(name) == "file"]
    return RunRequest(
        config=config,
        settings=settings,
        insisted=merge_settings(options, variables),
        replace_terminals=replace_terminals,
        sources=sources,
        project_commands={name: settings[name] for name in commands},
        project_file=_named_file(config_file, config.wd) if commands else "",
    )


def _is_of(file: str, *projects: Path) -> bool:
    """Does a file, or a link to it, lie in one of some folders, or in the repository around it?"""
    link = Path(os.path.realpath(Path(file).parent), Path(file).name)
    places = (link, Path(os.path.realpath(file)))
    tops = [_top_of(folder) for folder in projects]
    return any(place.is_relative_to(top) for place in places for top in tops)


def _top_of(folder: Path) -> Path:
    folder = Path(os.path.realpath(folder))
    above = (folder, *folder.parents)
    return next((top for top in above if os.path.lexists(top / ".git")), folder)


def _named_file(file: str | None, wd: Path) -> str:
    place = "" if file is None else os.path.realpath(file)
    return "" if place == os.path.realpath(wd / SETTINGS_FILE) else place


def _check_server(file: Mapping[str, str]) -> None:
    """Refuse a server elsewhere that a project's own file names, which may be anybody's."""
    api = file.get("API")
    if api and not is_loopback(api):
        expected = "a server on this machine; others only by option or CAO_API"
        raise ConfigError(f"api in {SETTINGS_FILE}", api, expected)
