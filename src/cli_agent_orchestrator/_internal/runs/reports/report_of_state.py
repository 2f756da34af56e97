"""The report on a run as its saved state has it, with what its archive tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator._internal.layout import archive_folder
from cli_agent_orchestrator._internal.pipeline.condense import (
    extract_review_notes,
    extract_test_evidence,
)
from cli_agent_orchestrator._internal.pipeline.flow import StageKind
from cli_agent_orchestrator._internal.pipeline.machine import Check, due_step
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator._internal.pipeline.task import parse_task
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND, Journal, TurnRecord
from cli_agent_orchestrator._internal.runs.records.run_record import one_line
from cli_agent_orchestrator._internal.runs.reports.report import EXCERPT_LINES, Report
from cli_agent_orchestrator._internal.runs.reports.setbacks import find_setbacks, is_setback
from cli_agent_orchestrator.errors import PromptError

APPROVED = "approved"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run keeps what a report is made from."""

    wd: Path
    state_file: Path
    archive: Folder | None = None
    """Of prompts and replies, if not in the work folder."""


def report_of_state(state: RunState, places: Places) -> Report:
    """Return the report of a run from its saved state and its archive."""
    archive, turns, setbacks = None, [], {}
    if state.progress.archive:
        kept = places.archive or archive_folder(places.wd, state.progress.archive)
        archive, turns = kept.path, Journal(kept).read()
        setbacks = find_setbacks(turns, kept)
    tested = _last_test(state)
    # What a gate said before has been answered when the run passes.
    feedback = "" if state.final_status is FinalStatus.PASS else _last_feedback(state)
    return Report(
        status=state.final_status,
        wd=state.wd or str(places.wd),
        state_file=str(places.state_file),
        archive=str(archive or ""),
        task=_task_line(state),
        session_name=state.session_name,
        agents={role.name: state.provider_of(role.name) for role in state.flow.roles},
        terminals={role.name: state.terminal_of(role.name) for role in state.flow.roles},
        round=state.round,
        due=_due(state),
        turns=turns,
        evidence=extract_test_evidence(tested or feedback, EXCERPT_LINES),
        gate="" if tested else _last_failed_gate(turns),
        notes={
            stage.reviewer: extract_review_notes(
                state.output_of(stage.reviewer).text, EXCERPT_LINES
            )
            for stage in state.flow.stages
            if state.has_output(stage.reviewer)
        },
        open_notes=_open_notes(state, turns),
        setbacks=setbacks,
        acts=state.progress.acts,
    )


def _task_line(state: RunState) -> str:
    try:
        summary = parse_task(state.prompt).explore_summary
    except PromptError:
        summary = state.prompt.strip() or "(not saved)"
    return one_line(summary)


def _due(state: RunState) -> str:
    """Say what comes next; nothing when the run is over."""
    step = due_step(state)
    if step is None:
        return ""
    if isinstance(step, Check):
        return f"round {step.round}, {step.gate}"
    return f"round {step.round}, cycle {step.cycle}, {step.role}"


def _open_notes(state: RunState, turns: Sequence[TurnRecord]) -> dict[str, str]:
    """Return the notes of this round that nobody has answered, by where they were made.

    Earlier ones were passed on to another round, in which the reviewer has its say again.
    """
    last = {turn.role: turn.word for turn in turns}
    return {
        f"{opened.role}, round {opened.round}": opened.notes.text
        for opened in state.progress.open_notes
        if opened.round == state.round and last.get(opened.role) != APPROVED
    }


def _last_test(state: RunState) -> str:
    """Return what the last tester of this round said, if one did."""
    tests = [stage.author for stage in state.flow.stages if stage.kind is StageKind.TEST]
    said = [state.output_of(tester).text for tester in tests if state.has_output(tester)]
    return said[-1] if said else ""


def _last_failed_gate(turns: Sequence[TurnRecord]) -> str:
    """Name the gate that led to the present round; nothing if it was a tester."""
    failed = [turn for turn in turns if is_setback(turn) and not turn.reviewed]
    return failed[-1].role if failed and failed[-1].provider == COMMAND else ""


def _last_feedback(state: RunState) -> str:
    return state.feedback.text if state.round > 1 else ""
