"""All that a report says about a run, gathered once."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field, structs
from msgspec.structs import asdict, replace

from ..core.files import Folder
from ..core.markdown import excerpt
from ..core.models import Tokens
from ..errors import ConfigError, GitError, NotFound, OrchestratorError, RunError
from ..events import PROOF
from ..handoff.files import decode_response
from ..pipeline.flow import Flow, Planned, course_of
from ..pipeline.flow_file import PACKAGED, packaged_flow
from ..pipeline.machine import Check, due_step
from ..pipeline.reply import extract_review_notes, extract_test_evidence, first_point
from ..pipeline.review import NOT_COUNTED, Findings, Tracked, follow, met_evidence, read_findings
from ..pipeline.state import RunState
from ..settings.gates import Gate, read_gates
from ..settings.layout import PROMPT_LABEL, kept_name, turns_folder
from ..settings.table import BY_NAME
from ..usage.tokens import NONE_USED
from ..work.changes import REST_LEFT_OUT, Change
from .record import RunRecord, RunStatus, short_name
from .recorder import read_state_of
from .restore import before, changes_of_turn, find_span, read_kept
from .screens import ROLE_PATTERN, read_screen
from .usage import usage_of_turns
from .view import RunView, Turn, detailed_json, view_run

LARGEST_PATCH = 1024 * 1024
LARGEST_PATCH_OF_RUN = 2 * LARGEST_PATCH
"""Bytes of the patch of a run, and of the patches of all its turns."""
MOST_LINES = 120
"""Of the patch of one turn, where the whole run is shown."""


class TurnDetail(Struct, frozen=True):
    """A turn with all that is kept of it; None where something is not known."""

    turn: Turn
    prompt: str | None
    reply: str | None
    """Of a gate its output."""
    screen: str | None
    patch: str | None = None
    files: tuple[Change, ...] | None = None
    usage: Tokens | None = None
    evidence: Mapping[str, bool] = field(default_factory=dict)
    """Of a review whose flow has groups of evidence: whether its notes touch each."""
    findings: tuple[Tracked, ...] = ()
    """Those that a review raised or answered, and what has become of them."""


def read_kept_text(folder: Folder, turn: Turn, label: str = "") -> str | None:
    # An agent could write the events, and name a file elsewhere.
    if not re.fullmatch(ROLE_PATTERN, turn.role):
        return None
    with suppress(OSError, ValueError):
        name = kept_name(turn.sequence, turn.role, label)
        return decode_response(turns_folder(folder).read(name)).text
    return None


def detail_of(folder: Folder, sequence: int, environ: Mapping[str, str]) -> TurnDetail:
    """Return a turn of the run in a folder; raise `NotFound` if there is none of this number."""
    run = view_run(folder)
    detail = _details(folder, run, [turn_of(run, sequence)])[0]
    with suppress(RunError, GitError):
        patch, files = changes_of_turn(folder, sequence, LARGEST_PATCH, environ)
        return replace(detail, patch=patch.decode(errors="replace"), files=files)
    return detail


def all_details(folder: Folder, run: RunView, environ: Mapping[str, str]) -> tuple[TurnDetail, ...]:
    patches: dict[int, str] = {}
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        numbers = {turn.sequence for turn in run.turns}
        pairs = {
            one.sequence: (before(kept.taken, one).tree, one.tree)
            for one in kept.taken
            if one.sequence in numbers and before(kept.taken, one).tree != one.tree
        }
        found = kept.snapshots.diffs(list(pairs.values()), limit=LARGEST_PATCH_OF_RUN)
        patches = {number: _cut(patch) for number, patch in zip(pairs, found, strict=True)}
    details = _details(folder, run, run.turns)
    return tuple(replace(one, patch=patches.get(one.turn.sequence)) for one in details)


def changes_of_run(folder: Folder, environ: Mapping[str, str]) -> tuple[str, tuple[Change, ...]]:
    """Return what a run changed, line by line and by file; nothing without snapshots."""
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        old, new = find_span(kept.taken, "")
        patch = kept.snapshots.diff(old.tree, new.tree, limit=LARGEST_PATCH_OF_RUN)
        return patch.decode(errors="replace"), kept.snapshots.changes(old.tree, new.tree)
    return "", ()


def turn_of(run: RunView, sequence: int) -> Turn:
    for turn in run.turns:
        if turn.sequence == sequence:
            return turn
    raise NotFound("turn", str(sequence), [str(turn.sequence) for turn in run.turns])


def author_of(folder: Folder, sequence: int) -> str | None:
    """Return whose work a turn is or judges: the last author up to it, else the first one.

    None if the flow is not known; raise `NotFound` if there is no turn of this number.
    """
    run = view_run(folder)
    turn_of(run, sequence)
    flow = flow_of(run, read_state_of(folder))
    if flow is None:
        return None
    roles = [turn.role for turn in run.turns if turn.sequence <= sequence]
    return next(filter(flow.is_author, reversed(roles)), flow.first.author or None)


def flow_of(record: RunRecord, saved: RunState | None) -> Flow | None:
    if saved is not None:
        return saved.flow
    return packaged_flow(record.flow) if record.flow in PACKAGED else None


def course_of_run(record: RunRecord, saved: RunState | None) -> tuple[Planned, ...]:
    flow = flow_of(record, saved)
    if flow is None:
        return ()
    told = {name: setting.value for name, setting in record.settings.items()}
    gates: tuple[Gate, ...] = ()
    with suppress(ConfigError):
        gates = read_gates(told.get("GATES", "")) if saved is None else saved.gates
    return course_of(flow, gates, proves=told.get("PROOF", BY_NAME["PROOF"].default) != "off")


def findings_of(
    folder: Folder, run: RunView, saved: RunState | None = None
) -> Mapping[str, Findings]:
    if saved is not None:
        return saved.progress.findings
    found = {role: _follow(run, role, folder)[0] for role in run.reviewers}
    return {role: ledger for role, ledger in found.items() if ledger.tracked}


def _details(folder: Folder, run: RunView, turns: Sequence[Turn]) -> list[TurnDetail]:
    flow = flow_of(run, read_state_of(folder))
    roles = {role.name: role for role in flow.roles} if flow else {}
    terminals = {turn.terminal_id for turn in turns}
    agents = [turn for turn in run.turns if turn.terminal_id in terminals]
    used = usage_of_turns(folder, agents, run.ended)
    reviewers = {turn.role for turn in turns} & {*run.reviewers}
    findings: dict[int, tuple[Tracked, ...]] = {}
    for role in reviewers:
        findings |= _follow(run, role, folder)[1]
    found = []
    for turn in turns:
        reply = read_kept_text(folder, turn)
        judged = roles.get(turn.role) if turn.role in reviewers else None
        found.append(
            TurnDetail(
                turn=turn,
                prompt=read_kept_text(folder, turn, PROMPT_LABEL),
                reply=reply,
                screen=read_screen(folder, turn.sequence, turn.role),
                usage=used.get(turn.sequence),
                evidence=met_evidence(reply, judged) if reply is not None and judged else {},
                findings=findings.get(turn.sequence, ()),
            )
        )
    return found


def _follow(
    run: RunView, role: str, folder: Folder
) -> tuple[Findings, dict[int, tuple[Tracked, ...]]]:
    ledger = Findings()
    named: dict[int, list[str]] = {}
    for turn in run.turns:
        form = None
        if turn.role == role:
            form = read_findings(read_kept_text(folder, turn) or "")
        if form is None:
            continue
        known = set(ledger.tracked)
        ledger = follow(ledger, form)
        # It may name one again without changing anything.
        same = {(one.where, one.text.casefold()) for one in form.findings}
        named[turn.sequence] = [
            one.finding.id
            for one in ledger.tracked
            if one not in known
            or one.finding.id in form.answers
            or (one.finding.where, one.finding.text.casefold()) in same
        ]
    entries = {one.finding.id: one for one in ledger.tracked}
    return ledger, {
        sequence: tuple(entries[number] for number in numbers if number in entries)
        for sequence, numbers in named.items()
    }


def _cut(patch: bytes) -> str:
    lines = patch.decode(errors="replace").split("\n", MOST_LINES)
    if len(lines) > MOST_LINES and lines[-1]:
        lines[-1] = f"{REST_LEFT_OUT}\n"
    return "\n".join(lines)


EXCERPT_LINES = 30
"""Of each text, so that a report stays one page."""
DIFF_LINES = 400
REVIEWED = ("approved", "sent_back", "cycles_used_up")
TESTED = ("passed", "cleared", "failed", "rounds_used_up")


class Report(Struct, frozen=True):
    run: RunView
    archive: str = ""
    due: str = ""
    to_resume: str = ""
    """The command that resumes it; empty if it cannot be resumed, or need not be."""
    evidence: str = ""
    gate: str = ""
    """The gate whose words the evidence is; empty if the tester's."""
    notes: Mapping[str, str] = field(default_factory=dict)
    open_notes: Mapping[str, str] = field(default_factory=dict)
    setbacks: Mapping[str, str] = field(default_factory=dict)
    suspicions: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    proof_patch: str = ""
    patch: str = ""
    """What the run changed, line by line, cut to a page unless the report is full."""
    files: Sequence[Change] = ()
    details: tuple[TurnDetail, ...] = ()
    findings: Mapping[str, Findings] = field(default_factory=dict)
    usage: Mapping[int, Tokens] = field(default_factory=dict)


def report_of_run(folder: Folder, environ: Mapping[str, str], *, full: bool = False) -> Report:
    run, saved = view_run(folder), read_state_of(folder)
    if saved is not None:
        # A person's decision about a reply that did not come is no event.
        run = replace(run, acts=saved.progress.acts)
    archive, due = str(turns_folder(folder).path), _due(run, saved)
    if run.unsaved and not run.status.is_verdict:
        run, archive, due = replace(run, state_file=""), "", ""
    replies = {turn.sequence: read_kept_text(folder, turn) or "" for turn in run.turns}
    tested = _last_test(run)
    reviews = {turn.role: turn for turn in run.turns if turn.outcome in REVIEWED}
    proof = None if saved is None else saved.progress.proof
    patch, files = changes_of_run(folder, environ)
    if not full:
        rest = f"cao diff {short_name(run.id)}"
        patch = excerpt([patch], DIFF_LINES, DIFF_LINES, rest)
    evidence = extract_test_evidence(replies[tested.sequence], EXCERPT_LINES) if tested else ""
    details = all_details(folder, run, environ) if full else ()
    usage = {one.turn.sequence: one.usage for one in details if one.usage is not None}
    needs_none = run.status is RunStatus.RUNNING or not (run.is_live or run.is_unfinished)
    return Report(
        run=run,
        archive=archive,
        due=due,
        to_resume="" if needs_none else f"`{run.to_resume or f'cao resume {run.id}'}`",
        evidence=evidence,
        gate=tested.role if tested is not None and tested.is_gate else "",
        notes={
            role: extract_review_notes(replies[turn.sequence], EXCERPT_LINES)
            for role, turn in reviews.items()
            if replies[turn.sequence]
        },
        open_notes={} if saved is None else _open_notes(saved, run.turns),
        setbacks=dict(
            _setback(turn, replies[turn.sequence]) for turn in run.turns if turn.is_setback
        ),
        suspicions=proof.suspicions if proof else (),
        before=proof.suspicions_before if proof else (),
        proof_patch=proof.patch if proof else "",
        patch=patch,
        files=files,
        details=details,
        findings=findings_of(folder, run, saved) if full else {},
        usage=usage if full else usage_of_turns(folder, run.turns, run.ended),
    )


def _last_test(run: RunView) -> Turn | None:
    """Return the turn that says most: the tester's of this round, else what failed before it."""
    tests = [turn for turn in run.turns if turn.outcome in TESTED]
    own = [turn for turn in tests if not turn.is_gate and turn.round == run.round]
    failed = [turn for turn in tests if turn.is_setback]
    if run.status is RunStatus.PASS:
        failed = [turn for turn in tests if turn.role != PROOF]
    return next(reversed(own or failed), None)


def _due(run: RunView, saved: RunState | None) -> str:
    if run.status.is_verdict:
        return ""
    if saved is None:
        last = next((turn for turn in run.turns[-1:] if not turn.outcome), None)
        return f"round {last.round}, {last.role}" if last else "its next turn"
    step = due_step(saved)
    if step is None:
        return ""
    if isinstance(step, Check):
        return f"round {step.round}, {step.gate}"
    return f"round {step.round}, cycle {step.cycle}, {step.role}"


def _open_notes(state: RunState, turns: Sequence[Turn]) -> dict[str, str]:
    """Return the notes of this round that have no answer, by their place.

    Earlier ones were passed on to another round, in which the reviewer looks again.
    """
    last = {turn.role: turn.outcome for turn in turns}
    return {
        f"{opened.role}, round {opened.round}": opened.notes.text
        for opened in state.progress.open_notes
        if opened.round == state.round and last.get(opened.role) != "approved"
    }


def _setback(turn: Turn, reply: str) -> tuple[str, str]:
    place = turn.place.capitalize()
    if turn.reviewed and turn.why:
        return f"{place}, {turn.role}, {NOT_COUNTED}", turn.why
    extract = extract_review_notes if turn.reviewed else extract_test_evidence
    point = first_point(extract(reply, EXCERPT_LINES))
    return f"{place}, {turn.role}, {turn.verdict or turn.detail}", point or turn.detail


# Any: JSON
def report_json(found: Report) -> dict[str, Any]:
    """Return a report for programs: the run as `cao runs --json` has it, and what else there is."""
    run = found.run
    own = ("due", "evidence", "gate", "notes", "open_notes", "setbacks", "suspicions", "before")
    check = run.proof_check
    used = {number: asdict(tokens) for number, tokens in found.usage.items()}
    return {
        **detailed_json(run),
        "turns": [{**asdict(turn), "usage": used.get(turn.sequence)} for turn in run.turns],
        "usage": asdict(sum(found.usage.values(), NONE_USED)) if used else None,
        **{name: getattr(found, name) for name in own},
        "state_file": run.state_file,
        "archive": found.archive,
        "to_resume": found.to_resume,
        "proof": "" if check is None else check.why,
        "changes": [structs.asdict(one) for one in run.changes],
        "acts": [{"at": act.at, "text": act.words} for act in run.acts],
        "warnings": run.warnings,
        "stalls": run.stalls,
        "gate_logs": run.gate_logs,
        "diff": found.patch,
        "files": [asdict(one) for one in found.files],
    }
