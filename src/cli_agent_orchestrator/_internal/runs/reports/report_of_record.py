"""The report on a run from its own folder and its archive: its state is lost, or another run's."""

from collections.abc import Sequence

from cli_agent_orchestrator._internal.gates import PROOF
from cli_agent_orchestrator._internal.pipeline.condense import (
    extract_review_notes,
    extract_test_evidence,
)
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, PersonalAct
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND, TurnRecord
from cli_agent_orchestrator._internal.runs.records.run_record import RunRecord
from cli_agent_orchestrator._internal.runs.records.turns import (
    RunTurn,
    archive_of,
    read_turn,
    turns_of,
)
from cli_agent_orchestrator._internal.runs.reports.report import EXCERPT_LINES, Report
from cli_agent_orchestrator._internal.runs.reports.setbacks import find_setbacks
from cli_agent_orchestrator.events import RunEvent, Steered

SKIPPED = "skipped"
REVIEWED = ("approved", "sent_back", "cycles_used_up")
TESTED = ("passed", "cleared", "failed", "rounds_used_up")
"""Outcomes of reviews, and of tests and gates."""


def report_of_record(folder: Folder, record: RunRecord, events: Sequence[RunEvent]) -> Report:
    """Return the report of a run from its own folder and its archive."""
    turns = turns_of(events)
    last = {turn.role: turn for turn in turns if turn.outcome}
    texts = {role: read_turn(folder, record, turn).reply or "" for role, turn in last.items()}
    entries = [_journal_entry(turn) for turn in turns if turn.outcome]
    kept = archive_of(folder, record)
    tests = [turn for turn in last.values() if turn.outcome in TESTED and turn.role != PROOF]
    tested = max(tests, key=lambda turn: turn.sequence, default=None)
    open_turn = next((turn for turn in turns[-1:] if not turn.outcome), None)
    return Report(
        status=FinalStatus(record.status) if record.status.is_verdict else FinalStatus.RUNNING,
        wd=record.wd,
        state_file=record.state_file,
        archive=str(kept.path),
        task=record.task_line,
        session_name=record.session_name,
        agents=dict(record.providers),
        terminals=dict(record.terminals),
        round=record.round,
        due=f"round {open_turn.round}, {open_turn.role}" if open_turn else "its next turn",
        turns=entries,
        evidence=extract_test_evidence(texts[tested.role] if tested else "", EXCERPT_LINES),
        gate=tested.role if tested and tested.provider == COMMAND else "",
        notes={
            role: extract_review_notes(texts[role], EXCERPT_LINES)
            for role, turn in last.items()
            if turn.outcome in REVIEWED and texts[role]
        },
        open_notes={},
        setbacks=find_setbacks(entries, kept),
        acts=[PersonalAct(event.at, event.words) for event in events if isinstance(event, Steered)],
        reason=record.reason,
    )


def _journal_entry(turn: RunTurn) -> TurnRecord:
    return TurnRecord(
        sequence=turn.sequence,
        role=turn.role,
        round=turn.round,
        cycle=turn.cycle,
        provider=turn.provider,
        began=turn.began,
        ended=turn.ended or turn.began,
        worked=turn.seconds,
        outcome=turn.detail,
        reply="" if turn.outcome == SKIPPED else turn.reply_name,
        source="",
        reviewed=turn.reviewed,
        word=turn.outcome,
        verdict=turn.verdict,
        why=turn.why,
    )
