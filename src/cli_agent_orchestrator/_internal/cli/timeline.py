"""The turns of a run as a table for people."""

from collections.abc import Sequence
from textwrap import wrap

from cli_agent_orchestrator._internal.runs.records.journal import TurnRecord
from cli_agent_orchestrator._internal.runs.reports.durations import duration

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
