"""The words of a report in plain text, whatever kind of page they are written on."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from ..core.models import DRY_RUN, is_dry
from ..core.text import duration, plural
from ..events import FilesChanged
from ..runs.record import Fate, SavedTree
from ..runs.report import Report
from ..runs.view import RunView, Turn
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
STALLED = "Where it did not converge for a while"


def anonymized(found: Report, clean: Callable[[str], str], home: Path, state: Path) -> Report:
    """Return a report without what belongs to this machine, or looks like a secret.

    `clean` does that to a text; folders are named as others can understand them.
    """
    run, shown = found.run, in_each_text(found, clean)

    def place(text: str, cleaned: str) -> str:
        in_tree = run.project not in ("", run.wd)
        is_own = Path(text).is_relative_to(run.wd) and not in_tree
        if is_own or not Path(text).is_relative_to(state):
            return cleaned
        return f"{Path(text).relative_to(state)} in your state folder"

    return replace(
        shown,
        archive=place(found.archive, shown.archive),
        state_file=place(found.state_file, shown.state_file),
        run=replace(
            shown.run,
            id=run.id,
            wd=shown_folder(run.wd, home),
            project=shown_folder(run.project, home) if run.project else "",
            gate_logs=place(run.gate_logs, shown.run.gate_logs),
            machine="",
        ),
    )


def without_places(text: str, folders: Sequence[str], home: Path, state: Path | None = None) -> str:
    """Return a text for others: paths begin in its folders, and the home folder is `~`.

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

    Words of ours stay as they are: members of an enumeration, and texts of a type of their own.
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
        changed = {in_each_text(k, change): in_each_text(one, change) for k, one in value.items()}
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
    run = found.run
    if not run.status.is_verdict:
        status = f" ({run.status.word})" if run.id else ""
        if run.discarded:
            return f"Discarded without a verdict{status}"
        if not found.due:
            return f"Not begun{status}: nothing of it is saved"
        return f"Not finished{status}: {found.due} is due"
    dry = f"{DRY_RUN}: " if is_dry(run.providers.values()) else ""
    return f"{dry}{run.status} after {plural(run.round, 'round')}{proof_word(run, ', ')}"


def proof_word(run: RunView, before: str = "") -> str:
    """Say whether the last proof is one; nothing if there was none."""
    if run.proof_check is None:
        return ""
    return f"{before}{'proven' if run.proof_check.proven else 'not proven'}"


def proof_words(run: RunView) -> str:
    """Say what the last proof came to; nothing if there was none."""
    return run.proof_check.why or run.proof_check.detail if run.proof_check else ""


def facts_of(found: Report) -> Iterator[Fact]:
    """Yield what a run is, when and why it stopped, where everything of it is, what can be done."""
    run = found.run
    yield Fact("Task", run.task_line)
    yield Fact("Folder", run.project or run.wd)
    if run.tree is not None:
        yield Fact("Branch", _branch(run.tree))
    yield Fact("Agents", ", ".join(f"{role}: {agent}" for role, agent in run.providers.items()))
    if run.machine:
        yield Fact("Machine", run.machine)
    if run.done_turns:
        yield Fact("Time", _times(run.done_turns))
    if run.reason and not run.status.is_verdict:
        first, *more = run.reason.splitlines()
        # What can be done about it stands on lines of its own.
        yield Fact("Stopped", first, () if run.discarded else more)
    if found.archive:
        yield Fact("Prompts and replies", found.archive)
    if run.gate_logs:
        yield Fact("What gates wrote", run.gate_logs)
    if found.state_file:
        yield Fact("State", found.state_file)
    if found.to_resume:
        yield Fact("To resume", found.to_resume)
    if run.waiting:
        yield Fact("Next", f"`cao apply {run.id}`, `cao pr {run.id}` or `cao discard {run.id}`")


def _branch(tree: SavedTree) -> str:
    """Name the branch of a work tree, and say what became of the work there, unless it waits."""
    became: str = tree.delivered
    if tree.delivered is Fate.DISCARDED and tree.earlier:
        became = f"{tree.earlier}, and then {'removed' if tree.is_applied else tree.delivered}"
    elif not tree.has_work and tree.delivered is not Fate.DISCARDED:
        became = "nothing is committed"
    return f"{tree.branch} ({became})" if became else tree.branch


def _times(turns: Sequence[Turn]) -> str:
    """Say when a run was at work, and how long its agents and gates were."""
    began, ended = turns[0].began, max(turn.ended or turn.began for turn in turns)
    by_agents = [turn for turn in turns if not turn.is_gate]
    checks = [turn for turn in turns if turn.is_gate]
    worked = duration(sum(turn.seconds for turn in by_agents))
    checked = duration(sum(turn.seconds for turn in checks))
    return (
        f"{duration(ended - began)}, {local_time(began)} to {local_time(ended)}; "
        f"{plural(len(by_agents), 'turn')}, agents worked {worked}"
        + (f"; {plural(len(checks), 'check')}, {checked}" if checks else "")
    )


def evidence_title(gate: str) -> str:
    """Say whose words the evidence is: those of a gate, or of the tester."""
    if gate == PROOF:
        return "What the proof came to"
    return f"What the gate {gate} said" if gate else "What the tester found"


def turns_title(turns: Sequence[Turn]) -> str:
    """Name the table of the turns, counted as in the facts."""
    checks = len([turn for turn in turns if turn.is_gate])
    if checks:
        return f"{plural(len(turns) - checks, 'turn')} and {plural(checks, 'check')}"
    return "The only turn" if len(turns) == 1 else f"All {len(turns)} turns"


def change_words(event: FilesChanged) -> str:
    """Say who changed which files."""
    named = f": {event.named}" if event.allowed else ""
    return f"Round {event.round}, {event.role} (turn {event.sequence}) {event.words}{named}"


def last_notes(found: Report) -> dict[str, str]:
    """Return the last notes by role, without those that are said as still open."""

    def is_open(notes: str) -> bool:
        # One may have been cut off sooner than the other.
        pairs = ((notes, opened) for opened in found.open_notes.values() if notes and opened)
        return any(one.startswith(other) or other.startswith(one) for one, other in pairs)

    return {role: notes for role, notes in found.notes.items() if not is_open(notes)}


def grouped(texts: Mapping[str, str]) -> dict[str, str]:
    """Return texts by all the places where each was said, so that it is shown once."""
    places: dict[str, list[str]] = {}
    for place, text in texts.items():
        places.setdefault(text, []).append(place)
    return {"; ".join(found): text for text, found in places.items()}


def local_time(at: float) -> str:
    """Return a moment as the clock on the wall showed it."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"
