"""Puts together what the loop of an open run goes by, and where it keeps what must outlive it."""

from pathlib import Path

from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.handoff.responses import ResponseFiles
from cli_agent_orchestrator._internal.pipeline.prompts import Briefing
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.runs.gates.checking import GatePlace
from cli_agent_orchestrator._internal.runs.ledger import Records
from cli_agent_orchestrator._internal.runs.opening import OpenRun
from cli_agent_orchestrator._internal.runs.plan import Plan
from cli_agent_orchestrator._internal.runs.records.journal import Journal
from cli_agent_orchestrator._internal.runs.records.run_id import short_name
from cli_agent_orchestrator._internal.runs.records.screens import Screens
from cli_agent_orchestrator._internal.runs.records.state_file import StateFile
from cli_agent_orchestrator._internal.runs.work.work_folder import WorkFolder, open_work_folder


def make_plan(run: OpenRun, files: ResponseFiles) -> Plan:
    """Return by which rules a run goes, and what its prompts are made of."""
    config = run.prepared.config
    briefing = Briefing(
        run.prepared.task,
        files.folder,
        config.rules.condensation,
        config.project_test_cmd,
        note="" if run.in_tree is None else run.in_tree.tree.note,
    )
    return Plan(
        briefing,
        config.rules,
        config.handoff,
        GatePlace(config.wd, config.gate_timeout, run.environ, run.folder),
        _open_folder(run),
        config.readonly_roles,
        since=run.record.started,
        run=short_name(run.record.id),
    )


def make_records(
    run: OpenRun, state_file: StateFile, files: ResponseFiles, client: ApiClient
) -> Records:
    """Return where a run keeps its state, its replies, its turns and what its agents show."""
    screens = None if run.folder is None else Screens(client, run.folder)
    return Records(state_file, files, Journal(files.kept), screens)


def response_files(wd: Path, state: RunState) -> ResponseFiles:
    """Return the response files of a run that works in a folder."""
    names = {role.name: role.response_file for role in state.flow.roles}
    return ResponseFiles(wd, state.progress.archive, names)


def _open_folder(run: OpenRun) -> WorkFolder:
    wd = run.prepared.config.wd
    if run.in_tree is None:
        return open_work_folder(wd, run.folder, run.environ)
    return open_work_folder(wd, run.folder, run.environ, run.in_tree.mend, run.in_tree.kept_out)
