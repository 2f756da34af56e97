"""The turns of a run as rows: what came of each at a glance, all of it when it is opened."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from cli_agent_orchestrator._internal.dashboard.page import Part
from cli_agent_orchestrator._internal.dashboard.views.words import (
    DOT,
    moment,
    name,
    run_path,
)
from cli_agent_orchestrator._internal.html.diff import counts_html
from cli_agent_orchestrator._internal.html.markup import Child, Markup, joined, tag
from cli_agent_orchestrator._internal.html.outcome import badge, look_of
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn
from cli_agent_orchestrator._internal.runs.reports.durations import duration
from cli_agent_orchestrator.events import FilesChanged, short_line

LONGEST_WHY = 240
LONGEST_WORD = 40


@lru_cache(maxsize=4096)
def turn_part(run: str, turn: RunTurn, changed: FilesChanged | None) -> Part:
    """Return the row of a turn; the same as before if nothing of it has changed."""
    number = f"turn-{turn.sequence}"
    # What an opened turn shows is another thing when it has ended: it is fetched again then.
    step = "?open" if turn.ended is None else ""
    shown = tag(
        "details",
        tag("summary", _line(turn, changed), class_="turn-line"),
        tag("div", tag("p", "Loading …", class_="muted"), data_into=True, class_="turn-body"),
        data_fragment=f"{run_path(run)}/turns/{turn.sequence}{step}",
    )
    return Part(number, tag("li", shown, id=number, class_="turn-row"), "turns")


def _came_to(turn: RunTurn) -> Markup:
    look = look_of(turn)
    return badge(replace(look, words=short_line(look.words, LONGEST_WORD)))


def _why(turn: RunTurn) -> Markup | None:
    """Say what stands behind the outcome, and what the agent had against the work."""
    quoted = f"“{turn.reason}”" if turn.reason else ""
    words = " ".join(filter(None, (turn.why, quoted)))
    return tag("span", short_line(words, LONGEST_WHY), class_="turn-why") if words else None


def _line(turn: RunTurn, changed: FilesChanged | None) -> Markup:
    return tag(
        "span",
        tag("span", str(turn.sequence), class_="turn-number"),
        tag("h3", name(turn.role)),
        _came_to(turn),
        tag("span", joined(_facts(turn, changed), DOT), class_="about"),
        _why(turn),
        class_="turn-words",
    )


def _facts(turn: RunTurn, changed: FilesChanged | None) -> Iterator[Child]:
    yield f"round {turn.round}" + (f", cycle {turn.cycle}" if turn.reviewed else "")
    yield "command" if turn.provider == COMMAND else name(turn.provider) or None
    if changed is not None:
        yield _changed(changed)
    if turn.ended is not None:
        yield moment(turn.ended, duration(turn.seconds))


def _changed(changed: FilesChanged) -> Markup:
    files = f"{changed.count} file{'' if changed.count == 1 else 's'}"
    if not changed.allowed:
        return tag("span", f"changed {files}, not its task", class_="warn")
    return joined((f"{files} ", counts_html(changed.added, changed.removed)))
