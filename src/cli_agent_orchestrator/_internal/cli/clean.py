"""`cao clean`: removes what ended runs have left."""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from cli_agent_orchestrator._internal.cli.connect import connected
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.cli.runs import age
from cli_agent_orchestrator._internal.cli.terminals import api as api_option
from cli_agent_orchestrator._internal.config import check_state_folder, state_folder
from cli_agent_orchestrator._internal.discovery import name_server
from cli_agent_orchestrator._internal.runs.cleaning import (
    DAY_SECONDS,
    Cleanup,
    KnownRun,
    end_agents,
    known_runs,
    left_drafts,
    plan_cleanup,
    remove_folder,
)
from cli_agent_orchestrator.errors import UsageError

KEPT_DAYS = 30


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

    It shows what it would remove and asks first. A run that is at work or can be resumed keeps
    everything, and so does your project: prompts and replies in its .tmp folder stay.
    """
    state = state_folder(os.environ)
    check_state_folder(state)
    named = name_server(os.environ, api)
    now = time.time()
    plan = plan_cleanup(known_runs(state), now - days * DAY_SECONDS, named.url if named else "")
    plan = replace(plan, drafts=left_drafts(state))
    for run in plan.waiting:
        click.echo(f"Kept: {_shown(run, now)}  {one_line(run.waits)}")
    if not plan:
        click.echo("Nothing to clean up.")
        return
    for line in _lines(plan, now):
        click.echo(line)
    if not yes and not _agrees():
        click.echo("Nothing was removed.")
        return
    _carry_out(plan, state, api)


def _lines(plan: Cleanup, now: float) -> Iterator[str]:
    if plan.agents:
        yield "Agents of ended runs, to be ended:"
        for run in plan.agents:
            yield f"  {_shown(run, now)}  {_count(len(run.record.terminals), 'agent')}"
    if plan.folders or plan.drafts:
        yield "Records of old runs, to be removed:"
        yield from (f"  {_shown(run, now)}" for run in plan.folders)
        yield from (f"  {name}  (never begun)" for name in plan.drafts)


def _shown(run: KnownRun, now: float) -> str:
    ended = age(now - (run.record.ended or run.record.started))
    return f"{run.record.id}  {run.status.word}, {ended} ago  {one_line(run.record.wd)}"


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nothing was removed; add --yes if all of this is to go")
    return click.confirm("Remove all of this?")


def _carry_out(plan: Cleanup, state: Path, api: str | None) -> None:
    if plan.agents:
        with connected(os.environ, api) as client:
            ended = sum(end_agents(client, state, run.record.id) for run in plan.agents)
        click.echo(ended_words(ended, sum(len(run.record.terminals) for run in plan.agents)))
    names = [*(run.record.id for run in plan.folders), *plan.drafts]
    removed = sum(remove_folder(state, name) for name in names)
    if names:
        click.echo(f"Removed the records of {_count(removed, 'run')}.")


def ended_words(ended: int, listed: int) -> str:
    """Say how many agents were ended, and why that is fewer than were listed.

    >>> ended_words(25, 27), ended_words(1, 1)
    ('Ended 25 agents; 2 were gone already.', 'Ended 1 agent.')
    """
    gone = listed - ended
    rest = f"; {gone} {'was' if gone == 1 else 'were'} gone already" if gone > 0 else ""
    return f"Ended {_count(ended, 'agent')}{rest}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
