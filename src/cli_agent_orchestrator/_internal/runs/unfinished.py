"""What becomes of an unfinished run when another begins: it can go on later."""

from collections.abc import Callable, Iterator
from pathlib import Path

from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.runs.agents import AgentServer, exit_left_terminals
from cli_agent_orchestrator._internal.runs.records.registry import list_runs
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id
from cli_agent_orchestrator._internal.runs.records.run_record import note_kept_aside
from cli_agent_orchestrator._internal.runs.records.state_file import StateFile

MOST_NAMED = 3


def keep_aside(
    saved: RunState,
    state_file: StateFile,
    terminals: AgentServer,
    state_folder: Path,
    warn: Callable[[str], None],
) -> None:
    """Make room for another run where an unfinished one is saved.

    Somebody else's state could name any agent and any run, so that nothing is done to these.
    """
    # They know the same response files.
    if state_file.own and exit_left_terminals(terminals, saved):
        warn("the agents of the unfinished run are ended, so that they do not write into this one")
    aside = state_file.move_aside("unfinished")
    warn(f"the unfinished run that was saved here is kept in {aside}")
    run = saved.progress.archive
    if not state_file.own or not is_run_id(run):
        return
    # Its seal is for the place where it was.
    state_file.at(aside).save_state(saved)
    if note_kept_aside(run_folder(state_folder, run), str(aside)):
        warn(f"`cao resume {run}` goes on with it when this one has ended")


def said_of_unfinished(state_folder: Path, project: Path) -> Iterator[str]:
    """Say which run of a project, in a work tree of its own, could go on instead of a new one."""
    runs = [run for run in list_runs(state_folder) if run.is_unfinished and run.round]
    if found := [run.id for run in runs if run.project == str(project)]:
        named = ", ".join(found[:MOST_NAMED])
        one = f"an unfinished run of this project is there too: {named}"
        some = f"{len(found)} unfinished runs of this project are there too: {named}"
        text = one if len(found) == 1 else some
        yield f"{text}; `cao resume {found[0]}` goes on with it, and this one is new"
