"""What a shell offers when somebody presses Tab: runs, agents, providers, flows, settings.

It is looked up in the user's own folders: no server is asked, and nothing is started. What cannot
be read is not offered, without a word: the line is still being typed.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from ..core.files import Folder
from ..core.text import one_line, short_line
from ..errors import OrchestratorError
from ..runs.record import short_name
from ..runs.view import BETWEEN, RunView, list_runs, runs_that_fit
from ..settings.config import config_folder, state_folder
from ..settings.table import (
    AGENTS,
    BY_NAME,
    CHANGEABLE_NAMES,
    PROVIDER_SUFFIX,
    ROLE_SETTINGS,
    Setting,
    ValueKind,
)
from .imports import importing

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

PLAIN_PATTERN = r"[\w./=][\w./=-]*"
"""What a shell may be given without quotes, and is no option; a project that was merely cloned
names its flows."""
MOST_RUNS = 50
LONGEST_HELP = 60
FOLDERS = ("WD",)
"""Settings whose path is a folder; those of others are files."""


def _completer(
    values: Callable[[click.Context, str], Iterable[CompletionItem]],
) -> Completer:
    """Return what offers the values that begin as typed, and mean only themselves to a shell."""

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        return [
            item
            for item in values(context, typed)
            if item.type != "plain"
            or (item.value.startswith(typed) and re.fullmatch(PLAIN_PATTERN, item.value, re.ASCII))
        ]

    return complete


def _words(words: Iterable[str]) -> Completer:
    found = [*words]
    return _completer(lambda context, typed: map(CompletionItem, found))


def _shell_path(kind: str) -> Completer:
    return _completer(lambda context, typed: [CompletionItem(typed, type=kind)])


complete_files = _shell_path("file")
complete_runs = _completer(lambda context, typed: _run_items(_runs(), typed))
complete_live_runs = _completer(
    lambda context, typed: _run_items([run for run in _runs() if run.is_live], typed)
)
complete_resumable_runs = _completer(
    lambda context, typed: _run_items([run for run in _runs() if run.can_go_on], typed)
)


@_completer
def complete_changes(context: click.Context, typed: str) -> Iterator[CompletionItem]:
    """Offer the runs under way, and what can be changed in one."""
    yield from _run_items([run for run in _runs() if run.is_live], typed)
    for setting in (BY_NAME[name] for name in CHANGEABLE_NAMES):
        for value in setting.choices or [setting.default]:
            yield CompletionItem(f"{setting.key}={value}", help=setting.help)


@_completer
def complete_roles(context: click.Context, typed: str) -> Iterator[CompletionItem]:
    roles = dict.fromkeys(role for run in _runs() if run.is_live for role in run.providers)
    return map(CompletionItem, roles)


@_completer
def complete_roles_of_run(context: click.Context, typed: str) -> Iterator[CompletionItem]:
    """Offer the roles of the run that the line names before."""
    meant = runs_that_fit(_runs(), context.params.get("run") or "")
    return map(CompletionItem, meant[0].providers if len(meant) == 1 else ())


def _agent_items() -> Iterator[CompletionItem]:
    """Yield the agents that runs have: by their roles, or by run and role."""
    having = [run for run in _runs() if run.has_agents]
    roles = dict.fromkeys(role for run in having for role in run.terminals)
    whole = (f"{short_name(run.id)}{BETWEEN}{role}" for run in having for role in run.terminals)
    return map(CompletionItem, [*roles, *whole])


complete_agents = _completer(lambda context, typed: _agent_items())


@_completer
def complete_ended(context: click.Context, typed: str) -> Iterator[CompletionItem]:
    """Offer what can be ended: runs under way, or with agents, and single agents."""
    yield from _run_items([run for run in _runs() if run.is_live or run.has_agents], typed)
    yield from _agent_items()


@_completer
def complete_flows(context: click.Context, typed: str) -> Iterable[CompletionItem]:
    """Offer the flows of the package, of the user and of the project, or files."""
    if os.sep in typed or typed.startswith((".", "~")):
        return [CompletionItem(typed, type="file")]
    with importing():
        from ..pipeline.flow_file import PACKAGED
        from ..runs.flows import PROJECT_FOLDER, SUFFIX

    project = Path(context.params.get("wd") or context.params.get("WD") or ".")
    names = [*PACKAGED]
    for folder in (Folder(config_folder(os.environ), ("flows",)), Folder(project, PROJECT_FOLDER)):
        with suppress(OSError, OrchestratorError, ValueError):
            files = sorted(folder.names())
            names += [file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)]
    return map(CompletionItem, dict.fromkeys(names))


def complete_setting(setting: Setting) -> Completer | None:
    """Return what offers the values of a setting; None if nobody can know them."""
    if setting.name == "FLOW":
        return complete_flows
    if setting.name in FOLDERS:
        return _shell_path("dir")
    if setting.kind is ValueKind.PATH:
        return complete_files
    if setting.name == "PROVIDER":
        return _words(AGENTS)
    return _words(setting.choices) if setting.kind is ValueKind.CHOICE else None


complete_role_agents = _words(
    # the roles of the usual flow, each with every agent
    f"{name.removesuffix(PROVIDER_SUFFIX).lower()}={agent}"
    for name in ROLE_SETTINGS[:-1]
    for agent in AGENTS
)


def _runs() -> list[RunView]:
    """Return the last runs, those of this folder first; none if they cannot be read."""
    with suppress(OSError, OrchestratorError):
        here = Path.cwd().resolve()
        found = list_runs(state_folder(os.environ))[:MOST_RUNS]
        return sorted(found, key=lambda run: not run.works_in(here))
    return []


def _run_items(runs: Iterable[RunView], typed: str) -> Iterator[CompletionItem]:
    """Yield runs by their last letters, or by the whole id that somebody began to type."""
    for run in runs:
        name = short_name(run.id)
        value = run.id if typed and not name.startswith(typed) else name
        told = short_line(one_line(f"{run.words}: {run.task_line}"), LONGEST_HELP)
        yield CompletionItem(value, help=told)


SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_CAO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: cao completion bash > ~/.local/share/bash-completion/completions/cao
    zsh:  cao completion zsh > a folder of your $fpath, as _cao
    fish: cao completion fish > ~/.config/fish/completions/cao.fish

    If the folder is not there yet, make it first: mkdir -p FOLDER
    """
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(root, {}, "cao", COMPLETE_VARIABLE).source())
