"""A run as it stands, for whoever looks at it: all of it at a glance, or one turn to be read.

It is gathered from the run's own folder, its archive and its saved state, when somebody asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..core.files import Folder
from ..errors import ConfigError, GitError, NotFound, OrchestratorError, RunError, StateError
from ..events import EventKind, FilesChanged, HandoffEvent, RunBegan, RunEvent, Steered, Warned
from ..pipeline.findings import Finding, Findings, ReviewForm, Tracked, follow, read_findings
from ..pipeline.flow import Flow, Planned, course_of
from ..pipeline.flow_file import PACKAGED, packaged_flow
from ..pipeline.review import met_evidence
from ..pipeline.state import RunState
from ..settings.gates import Gate, read_gates
from ..settings.layout import RECORD_FILE
from ..settings.table import BY_NAME
from ..usage.tokens import Tokens
from ..work.changes import REST_LEFT_OUT, Change
from .event_log import read_events
from .moments import before, find_span
from .record import RunRecord, read_record
from .registry import RunSummary, actual_status, summary_of
from .report import deeds_of
from .restore import Kept, changes_of_turn, read_kept
from .screens import read_screen
from .state_file import read_state_of
from .turns import RunTurn, read_turn, turns_of
from .usage import stretch_of, usage_of, usage_of_turns

LARGEST_PATCH = 1024 * 1024
"""Bytes of what one turn changed."""


@dataclass(frozen=True, slots=True)
class EvidenceGroup:
    """Something that the notes of a review should touch."""

    name: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class TurnDetail:
    """A turn with all that there is of it; None where something is not known."""

    turn: RunTurn
    prompt: str | None
    reply: str | None
    """Of a gate what it wrote."""
    screen: str | None
    """What the agent showed when it had ended."""
    patch: str | None
    """What it changed; a very long one is cut."""
    files: tuple[Change, ...] | None
    usage: Tokens | None
    evidence: tuple[EvidenceGroup, ...] = ()
    """Of a review whose flow has groups: all of them, met or not."""
    findings: tuple[Tracked, ...] = ()
    """Of a review: those that it raised or answered, and what has become of them."""


@dataclass(frozen=True, slots=True)
class RunStory:
    """A run at a glance."""

    summary: RunSummary
    record: RunRecord
    turns: tuple[RunTurn, ...]
    changed: Mapping[int, FilesChanged]
    """What was done to files, by the number of the turn."""
    course: tuple[Planned, ...] = ()
    """The stages of its flow with its gates and the proof; empty if that is not known."""
    reviewers: tuple[str, ...] = ()
    max_rounds: int = 0
    """After so many it has failed; 0 if that is not known."""
    findings: Mapping[str, Findings] = field(default_factory=dict)
    """By reviewer."""
    acts: tuple[Steered, ...] = ()
    """What people did to it."""
    warnings: tuple[str, ...] = ()
    circling: str = ""
    """Why it does not converge; empty if it may."""
    proof: str = ""
    """`proven: …` or `not proven: …`; empty if that was not looked into."""
    question: str = ""
    """What the agent that asks wants to know; empty if none asks, or nobody knows."""


def story_of(folder: Folder, read: Sequence[RunEvent] | None = None) -> RunStory:
    """Return the run in a folder; raise `StateError` if its record cannot be read.

    `read` are its events, if they have been read already.
    """
    record, events = _record_in(folder), read_events(folder) if read is None else read
    summary, saved = summary_of(folder), read_state_of(record)
    turns = turns_of(events, is_live=summary.is_live)
    flow = flow_of(record, saved)
    reviewers = _reviewers(flow, events)
    return RunStory(
        summary=summary,
        record=record,
        turns=tuple(turns),
        changed={event.sequence: event for event in events if isinstance(event, FilesChanged)},
        course=_course(flow, record, saved),
        reviewers=reviewers,
        max_rounds=_max_rounds(record, events),
        findings=_findings(folder, record, saved, [t for t in turns if t.role in reviewers]),
        acts=tuple(event for event in events if isinstance(event, Steered)),
        warnings=tuple(dict.fromkeys(e.text for e in events if isinstance(e, Warned))),
        circling=summary.circling,
        proof=deeds_of(events).proof,
        question=_question(summary, events),
    )


def detail_of(folder: Folder, sequence: int, environ: Mapping[str, str]) -> TurnDetail:
    """Return a turn of the run in a folder; raise `NotFound` if there is none of this number."""
    record, events = _record_in(folder), read_events(folder)
    is_live = actual_status(record, folder).is_open
    turns = _turns_with(sequence, turns_of(events, is_live=is_live))
    turn = turns[sequence]
    texts = read_turn(folder, record, turn)
    patch, files = _changes(folder, sequence, environ)
    flow = flow_of(record, read_state_of(record))
    is_review = turn.role in _reviewers(flow, events)
    reviews = [one for one in turns.values() if one.role == turn.role] if is_review else []
    return TurnDetail(
        turn=turn,
        prompt=texts.prompt,
        reply=texts.reply,
        screen=read_screen(folder, sequence, turn.role),
        patch=patch,
        files=files,
        usage=usage_of(folder, turn, stretch_of(turn, turns.values(), record.ended)),
        evidence=evidence_in(texts.reply, flow, turn.role) if is_review else (),
        findings=follow_findings(folder, record, reviews).by_turn.get(sequence, ()),
    )


def author_of(folder: Folder, sequence: int) -> str | None:
    """Return whose work a turn is or judges: of the last author up to it, else of the first one.

    None if the flow is not known; raise `NotFound` if there is no turn of this number.
    """
    record = _record_in(folder)
    turns = _turns_with(sequence, turns_of(read_events(folder)))
    flow = flow_of(record, read_state_of(record))
    if flow is None:
        return None
    roles = [turn.role for number, turn in sorted(turns.items()) if number <= sequence]
    return next(filter(flow.is_author, reversed(roles)), flow.first.author or None)


def _turns_with(sequence: int, found: Iterable[RunTurn]) -> dict[int, RunTurn]:
    """Return the turns by their numbers, if one of this number is among them."""
    turns = {turn.sequence: turn for turn in found}
    if sequence not in turns:
        raise NotFound("turn", str(sequence), map(str, turns))
    return turns


def _record_in(folder: Folder) -> RunRecord:
    record = read_record(folder)
    if record is None:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    return record


def flow_of(record: RunRecord, saved: RunState | None) -> Flow | None:
    """Return the flow of a run; None if it is neither saved with it nor of the package."""
    if saved is not None:
        return saved.flow
    return packaged_flow(record.flow) if record.flow in PACKAGED else None


def _course(flow: Flow | None, record: RunRecord, saved: RunState | None) -> tuple[Planned, ...]:
    if flow is None:
        return ()
    told = {name: setting.value for name, setting in record.settings.items()}
    gates: tuple[Gate, ...] = ()
    with suppress(ConfigError):
        gates = read_gates(told.get("GATES", "")) if saved is None else saved.gates
    return course_of(flow, gates, proves=told.get("PROOF", BY_NAME["PROOF"].default) != "off")


def _reviewers(flow: Flow | None, events: Iterable[RunEvent]) -> tuple[str, ...]:
    if flow is not None:
        return tuple(stage.reviewer for stage in flow.stages if stage.reviewer)
    told = [event.reviewers for event in events if isinstance(event, RunBegan)]
    return told[-1] if told else ()


def _max_rounds(record: RunRecord, events: Iterable[RunEvent]) -> int:
    """Return the setting as it is now, else as the run told it when it began."""
    told = [event.max_rounds for event in events if isinstance(event, RunBegan)]
    return record.max_rounds or (told[-1] if told else 0)


def _question(summary: RunSummary, events: Sequence[RunEvent]) -> str:
    if not summary.asking or not summary.is_live:
        return ""
    asked = (
        event.question
        for event in reversed(events)
        if isinstance(event, HandoffEvent)
        and event.kind is EventKind.WAITING_FOR_PERSON
        and event.role == summary.asking
    )
    return next(asked, "")


def _changes(
    folder: Folder, sequence: int, environ: Mapping[str, str]
) -> tuple[str | None, tuple[Change, ...] | None]:
    try:
        patch, changes = changes_of_turn(folder, sequence, LARGEST_PATCH, environ)
    except (RunError, GitError):
        return None, None
    return patch.decode(errors="replace"), changes


def evidence_in(reply: str | None, flow: Flow | None, role: str) -> tuple[EvidenceGroup, ...]:
    """Return the evidence groups of a reviewer, and which of them a review touches."""
    if reply is None or flow is None or role not in {one.name for one in flow.roles}:
        return ()
    met = met_evidence(reply, flow.role(role))
    return tuple(EvidenceGroup(name, is_met) for name, is_met in met.items())


@dataclass(frozen=True, slots=True)
class FollowedFindings:
    """The findings of one reviewer, followed through all reviews that are kept."""

    ledger: Findings = field(default_factory=Findings)
    by_turn: Mapping[int, tuple[Tracked, ...]] = field(default_factory=dict)
    """Those that a review raised or answered, as they stand in the end."""


def _findings(
    folder: Folder, record: RunRecord, saved: RunState | None, reviews: Sequence[RunTurn]
) -> Mapping[str, Findings]:
    """Return the findings by reviewer: as they are saved, else followed through the replies."""
    if saved is not None:
        return saved.progress.findings
    roles = dict.fromkeys(turn.role for turn in reviews)
    followed = {
        role: follow_findings(
            folder, record, [turn for turn in reviews if turn.role == role]
        ).ledger
        for role in roles
    }
    return {role: ledger for role, ledger in followed.items() if ledger.tracked}


def _is_named(finding: Finding, form: ReviewForm) -> bool:
    """Does a review name a finding, though that may change nothing?"""
    same = ((one.where, one.text.casefold()) for one in form.findings)
    return finding.id in form.answers or (finding.where, finding.text.casefold()) in same


def follow_findings(
    folder: Folder, record: RunRecord, reviews: Sequence[RunTurn]
) -> FollowedFindings:
    """Follow the findings of one reviewer through all its reviews."""
    ledger = Findings()
    touched: dict[int, list[str]] = {}
    for turn in reviews:
        form = read_findings(read_turn(folder, record, turn).reply or "")
        if form is not None:
            before = set(ledger.tracked)
            ledger = follow(ledger, form, turn.round, turn.cycle)
            touched[turn.sequence] = [
                entry.finding.id
                for entry in ledger.tracked
                if entry not in before or _is_named(entry.finding, form)
            ]
    entries = {entry.finding.id: entry for entry in ledger.tracked}
    by_turn = {
        sequence: tuple(entries[number] for number in numbers if number in entries)
        for sequence, numbers in touched.items()
    }
    return FollowedFindings(ledger, by_turn)


LARGEST_PATCH_IN_FULL = 2 * 1024 * 1024
"""Bytes of what the whole run changed, and as many of what all turns changed."""
MOST_LINES = 120
"""Of what one turn changed: what the run did with all of them is told at greater length."""


@dataclass(frozen=True, slots=True)
class RunInFull:
    """A run and its turns."""

    story: RunStory
    details: tuple[TurnDetail, ...] = ()
    patch: str = ""
    """What the run changed; empty if no snapshot tells it."""


def run_in_full(folder: Folder, environ: Mapping[str, str]) -> RunInFull:
    """Return the run in a folder with all its turns; raise `StateError` if there is none."""
    story = story_of(folder)
    patch, of_turns = _patches(folder, story.turns, environ)
    used = usage_of_turns(folder, story.turns, story.record.ended)
    flow = flow_of(story.record, read_state_of(story.record))
    findings = {
        sequence: entries
        for role in story.reviewers
        for sequence, entries in follow_findings(
            folder, story.record, [turn for turn in story.turns if turn.role == role]
        ).by_turn.items()
    }
    details = []
    for turn in story.turns:
        texts = read_turn(folder, story.record, turn)
        is_review = turn.role in story.reviewers
        details.append(
            TurnDetail(
                turn=turn,
                prompt=texts.prompt,
                reply=texts.reply,
                screen=read_screen(folder, turn.sequence, turn.role),
                patch=of_turns.get(turn.sequence),
                files=None,
                usage=used.get(turn.sequence),
                evidence=evidence_in(texts.reply, flow, turn.role) if is_review else (),
                findings=findings.get(turn.sequence, ()),
            )
        )
    return RunInFull(story, tuple(details), patch)


def _patches(
    folder: Folder, turns: Sequence[RunTurn], environ: Mapping[str, str]
) -> tuple[str, dict[int, str]]:
    """Return what the run changed, and what each turn did; nothing where no snapshot tells it."""
    with suppress(OrchestratorError, OSError):
        kept = read_kept(folder, environ)
        old, new = find_span(kept.taken, "")
        whole = kept.snapshots.diff(old.commit, new.commit, limit=LARGEST_PATCH_IN_FULL)
        return whole.decode(errors="replace"), _of_turns(kept, {turn.sequence for turn in turns})
    return "", {}


def _of_turns(kept: Kept, numbers: set[int]) -> dict[int, str]:
    pairs = {
        one.sequence: (before(kept.taken, one).tree, one.tree)
        for one in kept.taken
        if one.sequence in numbers
    }
    changed = {number: pair for number, pair in pairs.items() if pair[0] != pair[1]}
    with suppress(RunError, GitError):
        patches = kept.snapshots.diffs(list(changed.values()), LARGEST_PATCH_IN_FULL)
        return {
            number: _cut(patch).decode(errors="replace")
            for number, patch in zip(changed, patches, strict=True)
        }
    return {}


def _cut(patch: bytes) -> bytes:
    lines = patch.split(b"\n", MOST_LINES)
    if len(lines) <= MOST_LINES or not lines[-1]:
        return patch
    return b"\n".join([*lines[:-1], f"{REST_LEFT_OUT}\n".encode()])
