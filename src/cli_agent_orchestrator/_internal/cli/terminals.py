"""Commands about terminals: ls, attach, send, output, stop, explain."""

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cli_agent_orchestrator._internal.cli.attaching import (
    attach_command,
    leave_words,
    outside_tmux,
    read_prefixes,
)
from cli_agent_orchestrator._internal.cli.connect import connected
from cli_agent_orchestrator._internal.cli.listing import (
    NOT_TOLD,
    Listed,
    all_terminals,
    find_terminal,
)
from cli_agent_orchestrator._internal.cli.printable import one_line, printable
from cli_agent_orchestrator._internal.cli.runs import (
    LONGEST_FOLDER,
    SHORTEST_FOLDER,
    age,
    end_of,
    fitted,
    room_for_last,
    terminal_width,
    without,
)
from cli_agent_orchestrator._internal.cli.steer import stop_run
from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.connection import Answer
from cli_agent_orchestrator._internal.discovery import name_server
from cli_agent_orchestrator._internal.hosting.environment import read_server_config
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.models import Feature, TerminalStatus
from cli_agent_orchestrator._internal.runs.names import find_agent, is_surely_run
from cli_agent_orchestrator._internal.runs.registry import (
    RunSummary,
    choose_live_run,
    choose_run,
    list_runs,
    runs_that_fit,
    summary_of,
)
from cli_agent_orchestrator._internal.runs.run_id import session_name_of, short_name
from cli_agent_orchestrator._internal.runs.run_record import forget_agents
from cli_agent_orchestrator.errors import NotFound, NotSteerable, OrchestratorError, UsageError

EXIT_UNCONFIRMED = 3
FOLDED_FIRST = ("PERMISSIONS", "AGE", "AGENT")
"""Columns that a narrow terminal does not show."""
HEADINGS = ("ID", "ROLE", "RUN", "AGENT", "STATUS", "AGE", "PERMISSIONS", "FOLDER")
UNKNOWN_ADVICE = (
    "Nothing is typed into it. `cao attach {id}` shows it; "
    "`cao doctor` says whether its version was tried."
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
api = click.option("--api", metavar="URL", help="The server.  [CAO_API or CAO_PORT]")


@click.command()
@as_json
@api
def ls(as_json: bool, api: str | None) -> None:
    """List agents: role, run, what each one does, how old it is, and where it works."""
    with connected(os.environ, api) as client:
        terminals = all_terminals(client)
    if as_json:
        click.echo(json.dumps([terminal.raw for terminal in terminals], indent=2))
    elif not terminals:
        click.echo("No terminals. Start a run with: cao run task.md")
    else:
        for line in table(terminals, time.time(), terminal_width()):
            click.echo(line)


def table(terminals: Iterable[Listed], now: float, width: int | None = None) -> Iterator[str]:
    """Yield terminals as columns that fit a width, if one is given: the last is cut first."""
    rows: list[tuple[str, ...]] = [
        ("ID", "ROLE", "RUN", "AGENT", "STATUS", "AGE", "PERMISSIONS", "FOLDER")
    ]
    rows += [
        (
            *(one.id, one.role, one.run, one.provider, one.status),
            NOT_TOLD if one.created is None else age(now - one.created),
            *(one.permissions, one.folder),
        )
        for one in terminals
    ]
    told = [n for n in range(len(rows[0])) if {row[n] for row in rows[1:]} - {NOT_TOLD}]
    if width is not None:
        # The run by the letters that name it, and no column that says nothing.
        rows = [(row[0], row[1], short_name(row[2]), *row[3:]) for row in rows]
        rows = [tuple(row[n] for n in told) for row in rows]
        rows = _narrowed(rows, width)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None:
        widths[-1] = max(width - sum(widths[:-1]) - 2 * (len(widths) - 1), SHORTEST_FOLDER)
        rows = [(*row[:-1], end_of(row[-1], widths[-1])) for row in rows]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield fitted("  ".join(cells).rstrip(), width)


def _narrowed(rows: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """Return rows with room for the last part of each folder: what tells least goes first."""
    part = max(len(Path(row[-1]).name) for row in rows) + len("…/")
    for name in FOLDED_FIRST:
        if room_for_last(rows, width) >= min(max(part, SHORTEST_FOLDER), LONGEST_FOLDER):
            break
        rows = without(rows, name)
    return rows


@click.command()
@click.argument("terminal")
@api
def attach(terminal: str, api: str | None) -> None:
    """Look at TERMINAL and type into it, in a real tmux. Leave it with Ctrl-b d.

    From inside your own tmux press Ctrl-b twice: Ctrl-b Ctrl-b d. It is said again when you attach.

    TERMINAL is what `cao ls` lists: an id or the beginning of one; or the role of an agent in the
    run of this folder, or, behind the name of a run, in another one.

    \b
    cao attach tester
    cao attach k3f9/tester
    """
    with connected(os.environ, api) as client:
        found = _find(client, terminal)
    if NOT_TOLD in (found.session, found.name):
        raise OrchestratorError(f"the server does not say in which window of tmux {found.id} is")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach needs a terminal, for input and output; "
            f"`cao output {found.id} --screen` prints what it shows"
        )
    socket = read_server_config(os.environ).tmux_socket
    hint = leave_words(*read_prefixes(socket, os.environ))
    click.echo(hint)
    command = attach_command(socket, found.session, found.name, hint)
    os.execvpe(command[0], command, outside_tmux(os.environ))


@click.command()
@click.argument("terminal")
@click.argument("message", required=False)
@api
def send(terminal: str, message: str | None, api: str | None) -> None:
    """Send MESSAGE to the agent in TERMINAL; without MESSAGE, what comes on standard input.

    TERMINAL is as in `cao attach`. Ends with 0 only if the agent took the message; with 3 if that
    could not be seen. To tell an agent of a run something, `cao hint` is the better way.

    \b
    cao send tester "Use Python 3.12."
    cao send k3f9/programmer < message.txt
    """
    text = message if message is not None else sys.stdin.read()
    with connected(os.environ, api) as client:
        delivery = client.send_input(_find(client, terminal).id, text)
    removed = delivery.removed_characters
    if removed:
        click.echo(f"{removed} control characters were removed from the message.", err=True)
    if not delivery.confirmed:
        click.echo(f"Not confirmed: {one_line(delivery.detail)}", err=True)
        sys.exit(EXIT_UNCONFIRMED)
    click.echo("Sent; the agent is working on it")


@click.command()
@click.argument("terminal")
@click.option("--full", "mode", flag_value="full", help="The whole scrollback.")
@click.option("--screen", "mode", flag_value="screen", help="What is visible now.")
@click.option(
    "--last", "mode", flag_value="last", default="last", help="The last answer (default)."
)
@click.option("--raw", is_flag=True, help="As it is, control characters and all: for pipes.")
@api
def output(terminal: str, mode: str, raw: bool, api: str | None) -> None:
    """Print the last answer of the agent in TERMINAL, its screen or its scrollback.

    TERMINAL is as in `cao attach`. Characters that would control your terminal are shown as �,
    unless --raw is given.

    \b
    cao output programmer
    cao output k3f9/tester --screen
    """
    with connected(os.environ, api) as client:
        text = client.get_output(_find(client, terminal).id, mode)
    if raw:
        click.echo(text.encode("utf-8", "surrogatepass"), nl=False)
    else:
        # A screen has empty rows below what is on it, which would push that out of sight.
        click.echo(printable(text.rstrip() if mode == "screen" else text))


@click.command()
@click.argument("names", nargs=-1)
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


def _stop_or_leave(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """End runs; return those that have ended and may have left their agents."""
    left = []
    for run in runs:
        if not run.is_live and (run.has_agents or not run.is_readable):
            left.append(run)
        else:
            stop_run(run)
    return left


def _stop_all(runs: Iterable[RunSummary]) -> Collection[str]:
    """End runs that are at work; return the ids of those that still are."""
    busy = []
    for run in runs:
        try:
            stop_run(run)
        except NotSteerable as error:
            # It has ended by itself, or cannot be asked; the others are still meant.
            click.echo(f"{run.id}: {printable(str(error))}")
        if summary_of(run_folder(state_folder(os.environ), run.id)).is_live:
            busy.append(run.id)
            click.echo(f"{run.id}: It keeps its agents until it has stopped.")
    return busy


def _choose_left(client: ApiClient, runs: Sequence[RunSummary]) -> dict[str, Listed]:
    """Return the terminals, by id, that runs have left which have ended."""
    chosen: dict[str, Listed] = {}
    known = _known_terminals(client) if runs else []
    for run in runs:
        found = {one.id: one for one in known if one.session == session_name_of(run.id)}
        if not found:
            # Nothing is left: it says how it ended.
            forget_agents(run_folder(state_folder(os.environ), run.id))
            stop_run(run)
        chosen |= found
    return chosen


def _stop_the_run(runs: Sequence[RunSummary]) -> list[RunSummary]:
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


def _note_ended(
    runs: Sequence[RunSummary], ended: Collection[str], asked: Sequence[RunSummary]
) -> None:
    """Remember which runs have no agents any more, and say how those that were meant go on."""
    for run in runs:
        if not run.is_live and run.has_agents and set(run.terminals.values()) <= set(ended):
            forget_agents(run_folder(state_folder(os.environ), run.id))
            if run in asked and run.is_unfinished:
                click.echo(f"Resume the run, with new agents: cao resume {run.id}")


def _choose_named(
    client: ApiClient, runs: Sequence[RunSummary], names: Sequence[str]
) -> tuple[dict[str, Listed], list[RunSummary]]:
    """Return the terminals, by id, that are named, and the runs that are named after all."""
    chosen, meant = {}, []
    for name in names:
        fitting = runs_that_fit(runs, name)
        try:
            found = _find(client, name)
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


def _find(client: ApiClient, text: str) -> Listed:
    """Return the terminal that a text names: by role, by RUN/ROLE, by id or name."""
    agent = find_agent(list_runs(state_folder(os.environ)), text, _here())
    if agent is None:
        return find_terminal(client, text)
    try:
        return find_terminal(client, agent)
    except NotFound as error:
        raise NotFound(f"terminal of {text}", agent, error.known) from None


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
        runs: Iterable[RunSummary],
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
        self, runs: Iterable[RunSummary], known: Iterable[Listed], *, is_named: bool
    ) -> list[RunSummary]:
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


def _agrees(sweep: Sweep, known: Sequence[Listed], live: Sequence[RunSummary], yes: bool) -> bool:
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


@click.command()
@click.argument("terminal")
@as_json
@api
def explain(terminal: str, as_json: bool, api: str | None) -> None:
    """Say why TERMINAL has the status it has: each signal, its value and age.

    TERMINAL is as in `cao attach`.

    \b
    cao explain analyst
    cao explain k3f9/tester --json
    """
    with connected(os.environ, api) as client:
        if Feature.EXPLAIN not in client.features():
            raise OrchestratorError(f"the server at {client.base_url} cannot explain a status")
        found = _find(client, terminal)
        why = client.explain(found.id)
    if as_json:
        click.echo(json.dumps(why, indent=2))
        return
    status = _told(why, "status")
    click.echo(f"{found.role} ({found.id}, {found.provider}) is {status}")
    click.echo(f"  reason: {_told(why, 'reason')}")
    for line in _evidence_lines(why, time.time()):
        click.echo(line)
    if status == TerminalStatus.UNKNOWN:
        click.echo(UNKNOWN_ADVICE.format(id=found.id))


def _evidence_lines(why: Answer, now: float) -> Iterator[str]:
    evidence = why.get("evidence")
    for piece in evidence if isinstance(evidence, list) else ():
        if not isinstance(piece, dict):
            continue
        age = _age(piece.get("at"), now)
        says = _told(piece, "status", "nothing").replace("_", " ")
        detail = _told(piece, "detail")
        yield f"  {age:>8} s ago  {_told(piece, 'source'):<15} {says:<20} {detail}".rstrip()


def _age(at: object, now: float) -> str:
    try:
        return f"{max(0.0, now - at):.1f}" if isinstance(at, int | float) else NOT_TOLD
    except OverflowError:
        return NOT_TOLD


def _told(answer: Mapping[str, Any], name: str, otherwise: str = NOT_TOLD) -> str:
    value = answer.get(name)
    return otherwise if value is None else one_line(str(value))
