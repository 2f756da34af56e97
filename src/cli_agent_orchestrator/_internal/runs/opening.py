"""A run that is open: it has its id, its record and, if that can be written, its folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.prepared import Prepared
from cli_agent_orchestrator._internal.runs.records.run_record import (
    RunRecord,
    SavedSetting,
    one_line,
    without_secrets,
)
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.tree_run import TreeRun
from cli_agent_orchestrator._internal.runs.work.own_tree import OwnTree
from cli_agent_orchestrator._internal.runs.work.work_folder import began_at

NOT_RECORDED = ("PROMPT", "RESUME", "MISSING")
"""The task is recorded as such; the others are about one start."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """What is settled about a run from then on."""

    prepared: Prepared
    record: RunRecord
    """Of this start; if the run is resumed, its folder has that of the first."""
    folder: Folder | None
    """None if there is none that can be written."""
    number: int | None
    """By which it keeps out of the way of others; None without a folder."""
    environ: Mapping[str, str] = field(repr=False)
    """What its commands inherit."""
    in_tree: TreeRun | None
    """None if its agents work in the user's own folder."""


def new_record(
    prepared: Prepared,
    request: RunRequest,
    tree: OwnTree | None,
    now: float,
    environ: Mapping[str, str],
) -> RunRecord:
    """Return what is known of a run that is about to be started."""
    config, task = prepared.config, prepared.task
    if tree is None:
        base, branch, top = began_at(config.wd, environ)
    else:
        base, branch, top = tree.base, tree.onto, tree.saved.folder
    return RunRecord(
        id=prepared.run_id,
        wd=str(config.wd),
        state_file=str(config.state_file),
        archive=prepared.run_id,
        task=task.text,
        task_line=one_line(task.explore_summary),
        started=now,
        base=base,
        branch=branch,
        top=top,
        flow=prepared.flow.name,
        settings=_saved_settings(config, request),
        pid=os.getpid(),
        project="" if tree is None else str(tree.project),
        tree=None if tree is None else tree.saved,
    )


def _saved_settings(config: RunConfig, request: RunRequest) -> Mapping[str, SavedSetting]:
    """Return what a run is started with, by name: the value and where it came from."""
    given = {name: text for name, text in request.settings.items() if name not in NOT_RECORDED}
    if "API" in given:
        given["API"] = without_secrets(given["API"])
    return {
        name: SavedSetting(value, request.sources.get(name, "default"))
        for name, value in {**given, **config.settings}.items()
    }
