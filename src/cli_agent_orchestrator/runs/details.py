"""What there is of the turns of a run: what was said, shown, found, changed and used in them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..core.files import Folder
from ..errors import ConfigError, GitError, NotFound, OrchestratorError, RunError
from ..handoff.files import decode_response
from ..pipeline.findings import Findings, ReviewForm, Tracked, follow, read_findings
from ..pipeline.flow import Flow, Planned, course_of
from ..pipeline.flow_file import PACKAGED, packaged_flow
from ..pipeline.review import met_evidence
from ..pipeline.state import RunState
from ..settings.gates import Gate, read_gates
from ..settings.layout import PROMPT_LABEL, kept_name, turns_folder
from ..settings.table import BY_NAME
from ..usage.tokens import Tokens
from ..work.changes import REST_LEFT_OUT, Change
from .record import RunRecord
from .restore import before, changes_of_turn, find_span, read_kept
from .screens import ROLE_PATTERN, read_screen
from .state_file import read_state_of
from .usage import usage_of_turns
from .view import RunView, Turn, view_run

LARGEST_PATCH = 1024 * 1024
"""Bytes of what one turn changed."""
LARGEST_PATCH_OF_RUN = 2 * LARGEST_PATCH
"""Bytes of what the whole run changed, and as many of what all turns changed."""
MOST_LINES = 120
"""Of what one turn changed, where the whole run is shown."""


@dataclass(frozen=True, slots=True)
class TurnDetail:
    """A turn with all that there is of it; None where something is not known."""

    turn: Turn
    prompt: str | None
    reply: str | None
    """Of a gate what it wrote."""
    screen: str | None
    """What the agent showed when it had ended."""
    patch: str | None = None
    """What it changed; a very long one is cut."""
    files: tuple[Change, ...] | None = None
    usage: Tokens | None = None
    evidence: Mapping[str, bool] = field(default_factory=dict)
    """Of a review whose flow has groups of evidence: whether its notes touch each."""
    findings: tuple[Tracked, ...] = ()
    """Of a review: those that it raised or answered, and what has become of them."""


def read_kept_text(folder: Folder, turn: Turn, label: str = "") -> str | None:
    """Return the reply of a turn of the run in a folder, or its prompt; None if it is not there."""
    # An event that others wrote names nothing but a role.
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
    """Return all turns of a run, each with the beginning of what it changed."""
    patches: dict[int, str] = {}
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        numbers = {turn.sequence for turn in run.turns}
        pairs = {
            one.sequence: (before(kept.taken, one).tree, one.tree)
            for one in kept.taken
            if one.sequence in numbers and before(kept.taken, one).tree != one.tree
        }
        found = kept.snapshots.diffs(list(pairs.values()), LARGEST_PATCH_OF_RUN)
        patches = {number: _cut(patch) for number, patch in zip(pairs, found, strict=True)}
    details = _details(folder, run, run.turns)
    return tuple(replace(one, patch=patches.get(one.turn.sequence)) for one in details)


def changes_of_run(folder: Folder, environ: Mapping[str, str]) -> tuple[str, tuple[Change, ...]]:
    """Return what a run changed, line by line and by file; nothing where no snapshot tells it."""
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        old, new = find_span(kept.taken, "")
        patch = kept.snapshots.diff(old.tree, new.tree, limit=LARGEST_PATCH_OF_RUN)
        return patch.decode(errors="replace"), kept.snapshots.changes(old.tree, new.tree)
    return "", ()


def turn_of(run: RunView, sequence: int) -> Turn:
    found = {turn.sequence: turn for turn in run.turns}
    if sequence not in found:
        raise NotFound("turn", str(sequence), map(str, found))
    return found[sequence]


def author_of(folder: Folder, sequence: int) -> str | None:
    """Return whose work a turn is or judges: of the last author up to it, else of the first one.

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
    """Return the flow of a run; None if it is neither saved with it nor of the package."""
    if saved is not None:
        return saved.flow
    return packaged_flow(record.flow) if record.flow in PACKAGED else None


def course_of_run(record: RunRecord, saved: RunState | None) -> tuple[Planned, ...]:
    """Return the stages of a run's flow with its gates and the proof; empty if not known."""
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
    """Return the findings by reviewer: as they are saved, else followed through the replies."""
    if saved is not None:
        return saved.progress.findings
    found = {role: _follow(run, role, folder)[0] for role in run.reviewers}
    return {role: ledger for role, ledger in found.items() if ledger.tracked}


def _details(folder: Folder, run: RunView, turns: Sequence[Turn]) -> list[TurnDetail]:
    """Return turns with all but what they changed."""
    flow = flow_of(run, read_state_of(folder))
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
        is_known = flow is not None and turn.role in {role.name for role in flow.roles}
        judged = flow.role(turn.role) if flow and is_known and turn.role in reviewers else None
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
    """Follow the findings of a reviewer through its reviews.

    Return them as they stand in the end, all and by the review that raised or answered them.
    """
    ledger = Findings()
    touched: dict[int, list[str]] = {}
    for turn in run.turns:
        form = None
        if turn.role == role:
            form = read_findings(read_kept_text(folder, turn) or "")
        if form is not None:
            known = set(ledger.tracked)
            ledger = follow(ledger, form, turn.round, turn.cycle)
            touched[turn.sequence] = [
                entry.finding.id
                for entry in ledger.tracked
                if entry not in known or _is_named(entry, form)
            ]
    entries = {entry.finding.id: entry for entry in ledger.tracked}
    return ledger, {
        sequence: tuple(entries[number] for number in numbers if number in entries)
        for sequence, numbers in touched.items()
    }


def _is_named(entry: Tracked, form: ReviewForm) -> bool:
    """Does a review name a finding, though that may change nothing?"""
    finding = entry.finding
    same = ((one.where, one.text.casefold()) for one in form.findings)
    return finding.id in form.answers or (finding.where, finding.text.casefold()) in same


def _cut(patch: bytes) -> str:
    lines = patch.decode(errors="replace").split("\n", MOST_LINES)
    if len(lines) > MOST_LINES and lines[-1]:
        lines[-1] = f"{REST_LEFT_OUT}\n"
    return "\n".join(lines)
