"""`cao report`: a run on one page, from its state file and its archive."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cli_agent_orchestrator._internal.cli.completing import complete_runs
from cli_agent_orchestrator._internal.cli.for_others import for_others
from cli_agent_orchestrator._internal.cli.printable import printable
from cli_agent_orchestrator._internal.cli.project import find_project, is_placed
from cli_agent_orchestrator._internal.cli.report_markdown import markdown
from cli_agent_orchestrator._internal.cli.runs import say_if_elsewhere
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.file_settings import read_all_settings
from cli_agent_orchestrator._internal.runs.records.registry import (
    RunSummary,
    choose_run,
    find_run,
    list_runs,
)
from cli_agent_orchestrator._internal.runs.reports.report import Report
from cli_agent_orchestrator._internal.runs.reports.report_of_state import Places
from cli_agent_orchestrator._internal.runs.reports.reporting import report_of_folder, report_of_run
from cli_agent_orchestrator._internal.settings.levels import merge_settings, read_environment
from cli_agent_orchestrator.errors import UsageError


@click.command()
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option("--wd", "WD", metavar="PATH", help="The project's folder.  [default: here; CAO_WD]")
@click.option("--state-file", "STATE_FILE", metavar="PATH", help="The saved run.  [CAO_STATE_FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def report(run: str | None, as_json: bool, **options: str | None) -> None:
    """Print a run on one page of Markdown: outcome, reasons, evidence, notes, all turns.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the last run of this folder that has begun, or the only one there is; it is said if newer ones
    did not begin, or if it is not of this folder.

    \b
    cao report
    cao report k3f9 > run.md
    """
    if run is not None:
        if any(options.values()):
            raise UsageError("RUN says which run is meant; leave out --wd and --state-file")
        found = _report_of(run)
    else:
        variables = read_environment(os.environ, bare=False)
        given = merge_settings(options, variables)
        placed = is_placed(given)
        if not placed:
            above = find_project(Path(), Path.home())
            variables |= {"WD": str(above)} if above else {}
        config = RunConfig.from_env(read_all_settings(options, variables, None))
        meant = "" if "STATE_FILE" in given else last_run(config, anywhere=not placed)
        found = _report_of(meant) if meant else _report_in(config)
    if as_json:
        click.echo(json.dumps(fields_of(found), indent=2))
    else:
        home = Path.home()
        shown = for_others(found, home, state_folder(os.environ))
        click.echo(printable(markdown(shown, home)))


def _report_of(name: str) -> Report:
    """Return the report of the run that a name means."""
    state = state_folder(os.environ)
    return report_of_run(state, find_run(state, name, Path.cwd().resolve()).id, os.environ)


def _report_in(config: RunConfig) -> Report:
    """Return the report of the run that is saved where the settings say."""
    places = Places(config.wd, config.state_file)
    return report_of_folder(state_folder(os.environ), places, os.environ)


def last_run(config: RunConfig, *, anywhere: bool) -> str:
    """Return the id of the run that is meant if none is named, and say what may not be expected.

    Empty if it is the one that is saved in the folder, which may be in no list. `anywhere` if the
    only run there is may be of another folder.
    """
    runs: list[RunSummary] = []
    with suppress(UsageError, OSError):
        runs = list_runs(state_folder(os.environ))
    is_saved = os.path.lexists(config.state_file)
    own = runs_of_folder(runs, config.wd, is_saved)
    begun = [run for run in own if not run.unsaved] or ([] if is_saved else own[:1])
    if begun:
        newer = own.index(begun[0])
        if newer:
            some = f"{newer} newer run{'' if newer == 1 else 's'}"
            click.echo(f"This is {begun[0].id}; {some} of this folder did not begin.", err=True)
        return begun[0].id
    if is_saved or not (runs and anywhere):
        return ""
    found = choose_run(runs, None, config.wd, to_look=True)
    say_if_elsewhere(found, config.wd)
    return found.id


def runs_of_folder(runs: Sequence[RunSummary], wd: Path, is_saved: bool) -> list[RunSummary]:
    """Return the runs of a folder, else those above or below it if none is saved in it."""
    own = [run for run in runs if str(wd) in (run.wd, run.project)]
    return own or [run for run in runs if run.works_in(wd) and not is_saved]


def fields_of(found: Report) -> dict[str, Any]:
    """Return a report for programs."""
    fields = {name: getattr(found, name) for name in Report.__slots__}
    turns, acts = map(asdict, found.turns), map(asdict, found.acts)
    return {**fields, "turns": list(turns), "acts": list(acts), "deeds": asdict(found.deeds)}
