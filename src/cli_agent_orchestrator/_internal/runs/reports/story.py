"""A run as it stands, for whoever looks at it: all of it at a glance, or one turn to be read.

It is gathered from the run's own folder, its archive and its saved state, when somebody asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from cli_agent_orchestrator._internal.gates import Gate, read_gates
from cli_agent_orchestrator._internal.layout import RECORD_FILE
from cli_agent_orchestrator._internal.pipeline.course import Planned, course_of
from cli_agent_orchestrator._internal.pipeline.findings import (
    Finding,
    Findings,
    ReviewForm,
    Tracked,
    follow,
    read_findings,
)
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.packaged import PACKAGED, packaged_flow
from cli_agent_orchestrator._internal.pipeline.review import met_evidence
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import read_events
from cli_agent_orchestrator._internal.runs.records.registry import (
    RunSummary,
    actual_status,
    summary_of,
)
from cli_agent_orchestrator._internal.runs.records.run_record import RunRecord, read_record
from cli_agent_orchestrator._internal.runs.records.screens import read_screen
from cli_agent_orchestrator._internal.runs.records.state_file import read_state_of
from cli_agent_orchestrator._internal.runs.records.turns import RunTurn, read_turn, turns_of
from cli_agent_orchestrator._internal.runs.records.usage import stretch_of, usage_of
from cli_agent_orchestrator._internal.runs.reports.deeds import deeds_of
from cli_agent_orchestrator._internal.runs.work.bringing_back import changes_of_turn
from cli_agent_orchestrator._internal.settings.table import BY_NAME
from cli_agent_orchestrator._internal.usage.tokens import Tokens
from cli_agent_orchestrator._internal.workspace.changes import Change
from cli_agent_orchestrator.errors import ConfigError, GitError, NotFound, RunError, StateError
from cli_agent_orchestrator.events import (
    EventKind,
    FilesChanged,
    HandoffEvent,
    RunBegan,
    RunEvent,
    Steered,
    Warned,
)

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
