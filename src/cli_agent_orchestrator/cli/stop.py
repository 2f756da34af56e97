"""`cao stop`: ends runs and agents, by name, by folder or all of them."""

import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ..client.client import ApiClient
from ..client.find import name_server
from ..errors import NotFound, NotSteerable, UsageError
from ..runs.record import forget_agents, session_name_of
from ..runs.view import (
    RunView,
    choose_live_run,
    choose_run,
    is_surely_run,
    list_runs,
    read_run,
    runs_that_fit,
)
from ..settings.config import state_folder
from ..settings.layout import run_folder
from .complete import complete_ended
from .connect import NOT_TOLD, Listed, all_terminals, connected
from .printable import one_line, printable
from .steer import stop_run
from .terminals import api, named_terminal, table


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_ended)
@click.option("--session", "sessions", multiple=True, help="End all agents of a run or session.")
@click.option("--all", "here", is_flag=True, help="End all runs and agents of this folder.")
@click.option("--everywhere", is_flag=True, help="End all runs and agents there are; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@api
def stop(
    names: tuple[str, ...], sessions: tuple[str, ...], yes: bool, api: str | None, **which: bool
) -> None:
    """End a run or terminals: ask each agent to quit, and remove its window.

    NAMES are runs (the ID that `cao runs` lists, the beginning of it, or its last letters), which
    are ended as Ctrl-C would, but with their agents (of one that has ended: the agents it left); or
    terminals, by id or role. Without any name it is the run of this folder, or the only one that is
    running.

    --all, --everywhere and --session stop runs that are at work first, so that they are saved and
    can be resumed, and then end what agents are left. To a folder belong all that work in it or
    below it, and its runs in work trees.

    \b
    cao stop                  # the run of this folder, with its agents
    cao stop k3f9             # that run
    cao stop tester           # one agent of the run of this folder
    cao stop --all            # all runs and agents of this folder
    """
    runs = list_runs(state_folder(os.environ))
    others = [name for name in names if not is_surely_run(runs, name)]
    left = _stop_or_leave([choose_run(runs, one, _here()) for one in names if one not in others])
    swept = bool(sessions or any(which.values()))
    if not (names or swept):
        left = _stop_the_run(runs)
    sweep = Sweep.of(runs, sessions, _here(), **which)
    busy: Collection[str] = ()
    if swept:
        with connected(os.environ, api) as client:
            known = _known_terminals(client)
        live = sweep.live_runs(runs, known, is_named=name_server(os.environ, api) is not None)
        if not _agrees(sweep, known, live, yes):
            click.echo("Nothing was ended.")
            return
        busy = _stop_all(live)
    if others or left or swept:
        # Another server than before, if that was the one of a run that is stopped now.
        with connected(os.environ, api) as client:
            found = [one for one in _known_terminals(client) if sweep.takes(one)] if swept else []
            chosen = {one.id: one for one in found if one.run not in busy}
            named, more = _choose_named(client, runs, others)
            left += _stop_or_leave(more)
            ended = _end(client, chosen | named | _choose_left(client, left))
        _note_ended(runs, ended, left)


def _stop_or_leave(runs: Iterable[RunView]) -> list[RunView]:
    """End runs; return those that have ended and may have left their agents."""
    left = []
    for run in runs:
        if run.is_live:
            stop_run(run)
        elif run.has_agents or not run.is_readable:
            left.append(run)
        else:
            _say_none_left(run)
    return left


def _say_none_left(run: RunView) -> None:
    """Say of a run that has ended that it has no agents, and how it goes on if it can."""
    click.echo(f"{run.id}: It has ended, and has no agents any more.")
    if run.is_unfinished:
        click.echo(f"Resume it, with new agents: cao resume {run.id}")


def _stop_all(runs: Iterable[RunView]) -> Collection[str]:
    """End runs that are at work; return the ids of those that still are."""
    busy = []
    for run in runs:
        try:
            stop_run(run)
        except NotSteerable as error:
            # It has ended by itself, or cannot be asked; the others are still meant.
            click.echo(f"{run.id}: {printable(str(error))}")
        if read_run(run_folder(state_folder(os.environ), run.id)).is_live:
            busy.append(run.id)
            click.echo(f"{run.id}: It keeps its agents until it has stopped.")
    return busy


def _choose_left(client: ApiClient, runs: Sequence[RunView]) -> dict[str, Listed]:
    """Return the terminals, by id, that runs have left which have ended."""
    chosen: dict[str, Listed] = {}
    known = _known_terminals(client) if runs else []
    for run in runs:
        found = {one.id: one for one in known if one.session == session_name_of(run.id)}
        if not found:
            forget_agents(run_folder(state_folder(os.environ), run.id))
            _say_none_left(run)
        chosen |= found
    return chosen


def _stop_the_run(runs: Sequence[RunView]) -> list[RunView]:
    """End the run of this folder; return the one that has ended if only its agents are left."""
    own = [run for run in runs if run.works_in(_here())]
    left = [run for run in own if run.has_agents]
    if left and not any(run.is_live for run in own):
        return left[:1]
    if not any(run.is_live for run in runs):
        raise UsageError(
            "no run is running; name a terminal, --session NAME, --all (in this folder) or "
            "--everywhere; `cao ls` lists them"
        )
    stop_run(choose_live_run(runs, None, _here()))
    return []


def _note_ended(runs: Sequence[RunView], ended: Collection[str], asked: Sequence[RunView]) -> None:
    """Remember which runs have no agents any more, and say how those that were meant go on."""
    for run in runs:
        if not run.is_live and run.has_agents and set(run.terminals.values()) <= set(ended):
            forget_agents(run_folder(state_folder(os.environ), run.id))
            if run in asked and run.is_unfinished:
                click.echo(f"Resume the run, with new agents: cao resume {run.id}")


def _choose_named(
    client: ApiClient, runs: Sequence[RunView], names: Sequence[str]
) -> tuple[dict[str, Listed], list[RunView]]:
    """Return the terminals, by id, that are named, and the runs that are named after all."""
    chosen, meant = {}, []
    for name in names:
        fitting = runs_that_fit(runs, name)
        try:
            found = named_terminal(client, name)
        except NotFound:
            if not fitting:
                raise
            meant.append(choose_run(runs, name, _here()))
            continue
        there = [run.id for run in fitting if run.is_live or run.has_agents]
        if there:
            raise UsageError(
                f"{name!r} could be the run {there[0]} or the terminal {found.label}; write more"
            )
        chosen[found.id] = found
    return chosen, meant


def _end(client: ApiClient, chosen: Mapping[str, Listed]) -> Collection[str]:
    """End terminals and return their ids."""
    for terminal in chosen.values():
        client.exit_terminal(terminal.id)
        click.echo(f"Ended {terminal.label}")
    return chosen.keys()


def _here() -> Path:
    return Path.cwd().resolve()


def _known_terminals(client: ApiClient) -> list[Listed]:
    """Return the terminals that can be ended."""
    return [terminal for terminal in all_terminals(client) if terminal.id != NOT_TOLD]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What --session, --all and --everywhere mean: many at once."""

    sessions: Collection[str]
    folder: Path
    here: bool
    everywhere: bool
    own: Collection[str]
    """The ids of the folder's runs."""

    @classmethod
    def of(
        cls,
        runs: Iterable[RunView],
        sessions: Collection[str],
        folder: Path,
        *,
        here: bool,
        everywhere: bool,
    ) -> "Sweep":
        own = [run.id for run in runs if run.lies_in(folder)]
        return cls(sessions, folder, here, everywhere, own)

    def takes(self, terminal: Listed) -> bool:
        is_here = terminal.works_in(self.folder) or terminal.run in self.own
        is_named = not {terminal.session, terminal.run}.isdisjoint(self.sessions)
        return self.everywhere or is_named or (self.here and is_here)

    def live_runs(
        self, runs: Iterable[RunView], known: Iterable[Listed], *, is_named: bool
    ) -> list[RunView]:
        """Return the runs at work that are to be stopped, also those without agents yet.

        A server that is named has agents of its own runs alone.
        """
        taken = {terminal.run for terminal in known if self.takes(terminal)}
        if self.here:
            taken |= set(self.own)
        return [
            run
            for run in runs
            if run.is_live and (run.id in taken or (self.everywhere and not is_named))
        ]


def _agrees(sweep: Sweep, known: Sequence[Listed], live: Sequence[RunView], yes: bool) -> bool:
    """Say what is meant, and ask whether it is if that is everything."""
    unknown = set(sweep.sessions) - {name for one in known for name in (one.session, one.run)}
    if unknown:
        raise NotFound("session", unknown.pop(), sorted({one.session for one in known}))
    chosen = [terminal for terminal in known if sweep.takes(terminal)]
    if sweep.here and not (chosen or live):
        click.echo(f"No terminal works in {printable(str(sweep.folder))}.")
    if sweep.here and len(chosen) < len(known):
        elsewhere = len(known) - len(chosen)
        click.echo(f"{elsewhere} elsewhere: `cao ls` shows them, --everywhere ends them.")
    if yes or not sweep.everywhere or not (chosen or live):
        return True
    if chosen:
        for line in table(chosen, time.time()):
            click.echo(line)
    for run in live:
        click.echo(f"At work, to be stopped first: {one_line(run.label)}")
    if not sys.stdin.isatty():
        raise UsageError("--everywhere would end all of these; add --yes if that is meant")
    return click.confirm("End all of these?")
