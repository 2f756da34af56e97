"""The words of a report in plain text, whatever kind of page they are written on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cli_agent_orchestrator._internal.cli.for_others import shown_folder
from cli_agent_orchestrator._internal.gates import PROOF
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus
from cli_agent_orchestrator._internal.runs.records.journal import COMMAND, TurnRecord
from cli_agent_orchestrator._internal.runs.reports.dry_run import DRY_RUN, is_dry
from cli_agent_orchestrator._internal.runs.reports.durations import duration
from cli_agent_orchestrator._internal.runs.reports.report import Report


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the things that are said of a run before all else."""

    name: str
    text: str
    more: Sequence[str] = ()
    """Lines that belong below it."""


def title_of(found: Report) -> str:
    """Say what a run came to, or what it is waiting for."""
    if found.status is FinalStatus.RUNNING:
        standing = f" ({found.standing.word})" if found.standing else ""
        if found.discarded:
            return f"Discarded without a verdict{standing}"
        if not found.due:
            return f"Not begun{standing}: nothing of it is saved"
        return f"Not finished{standing}: {found.due} is due"
    dry = f"{DRY_RUN}: " if is_dry(found.agents.values()) else ""
    proof = f", {found.deeds.verdict}" if found.deeds.verdict else ""
    return f"{dry}{found.status} after {_counted(found.round, 'round')}{proof}"


def facts_of(found: Report, home: Path) -> Iterator[Fact]:
    """Yield what a run is, when and why it stopped, where everything of it is, what can be done."""
    yield Fact("Task", found.task)
    yield Fact("Folder", shown_folder(found.project or found.wd, home))
    if found.branch:
        yield Fact("Branch", found.branch)
    yield Fact("Agents", ", ".join(f"{role}: {agent}" for role, agent in found.agents.items()))
    if found.turns:
        yield Fact("Time", _times(found.turns))
    if found.reason:
        first, *more = found.reason.splitlines()
        yield Fact("Stopped", first, more)
    if found.archive:
        yield Fact("Prompts and replies", found.archive)
    if found.deeds.logs:
        yield Fact("What gates wrote", found.deeds.logs)
    if found.state_file:
        yield Fact("State", found.state_file)
    if found.status is FinalStatus.RUNNING and found.to_resume:
        yield Fact("To resume", found.to_resume)
    if found.delivery:
        yield Fact("Next", found.delivery)


def _times(turns: Sequence[TurnRecord]) -> str:
    """Say when a run was at work, and how long its agents and gates were."""
    began, ended = turns[0].began, max(turn.ended for turn in turns)
    by_agents, checks = _by_kind(turns)
    return (
        f"{duration(ended - began)}, {local_time(began)} to {local_time(ended)}; "
        f"{_counted(len(by_agents), 'turn')}, agents worked {_worked(by_agents)}"
        + (f"; {_counted(len(checks), 'check')}, {_worked(checks)}" if checks else "")
    )


def _by_kind(turns: Sequence[TurnRecord]) -> tuple[list[TurnRecord], list[TurnRecord]]:
    """Return the turns of agents, and those of gates."""
    checks = [turn for turn in turns if turn.provider == COMMAND]
    return [turn for turn in turns if turn.provider != COMMAND], checks


def evidence_title(gate: str) -> str:
    """Say whose words the evidence is: those of a gate, or of the tester."""
    if gate == PROOF:
        return "What the proof came to"
    return f"What the gate {gate} said" if gate else "What the tester found"


def turns_title(turns: Sequence[TurnRecord]) -> str:
    """Name the table of the turns, counted as in the facts."""
    by_agents, checks = _by_kind(turns)
    if checks:
        return f"{_counted(len(by_agents), 'turn')} and {_counted(len(checks), 'check')}"
    return "The only turn" if len(turns) == 1 else f"All {len(turns)} turns"


def last_notes(found: Report) -> dict[str, str]:
    """Return the last notes by role, without those that are said as still open."""
    return {
        role: notes
        for role, notes in found.notes.items()
        if not any(_is_same(notes, opened) for opened in found.open_notes.values())
    }


def grouped(texts: Mapping[str, str]) -> dict[str, str]:
    """Return texts by all the places where each was said, so that it is shown once."""
    places: dict[str, list[str]] = {}
    for place, text in texts.items():
        places.setdefault(text, []).append(place)
    return {"; ".join(found): text for text, found in places.items()}


def local_time(at: float) -> str:
    """Return a moment as the clock on the wall showed it."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def _is_same(notes: str, opened: str) -> bool:
    """Are these the same notes? One may have been cut off sooner."""
    return bool(notes and opened) and (notes.startswith(opened) or opened.startswith(notes))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _worked(turns: Sequence[TurnRecord]) -> str:
    return duration(sum(turn.worked for turn in turns))
