"""The words of a report in plain text, whatever kind of page they are written on."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from ..core.models import DRY_RUN, is_dry
from ..core.text import duration
from ..pipeline.state import FinalStatus
from ..runs.report import Deeds, Report
from ..runs.turns import COMMAND, TurnRecord
from ..settings.gates import PROOF

T = TypeVar("T")

# What a path may begin after: not another path; an option may have it at once (-I/x), an address
# may be one of a file, and slashes may be too many.
BEFORE = r"(?<![\w./-])(?P<before>file://|-[A-Za-z]{1,12}|)(?:(?<!:)/{1,8}(?=/))?"
END_OF_PATH = r"(?![\w-]|\.\w)"
ELSEWHERE = ("/home/", "/Users/", "/root/", "/tmp/", "/var/folders/")
# The folder of a person, or of files that do not last
ELSEWHERE_PATTERN = (
    rf"{BEFORE}(?:/private)?"
    r"(?:/(?:home|Users)/[\w.-]*\w|/(?:root|tmp)(?=/[\w.])|/var/folders(?:/[\w+]+){1,2})"
)


def for_others(found: Report, home: Path, state: Path) -> Report:
    """Return a report in which no path begins outside of the project, the state or home folder."""

    def short(text: str) -> str:
        return without_places(text, (found.wd, found.project), home, state)

    def place(text: str) -> str:
        in_tree = found.project not in ("", found.wd)
        is_own = Path(text).is_relative_to(found.wd) and not in_tree
        is_own = is_own or not Path(text).is_relative_to(state)
        return short(text) if is_own else f"{Path(text).relative_to(state)} in your state folder"

    def each(texts: Mapping[str, str]) -> dict[str, str]:
        return {short(name): short(text) for name, text in texts.items()}

    return replace(
        found,
        task=short(found.task),
        archive=place(found.archive),
        state_file=place(found.state_file),
        evidence=short(found.evidence),
        reason=short(found.reason),
        notes=each(found.notes),
        open_notes=each(found.open_notes),
        setbacks=each(found.setbacks),
        deeds=Deeds(
            tuple(map(short, found.deeds.changes)),
            short(found.deeds.proof),
            tuple(map(short, found.deeds.suspicions)),
            tuple(map(short, found.deeds.circles)),
            place(found.deeds.logs),
            tuple(map(short, found.deeds.repository)),
            tuple(map(short, found.deeds.before)),
            short(found.deeds.patch),
        ),
        diff=short(found.diff),
        turns=[replace(turn, outcome=short(turn.outcome)) for turn in found.turns],
        acts=[replace(act, text=short(act.text)) for act in found.acts],
    )


def without_places(text: str, folders: Sequence[str], home: Path, state: Path | None = None) -> str:
    """Return a page for others: paths begin in its folders, and the home folder is `~`.

    The state folder is named as such, wherever it is. Where the folder of another person or one
    for what does not last begins a path, its beginning is left out.

    >>> without_places("/home/ada/shop/a.py, /home/bob/x", ["/home/ada/shop"], Path("/home/ada"))
    'a.py, …/x'
    """
    own = ((folder, "", ".") for folder in folders)
    kept = (str(state or ""), "(state folder)/", "(state folder)")
    for folder, inside, itself in (*own, kept, (str(home), "~/", "~")):
        if len(folder) > 1 and folder in text:
            place = BEFORE + re.escape(folder)
            text = re.sub(f"{place}/", rf"\g<before>{inside}", text)
            text = re.sub(f"{place}{END_OF_PATH}", rf"\g<before>{itself}", text)
    if any(place in text for place in ELSEWHERE):
        text = re.sub(ELSEWHERE_PATTERN, r"\g<before>…", text)
    return text


def in_each_text(value: T, change: Callable[[str], str]) -> T:
    """Return a value in which every text is changed, however deep it lies.

    Words of ours stay as they are: members of an enumeration, and keys.
    """
    # Any: what it is made of is only known here.
    changed: Any = value
    if type(value) is str:
        changed = change(str(value))
    elif is_dataclass(value) and not isinstance(value, type):
        inside = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        new = {name: in_each_text(one, change) for name, one in inside.items()}
        changed = replace(value, **new)
    elif isinstance(value, Mapping):
        changed = {key: in_each_text(one, change) for key, one in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(in_each_text(one, change) for one in value)
    return cast(T, changed)


def shown_folder(wd: str, home: Path) -> str:
    """Return how a project is named to others: below the home folder, else by its name alone."""
    path = Path(wd)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else path.name or wd


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
