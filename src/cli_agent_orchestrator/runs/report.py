"""What there is to say about a run, as data; `reporting.py` gathers it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.files import Folder
from ..core.markdown import excerpt, read_block
from ..errors import OrchestratorError, PromptError, StateError, UsageError
from ..events import CheckEnded, FilesChanged, NotConverging, RunEvent, Steered
from ..pipeline.condense import extract_review_notes, extract_test_evidence, first_point
from ..pipeline.flow import StageKind
from ..pipeline.machine import Check, due_step
from ..pipeline.outcomes import AGAINST
from ..pipeline.review import NOT_COUNTED
from ..pipeline.state import FinalStatus, PersonalAct, RunState
from ..pipeline.task import parse_task
from ..proof.verdict import BEFORE_TITLE, DIFF_TITLE, NOT_PROVEN, PROVEN
from ..settings.gates import PROOF
from ..settings.layout import RECORD_FILE, archive_folder, run_folder
from ..work.changes import Change
from ..work.folder import said_of_repository
from .event_log import read_events
from .moments import find_span
from .record import (
    Fate,
    RunRecord,
    RunStatus,
    SavedTree,
    is_run_id,
    one_line,
    read_record,
    short_name,
)
from .registry import summary_of, waiting_branch
from .restore import read_kept
from .state_file import read_state, read_state_of
from .turns import (
    COMMAND,
    Journal,
    RunTurn,
    TurnRecord,
    archive_of,
    read_reply,
    read_turn,
    turns_of,
)

MARK = "- "
"""Begins each suspicion on the page of a proof."""


@dataclass(frozen=True, slots=True)
class Deeds:
    """What was done to the files of a run, and what that is worth."""

    changes: tuple[str, ...] = ()
    """Who changed what, in words, in order."""
    proof: str = ""
    """`proven: …` or `not proven: …`; empty if that was not looked into."""
    suspicions: tuple[str, ...] = ()
    """What the run did to tests and their settings: path, trick, detail."""
    circles: tuple[str, ...] = ()
    """Why the run did not converge, whenever that was noticed."""
    logs: str = ""
    """The folder with what gates wrote; empty if nothing is kept."""
    repository: tuple[str, ...] = ()
    """What was changed in the repository itself: its settings, hooks and branches."""
    before: tuple[str, ...] = ()
    """What had been done to tests before the run, and was not committed."""
    patch: str = ""
    """The diff of the files that are suspicious, cut to a page."""

    @property
    def verdict(self) -> str:
        """`proven` or `not proven`; empty if that was not looked into."""
        words = (PROVEN, NOT_PROVEN)
        return next((word for word in words if self.proof.startswith(f"{word}:")), "")


def deeds_in(folder: Folder | None) -> Deeds:
    """Return what a run folder, and the archive it names, tell of the work."""
    record = None if folder is None else read_record(folder)
    if folder is None or record is None:
        return Deeds()
    events = read_events(folder)
    last, page = last_proof(events), None
    if last is not None:
        with suppress(UsageError):
            page = read_reply(archive_of(folder, record), last.sequence, PROOF)
    return deeds_of(events, page or "")


def with_proof_of(deeds: Deeds, turns: Sequence[TurnRecord], archive: Folder) -> Deeds:
    """Return deeds with what an archive tells of the last proof; the run's own folder is gone."""
    proofs = [turn for turn in turns if turn.role == PROOF]
    if not proofs:
        return deeds
    page = read_reply(archive, proofs[-1].sequence, PROOF) or ""
    return _with_page(replace(deeds, proof=proofs[-1].why or proofs[-1].outcome), page)


def deeds_of(events: Sequence[RunEvent], page: str = "") -> Deeds:
    """Return what events tell of the work, with the page of the last proof."""
    last = last_proof(events)
    found = Deeds(
        changes=tuple(_changes(events)),
        proof="" if last is None else last.why or last.detail,
        circles=tuple(dict.fromkeys(_circles(events))),
        logs=_logs(events),
        repository=said_of_repository(events),
    )
    return _with_page(found, page)


def _logs(events: Sequence[RunEvent]) -> str:
    logs = [e.log for e in events if isinstance(e, CheckEnded) and e.log]
    return str(Path(logs[-1]).parent) if logs else ""


def last_proof(events: Sequence[RunEvent]) -> CheckEnded | None:
    """Return the end of the last proof, if there was one."""
    proofs = [e for e in events if isinstance(e, CheckEnded) and e.gate == PROOF]
    return proofs[-1] if proofs else None


def _changes(events: Sequence[RunEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, FilesChanged):
            named = "" if not event.allowed else f": {event.named}"
            yield f"Round {event.round}, {event.role} (turn {event.sequence}) {event.words}{named}"


def _circles(events: Sequence[RunEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, NotConverging):
            yield event.why


def _with_page(deeds: Deeds, page: str) -> Deeds:
    """Return deeds with what the page of a proof lists: at its head, and in the parts after it."""
    head, _, rest = page.partition("\n\n")
    before = rest.partition("\n\n")[0] if rest.startswith(f"{BEFORE_TITLE}\n") else ""
    parts = rest.removeprefix(before).lstrip("\n")
    patch = read_block(parts) if parts.startswith(DIFF_TITLE) else ""
    return replace(deeds, suspicions=_listed(head), before=_listed(before), patch=patch)


def _listed(part: str) -> tuple[str, ...]:
    lines = part.split("\n")
    return tuple(line.removeprefix(MARK) for line in lines if line.startswith(MARK))


EXCERPT_LINES = 30
"""Of what somebody said, so that a report stays one page."""


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say about a run."""

    status: FinalStatus
    wd: str
    state_file: str
    archive: str
    """Empty for a run of the earlier script, which kept none."""
    task: str
    """The beginning of what was to be done."""
    session_name: str
    agents: dict[str, str]
    """Which agent each role has."""
    terminals: dict[str, str]
    round: int
    due: str
    """Whose turn it is; empty when the run is over, or had not begun."""
    turns: Sequence[TurnRecord]
    evidence: str
    """What the last tester found, or a gate after it."""
    notes: dict[str, str]
    """What the reviewers last had to say, by role."""
    open_notes: dict[str, str]
    """What was still open when the review cycles were used up."""
    acts: Sequence[PersonalAct]
    """What people did to it: hints, skips, changed settings, pauses."""
    gate: str = ""
    """The gate whose words the evidence is; empty if the tester's."""
    setbacks: dict[str, str] = field(default_factory=dict)
    """By turn: the first thing that a review or test which led to more work had to say."""
    standing: RunStatus | None = None
    """How it stands without a verdict, if its own folder tells it."""
    discarded: bool = False
    """Was its work tree removed, and its work with it?"""
    reason: str = ""
    """Why it stopped without a verdict, if that is known."""
    deeds: Deeds = field(default_factory=Deeds)
    """Who changed what, and what was proven."""
    project: str = ""
    """The user's own folder, if `wd` is a work tree."""
    branch: str = ""
    """The branch of that work tree, and what became of it."""
    delivery: str = ""
    """How its work comes to the user, if it waits on that branch."""
    to_resume: str = "`cao run` in the folder"
    diff: str = ""
    """What the run changed, line by line, cut to a page; empty if no snapshot tells it."""
    files: Sequence[Change] = ()
    """The same by file."""


def find_setbacks(turns: Sequence[TurnRecord], kept: Folder) -> dict[str, str]:
    """Return what each review and test that led to more work said first, by its turn."""
    found = {}
    for turn in turns:
        if is_setback(turn):
            verdict, why = _setback(turn, kept)
            cycle = f", cycle {turn.cycle}" if turn.reviewed else ""
            found[f"Round {turn.round}{cycle}, {turn.role}, {verdict}"] = why
    return found


def is_setback(turn: TurnRecord) -> bool:
    """Did more work follow from a turn?"""
    return turn.word in AGAINST


def _setback(turn: TurnRecord, kept: Folder) -> tuple[str, str]:
    """Return the verdict of a turn, and what speaks for it."""
    if turn.reviewed and turn.why:
        return NOT_COUNTED, turn.why
    reply = read_reply(kept, turn.sequence, turn.role) or ""
    extract = extract_review_notes if turn.reviewed else extract_test_evidence
    point = first_point(extract(reply, EXCERPT_LINES))
    return turn.verdict or turn.outcome, point or turn.outcome


SKIPPED = "skipped"
REVIEWED = ("approved", "sent_back", "cycles_used_up")
TESTED = ("passed", "cleared", "failed", "rounds_used_up")
"""Outcomes of reviews, and of tests and gates."""


def report_of_record(folder: Folder, record: RunRecord, events: Sequence[RunEvent]) -> Report:
    """Return the report of a run from its own folder and its archive."""
    turns = turns_of(events)
    last = {turn.role: turn for turn in turns if turn.outcome}
    texts = {role: read_turn(folder, record, turn).reply or "" for role, turn in last.items()}
    entries = [_journal_entry(turn) for turn in turns if turn.outcome]
    kept = archive_of(folder, record)
    tests = [turn for turn in last.values() if turn.outcome in TESTED and turn.role != PROOF]
    tested = max(tests, key=lambda turn: turn.sequence, default=None)
    open_turn = next((turn for turn in turns[-1:] if not turn.outcome), None)
    return Report(
        status=FinalStatus(record.status) if record.status.is_verdict else FinalStatus.RUNNING,
        wd=record.wd,
        state_file=record.state_file,
        archive=str(kept.path),
        task=record.task_line,
        session_name=record.session_name,
        agents=dict(record.providers),
        terminals=dict(record.terminals),
        round=record.round,
        due=f"round {open_turn.round}, {open_turn.role}" if open_turn else "its next turn",
        turns=entries,
        evidence=extract_test_evidence(texts[tested.role] if tested else "", EXCERPT_LINES),
        gate=tested.role if tested and tested.provider == COMMAND else "",
        notes={
            role: extract_review_notes(texts[role], EXCERPT_LINES)
            for role, turn in last.items()
            if turn.outcome in REVIEWED and texts[role]
        },
        open_notes={},
        setbacks=find_setbacks(entries, kept),
        acts=[PersonalAct(event.at, event.words) for event in events if isinstance(event, Steered)],
        reason=record.reason,
    )


def _journal_entry(turn: RunTurn) -> TurnRecord:
    return TurnRecord(
        sequence=turn.sequence,
        role=turn.role,
        round=turn.round,
        cycle=turn.cycle,
        provider=turn.provider,
        began=turn.began,
        ended=turn.ended or turn.began,
        worked=turn.seconds,
        outcome=turn.detail,
        reply="" if turn.outcome == SKIPPED else turn.reply_name,
        source="",
        reviewed=turn.reviewed,
        word=turn.outcome,
        verdict=turn.verdict,
        why=turn.why,
    )


APPROVED = "approved"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run keeps what a report is made from."""

    wd: Path
    state_file: Path
    archive: Folder | None = None
    """Of prompts and replies, if not in the work folder."""


def report_of_state(state: RunState, places: Places) -> Report:
    """Return the report of a run from its saved state and its archive."""
    archive, turns, setbacks = None, [], {}
    if state.progress.archive:
        kept = places.archive or archive_folder(places.wd, state.progress.archive)
        archive, turns = kept.path, Journal(kept).read()
        setbacks = find_setbacks(turns, kept)
    tested = _last_test(state)
    # What a gate said before has been answered when the run passes.
    feedback = "" if state.final_status is FinalStatus.PASS else _last_feedback(state)
    return Report(
        status=state.final_status,
        wd=state.wd or str(places.wd),
        state_file=str(places.state_file),
        archive=str(archive or ""),
        task=_task_line(state),
        session_name=state.session_name,
        agents={role.name: state.provider_of(role.name) for role in state.flow.roles},
        terminals={role.name: state.terminal_of(role.name) for role in state.flow.roles},
        round=state.round,
        due=_due(state),
        turns=turns,
        evidence=extract_test_evidence(tested or feedback, EXCERPT_LINES),
        gate="" if tested else _last_failed_gate(turns),
        notes={
            stage.reviewer: extract_review_notes(
                state.output_of(stage.reviewer).text, EXCERPT_LINES
            )
            for stage in state.flow.stages
            if state.has_output(stage.reviewer)
        },
        open_notes=_open_notes(state, turns),
        setbacks=setbacks,
        acts=state.progress.acts,
    )


def _task_line(state: RunState) -> str:
    try:
        summary = parse_task(state.prompt).explore_summary
    except PromptError:
        summary = state.prompt.strip() or "(not saved)"
    return one_line(summary)


def _due(state: RunState) -> str:
    """Say what comes next; nothing when the run is over."""
    step = due_step(state)
    if step is None:
        return ""
    if isinstance(step, Check):
        return f"round {step.round}, {step.gate}"
    return f"round {step.round}, cycle {step.cycle}, {step.role}"


def _open_notes(state: RunState, turns: Sequence[TurnRecord]) -> dict[str, str]:
    """Return the notes of this round that nobody has answered, by where they were made.

    Earlier ones were passed on to another round, in which the reviewer has its say again.
    """
    last = {turn.role: turn.word for turn in turns}
    return {
        f"{opened.role}, round {opened.round}": opened.notes.text
        for opened in state.progress.open_notes
        if opened.round == state.round and last.get(opened.role) != APPROVED
    }


def _last_test(state: RunState) -> str:
    """Return what the last tester of this round said, if one did."""
    tests = [stage.author for stage in state.flow.stages if stage.kind is StageKind.TEST]
    said = [state.output_of(tester).text for tester in tests if state.has_output(tester)]
    return said[-1] if said else ""


def _last_failed_gate(turns: Sequence[TurnRecord]) -> str:
    """Name the gate that led to the present round; nothing if it was a tester."""
    failed = [turn for turn in turns if is_setback(turn) and not turn.reviewed]
    return failed[-1].role if failed and failed[-1].provider == COMMAND else ""


def _last_feedback(state: RunState) -> str:
    return state.feedback.text if state.round > 1 else ""


DIFF_LINES = 400


def report_of_run(state: Path, run: str, environ: Mapping[str, str]) -> Report:
    """Return the report of a run by its id, whatever its project's state file is about now.

    `state` is the folder in which runs are kept.
    """
    folder = run_folder(state, run)
    record = read_record(folder)
    if record is None:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    places = Places(Path(record.wd), Path(record.state_file))
    saved = read_state_of(record)
    if saved is not None:
        with suppress(UsageError):
            found = report_of_state(saved, replace(places, archive=archive_of(folder, record)))
            return _with_ways(_with_own(found, folder, environ), record)
    found = report_of_record(folder, record, read_events(folder))
    return _with_ways(_with_own(found, folder, environ), record)


def report_of_folder(
    state: Path, places: Places, environ: Mapping[str, str]
) -> tuple[Report, Folder | None]:
    """Return the report on the run that is saved in a folder, and the run's own folder."""
    saved = read_state(places.state_file, places.wd)
    found = report_of_state(saved, places)
    folder = _own_folder(state, saved.progress.archive, places.wd)
    return _with_own(found, folder, environ), folder


def _own_folder(state: Path, archive: str, wd: Path) -> Folder | None:
    """Return the folder of the run that a saved state names, if it worked where that lies."""
    if not is_run_id(archive):
        return None
    folder = run_folder(state, archive)
    record = read_record(folder)
    return folder if record is not None and record.wd == str(wd) else None


def _with_own(found: Report, folder: Folder | None, environ: Mapping[str, str]) -> Report:
    """Return a report with what the run's own folder tells: what was done, and how it stands."""
    deeds = deeds_in(folder)
    if not deeds.proof and found.archive:
        deeds = with_proof_of(deeds, found.turns, Folder(Path(found.archive)))
    diff, files = _work_in(folder, environ)
    found = replace(found, deeds=deeds, diff=diff, files=files)
    if folder is None or found.status is not FinalStatus.RUNNING:
        return found
    own = summary_of(folder)
    is_none = own.status is RunStatus.RUNNING or not (own.is_live or own.is_unfinished)
    record = read_record(folder)
    reason, command = (record.reason, record.to_resume) if record is not None else ("", "")
    to_resume = "" if is_none else f"`{command or f'cao resume {own.id}'}`"
    if own.discarded:
        # What can be done about it stands on lines of its own.
        reason = reason.partition("\n")[0]
    found = replace(found, standing=own.status, discarded=own.discarded)
    found = replace(found, to_resume=to_resume, reason=reason)
    # Nothing was kept where it would have been.
    return replace(found, due="", archive="", state_file="") if own.unsaved else found


def _work_in(folder: Folder | None, environ: Mapping[str, str]) -> tuple[str, tuple[Change, ...]]:
    """Return the beginning of what a run changed, as its snapshots have it, and all by file."""
    with suppress(OrchestratorError, OSError):
        if folder is not None:
            kept = read_kept(folder, environ)
            old, new = find_span(kept.taken, "")
            patch = kept.snapshots.diff(old.commit, new.commit).decode(errors="replace")
            rest = f"cao diff {short_name(kept.record.id)}"
            shown = excerpt([patch], DIFF_LINES, DIFF_LINES, rest)
            return shown, kept.snapshots.changes(old.commit, new.commit)
    return "", ()


def _became(tree: SavedTree) -> str:
    """Say what became of the work in a tree; nothing if it waits."""
    if tree.delivered is not Fate.DISCARDED or not tree.earlier:
        return tree.delivered
    then = "removed" if tree.is_applied else tree.delivered
    return f"{tree.earlier}, and then {then}"


def _with_ways(found: Report, record: RunRecord) -> Report:
    """Return a report that says what can be done with a run in a work tree."""
    if record.tree is None:
        return found
    tree, run = record.tree, record.id
    is_plain = not tree.has_work and tree.delivered is not Fate.DISCARDED
    became = "nothing is committed" if is_plain else _became(tree)
    return replace(
        found,
        project=record.project,
        branch=f"{tree.branch} ({became})" if became else tree.branch,
        delivery=f"`cao apply {run}`, `cao pr {run}` or `cao discard {run}`"
        if waiting_branch(record)
        else "",
    )
