"""`cao run`: takes a task through the five agents until it passes."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli_agent_orchestrator.cli.importing import importing
from cli_agent_orchestrator.cli.printable import one_line
from cli_agent_orchestrator.cli.project import NAMED_BY, find_project
from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.layout import STATE_FILE, TEMPORARY_FOLDER
from cli_agent_orchestrator.pipeline.task import task_of_line
from cli_agent_orchestrator.run_config import RunConfig
from cli_agent_orchestrator.settings import (
    BY_NAME,
    FLOW_NAME_PATTERN,
    OUT_OF_PROJECT,
    PREFIX,
    SETTINGS,
    SETTINGS_FILE,
    Kind,
    Setting,
    check_path,
    expand_path,
    find_sources,
    merge_settings,
    name_as_given,
    read_environment,
    read_project_settings,
    read_settings_file,
)

if TYPE_CHECKING:
    from cli_agent_orchestrator.runs.conductor import RunRequest

Command = TypeVar("Command", bound=Callable[..., Any])

METAVARS = {
    Kind.TEXT: "TEXT",
    Kind.PATH: "PATH",
    Kind.URL: "URL",
    Kind.COUNT: "NUMBER",
    Kind.SECONDS: "SECONDS",
}
DETACHED = """
The run {id} has begun and goes on without this terminal.
  See what it does:  cao watch {id}
  Tell its agents:   cao hint {id} "TEXT"
  Let it wait:       cao pause {id}    (until cao resume {id})
  End it:            cao stop {id}
  List all runs:     cao runs"""
INSIDE_ONLY = ("STATE_FILE", "WD", "PROMPT_FILE")
"""Paths that a project's own file may set only within the project."""


def option_of(setting: Setting) -> Callable[[Command], Command]:
    """Return the option of a setting: `--max-rounds NUMBER`, `--resume / --no-resume`."""
    text = f"{setting.help}  [{_default(setting)}{setting.variable}]"
    if setting.kind is Kind.CHOICE:
        return click.option(
            setting.option, setting.name, metavar="|".join(setting.choices), help=text
        )
    if setting.kind is Kind.FLAG:
        names = f"{setting.option}/--no-{setting.option.removeprefix('--')}"
        return click.option(names, setting.name, default=None, help=text)
    return click.option(setting.option, setting.name, metavar=METAVARS[setting.kind], help=text)


def _default(setting: Setting) -> str:
    if not setting.default:
        return ""
    if setting.kind is Kind.FLAG:
        return f"default: {'on' if setting.default == '1' else 'off'}; "
    return f"default: {setting.default}; "


def setting_options(command: Command) -> Command:
    """Give a command an option for every setting of a run."""
    for setting in reversed(SETTINGS):
        command = option_of(setting)(command)
    return command


@click.command()
@click.argument("task", required=False)
@click.option("-m", "--message", metavar="TEXT", help="The task itself, in one line.")
@click.option("--config", "config_file", metavar="FILE", help="Read settings from this TOML file.")
@click.option("--json", "as_json", is_flag=True, help="Tell what happens as JSON, a line each.")
@click.option(
    "--detach",
    is_flag=True,
    help="Start the run apart from this terminal, and return when it has begun.",
)
@click.option(
    "--replace-terminals",
    is_flag=True,
    help="Resume with new agents for those that are lost or in error.",
)
@setting_options
def run(
    task: str | None,
    config_file: str | None,
    as_json: bool,
    detach: bool,
    replace_terminals: bool,
    **options: str | bool | None,
) -> None:
    """Take TASK, a file, through analyst, programmer and tester until it passes.

    -m gives a task in one line; the tester then checks that the project's tests pass and that the
    change does what was asked.

    Other flows (--flow) have other roles; `cao flow ls` lists them.

    Every setting can be given as an option, as an environment variable (the name in brackets, also
    without CAO_), at the top of the task or in cao.toml; the first of these wins. A run that was
    interrupted is resumed by itself.

    With --detach the run goes on when this terminal is closed: `cao runs` lists it, `cao watch`
    shows what it does. `cao pause`, `hint`, `set`, `skip` and `stop` steer any run under way.

    Ends with 0 PASS, 1 FAIL, 2 bad usage or task, 3 stopped by an error (can be resumed),
    129, 130 and 143 ended by a signal, 141 when nobody reads its output any more.
    """
    given = {name: _text(value) for name, value in options.items()}
    given |= task_options(task, given.pop("message"), given)
    if config_file is None:
        given |= project_options(given, os.environ)
    start(given, config_file, as_json=as_json, detach=detach, replace_terminals=replace_terminals)


def start(
    given: Mapping[str, str | None],
    config_file: str | None,
    *,
    as_json: bool,
    detach: bool,
    replace_terminals: bool,
) -> None:
    """Begin or resume a run, here or apart from this terminal; here it ends the program."""
    request = build_request(given, os.environ, config_file, replace_terminals)
    if detach:
        _launch(given, config_file, replace_terminals, request.config, as_json)
        return
    with importing():  # heavy, unlike --help
        from cli_agent_orchestrator.cli.conduct import conduct
        from cli_agent_orchestrator.cli.narration import unfinished_words
        from cli_agent_orchestrator.cli.progress import choose_view

    config = request.config
    report = report_command(config, Path.cwd())
    view = choose_view(config.wd, as_json, report, unfinished_words(config.resume))
    sys.exit(conduct(request, view))


def task_options(
    task: str | None, message: str | None, options: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the setting that the task stands for; it may be given in one way only."""
    ways = [task, message, options.get("PROMPT_FILE") or None, options.get("PROMPT") or None]
    if len([way for way in ways if way is not None]) > 1 and (task, message) != (None, None):
        raise UsageError(
            "name the task once: as TASK, with -m, with --prompt-file or with --prompt"
        )
    if message is not None:
        return {"PROMPT": task_of_line(message)}
    return {} if task is None else {"PROMPT_FILE": task}


def project_options(
    options: Mapping[str, str | None], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the folder above that a run is meant for which says nothing of it, and tell it."""
    named = merge_settings(options, read_environment(environ, bare=True))
    if any(name in named for name in NAMED_BY):
        return {}
    folder = find_project(Path(), expand_path("HOME", environ.get("HOME") or "~"))
    if folder is None:
        return {}
    click.echo(one_line(f"Using the project in {folder}"), err=True)
    return {"WD": str(folder)}


def build_request(
    given: Mapping[str, str | None],
    environ: Mapping[str, str],
    config_file: str | None,
    replace_terminals: bool,
) -> "RunRequest":
    """Return what is asked for by options, environment, task and file; raise what is wrong."""
    with naming_as_given(given, environ, config_file or SETTINGS_FILE):
        return _build_request(given, environ, config_file, replace_terminals)


@contextmanager
def naming_as_given(
    options: Mapping[str, str | None], environ: Mapping[str, str], file: str
) -> Iterator[None]:
    """Name a setting that has a bad value as it was given."""
    try:
        yield
    except ConfigError as error:
        if error.variable not in BY_NAME:
            raise
        named = name_as_given(error.variable, options, environ, file)
        raise ConfigError(named, error.value, error.expected) from error


def _build_request(
    given: Mapping[str, str | None],
    environ: Mapping[str, str],
    config_file: str | None,
    replace_terminals: bool,
) -> "RunRequest":
    with importing():  # heavy, unlike --help
        from cli_agent_orchestrator.discovery import name_server
        from cli_agent_orchestrator.runs.conductor import RunRequest
        from cli_agent_orchestrator.runs.state_file import read_task_settings

    variables = read_environment(environ, bare=True)
    file = read_file_settings(given, variables, config_file)
    named = name_server(environ, given.get("API"), bare=True)
    server = {"API": named.url} if named else {}
    named_by = named.by if named else config_file or SETTINGS_FILE
    without_task = merge_settings(given, variables, file) | server
    of_task = read_task_settings(RunConfig.from_env(without_task, named_by))
    settings = merge_settings(given, variables, of_task, file) | server
    sources = find_sources(option=given, environment=variables, task=of_task, file=file)
    if named is not None:
        sources["API"] = "option" if given.get("API") else "environment"
    return RunRequest(
        config=RunConfig.from_env(settings, named_by),
        settings=settings,
        insisted=merge_settings(given, variables),
        replace_terminals=replace_terminals,
        sources=sources,
    )


def _launch(
    given: Mapping[str, str | None],
    config_file: str | None,
    replace_terminals: bool,
    config: RunConfig,
    as_json: bool,
) -> None:
    """Start a run apart from this terminal, and say how to find it again."""
    with importing():
        from cli_agent_orchestrator.cli.command import detached_words
        from cli_agent_orchestrator.cli.progress import JsonView, PlainView
        from cli_agent_orchestrator.runs.launch import Launcher, LaunchRequest

    launcher = Launcher(detached_words(sys.executable), os.environ)
    request = LaunchRequest(given, config_file, replace_terminals)
    view = JsonView() if as_json else PlainView(config.wd)
    try:
        launched = launcher.launch(request, Path.cwd(), view.tell)
    except KeyboardInterrupt:
        click.echo("cao: stopped before the run had begun", err=True)
        raise
    if not as_json:
        click.echo(DETACHED.format(id=launched.run))


def report_command(config: RunConfig, here: Path) -> str:
    """Return the command that reports on a run if it is typed in this folder."""
    words = ["cao", "report"]
    if config.wd != here:
        words += [BY_NAME["WD"].option, str(config.wd)]
    if config.state_file != config.wd / STATE_FILE:
        words += [BY_NAME["STATE_FILE"].option, str(config.state_file)]
    return shlex.join(words)


def read_all_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    """Return the settings of options, environment (`read_environment`) and file."""
    return merge_settings(options, variables, read_file_settings(options, variables, config_file))


def read_file_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    """Return the settings of the file that is named, else of the project's own."""
    if config_file is not None:
        check_path("--config", config_file)
        named = read_settings_file(Path(config_file))
        if "GATE" in named:
            raise ConfigError(f"gate in {config_file}", named["GATE"], "it by --gate or CAO_GATE")
        return named
    folder = expand_path("WD", merge_settings(options, variables).get("WD") or ".")
    file = read_project_settings(folder)
    check_project_file(file, folder)
    return file


def check_project_file(settings: Mapping[str, str], folder: Path) -> None:
    """Refuse settings by which a project that was merely cloned would reach out of its folder.

    Nor may it allow its agents more than the user does, who may have said `ask` to the server.
    """
    from cli_agent_orchestrator.client import is_loopback  # heavy, and seldom needed

    for name in OUT_OF_PROJECT:
        if name in settings:
            where = f"{name.lower()} in {SETTINGS_FILE}"
            expected = f"nothing: say it by {BY_NAME[name].option} or {PREFIX}{name}, for one run"
            raise ConfigError(where, settings[name], expected)
    flow = settings.get("FLOW", "").strip()
    if flow and not re.fullmatch(FLOW_NAME_PATTERN, flow):
        expected = "the name of a flow; a file only by --flow, CAO_FLOW or --config"
        raise ConfigError(f"flow in {SETTINGS_FILE}", flow, expected)
    for name in INSIDE_ONLY:
        if name in settings:
            where = f"{name.lower()} in {SETTINGS_FILE}"
            # Unlike `resolve` this does not mind links that lead in a circle.
            path = Path(os.path.realpath(folder / expand_path(where, settings[name])))
            if not path.is_relative_to(os.path.realpath(folder)):
                raise ConfigError(
                    where,
                    settings[name],
                    f"a path in the project; elsewhere only by option, {PREFIX}{name} or --config",
                )
            if name == "STATE_FILE" and not _is_for_state(path, folder):
                raise ConfigError(
                    where,
                    settings[name],
                    "a .json file below .tmp; another only by option, CAO_STATE_FILE or --config",
                )
    permissions = settings.get("AGENT_PERMISSIONS", "").strip().lower()
    if permissions not in ("", "ask"):
        raise ConfigError(
            f"agent_permissions in {SETTINGS_FILE}",
            permissions,
            "ask; more only by --permissions, CAO_AGENT_PERMISSIONS or --config",
        )
    api = settings.get("API")
    if api and not is_loopback(api):
        raise ConfigError(
            f"api in {SETTINGS_FILE}",
            api,
            "a server on this machine; others only by option or CAO_API",
        )


def _is_for_state(path: Path, folder: Path) -> bool:
    """Is it a file that a project may name for its state, and none that it lives by?"""
    below = Path(os.path.realpath(folder), TEMPORARY_FOLDER)
    return path.suffix == ".json" and path.is_relative_to(below)


def _text(value: str | bool | None) -> str | None:
    return {True: "1", False: "0"}[value] if isinstance(value, bool) else value
