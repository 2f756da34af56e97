"""The text of a pull request: what was asked, how it was checked, what changed, what is open.

It is Markdown that others read. What agents have written is shown and never becomes markup, nor
does the task, which may come from anybody.
"""

from collections.abc import Iterator, Sequence

from cli_agent_orchestrator._internal.characters import on_a_line
from cli_agent_orchestrator._internal.cli.markdown import escape, fenced, folded
from cli_agent_orchestrator._internal.cli.report_words import evidence_title, grouped, title_of
from cli_agent_orchestrator._internal.gates import PROOF
from cli_agent_orchestrator._internal.masking import CUT, before_mask
from cli_agent_orchestrator._internal.pipeline.patches import harmless
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND, TurnRecord
from cli_agent_orchestrator._internal.runs.reports.report import Report
from cli_agent_orchestrator._internal.workspace.changes import BINARY, Change

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
