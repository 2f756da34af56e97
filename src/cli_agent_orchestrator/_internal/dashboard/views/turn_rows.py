"""The turns of a run as rows: what came of each at a glance, all of it when it is opened."""

from collections.abc import Iterator
from functools import lru_cache

from cli_agent_orchestrator._internal.dashboard.page import Part
from cli_agent_orchestrator._internal.dashboard.views.words import (
    DOT,
    badge,
    duration,
    moment,
    name,
    run_path,
)
from cli_agent_orchestrator._internal.html.markup import Child, Markup, joined, tag
from cli_agent_orchestrator._internal.pipeline.outcomes import AGAINST
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn
from cli_agent_orchestrator.events import FilesChanged, short_line

IN_FAVOR = ("approved", "skipped", "passed", "cleared")
OUTCOMES = {
    "delivered": "delivered",
    "approved": "approved",
    "skipped": "skipped",
    "sent_back": "sent back",
    "cycles_used_up": "cycles used up",
    "passed": "passed",
    "cleared": "passed",
    "failed": "failed",
    "rounds_used_up": "failed",
}
"""The words of events, for people; a word that is not here is shown as it is."""
LONGEST_WHY = 240
LONGEST_WORD = 30


@lru_cache(maxsize=4096)
def turn_part(run: str, turn: RunTurn, changed: FilesChanged | None, *, is_live: bool) -> Part:
    """Return the row of a turn; the same as before if nothing of it has changed."""
    number = f"turn-{turn.sequence}"
    # What an opened turn shows is another thing when it has ended: it is fetched again then.
    step = "" if turn.outcome else "?open"
    shown = tag(
        "details",
        tag("summary", _line(turn, changed, is_live=is_live), class_="turn-line"),
        tag("div", tag("p", "Loading …", class_="note"), data_into=True, class_="turn-body"),
        data_fragment=f"{run_path(run)}/turns/{turn.sequence}{step}",
    )
    return Part(number, tag("li", shown, id=number, class_="turn"), "turns")


def outcome_badge(turn: RunTurn, *, is_live: bool) -> Markup:
    """Return what a turn came to."""
    if not turn.outcome:
        return badge("working", "working") if is_live else badge("quiet", "not finished")
    words = OUTCOMES.get(turn.outcome) or short_line(turn.outcome, LONGEST_WORD)
    if turn.outcome in IN_FAVOR:
        return badge("good", words)
    return badge("bad" if turn.outcome in AGAINST else "quiet", words)


def _line(turn: RunTurn, changed: FilesChanged | None, *, is_live: bool) -> Markup:
    why = turn.why or turn.verdict
    return tag(
        "span",
        tag("span", str(turn.sequence), class_="turn-number"),
        tag("span", name(turn.role), class_="turn-role"),
        outcome_badge(turn, is_live=is_live),
        tag("span", short_line(why, LONGEST_WHY), class_="turn-why") if why else None,
        tag("span", joined(_facts(turn, changed), DOT), class_="facts"),
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
    return tag(
        "span",
        f"{files} ",
        tag("span", f"+{changed.added}", class_="added"),
        " ",
        tag("span", f"−{changed.removed}", class_="removed"),
    )
