"""What a run is asked to do: by options, environment, task and settings file, the first wins."""

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from msgspec import field

from ..client.client import ApiClient, is_loopback
from ..client.find import ARGUMENT, OPTION, Found, Named, name_server
from ..core.codec import Private
from ..core.files import Folder, folder_of, read_file
from ..core.text import HALVES
from ..errors import ConfigError, PromptError, suggestion
from ..events import OnRunEvent
from ..pipeline.flow import Flow
from ..pipeline.task import read_front_matter
from ..settings.config import RunConfig
from ..settings.layout import TASK_FILE, TEMPORARY_FOLDER
from ..settings.table import BY_NAME, COMMANDS, OUT_OF_PROJECT, SETTINGS_FILE
from ..settings.values import (
    FLOW_NAME_PATTERN,
    check_path,
    expand_path,
    find_sources,
    merge_settings,
    name_as_given,
    read_environment,
    read_project_settings,
    read_role_providers,
    read_settings_file,
    read_word,
)

INSIDE_ONLY = ("STATE_FILE", "WD", "PROMPT_FILE")
"""Paths that a project's own file may set only within the project."""


def read_all_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    return merge_settings(options, variables, read_file_settings(options, variables, config_file))


def read_file_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    if config_file is not None:
        check_path("--config", config_file)
        return read_settings_file(Path(config_file))
    folder = expand_path("WD", merge_settings(options, variables).get("WD") or ".")
    file = read_project_settings(folder)
    check_project_file(file, folder)
    return file


def check_project_file(settings: Mapping[str, str], folder: Path) -> None:
    """Refuse what the file of a project that was merely cloned cannot say."""
    for name in OUT_OF_PROJECT:
        if name in settings:
            ways = BY_NAME[name].ways
            raise _fault(name, settings[name], f"nothing here: set it for one run, with {ways}")
    flow = settings.get("FLOW", "").strip()
    if flow and not re.fullmatch(FLOW_NAME_PATTERN, flow):
        raise _fault(
            "FLOW", flow, "the name of a flow; a file only by --flow, CAO_FLOW or --config"
        )
    # Unlike `resolve` this does not mind links that lead in a circle.
    project = Path(os.path.realpath(folder))
    for name in (name for name in INSIDE_ONLY if name in settings):
        where = f"{BY_NAME[name].key} in {SETTINGS_FILE}"
        path = Path(os.path.realpath(folder / expand_path(where, settings[name])))
        if not path.is_relative_to(project):
            ways = BY_NAME[name].ways
            expected = f"a path in the project; elsewhere only with {ways} or --config"
            raise _fault(name, settings[name], expected)
        is_for_state = path.suffix == ".json" and path.is_relative_to(project / TEMPORARY_FOLDER)
        if name == "STATE_FILE" and not is_for_state:
            expected = "a .json file below .tmp; another only with CAO_STATE_FILE or --config"
            raise _fault(name, settings[name], expected)
    # The user may have said `ask` to the server.
    permissions = settings.get("AGENT_PERMISSIONS", "").strip().lower()
    if permissions not in ("", "ask"):
        expected = "ask; more only by --permissions, CAO_AGENT_PERMISSIONS or --config"
        raise _fault("AGENT_PERMISSIONS", permissions, expected)


def _fault(name: str, value: str, expected: str) -> ConfigError:
    return ConfigError(f"{BY_NAME[name].key} in {SETTINGS_FILE}", value, expected)


class RunRequest(Private, frozen=True):
    config: RunConfig
    settings: Mapping[str, str] = field(default_factory=dict)
    """Everything that was given, by variable name."""
    insisted: Mapping[str, str] = field(default_factory=dict)
    """What of it was given by option or variable, not by a task or file."""
    replace_terminals: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    project_commands: Mapping[str, str] = field(default_factory=dict)
    """The commands in the project's own file, which may be anybody's, by variable name."""
    project_file: str = ""
    """That file, if it was named and is not the `cao.toml` of the work folder."""
    run: str = ""
    """The id of the run to resume, if it was named."""

    def chosen_provider(self, role: str) -> str:
        """Return the agent that the user names now for a role; a file may be older than the run."""
        named = read_role_providers(self.insisted)
        return named.get(role) or read_word(self.insisted, "PROVIDER")


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
    try:
        by = ARGUMENT if called else OPTION
        server = name_server(environ, options.get("API"), bare=True, by=by)
        return _build_request(options, environ, config_file, replace_terminals, server)
    except ConfigError as error:
        if error.variable not in BY_NAME:
            raise
        file = config_file or SETTINGS_FILE
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
    # A server elsewhere may be anybody's, and so may the file of a project.
    if config_file is None and (api := file.get("API")) and not is_loopback(api):
        expected = "a server on this machine; others only by option or CAO_API"
        raise ConfigError(f"api in {SETTINGS_FILE}", api, expected)
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
    named_file = "" if config_file is None else os.path.realpath(config_file)
    if named_file == os.path.realpath(config.wd / SETTINGS_FILE):
        named_file = ""
    commands = [name for name in COMMANDS if from_project and sources.get(name) == "file"]
    return RunRequest(
        config=config,
        settings=settings,
        insisted=merge_settings(options, variables),
        replace_terminals=replace_terminals,
        sources=sources,
        project_commands={name: settings[name] for name in commands},
        project_file=named_file if commands else "",
    )


def _is_of(file: str, *projects: Path) -> bool:
    """Does a settings file lie in one of these projects, whatever link leads there?"""
    link = Path(os.path.realpath(Path(file).parent), Path(file).name)
    places = (link, Path(os.path.realpath(file)))
    for project in projects:
        folder = Path(os.path.realpath(project))
        above = (folder, *folder.parents)
        top = next((top for top in above if os.path.lexists(top / ".git")), folder)
        if any(place.is_relative_to(top) for place in places):
            return True
    return False


def read_task_text(config: RunConfig) -> str:
    if config.prompt_file is not None:
        text = _read_task_file(config.prompt_file, config.wd)
    elif config.prompt:
        text = config.prompt
    else:
        raise PromptError(_no_task(config.wd))
    if re.search(f"[{HALVES}]", text):
        raise PromptError("PROMPT is not text in UTF-8")
    return text


def read_task_settings(config: RunConfig) -> dict[str, str]:
    """Return the settings at the top of the task, by variable name; none if it cannot be read."""
    try:
        text = read_task_text(config)
    except PromptError:
        return {}
    return read_front_matter(text, str(config.prompt_file or "PROMPT"))


def _no_task(project: Path) -> str:
    with suppress(OSError):
        if Folder(project).status(TASK_FILE) is not None:
            run = f"cao run {TASK_FILE}"
            if project != Path.cwd():
                run = f"cd {shlex.quote(str(project))} && {run}"
            return f"no task is named, but {TASK_FILE} is there: `{run}` starts it"
    return (
        f"there is no task: give its file (`cao run {TASK_FILE}` or CAO_PROMPT_FILE) or its text "
        '(`cao run "TEXT"`). `cao init` writes a template'
    )


def _read_task_file(path: Path, project: Path) -> str:
    try:
        return read_file(path, project).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(
            f"the task file {path} is not text in UTF-8 (byte {error.start + 1}); save it as UTF-8"
        ) from error
    except FileNotFoundError:
        pages: list[str] = []
        with suppress(OSError):
            pages = [name for name in folder_of(path, project).names() if name.endswith(".md")]
        meant = suggestion(path.name, pages) or "; `cao init` writes a template"
        raise PromptError(f"the task file {path} is not there{meant}") from None
    except OSError as error:
        if os.path.isdir(path):  # noqa: PTH112 - unlike `is_dir`, a name too long is no error
            raise PromptError(
                f"{path} is a folder, and the task is a file: `cao run {path / TASK_FILE}`, or "
                f"work in that folder with `cao run --wd {path} TASK`"
            ) from None
        raise PromptError(f"the task file {path} cannot be read: {error.strerror}") from error


class Interrupts(Protocol):
    """Knows when a run is to stop."""

    @property
    def exit_code(self) -> int: ...

    @property
    def reason(self) -> str:
        """Why it is to stop, in words; empty if it is not."""
        ...

    def check(self) -> None:
        """Raise `Stopped` if it is to stop."""
        ...

    def when_noted(self, stop: Callable[[], None]) -> None:
        """Call this when it is to stop."""
        ...


class Environment(Private, frozen=True):
    show: OnRunEvent
    interrupts: Interrupts
    connect: Callable[
        [RunConfig, Callable[[str], None]], AbstractContextManager[tuple[ApiClient, Found]]
    ]
    """Takes the settings and what gets warnings; leads to the server found at first."""
    state_folder: Path
    """The user's own, not the project's."""
    environ: Mapping[str, str]
    """The user's own variables: for git, for the commands of gates."""
    find_flow: Callable[[str, Path], Flow]
    check_agents: Callable[[Collection[str], Path], None]
    """Refuses agents that our own server could not start."""
    is_watched: Callable[[str], bool]
    """Is the user attached to an agent of this session? Also true where that is not known."""
    pop_warnings: Callable[[], Sequence[str]] = tuple
    """Returns the warnings of what sends notices, each once."""
    state_stays: bool = True
    """Does the state folder outlive this run, so that it matters who can write there?"""
