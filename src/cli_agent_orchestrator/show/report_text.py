"""A report in words, and as a page of Markdown or the text of a pull request."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar, cast

from msgspec import Struct, structs
from msgspec.structs import replace

from ..core.markdown import block_of, cell, escape, fenced, folded, harmless
from ..core.models import DRY_RUN, Tokens, is_dry
from ..core.secrets import CUT
from ..core.text import duration, on_a_line, plural
from ..events import PROOF
from ..proof.verdict import BEFORE_TITLE
from ..runs.record import Fate, RunStatus, SavedTree
from ..runs.report import Report
from ..runs.view import RunView, Turn
from ..settings.layout import kept_name
from ..work.changes import BINARY, Change
from .turn import EARLY, cut_text, tokens_of_all, tokens_words

T = TypeVar("T")

# What may be before a path: no other path, but an option (-I/x), the scheme of a file's address, or
# slashes too many.
BEFORE = r"(?<![\w./-])(?P<before>file://|-[A-Za-z]{1,12}|)(?:(?<!:)/{1,8}(?=/))?"
END_OF_PATH = r"(?![\w-]|\.\w)"
ELSEWHERE = ("/home/", "/Users/", "/root/", "/tmp/", "/var/folders/")
# The folder of a person, or of files that do not last
ELSEWHERE_PATTERN = (
    rf"{BEFORE}(?:/private)?"
    r"(?:/(?:home|Users)/[\w.-]*\w|/(?:root|tmp)(?=/[\w.])|/var/folders(?:/[\w+]+){1,2})"
)
STALLED = "Where it did not converge for a while"
STOPPED = "Stopped"


SHOWN = (
    *("flow", "status", "round", "ended", "task", "task_line", "reason", "providers", "settings"),
    *("base", "tree", "state_file", "gate_logs", "turns", "changes", "acts", "repository"),
    *("stalls", "proof_check"),
)
"""The fields of a run that others see, besides its id and folders; a new one is hidden."""


def anonymized(found: Report, clean: Callable[[str], str], home: Path) -> Report:
    """Return a report without what belongs to this machine or looks like a secret.

    `clean` does that to a text; folders get names that others can understand.
    """
    run = found.run
    listed = {name: getattr(run, name) for name in SHOWN}
    shown = in_each_text(replace(found, run=RunView(id="", wd="", **listed)), clean)
    wd, project = (path and shown_folder(path, home) for path in (run.wd, run.project))
    return replace(shown, run=replace(shown.run, id=run.id, wd=wd, project=project))


def without_places(text: str, folders: Sequence[str], home: Path, state: Path | None = None) -> str:
    """Return a text for others: paths begin in its folders, and the home folder is `~`.

    The state folder is called that. Of paths in the home of another user or in a temporary folder,
    the beginning is left out.

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
    """Return a value in which every text is changed, at any depth.

    Members of enumerations and texts of a type of their own stay as they are.
    """
    # Any: its type is only known here.
    changed: Any = value
    if type(value) is str:
        changed = change(str(value))
    elif isinstance(value, Struct):
        new = {name: in_each_text(one, change) for name, one in structs.asdict(value).items()}
        changed = structs.replace(value, **new)
    elif isinstance(value, Mapping):
        changed = {in_each_text(k, change): in_each_text(one, change) for k, one in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(in_each_text(one, change) for one in value)
    return cast(T, changed)


def shown_folder(wd: str, home: Path) -> str:
    """Return how a project is named to others: below the home folder, else by its name alone."""
    path = Path(wd)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else path.name or wd


def title_of(found: Report) -> str:
    run = found.run
    if not run.status.is_verdict:
        status = f" ({run.status.word})"
        if run.discarded:
            return f"Discarded without a verdict{status}"
        if not found.due:
            return f"Not begun{status}: nothing of it is saved"
        return f"Not finished{status}: {found.due} is due"
    dry = f"{DRY_RUN}: " if is_dry(run.providers.values()) else ""
    title = f"{dry}{run.status} after {plural(run.round, 'round')}"
    if run.proof_check is None:
        return title
    return f"{title}, {'proven' if run.proof_check.proven else 'not proven'}"


def proof_words(run: RunView) -> str:
    return run.proof_check.why or run.proof_check.detail if run.proof_check else ""


def facts_of(found: Report) -> Iterator[tuple[str, str]]:
    run = found.run
    yield "Task", run.task_line
    yield "Folder", run.project or run.wd
    if run.tree is not None:
        yield "Branch", _branch(run.tree)
    yield "Agents", ", ".join(f"{role}: {agent}" for role, agent in run.providers.items())
    if run.machine:
        yield "Machine", run.machine
    if run.done_turns:
        yield "Time", _times(run.done_turns)
    if found.usage:
        asked = (turn for turn in run.done_turns if not turn.is_gate)
        yield "Tokens", tokens_of_all([found.usage.get(turn.sequence) for turn in asked])
    if run.reason and not run.status.is_verdict:
        # What can be done about it is on lines of its own.
        yield STOPPED, run.reason.splitlines()[0] if run.discarded else run.reason
    if found.archive:
        yield "Prompts and replies", found.archive
    if run.gate_logs:
        yield "What gates wrote", run.gate_logs
    if run.state_file:
        yield "State", run.state_file
    if found.to_resume:
        yield "To resume", found.to_resume
    if run.waiting:
        yield "Next", f"`cao apply {run.id}`, `cao pr {run.id}` or `cao discard {run.id}`"


def _branch(tree: SavedTree) -> str:
    """Name the branch of a work tree, and what became of the work there, unless it waits."""
    became: str = tree.delivered
    if tree.delivered is Fate.DISCARDED and tree.earlier:
        became = f"{tree.earlier}, and then {'removed' if tree.is_applied else tree.delivered}"
    elif not tree.has_work and tree.delivered is not Fate.DISCARDED:
        became = "nothing is committed"
    return f"{tree.branch} ({became})" if became else tree.branch


def _times(turns: Sequence[Turn]) -> str:
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
    if gate == PROOF:
        return "What the proof came to"
    return f"What the gate {gate} said" if gate else "What the tester found"


def last_notes(found: Report) -> dict[str, str]:
    """Return the last notes by role, without those that are still open."""

    def is_open(notes: str) -> bool:
        # One may have been cut off sooner than the other.
        pairs = ((notes, opened) for opened in found.open_notes.values() if notes and opened)
        return any(one.startswith(other) or other.startswith(one) for one, other in pairs)

    return {role: notes for role, notes in found.notes.items() if not is_open(notes)}


def grouped(texts: Mapping[str, str]) -> dict[str, str]:
    places: dict[str, list[str]] = {}
    for place, text in texts.items():
        places.setdefault(text, []).append(place)
    return {"; ".join(found): text for text, found in places.items()}


def local_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


HEADINGS = ("round", "cycle", "role", "agent", "time", "outcome")


def rows_of(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    return [
        (
            str(turn.round),
            str(turn.cycle) if turn.reviewed else "",
            turn.role,
            turn.provider,
            duration(turn.seconds),
            EARLY.words if turn.early else turn.detail,
        )
        for turn in turns
    ]


def text_table(turns: Sequence[Turn], width: int) -> str:
    rows = [HEADINGS, *rows_of(turns)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    lines: list[str] = []
    for *cells, last in rows:
        head = "".join(cell.ljust(size + 2) for cell, size in zip(cells, widths, strict=True))
        # However narrow the terminal: a last column of less could not be read.
        first, *others = wrap(last, max(width - len(head), 20)) or [""]
        lines += [(head + first).rstrip(), *(" " * len(head) + other for other in others)]
    return "\n".join(lines)


def markdown(found: Report) -> str:
    run = found.run
    has_passed = run.status is RunStatus.PASS
    parts = [f"# {escape(title_of(found))}"]
    facts: list[str] = []
    for name, text in facts_of(found):
        first, *more = text.splitlines() if name == STOPPED else [text]
        facts += [f"- {name}: {escape(first)}", *(f"  - {escape(line)}" for line in more)]
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
        # Counted as in the facts.
        checks = len([turn for turn in turns if turn.is_gate])
        title = "The only turn" if len(turns) == 1 else f"All {len(turns)} turns"
        if checks:
            title = f"{plural(len(turns) - checks, 'turn')} and {plural(checks, 'check')}"
        parts.append(folded(title, _table(turns, found.usage)))
    return "\n\n".join(parts)


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def _table(turns: Sequence[Turn], used: Mapping[int, Tokens]) -> str:
    cells = zip(rows_of(turns), turns, strict=True)
    lines = [("number", *HEADINGS, "tokens", "reply"), ("---",) * (len(HEADINGS) + 3)]
    for row, turn in cells:
        tokens = tokens_words(used.get(turn.sequence))
        reply = "" if turn.outcome == "skipped" else kept_name(turn.sequence, turn.role)
        lines.append((str(turn.sequence), *map(cell, row), tokens, cell(reply)))
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


MOST_FILES = 50
MOST_LINES = 20
"""Of the evidence and of notes."""
LONGEST_LINE = 300
STATUS_WORDS = {"A": " (new)", "D": " (removed)", "T": " (became something else)"}


def request_page(found: Report) -> str:
    run, files = found.run, found.files
    parts = [escape(run.task_line), f"**{escape(title_of(found))}**"]
    # Gates first, since they were run.
    last = {turn.role: turn for turn in run.turns if turn.is_gate and turn.outcome}
    checks = [
        f"{role}: {turn.verdict or turn.detail}" for role, turn in last.items() if role != PROOF
    ]
    checks += [*filter(None, [proof_words(run)]), *found.suspicions[:MOST_LINES]]
    if checks:
        parts += ["### How it was checked", _list(checks)]
    if found.evidence:
        evidence = fenced(cut_text(found.evidence, MOST_LINES, 0, LONGEST_LINE))
        parts.append(folded(evidence_title(found.gate), evidence))
    if files:
        added = sum(max(one.added, 0) for one in files)
        removed = sum(max(one.removed, 0) for one in files)
        parts.append(f"### What changed: {plural(len(files), 'file')}, +{added} −{removed}")
        lines = [f"- {_file(one)}" for one in files[:MOST_FILES]]
        more = len(files) - MOST_FILES
        parts.append("\n".join(lines + ([f"- {CUT} and {more} more"] if more > 0 else [])))
    if found.setbacks:
        reasons = [f"{where}: {why}" for where, why in found.setbacks.items()]
        parts.append(folded("Why it took more than one try", _list(reasons[:MOST_LINES])))
    for where, notes in grouped(found.open_notes).items():
        cut = fenced(cut_text(notes, MOST_LINES, 0, LONGEST_LINE))
        parts += [f"### Still open: {escape(where)}", cut]
    return "\n\n".join(parts)


def _file(change: Change) -> str:
    name = harmless(on_a_line(change.path))
    moved = f" (was {harmless(on_a_line(change.old_path))})" if change.status == "R" else ""
    word = STATUS_WORDS.get(change.status, "")
    lines = "binary" if change.added == BINARY else f"+{change.added} −{change.removed}"
    return f"{name}{moved}{word} {lines}"
