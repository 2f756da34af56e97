"""A report in words, and as a page of Markdown or the text of a pull request."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar, cast

from ..core.markdown import block_of, cell, escape, fenced, folded, harmless
from ..core.models import DRY_RUN, is_dry
from ..core.secrets import CUT, before_mask
from ..core.text import duration, on_a_line, plural
from ..proof.verdict import BEFORE_TITLE
from ..runs.record import Fate, RunStatus, SavedTree
from ..runs.report import Report
from ..runs.view import RunView, Turn
from ..settings.gates import PROOF
from ..work.changes import BINARY, Change

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
    proof = ""
    if run.proof_check is not None:
        proof = ", proven" if run.proof_check.proven else ", not proven"
    return f"{dry}{run.status} after {plural(run.round, 'round')}{proof}"


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


LEAST_WIDTH = 20
"""Of the last column, however narrow the terminal."""
HEADINGS = ("round", "cycle", "role", "agent", "time", "outcome")


def rows_of(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
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
        "What was changed": [
            f"Round {one.round}, {one.role} (turn {one.sequence}) {one.words}"
            + (f": {one.named}" if one.allowed else "")
            for one in run.changes
        ],
        STALLED: run.stalls if has_passed else (),
    }
    for head, texts in lists.items():
        if texts:
            parts += [f"## {head}", _list(texts)]
    if proof := proof_words(run):
        patch = block_of(found.proof_patch) if found.proof_patch else ""
        before = f"{BEFORE_TITLE}\n\n{_list(found.before)}" if found.before else ""
        parts += ["## Proof", escape(proof)]
        parts += filter(None, [_list(found.suspicions), patch, before])
    if acts:
        parts += ["## What people did", _list(acts)]
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
