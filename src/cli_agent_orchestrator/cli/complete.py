"""Completion of command lines: runs, agents, providers, flows, settings.

It reads the user's own folders; it asks no server and starts nothing. What cannot be read is left
out silently: the line is still being typed.
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
from ..settings.layout import config_folder, state_folder
from ..settings.table import (
    AGENTS,
    BY_NAME,
    CHANGEABLE_NAMES,
    PROVIDER_SUFFIX,
    ROLE_SETTINGS,
    Setting,
    ValueKind,
)
from .imports import current_folder

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Offer = CompletionItem | str

PLAIN_PATTERN = r"[\w./=][\w./=-]*"
"""What a shell may be given without quotes, and is no option; a project that was merely cloned
names its flows."""
MOST_RUNS = 50
LONGEST_HELP = 60


def _completer(values: Callable[[click.Context, str], Iterable[Offer]]) -> Completer:
    """Return what offers the values that begin as typed, and mean only themselves to a shell."""

    def complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        found = values(context, typed)
        items = [one if isinstance(one, CompletionItem) else CompletionItem(one) for one in found]
        return [
            item
            for item in items
            if item.type != "plain"
            or (item.value.startswith(typed) and re.fullmatch(PLAIN_PATTERN, item.value, re.ASCII))
        ]

    return complete


def _words(words: Iterable[str]) -> Completer:
    found = [*words]
    return _completer(lambda context, typed: found)


def _shell_path(kind: str) -> Completer:
    return _completer(lambda context, typed: [CompletionItem(typed, type=kind)])


def _run_completer(is_meant: Callable[[RunView], bool]) -> Completer:
    return _completer(lambda context, typed: _run_items(filter(is_meant, _runs()), typed))


complete_files = _shell_path("file")
complete_runs = _run_completer(lambda run: True)
complete_live_runs = _run_completer(lambda run: run.is_live)
complete_resumable_runs = _run_completer(lambda run: run.can_go_on)


@_completer
def complete_changes(context: click.Context, typed: str) -> Iterator[CompletionItem]:
    yield from _run_items([run for run in _runs() if run.is_live], typed)
    for setting in (BY_NAME[name] for name in CHANGEABLE_NAMES):
        for value in setting.choices or [setting.default]:
            yield CompletionItem(f"{setting.key}={value}", help=setting.help)


@_completer
def complete_roles(context: click.Context, typed: str) -> Iterable[str]:
    return dict.fromkeys(role for run in _runs() if run.is_live for role in run.providers)


@_completer
def complete_roles_of_run(context: click.Context, typed: str) -> Iterable[str]:
    meant = runs_that_fit(_runs(), context.params.get("run") or "")
    return meant[0].providers if len(meant) == 1 else ()


@_completer
def complete_agents(context: click.Context, typed: str) -> Iterator[str]:
    having = [run for run in _runs() if run.has_agents]
    yield from dict.fromkeys(role for run in having for role in run.terminals)
    yield from (f"{short_name(run.id)}{BETWEEN}{role}" for run in having for role in run.terminals)


def complete_ended(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    runs = _run_completer(lambda run: run.is_live or run.has_agents)
    return [*runs(context, parameter, typed), *complete_agents(context, parameter, typed)]


@_completer
def complete_flows(context: click.Context, typed: str) -> Iterable[CompletionItem | str]:
    if os.sep in typed or typed.startswith((".", "~")):
        return [CompletionItem(typed, type="file")]
    from ..pipeline.flow_file import PACKAGED
    from ..runs.flows import PROJECT_FOLDER, SUFFIX

    project = Path(context.params.get("wd") or context.params.get("WD") or ".")
    names = [*PACKAGED]
    for folder in (Folder(config_folder(os.environ), ("flows",)), Folder(project, PROJECT_FOLDER)):
        with suppress(OSError, OrchestratorError, ValueError):
            files = sorted(folder.names())
            names += [file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)]
    return dict.fromkeys(names)


complete_providers = _completer(lambda context, typed: _agents())


def complete_setting(setting: Setting) -> Completer | None:
    if setting.name == "FLOW":
        return complete_flows
    if setting.name == "WD":
        return _shell_path("dir")
    if setting.kind is ValueKind.PATH:
        return complete_files
    if setting.name == "PROVIDER":
        return complete_providers
    return _words(setting.choices) if setting.kind is ValueKind.CHOICE else None


@_completer
def complete_role_agents(context: click.Context, typed: str) -> Iterator[str]:
    for name in ROLE_SETTINGS[:-1]:
        yield from (f"{name.removesuffix(PROVIDER_SUFFIX).lower()}={agent}" for agent in _agents())


def _agents() -> list[str]:
    from ..settings.config import own_agents

    return [*AGENTS, *own_agents(config_folder(os.environ))]


def _runs() -> list[RunView]:
    """Return the last runs, those of this folder first; none if they cannot be read."""
    with suppress(OSError, OrchestratorError):
        here = current_folder()
        found = list_runs(state_folder(os.environ))[:MOST_RUNS]
        return sorted(found, key=lambda run: not run.works_in(here))
    return []


def _run_items(runs: Iterable[RunView], typed: str) -> Iterator[CompletionItem]:
    """Yield runs by their last letters, or by the whole id if the user began to type that."""
    for run in runs:
        name = short_name(run.id)
        value = run.id if typed and not name.startswith(typed) else name
        told = short_line(one_line(f"{run.words}: {run.task_line}"), LONGEST_HELP)
        yield CompletionItem(value, help=told)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
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
    click.echo(kind(root, {}, "cao", "_CAO_COMPLETE").source())
