"""Which turns led to more work, and what each of them said first."""

from collections.abc import Sequence

from cli_agent_orchestrator._internal.pipeline.condense import (
    extract_review_notes,
    extract_test_evidence,
    first_point,
)
from cli_agent_orchestrator._internal.pipeline.outcomes import AGAINST
from cli_agent_orchestrator._internal.pipeline.review import NOT_COUNTED
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.records.turns import read_reply
from cli_agent_orchestrator._internal.runs.reports.report import EXCERPT_LINES


def find_setbacks(turns: Sequence[TurnRecord], kept: Folder) -> dict[str, str]:
    """Return what each review and test that led to more work said first, by its turn."""
    found = {}
    for turn in turns:
        if is_setback(turn):
            verdict, why = _setback(turn, kept)
            cycle = f", cycle {turn.cycle}" if turn.reviewed else ""
            found[f"Round {turn.round}{cycle}, {turn.role}, {verdict}"] = why
    return found


def is_setback(turn: TurnRecord) -> bool:
    """Did more work follow from a turn?"""
    return turn.word in AGAINST


def _setback(turn: TurnRecord, kept: Folder) -> tuple[str, str]:
    """Return the verdict of a turn, and what speaks for it."""
    if turn.reviewed and turn.why:
        return NOT_COUNTED, turn.why
    reply = read_reply(kept, turn.sequence, turn.role) or ""
    extract = extract_review_notes if turn.reviewed else extract_test_evidence
    point = first_point(extract(reply, EXCERPT_LINES))
    return turn.verdict or turn.outcome, point or turn.outcome
