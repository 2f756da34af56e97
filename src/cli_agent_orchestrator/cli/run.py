"""`cao run`: for which folder it is meant, with which settings, and how it is shown."""

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from ..core.models import RUN_INDEX
from ..core.text import one_line
from ..errors import ConfigError, PromptError, UsageError
from ..events import RunEvent, to_line
from ..hosting.user import read_notices
from ..runs.control import pass_on
from ..runs.record import read_events
from ..runs.recorder import View
from ..settings.config import own_agents, tmux_socket
from ..settings.layout import STATE_FILE, config_folder, run_folder, state_folder
from ..settings.table import (
    AGENTS,
    BY_NAME,
    PREFIX,
    PROVIDER_SUFFIX,
    ROLE_SETTINGS,
    SETTINGS,
    SETTINGS_FILE,
    Setting,
    ValueKind,
)
from ..settings.values import expand_path, merge_settings, read_environment
from ..terminals.programs import is_inside
from .complete import complete_files, complete_role_agents, complete_setting
from .imports import terminal_width
from .narration import Narration, beside_time
from .trust import settle_consent

Command = TypeVar("Command", bound=Callable[..., Any])

METAVARS = {
    ValueKind.TEXT: "TEXT",
    ValueKind.PATH: "PATH",
    ValueKind.URL: "URL",
    ValueKind.COUNT: "NUMBER",
    ValueKind.GATES: "NAME=COMMAND",
    ValueKind.PATHS: "PATH",
}
DETACHED = """
The run {id} has started and continues without this terminal.
  See what it does:  cao watch {id}    (in the browser: cao dashboard)
  Tell its agents:   cao send {id} "TEXT"
  Pause it:          cao pause {id}    (until cao resume {id})
  End it:            cao stop {id}
  List all runs:     cao runs"""


def option_of(setting: Setting) -> Callable[[Command], Command]:
    """Return the option of a setting: `--max-rounds NUMBER`, `--resume / --no-resume`."""
    is_flag = setting.kind is ValueKind.FLAG
    usual = {"1": "on", "0": "off"}[setting.default or "0"] if is_flag else setting.default
    # What happens without --end-agents is neither on nor off: its help says it.
    is_told = setting.default and setting.name != "CLEANUP_ON_EXIT"
    default = f"default: {usual}; " if is_told else ""
    text = f"{setting.help}  [{default}{setting.variable}]"
    if is_flag:
        word = setting.option.removeprefix("--")
        off = "--keep-agents" if setting.name == "CLEANUP_ON_EXIT" else f"--no-{word}"
        return click.option(f"{setting.option}/{off}", setting.name, default=None, help=text)
    if setting.name == "WORKSPACE":
        text = (
            "Work in a work tree, on a branch that you apply when you like it, instead of in your "
            "folder.  [CAO_WORKSPACE=worktree]"
        )
        return click.option("--worktree/--no-worktree", setting.name, default=None, help=text)
    return click.option(
        setting.option,
        setting.name,
        metavar=METAVARS.get(setting.kind) or "|".join(setting.choices),
        multiple=setting.kind in (ValueKind.GATES, ValueKind.PATHS),
        shell_complete=complete_setting(setting),
        help=text,
    )


def setting_options(command: Command) -> Command:
    for setting in reversed(SETTINGS):
        if setting.option and setting.name not in ROLE_SETTINGS:
            command = option_of(setting)(command)
    return command


@click.command()
@click.argument("task", required=False, shell_complete=complete_files)
@setting_options
@click.option(
    "--agent",
    "agents",
    metavar="ROLE=NAME",
    multiple=True,
    shell_complete=complete_role_agents,
    help="The agent of one role, such as tester=gemini_cli. Several may be given.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Read settings from this TOML file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one per line.")
@click.option(
    "--detach", is_flag=True, help="Start the run in the background, and return when it has begun."
)
@click.option(
    "--replace-terminals",
    is_flag=True,
    help="Resume with new agents for those that are lost or in error.",
)
@click.option(
    "--trust", is_flag=True, help="Allow the commands that the project's own cao.toml names."
)
def run(
    task: str | None,
    agents: tuple[str, ...],
    config_file: str | None,
    as_json: bool,
    detach: bool,
    replace_terminals: bool,
    trust: bool,
    **options: str | bool | tuple[str, ...] | None,
) -> None:
    """Take TASK through analyst, programmer and tester until it passes.

    TASK is a file, or the text itself. Below a heading `# Test` a task says what the tester does;
    without it the tester checks that the project's tests pass and that the change does what was
    asked. Without TASK the run of this folder that was interrupted is resumed; so is one in a work
    tree of it, also by the same command.

    Other flows (--flow) have other roles; `cao flow ls` lists them.

    Each setting is an environment variable (the name in brackets, also without CAO_) and a key of
    cao.toml, or stands at the top of the task. An option wins over a variable, a variable over the
    task, the task over cao.toml. Those that have no option are listed in docs/run.md.

    \b
    cao run task.md
    cao run "Let the parser accept empty lines" --worktree
    cao run task.md --provider claude_code --gate tests='make test'
    cao run task.md --agent tester=gemini_cli
    cao run task.md --provider scripted         # a dry run, without any model

    `cao pause`, `send`, `set`, `skip` and `stop` steer any run under way; in a terminal the last
    row shows the keys that do the same.

    Exit codes: 0 PASS, 1 FAIL, 2 bad usage or task, 3 stopped by an error (can be resumed),
    129, 130 and 143 ended by a signal, 141 the output was closed.
    """
    for remark in remarks_on_variables(os.environ):
        click.echo(f"cao: {remark}", err=True)
    in_worktree = options.pop("WORKSPACE")
    given = {name: _text(value) for name, value in options.items()}
    if in_worktree is not None:
        given["WORKSPACE"] = "worktree" if in_worktree else "folder"
    given |= agent_options(agents)
    given |= {} if task is None else task_options(task)
    if config_file is None:
        given |= project_options(given, os.environ)
    start(
        given,
        config_file,
        as_json=as_json,
        detach=detach,
        replace_terminals=replace_terminals,
        trust=trust,
    )


def start(
    given: Mapping[str, str | None],
    config_file: str | None = None,
    *,
    as_json: bool,
    detach: bool,
    replace_terminals: bool,
    trust: bool = False,
    run: str = "",
) -> None:
    """Begin a run, or resume the one with an id; unless it is detached, this ends the program."""
    # Heavy, unlike --help.
    from ..runs.request import build_request, read_task_text
    from ..runs.service import RunToLaunch, launch_run
    from ..settings.gates import commands_text

    request = build_request(given, os.environ, config_file, replace_terminals=replace_terminals)
    request = replace(request, run=run)
    config = request.config
    if commands := commands_text(request.project_commands):
        # First the faults of the command, then questions.
        if not config.resume and config.prompt_file is not None:
            read_task_text(config)
        if not config.resume and config.provider and not config.api_given:
            from ..providers import get_provider

            get_provider(config.provider, config_folder(os.environ))
        settle_consent(commands, config.wd, request.project_file, given=trust)
    if detach:
        apart = RunToLaunch(given, config_file, replace_terminals, run)
        plain = JsonView() if as_json else PlainView(config.wd)
        try:
            begun = launch_run(apart, Path.cwd(), plain.tell, environ=os.environ)
        except KeyboardInterrupt:
            click.echo("cao: stopped before the run had begun", err=True)
            raise
        if not as_json:
            click.echo(DETACHED.format(id=begun))
        return
    from .conduct import conduct

    view = choose_view(config.wd, as_json, state_folder=state_folder(os.environ))
    sys.exit(conduct(request, view, os.environ))


def task_options(task: str) -> dict[str, str]:
    """Return the setting that TASK stands for: a file, or the text of the task.

    A single word that looks like a path is one, even if the file is missing: it is mistyped.
    """
    if not task.strip():
        raise PromptError("the task is empty: write what is to be done")
    is_path = len(task.split()) == 1 and (os.sep in task or Path(task).suffix)
    if is_path or os.path.lexists(task):
        return {"PROMPT_FILE": task}
    return {"PROMPT": task}


def agent_options(agents: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in agents:
        role, _, agent = (part.strip() for part in word.partition("="))
        if not role or not agent:
            raise ConfigError("--agent", word, "ROLE=NAME, such as tester=gemini_cli")
        name = f"{role.upper()}{PROVIDER_SUFFIX}"
        if name in BY_NAME:
            found[name] = agent
        else:
            others = found.get("ROLE_PROVIDERS")
            found["ROLE_PROVIDERS"] = f"{others},{role}={agent}" if others else f"{role}={agent}"
    return found


def project_options(
    options: Mapping[str, str | None], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the project above this folder, printed, if the command names no place."""
    named = merge_settings(options, read_environment(environ, bare=True))
    if is_placed(named):
        return {}
    folder = find_project(Path(), expand_path("HOME", environ.get("HOME") or "~"))
    if folder is None:
        return {}
    click.echo(one_line(f"Using the project in {folder}"), err=True)
    return {"WD": str(folder)}


def _text(value: str | bool | tuple[str, ...] | None) -> str | None:
    match value:
        case bool():
            return str(int(value))
        case tuple():
            return "\n".join(value)
    return value


MARKS = (SETTINGS_FILE, STATE_FILE)
"""Files of a project in which a run could be started or resumed."""


def is_placed(given: Mapping[str, str]) -> bool:
    """Do settings name the place of a run: a folder, a state, or a task here or below?"""
    if "WD" in given or "STATE_FILE" in given:
        return True
    task = given.get("PROMPT_FILE")
    if task is None:
        return False
    folder = expand_path("PROMPT_FILE", task).parent
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath("."))


def find_project(folder: Path, home: Path) -> Path | None:
    """Return the nearest project above a folder; None if the folder is one, or there is none.

    The search ends at the top of a repository, at the home folder, and where others can write.
    """
    with suppress(OSError):
        here, border = Path(os.path.realpath(folder)), Path(os.path.realpath(home))
        for place in filter(Path.exists, (here, *here.parents)):
            status = place.stat()
            is_own = status.st_uid == os.geteuid() and not status.st_mode & stat.S_IWOTH
            if not is_own or place == border:
                break
            if any(os.path.lexists(place / mark) for mark in MARKS):
                return None if place == here else place
            if os.path.lexists(place / ".git"):
                break
    return None


def _variables_of(agent: str) -> list[str]:
    return [f"{PREFIX}{agent.upper()}_{word}" for word in ("ARGS", "COMMAND")]


KNOWN = frozenset(
    (
        *(setting.variable for setting in SETTINGS),
        *(variable for name in AGENTS for variable in _variables_of(name)),
        *("CAO_HOST", "CAO_PORT", "CAO_START_SECONDS", "CAO_STATE_DIR", "CAO_CONFIG_DIR"),
        *("CAO_TOKEN", "CAO_DEBUG"),
        # In the agents and the gates of a run, from where `cao` may be started.
        *(RUN_INDEX, "CAO_EVENT_FILE", "CAO_SESSION_CONTEXT", "CAO_GATE"),
    )
)


def remarks_on_variables(environ: Mapping[str, str]) -> list[str]:
    remarks = []
    known = KNOWN.union(*map(_variables_of, own_agents(config_folder(environ))))
    for name in sorted(environ):
        if name.startswith(PREFIX) and environ[name].strip() and name not in known:
            meant = get_close_matches(name, sorted(known), 1, 0.8)
            proposal = f" (did you mean {meant[0]}?)" if meant else ""
            remarks.append(one_line(f"{name} is set, but cao does not know it{proposal}"))
    return remarks


class PlainView(View):
    def __init__(self, base: Path, stopped: str = "") -> None:
        self._narration = Narration(base, stopped)

    def tell(self, event: RunEvent) -> None:
        line = self._narration.tell(event)
        if line is not None:
            text = beside_time(line.text, terminal_width() or 0)
            click.echo(f"{datetime.fromtimestamp(event.at):%H:%M:%S}  {text}")


class JsonView(View):
    def tell(self, event: RunEvent) -> None:
        click.echo(to_line(event))


def choose_view(
    base: Path, as_json: bool, stopped: str = "", state_folder: Path | None = None
) -> View:
    """Return the view that suits the output; `stopped` is that of `Narration`.

    With the state folder, keys can steer the run; without it commands in another terminal could
    not find the run, and none is shown.
    """
    if as_json:
        return JsonView()
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return PlainView(base, stopped)
    from ..hosting.connect import client_for
    from .live import LiveView

    narration = Narration(base, stopped)
    if state_folder is None:
        return LiveView(narration)

    def recall(run: str) -> list[RunEvent]:
        try:
            return read_events(run_folder(state_folder, run))
        except (OSError, UsageError):
            return []

    ask = connect = None
    if not is_inside(tmux_socket(state_folder), os.environ):
        ask = partial(pass_on, state_folder)
        connect = partial(client_for, os.environ)
    notices = read_notices(os.environ)
    return LiveView(narration, ask=ask, recall=recall, connect=connect, notices=notices)
