"""`cao clean`: removes what ended runs have left."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from ..client.find import name_server
from ..core.models import TerminalStatus
from ..core.text import age, one_line, plural
from ..errors import ApiError, RunError, ServerConflict, StoreError, TmuxError
from ..runs import deliver
from ..runs.record import run_of_session
from ..runs.view import UNREADABLE
from ..settings.layout import check_state_folder, state_folder
from .imports import confirm
from .terminals import Listed, all_terminals, connected
from .terminals import api as api_option

KEPT_DAYS = 30
BUSY = (TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER)
Unlisted = Mapping[str, Sequence[Listed]]


@click.command()
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0, 36500),
    default=KEPT_DAYS,
    metavar="DAYS",
    help=f"Remove the records of runs that ended so long ago.  [default: {KEPT_DAYS}]",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@api_option
def clean(days: float, yes: bool, api: str | None) -> None:
    """Remove what ended runs have left: their agents, and the records of old ones.

    It shows what it would remove and asks first. A run that is at work or not finished keeps
    everything. Agents on another server than yours are ended if you name it. Agents of a run whose
    folder is gone are ended if none of them is at work, and you name no server.

    What could not be removed is named with the reason; it then ends with 3.
    """
    state = state_folder(os.environ)
    check_state_folder(state)
    named = name_server(os.environ, api)
    now = time.time()
    unlisted = {} if named else _unlisted(state)
    runs, before = deliver.known_runs(state, os.environ), now - days * deliver.DAY_SECONDS
    plan = deliver.plan_cleanup(runs, before, named.url if named else "")
    for run in plan.waiting:
        click.echo(f"Kept: {_shown(run, now)}  {one_line(run.waits)}")
    if not plan and not unlisted:
        click.echo("Nothing to clean up.")
        return
    for line in _lines(plan, unlisted, now):
        click.echo(line)
    if not yes and not confirm("Remove all of this?", "removed"):
        return
    _remove_all(plan, unlisted, state, api)


def _unlisted(state: Path) -> dict[str, list[Listed]]:
    """Return the agents to end, by run, of runs that are in no list; print which are kept."""
    try:
        with connected(os.environ) as client:
            terminals = all_terminals(client)
    except (TmuxError, ApiError, ServerConflict, StoreError) as error:
        click.echo(
            f"Agents of runs that are gone were not looked for: {one_line(str(error))}", err=True
        )
        return {}
    # Later: a run has a folder before it has agents.
    listed = deliver.listed_names(state)
    found: dict[str, list[Listed]] = {}
    for one in terminals:
        run = run_of_session(one.session)
        if run and run not in listed:
            found.setdefault(run, []).append(one)
    for run in [run for run, agents in found.items() if any(one.status in BUSY for one in agents)]:
        agents = plural(len(found.pop(run)), "agent")
        click.echo(f"Kept: {run}  {agents}, not all at rest; `cao stop --session {run}` ends them")
    return found


def _lines(plan: deliver.Cleanup, unlisted: Unlisted, now: float) -> Iterator[str]:
    if plan.agents or unlisted:
        yield "Agents of runs that ended, are gone or cannot be read, to be ended:"
        for run in plan.agents:
            yield f"  {_shown(run, now)}  {plural(len(run.record.terminals), 'agent')}"
        yield from (f"  {run}  {plural(len(found), 'agent')}" for run, found in unlisted.items())
    if plan.folders:
        yield "Records of old runs, to be removed:"
        yield from (f"  {_shown(run, now)}" for run in plan.folders)


def _shown(run: deliver.KnownRun, now: float) -> str:
    ended = age(now - (run.record.ended or run.record.started))
    place = one_line(run.record.wd) or UNREADABLE
    return f"{run.record.id}  {run.record.words}, {ended} ago  {place}"


def _remove_all(plan: deliver.Cleanup, unlisted: Unlisted, state: Path, api: str | None) -> None:
    with_agents = {run.record.id for run in plan.agents}
    names = [run.record.id for run in plan.folders]

    def remove(some: Iterable[str]) -> dict[str, str]:
        return {
            name: why for name in some if (why := deliver.remove_folder(state, name, os.environ))
        }

    # First what needs no server: on a disk that is full it makes the room for one.
    left = remove(name for name in names if name not in with_agents)
    if plan.agents or unlisted:
        own = [run.record.id for run in plan.agents if not deliver.server_named(run.record)]
        there = [run.record.id for run in plan.agents if deliver.server_named(run.record)]
        ended = 0
        if own or unlisted:
            # The server of the state folder, or one of our own, whatever is named.
            environ = {name: text for name, text in os.environ.items() if name != "CAO_API"}
            with connected(environ) as client:
                ended += sum(deliver.end_agents(client, state, run) for run in own)
                for run, agents in unlisted.items():
                    ended += deliver.end_unlisted(client, run, [one.id for one in agents])
        if there:
            with connected(os.environ, api) as client:
                ended += sum(deliver.end_agents(client, state, run) for run in there)
        click.echo(f"Ended {plural(ended, 'agent')}.")
    left |= remove(name for name in names if name in with_agents)
    if names:
        click.echo(f"Removed the records of {plural(len(names) - len(left), 'run')}.")
    if left:
        rows = [f"{name}  {one_line(why)}" for name, why in left.items()]
        raise RunError("\n  ".join(["not all of it was removed:", *rows]))
