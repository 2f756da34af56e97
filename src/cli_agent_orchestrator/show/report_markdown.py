"""A report as a page of Markdown."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from ..core.markdown import block_of, cell, escape, fenced, folded, harmless
from ..core.secrets import CUT, before_mask
from ..core.text import duration, on_a_line
from ..pipeline.state import FinalStatus
from ..proof.verdict import BEFORE_TITLE
from ..runs.report import Deeds, Report
from ..runs.turns import COMMAND, TurnRecord
from ..settings.gates import PROOF
from ..work.changes import BINARY, Change
from .report_html import CIRCLED
from .report_words import (
    Fact,
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    title_of,
    turns_title,
)

LEAST_WIDTH = 20
"""Of the last column, however narrow the terminal."""
HEADINGS = ("round", "cycle", "role", "agent", "time", "outcome")


def rows_of(turns: Sequence[TurnRecord]) -> list[tuple[str, ...]]:
    """Return a row of cells for each turn."""
    return [
        (
            str(turn.round),
            str(turn.cycle) if turn.reviewed else "",
            turn.role,
            turn.provider,
            duration(turn.worked),
            turn.outcome,
        )
        for turn in turns
    ]


def text_table(turns: Sequence[TurnRecord], width: int) -> str:
    """Return the turns as aligned columns; the last one is broken between words to fit a width."""
    rows = [HEADINGS, *rows_of(turns)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    lines: list[str] = []
    for *cells, last in rows:
        head = "".join(cell.ljust(size + 2) for cell, size in zip(cells, widths, strict=True))
        first, *others = wrap(last, max(width - len(head), LEAST_WIDTH)) or [""]
        lines += [(head + first).rstrip(), *(" " * len(head) + other for other in others)]
    return "\n".join(lines)


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


MOST_FILES = 50
MOST_LINES = 20
"""Of the evidence and of notes."""
LONGEST_LINE = 300
STATUS_WORDS = {"A": " (new)", "D": " (removed)", "T": " (became something else)"}


def request_page(found: Report) -> str:
    """Return the text of a pull request for the work of a run."""
    parts = [escape(found.task), f"**{escape(title_of(found))}**", *_checks(found)]
    parts += _changes(found.files)
    if found.setbacks:
        reasons = [*found.setbacks.items()][:MOST_LINES]
        lines = (f"- {escape(where)}: {escape(why)}" for where, why in reasons)
        parts.append(folded("Why it took more than one try", "\n".join(lines)))
    for where, notes in grouped(found.open_notes).items():
        parts += [f"### Still open: {escape(where)}", fenced(_cut(notes))]
    return "\n\n".join(parts)


def _checks(found: Report) -> Iterator[str]:
    """Yield what speaks for the work: gates first, since they were run, and what they said."""
    last = {turn.role: turn for turn in found.turns if _is_check(turn)}
    lines = [
        f"- {escape(f'{role}: {turn.verdict or turn.outcome}')}" for role, turn in last.items()
    ]
    if found.deeds.proof:
        lines.append(f"- {escape(found.deeds.proof)}")
    lines += [f"- {escape(one)}" for one in found.deeds.suspicions[:MOST_LINES]]
    if lines:
        yield "### How it was checked"
        yield "\n".join(lines)
    if found.evidence:
        yield folded(evidence_title(found.gate), fenced(_cut(found.evidence)))


def _is_check(turn: TurnRecord) -> bool:
    return turn.provider == COMMAND and turn.role != PROOF


def _changes(files: Sequence[Change]) -> list[str]:
    if not files:
        return []
    added = sum(max(one.added, 0) for one in files)
    removed = sum(max(one.removed, 0) for one in files)
    counted = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    lines = [f"- {_file(one)}" for one in files[:MOST_FILES]]
    more = len(files) - MOST_FILES
    lines += [f"- {CUT} and {more} more"] if more > 0 else []
    return [f"### What changed: {counted}, +{added} −{removed}", "\n".join(lines)]


def _file(change: Change) -> str:
    name = harmless(on_a_line(change.path))
    moved = f" (was {harmless(on_a_line(change.old_path))})" if change.status == "R" else ""
    word = STATUS_WORDS.get(change.status, "")
    lines = "binary" if change.added == BINARY else f"+{change.added} −{change.removed}"
    return f"{name}{moved}{word} {lines}"


def _cut(text: str) -> str:
    lines = text.strip("\n").split("\n")
    shown = [_cut_line(line) for line in lines[:MOST_LINES]]
    return "\n".join(shown + ([CUT] if len(lines) > MOST_LINES else []))


def _cut_line(line: str) -> str:
    at = before_mask(line, LONGEST_LINE)
    return line if at == len(line) else f"{line[:at]}{CUT}"
