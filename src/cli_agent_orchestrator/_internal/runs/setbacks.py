"""Which turns led to more work, and what each of them said first."""

import re
from collections.abc import Sequence

from cli_agent_orchestrator._internal.pipeline.condense import (
    extract_review_notes,
    extract_test_evidence,
    first_point,
)
from cli_agent_orchestrator._internal.pipeline.review import NOT_COUNTED
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.report import EXCERPT_LINES
from cli_agent_orchestrator._internal.runs.turns import read_reply

NO_SETBACK_PATTERN = r"PASS|APPROVED$|summary received|skipped|before the run: "
"""Outcomes after which the run went on as it should."""


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
    return not re.match(NO_SETBACK_PATTERN, turn.outcome)


def _setback(turn: TurnRecord, kept: Folder) -> tuple[str, str]:
    """Return the verdict of a turn, and what speaks for it."""
    judged, _, _ = turn.outcome.rpartition("; ")
    verdict, _, why = judged.partition(": ")
    if verdict == NOT_COUNTED:
        return verdict, why
    reply = read_reply(kept, turn.sequence, turn.role) or ""
    extract = extract_review_notes if turn.reviewed else extract_test_evidence
    point = first_point(extract(reply, EXCERPT_LINES))
    # A command may have a semicolon of its own.
    return judged or turn.outcome, point or turn.outcome
