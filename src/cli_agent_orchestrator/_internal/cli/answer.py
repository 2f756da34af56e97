"""The command `answer`: answers what an agent of a run asks, through the run's server."""

import os
import sys
from pathlib import Path

import click

from cli_agent_orchestrator._internal.cli.completing import complete_live_runs, complete_roles
from cli_agent_orchestrator._internal.cli.connect import connected
from cli_agent_orchestrator._internal.cli.printable import one_line
from cli_agent_orchestrator._internal.cli.terminals import EXIT_UNCONFIRMED, api
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.runs.asking import check_live
from cli_agent_orchestrator._internal.runs.records.registry import choose_live_run, list_runs
from cli_agent_orchestrator.errors import ApiRefused, NotSteerable, UsageError

LEAST_WORDS, MOST_WORDS = 1, 2
CANNOT_BE = (400, 409, 422)
"""How a server answers to what cannot be done."""


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] KEY", shell_complete=complete_live_runs)
@click.option("--role", shell_complete=complete_roles, help="Who asks, if several do.")
@api
def answer(words: tuple[str, ...], role: str | None, api: str | None) -> None:
    """Press KEY in the terminal of the agent of RUN that asks something.

    KEY is what its dialog takes: 1, y, Enter, Escape, Down and so on. Look at the question first:
    `cao output ROLE --screen` prints it, `cao attach ROLE` leads you to it. RUN may be left out, as
    in `cao pause`. Exits with 3 if the agent is still asking, or asks
    something else.

    \b
    cao answer 1
    cao answer k3f9 --role tester Escape
    """
    if not LEAST_WORDS <= len(words) <= MOST_WORDS:
        raise UsageError("expected [RUN] and KEY, for example: cao answer 1")
    *named, key = words
    runs = list_runs(state_folder(os.environ))
    run = choose_live_run(runs, named[0] if named else None, Path.cwd().resolve())
    check_live(run)
    try:
        with connected(os.environ, api) as client:
            told = client.answer_question(run.id, key, role)
    except ApiRefused as error:
        if error.status_code in CANNOT_BE:
            raise NotSteerable(error.detail) from error
        raise
    click.echo(f"{run.id}: {one_line(str(told.get('text')))}")
    if told.get("heard") is not True:
        sys.exit(EXIT_UNCONFIRMED)
