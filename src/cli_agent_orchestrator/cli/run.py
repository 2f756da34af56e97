"""`cao run`: takes a task through the five agents until it passes."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import UsageError
from ..pipeline.task import task_of_line
from ..settings.config import state_folder
from ..settings.layout import STATE_FILE
from ..settings.run_config import RunConfig
from ..settings.table import BY_NAME, SETTINGS, Setting, ValueKind
from ..settings.values import expand_path, merge_settings, read_environment
from .complete import complete_files, complete_setting
from .imports import importing
from .printable import one_line
from .project import find_project, is_placed, remarks_on_variables
from .trust import settle_consent

Command = TypeVar("Command", bound=Callable[..., Any])

METAVARS = {
    ValueKind.TEXT: "TEXT",
    ValueKind.PATH: "PATH",
    ValueKind.URL: "URL",
    ValueKind.COUNT: "NUMBER",
    ValueKind.SECONDS: "SECONDS",
    ValueKind.GATES: "NAME=COMMAND",
    ValueKind.PATHS: "PATH",
}
DETACHED = """
The run {id} has begun and goes on without this terminal.
  See what it does:  cao watch {id}    (in the browser: cao dashboard)
  Tell its agents:   cao hint {id} "TEXT"
  Let it wait:       cao pause {id}    (until cao resume {id})
  End it:            cao stop {id}
  List all runs:     cao runs"""


def option_of(setting: Setting) -> Callable[[Command], Command]:
    """Return the option of a setting: `--max-rounds NUMBER`, `--resume / --no-resume`."""
    text = f"{setting.help}  [{_default(setting)}{setting.variable}]"
    if setting.kind is ValueKind.CHOICE:
        metavar = "|".join(setting.choices)
        offer = complete_setting(setting)
        return click.option(
            setting.option, setting.name, metavar=metavar, shell_complete=offer, help=text
        )
    if setting.kind is ValueKind.FLAG:
        names = f"{setting.option}/--no-{setting.option.removeprefix('--')}"
        return click.option(names, setting.name, default=None, help=text)
    return click.option(
        setting.option,
        setting.name,
        metavar=METAVARS[setting.kind],
        multiple=setting.kind in (ValueKind.GATES, ValueKind.PATHS),
        shell_complete=complete_setting(setting),
        help=text,
    )


def _default(setting: Setting) -> str:
    if not setting.default:
        return ""
    if setting.kind is ValueKind.FLAG:
        return f"default: {'on' if setting.default == '1' else 'off'}; "
    return f"default: {setting.default}; "


def setting_options(command: Command) -> Command:
    """Give a command an option for every setting of a run."""
    for setting in reversed(SETTINGS):
        command = option_of(setting)(command)
    return command


@click.command()
@click.argument("task", required=False, shell_complete=complete_files)
@click.option("-m", "--message", metavar="TEXT", help="The task itself, in one line.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Read settings from this TOML file.",
)
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
@click.option(
    "--trust", is_flag=True, help="Allow the commands that the project's own cao.toml names."
)
@click.option(
    "--worktree", is_flag=True, help="Work in a work tree of its own: --workspace worktree."
)
@setting_options
def run(
    task: str | None,
    config_file: str | None,
    as_json: bool,
    detach: bool,
    **options: str | bool | tuple[str, ...] | None,
) -> None:
    """Take TASK, a file, through analyst, programmer and tester until it passes.

    -m gives a task in one line; the tester then checks that the project's tests pass and that the
    change does what was asked.

    Other flows (--flow) have other roles; `cao flow ls` lists them.

    Every setting can be given as an option, as an environment variable (the name in brackets, also
    without CAO_), at the top of the task or in cao.toml; the first of these wins.

    A run that was interrupted goes on when the same command is given again; one with --worktree by
    `cao resume`.

    \b
    cao run task.md
    cao run task.md --provider claude_code --gate tests='make test'
    cao run -m "Let the parser accept empty lines" --worktree
    cao run task.md --provider scripted         # a dry run, without any model

    With --detach the run goes on when this terminal is closed: `cao runs` lists it, `cao watch`
    shows what it does. `cao pause`, `hint`, `set`, `skip` and `stop` steer any run under way; in a
    terminal the last row shows the keys that do the same.

    Ends with 0 PASS, 1 FAIL, 2 bad usage or task, 3 stopped by an error (can be resumed),
    129, 130 and 143 ended by a signal, 141 when nobody reads its output any more.
    """
    manner = Manner(
        as_json,
        detach,
        replace_terminals=options.pop("replace_terminals") is True,
        trust=options.pop("trust") is True,
    )
    for remark in remarks_on_variables(os.environ):
        click.echo(f"cao: {remark}", err=True)
    in_worktree = options.pop("worktree") is True
    given = {name: _text(value) for name, value in options.items()}
    given |= workspace_options(given) if in_worktree else {}
    given |= task_options(task, given.pop("message"), given)
    if config_file is None:
        given |= project_options(given, os.environ)
    start(given, config_file, manner)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is begun or resumed."""

    as_json: bool = False
    detach: bool = False
    """Apart from this terminal?"""
    replace_terminals: bool = False
    """With new agents for those that are lost?"""
    trust: bool = False
    """Are the commands of the project's own file allowed?"""
    run: str = ""
    """The run in a work tree that goes on, if it is one of these."""
    by_id: bool = False
    """Is it resumed by its id, as its next commands then say it?"""


def start(given: Mapping[str, str | None], config_file: str | None, manner: Manner) -> None:
    """Begin or resume a run, here or apart from this terminal; here it ends the program."""
    with importing():  # heavy, unlike --help
        from ..runs.request import build_request
        from ..settings.trust import commands_text

    replacing = manner.replace_terminals
    request = build_request(given, os.environ, config_file, replace_terminals=replacing)
    request = replace(request, run=manner.run)
    config = request.config
    commands = commands_text(request.project_commands)
    if commands and not config.resume:
        # What is wrong with the command is said before anything is asked.
        check_usage(config)
    settle_consent(commands, config.wd, request.project_file, given=manner.trust)
    if manner.detach:
        _launch(given, config_file, manner, config.wd)
        return
    with importing():
        from .conduct import conduct
        from .narration import RESUME_BY_ID, unfinished_words
        from .progress import choose_view

    by_id = manner.by_id or config.in_worktree
    report = "cao report {id}" if by_id else report_command(config, Path.cwd())
    unfinished = RESUME_BY_ID if by_id else unfinished_words(config.resume)
    view = choose_view(config.wd, manner.as_json, report, unfinished, state_folder(os.environ))
    sys.exit(conduct(request, view, os.environ))


def check_usage(config: RunConfig) -> None:
    """Refuse a task that is not there, and agents that our own server could not start."""
    with importing():
        from ..providers import get_provider
        from ..runs.state_file import read_task_text

    if config.prompt_file is not None:
        read_task_text(config)
    if config.provider and not config.api_given:
        get_provider(config.provider)


def workspace_options(options: Mapping[str, str | None]) -> dict[str, str]:
    """Return the setting that --worktree stands for."""
    if options.get("WORKSPACE") not in (None, "", "worktree"):
        raise UsageError("--worktree and --workspace say different things; leave one out")
    return {"WORKSPACE": "worktree"}


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
    if is_placed(named):
        return {}
    folder = find_project(Path(), expand_path("HOME", environ.get("HOME") or "~"))
    if folder is None:
        return {}
    click.echo(one_line(f"Using the project in {folder}"), err=True)
    return {"WD": str(folder)}


def _launch(
    given: Mapping[str, str | None],
    config_file: str | None,
    manner: Manner,
    wd: Path,
) -> None:
    """Start a run apart from this terminal, and say how to find it again."""
    with importing():
        from ..runs.launch import RunLauncher, RunToLaunch, run_command
        from .progress import JsonView, PlainView

    launcher = RunLauncher(run_command(sys.executable), os.environ)
    request = RunToLaunch(given, config_file, manner.replace_terminals, manner.run)
    view = JsonView() if manner.as_json else PlainView(wd)
    try:
        launched = launcher.launch(request, Path.cwd(), view.tell)
    except KeyboardInterrupt:
        click.echo("cao: stopped before the run had begun", err=True)
        raise
    if not manner.as_json:
        click.echo(DETACHED.format(id=launched.run))


def report_command(config: RunConfig, here: Path) -> str:
    """Return the command that reports on a run if it is typed in this folder."""
    words = ["cao", "report"]
    if config.wd != here:
        words += [BY_NAME["WD"].option, str(config.wd)]
    if config.state_file != config.wd / STATE_FILE:
        words += [BY_NAME["STATE_FILE"].option, str(config.state_file)]
    return shlex.join(words)


def _text(value: str | bool | tuple[str, ...] | None) -> str | None:
    match value:
        case bool():
            return str(int(value))
        case tuple():
            return "\n".join(value)
    return value
