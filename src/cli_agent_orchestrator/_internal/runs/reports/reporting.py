"""Gathers what there is to say about a run: from its state, its own folder and its archive."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.layout import RECORD_FILE, run_folder
from cli_agent_orchestrator._internal.pipeline.patches import excerpt
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import read_events
from cli_agent_orchestrator._internal.runs.records.registry import summary_of, waiting_branch
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id, short_name
from cli_agent_orchestrator._internal.runs.records.run_record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedTree,
    read_record,
)
from cli_agent_orchestrator._internal.runs.records.state_file import read_state, read_state_of
from cli_agent_orchestrator._internal.runs.records.turns import archive_of
from cli_agent_orchestrator._internal.runs.reports.deeds import deeds_in, with_proof_of
from cli_agent_orchestrator._internal.runs.reports.report import Report
from cli_agent_orchestrator._internal.runs.reports.report_of_record import report_of_record
from cli_agent_orchestrator._internal.runs.reports.report_of_state import Places, report_of_state
from cli_agent_orchestrator._internal.runs.work.bringing_back import read_kept
from cli_agent_orchestrator._internal.runs.work.moments import find_span
from cli_agent_orchestrator._internal.workspace.changes import Change
from cli_agent_orchestrator.errors import OrchestratorError, StateError, UsageError

DIFF_LINES = 400


def report_of_run(state: Path, run: str, environ: Mapping[str, str]) -> Report:
    """Return the report of a run by its id, whatever its project's state file is about now.

    `state` is the folder in which runs are kept.
    """
    folder = run_folder(state, run)
    record = read_record(folder)
    if record is None:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    places = Places(Path(record.wd), Path(record.state_file))
    saved = read_state_of(record)
    if saved is not None:
        with suppress(UsageError):
            found = report_of_state(saved, replace(places, archive=archive_of(folder, record)))
            return _with_ways(_with_own(found, folder, environ), record)
    found = report_of_record(folder, record, read_events(folder))
    return _with_ways(_with_own(found, folder, environ), record)


def report_of_folder(
    state: Path, places: Places, environ: Mapping[str, str]
) -> tuple[Report, Folder | None]:
    """Return the report on the run that is saved in a folder, and the run's own folder."""
    saved = read_state(places.state_file, places.wd)
    found = report_of_state(saved, places)
    folder = _own_folder(state, saved.progress.archive, places.wd)
    return _with_own(found, folder, environ), folder


def _own_folder(state: Path, archive: str, wd: Path) -> Folder | None:
    """Return the folder of the run that a saved state names, if it worked where that lies."""
    if not is_run_id(archive):
        return None
    folder = run_folder(state, archive)
    record = read_record(folder)
    return folder if record is not None and record.wd == str(wd) else None


def _with_own(found: Report, folder: Folder | None, environ: Mapping[str, str]) -> Report:
    """Return a report with what the run's own folder tells: what was done, and how it stands."""
    deeds = deeds_in(folder)
    if not deeds.proof and found.archive:
        deeds = with_proof_of(deeds, found.turns, Folder(Path(found.archive)))
    diff, files = _work_in(folder, environ)
    found = replace(found, deeds=deeds, diff=diff, files=files)
    if folder is None or found.status is not FinalStatus.RUNNING:
        return found
    own = summary_of(folder)
    is_none = own.status is RunStatus.RUNNING or not (own.is_live or own.is_unfinished)
    record = read_record(folder)
    reason, command = (record.reason, record.to_resume) if record is not None else ("", "")
    to_resume = "" if is_none else f"`{command or f'cao resume {own.id}'}`"
    if own.discarded:
        # What can be done about it stands on lines of its own.
        reason = reason.partition("\n")[0]
    found = replace(found, standing=own.status, discarded=own.discarded)
    found = replace(found, to_resume=to_resume, reason=reason)
    # Nothing was kept where it would have been.
    return replace(found, due="", archive="", state_file="") if own.unsaved else found


def _work_in(folder: Folder | None, environ: Mapping[str, str]) -> tuple[str, tuple[Change, ...]]:
    """Return the beginning of what a run changed, as its snapshots have it, and all by file."""
    with suppress(OrchestratorError, OSError):
        if folder is not None:
            kept = read_kept(folder, environ)
            old, new = find_span(kept.taken, "")
            patch = kept.snapshots.diff(old.commit, new.commit).decode(errors="replace")
            rest = f"cao diff {short_name(kept.record.id)}"
            shown = excerpt([patch], DIFF_LINES, DIFF_LINES, rest)
            return shown, kept.snapshots.changes(old.commit, new.commit)
    return "", ()


def _became(tree: SavedTree) -> str:
    """Say what became of the work in a tree; nothing if it waits."""
    if tree.delivered is not Fate.DISCARDED or not tree.earlier:
        return tree.delivered
    then = "removed" if tree.is_applied else tree.delivered
    return f"{tree.earlier}, and then {then}"


def _with_ways(found: Report, record: RunRecord) -> Report:
    """Return a report that says what can be done with a run in a work tree."""
    if record.tree is None:
        return found
    tree, run = record.tree, record.id
    is_plain = not tree.has_work and tree.delivered is not Fate.DISCARDED
    became = "nothing is committed" if is_plain else _became(tree)
    return replace(
        found,
        project=record.project,
        branch=f"{tree.branch} ({became})" if became else tree.branch,
        delivery=f"`cao apply {run}`, `cao pr {run}` or `cao discard {run}`"
        if waiting_branch(record)
        else "",
    )
