"""A report as a page of Markdown, and as the text of a pull request."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ..core.markdown import block_of, cell, escape, fenced, folded, harmless
from ..core.secrets import CUT, before_mask
from ..core.text import duration, on_a_line, plural
from ..proof.verdict import BEFORE_TITLE
from ..runs.record import RunStatus
from ..runs.report import Report
from ..runs.view import Turn
from ..settings.gates import PROOF
from ..work.changes import BINARY, Change
from .report_words import (
    STALLED,
    change_words,
    evidence_title,
    facts_of,
    grouped,
    last_notes,
    local_time,
    proof_words,
    title_of,
    turns_title,
)

LEAST_WIDTH = 20
"""Of the last column, however narrow the terminal."""
HEADINGS = ("round", "cycle", "role", "agent", "time", "outcome")


def rows_of(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    """Return a row of cells for each turn that has ended."""
    return [
        (
            str(turn.round),
            str(turn.cycle) if turn.reviewed else "",
            turn.role,
            turn.provider,
            duration(turn.seconds),
            turn.detail,
        )
        for turn in turns
    ]


def text_table(turns: Sequence[Turn], width: int) -> str:
    """Return the turns as aligned columns; the last one is broken between words to fit a width."""
    rows = [HEADINGS, *rows_of(turns)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    lines: list[str] = []
    for *cells, last in rows:
        head = "".join(cell.ljust(size + 2) for cell, size in zip(cells, widths, strict=True))
        first, *others = wrap(last, max(width - len(head), LEAST_WIDTH)) or [""]
        lines += [(head + first).rstrip(), *(" " * len(head) + other for other in others)]
    return "\n".join(lines)


def markdown(found: Report) -> str:
    """Return a report for people."""
    run = found.run
    has_passed = run.status is RunStatus.PASS
    parts = [f"# {escape(title_of(found))}"]
    facts: list[str] = []
    for fact in facts_of(found):
        facts.append(f"- {fact.name}: {escape(fact.text)}")
        facts += [f"  - {escape(line)}" for line in fact.more]
    parts.append("\n".join(facts))
    acts = [f"{local_time(act.at)}: {act.words}" for act in run.acts]
    lists = {
        "Why it took more than one try": [f"{w}: {why}" for w, why in found.setbacks.items()],
        "Look first": run.repository,
        "Not converging": () if has_passed else run.stalls,
        "What was changed": [change_words(event) for event in run.changes],
        STALLED: run.stalls if has_passed else (),
    }
    parts += _parts(lists)
    if proof := proof_words(run):
        patch = block_of(found.proof_patch) if found.proof_patch else ""
        before = f"{BEFORE_TITLE}\n\n{_list(found.before)}" if found.before else ""
        parts += ["## Proof", escape(proof)]
        parts += filter(None, [_list(found.suspicions), patch, before])
    parts += _parts({"What people did": acts})
    if found.evidence:
        parts += [f"## {escape(evidence_title(found.gate))}", fenced(found.evidence)]
    for role, notes in last_notes(found).items():
        parts += [f"## Last notes of {escape(role)}", fenced(notes)]
    for where, notes in grouped(found.open_notes).items():
        parts += [f"## Still open after the last cycle ({escape(where)})", fenced(notes)]
    if found.patch:
        parts.append(folded("What the run changed, line by line", block_of(found.patch)))
    if turns := run.done_turns:
        parts.append(folded(turns_title(turns), _table(turns)))
    return "\n\n".join(parts)


def _parts(lists: dict[str, Sequence[str]]) -> Iterator[str]:
    for head, texts in lists.items():
        if texts:
            yield f"## {head}"
            yield _list(texts)


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def _table(turns: Sequence[Turn]) -> str:
    """Return a table of turns, with the numbers by which `cao diff` and `cao undo` know them."""
    cells = zip(rows_of(turns), turns, strict=True)
    rows = [(str(turn.sequence), *row, turn.reply_name) for row, turn in cells]
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
    run, files = found.run, found.files
    parts = [escape(run.task_line), f"**{escape(title_of(found))}**"]
    # What speaks for the work: gates first, since they were run.
    last = {turn.role: turn for turn in run.turns if turn.is_gate and turn.outcome}
    checks = [
        f"{role}: {turn.verdict or turn.detail}" for role, turn in last.items() if role != PROOF
    ]
    checks += [*filter(None, [proof_words(run)]), *found.suspicions[:MOST_LINES]]
    if checks:
        parts += ["### How it was checked", _list(checks)]
    if found.evidence:
        parts.append(folded(evidence_title(found.gate), fenced(_cut(found.evidence))))
    if files:
        added, removed = (
            sum(max(lines, 0) for lines in counts)
            for counts in zip(*((one.added, one.removed) for one in files), strict=True)
        )
        parts.append(f"### What changed: {plural(len(files), 'file')}, +{added} −{removed}")
        lines = [f"- {_file(one)}" for one in files[:MOST_FILES]]
        more = len(files) - MOST_FILES
        parts.append("\n".join(lines + ([f"- {CUT} and {more} more"] if more > 0 else [])))
    if found.setbacks:
        reasons = [f"{where}: {why}" for where, why in found.setbacks.items()]
        parts.append(folded("Why it took more than one try", _list(reasons[:MOST_LINES])))
    for where, notes in grouped(found.open_notes).items():
        parts += [f"### Still open: {escape(where)}", fenced(_cut(notes))]
    return "\n\n".join(parts)


def _file(change: Change) -> str:
    name = harmless(on_a_line(change.path))
    moved = f" (was {harmless(on_a_line(change.old_path))})" if change.status == "R" else ""
    word = STATUS_WORDS.get(change.status, "")
    lines = "binary" if change.added == BINARY else f"+{change.added} −{change.removed}"
    return f"{name}{moved}{word} {lines}"


def _cut(text: str) -> str:
    lines = text.strip("\n").split("\n")
    shown = []
    for line in lines[:MOST_LINES]:
        at = before_mask(line, LONGEST_LINE)
        shown.append(line if at == len(line) else f"{line[:at]}{CUT}")
    return "\n".join(shown + ([CUT] if len(lines) > MOST_LINES else []))
