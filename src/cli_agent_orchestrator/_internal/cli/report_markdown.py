"""A report as a page of Markdown."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cli_agent_orchestrator._internal.cli.markdown import cell, escape, fenced, folded
from cli_agent_orchestrator._internal.cli.report_words import (
    Fact,
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    title_of,
    turns_title,
)
from cli_agent_orchestrator._internal.cli.timeline import HEADINGS, rows_of
from cli_agent_orchestrator._internal.html.report_page import CIRCLED
from cli_agent_orchestrator._internal.pipeline.patches import block_of
from cli_agent_orchestrator._internal.pipeline.proof import BEFORE_TITLE
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus
from cli_agent_orchestrator._internal.runs.records.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.reports.deeds import Deeds
from cli_agent_orchestrator._internal.runs.reports.report import Report


def markdown(found: Report, home: Path) -> str:
    """Return a report for people."""
    parts = [f"# {escape(title_of(found))}", "\n".join(map(_fact, facts_of(found, home)))]
    if found.setbacks:
        lines = (f"- {escape(where)}: {escape(why)}" for where, why in found.setbacks.items())
        parts += ["## Why it took more than one try", "\n".join(lines)]
    has_passed = found.status is FinalStatus.PASS
    lists = {
        "Look first": found.deeds.repository,
        "Not converging": () if has_passed else found.deeds.circles,
        "What was changed": found.deeds.changes,
        CIRCLED: found.deeds.circles if has_passed else (),
    }
    for head, texts in lists.items():
        parts += [f"## {head}", _list(texts)] if texts else []
    if found.deeds.proof:
        parts += ["## Proof", *_proof_parts(found.deeds)]
    if found.acts:
        lines = (f"- {local_time(act.at)}: {escape(act.text)}" for act in found.acts)
        parts += ["## What people did", "\n".join(lines)]
    if found.evidence:
        parts += [f"## {escape(evidence_title(found.gate))}", fenced(found.evidence)]
    for role, notes in last_notes(found).items():
        parts += [f"## Last notes of {escape(role)}", fenced(notes)]
    for where, notes in grouped(found.open_notes).items():
        parts += [f"## Still open after the last cycle ({escape(where)})", fenced(notes)]
    return "\n\n".join([*parts, *_folds(found)])


def _fact(fact: Fact) -> str:
    more = (f"  - {escape(line)}" for line in fact.more)
    return "\n".join([f"- {fact.name}: {escape(fact.text)}", *more])


def _folds(found: Report) -> Iterator[str]:
    """Yield what is long, each to be opened when it is wanted."""
    if found.diff:
        yield folded("What the run changed, line by line", block_of(found.diff))
    if found.turns:
        yield folded(turns_title(found.turns), _table(found.turns))


def _proof_parts(deeds: Deeds) -> list[str]:
    """Return what was proven, what was done to tests, and what had been done before."""
    patch = block_of(deeds.patch) if deeds.patch else ""
    before = f"{BEFORE_TITLE}\n\n{_list(deeds.before)}" if deeds.before else ""
    return list(filter(None, [escape(deeds.proof), _list(deeds.suspicions), patch, before]))


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def _table(turns: Sequence[TurnRecord]) -> str:
    """Return a table of turns, with the numbers by which `cao diff` and `cao restore` know them."""
    cells = zip(rows_of(turns), turns, strict=True)
    rows = [(str(turn.sequence), *row, turn.reply) for row, turn in cells]
    lines = [("number", *HEADINGS, "reply"), ("---",) * (len(HEADINGS) + 2)]
    lines += [tuple(map(cell, row)) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
