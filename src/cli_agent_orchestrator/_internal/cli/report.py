"""`cao report`: a run on one page, from its state file and its archive."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from cli_agent_orchestrator._internal.cli.deeds import (
    Deeds,
    deeds_in,
    own_folder,
    with_proof_of,
)
from cli_agent_orchestrator._internal.cli.dry_run import DRY_RUN, is_dry
from cli_agent_orchestrator._internal.cli.markdown import (
    cell,
    escape,
    fenced,
    folded,
    shown_folder,
    without_places,
)
from cli_agent_orchestrator._internal.cli.narration import command_to_resume
from cli_agent_orchestrator._internal.cli.printable import printable
from cli_agent_orchestrator._internal.cli.project import NAMED_BY, find_project
from cli_agent_orchestrator._internal.cli.runs import say_if_elsewhere
from cli_agent_orchestrator._internal.cli.timeline import HEADINGS, duration, rows_of
from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.gates import PROOF
from cli_agent_orchestrator._internal.layout import RECORD_FILE, archive_folder, run_folder
from cli_agent_orchestrator._internal.pipeline.condense import (
    extract_review_notes,
    extract_test_evidence,
    first_point,
)
from cli_agent_orchestrator._internal.pipeline.flow import StageKind
from cli_agent_orchestrator._internal.pipeline.machine import Check, due_step
from cli_agent_orchestrator._internal.pipeline.patches import block_of, excerpt
from cli_agent_orchestrator._internal.pipeline.proof import BEFORE_TITLE
from cli_agent_orchestrator._internal.pipeline.review import NOT_COUNTED
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, PersonalAct, RunState
from cli_agent_orchestrator._internal.pipeline.state_json import find_half_character, from_json
from cli_agent_orchestrator._internal.pipeline.task import parse_task
from cli_agent_orchestrator._internal.plain_files import Folder, folder_of
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.bringing_back import read_kept
from cli_agent_orchestrator._internal.runs.event_log import read_events
from cli_agent_orchestrator._internal.runs.file_settings import read_all_settings
from cli_agent_orchestrator._internal.runs.journal import COMMAND, Journal, TurnRecord
from cli_agent_orchestrator._internal.runs.moments import find_span
from cli_agent_orchestrator._internal.runs.registry import (
    RunSummary,
    choose_run,
    find_run,
    list_runs,
    summary_of,
    waiting_branch,
)
from cli_agent_orchestrator._internal.runs.run_id import short_name
from cli_agent_orchestrator._internal.runs.run_record import (
    Delivered,
    RunRecord,
    RunStatus,
    SavedTree,
    one_line,
    read_record,
)
from cli_agent_orchestrator._internal.runs.state_file import LARGEST_STATE, check_text
from cli_agent_orchestrator._internal.runs.turns import (
    RunTurn,
    archive_of,
    read_reply,
    read_turn,
    turns_of,
)
from cli_agent_orchestrator._internal.settings.levels import merge_settings, read_environment
from cli_agent_orchestrator.errors import (
    OrchestratorError,
    PromptError,
    RunError,
    StateError,
    UsageError,
)
from cli_agent_orchestrator.events import RunEvent, Steered

EXCERPT_LINES = 30
DIFF_LINES = 400
NO_SETBACK_PATTERN = r"PASS|APPROVED$|summary received|skipped|before the run: "
"""Outcomes after which the run went on as it should."""
SKIPPED = "skipped"
REVIEWED = ("approved", "sent_back", "cycles_used_up")
TESTED = ("passed", "cleared", "failed", "rounds_used_up")
"""Outcomes of reviews, and of tests and gates."""


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


@click.command()
@click.argument("run", required=False)
@click.option("--wd", "WD", metavar="PATH", help="The project's folder.  [default: here; CAO_WD]")
@click.option("--state-file", "STATE_FILE", metavar="PATH", help="The saved run.  [CAO_STATE_FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def report(run: str | None, as_json: bool, **options: str | None) -> None:
    """Print a run on one page of Markdown: outcome, reasons, evidence, notes, all turns.

    RUN is the ID that `cao runs` lists, the beginning of it, or its last letters. Leave it out for
    the last run of this folder that has begun, or the only one there is; it is said if newer ones
    did not begin, or if it is not of this folder.

    \b
    cao report
    cao report k3f9 > run.md
    """
    if run is not None:
        if any(options.values()):
            raise UsageError("RUN says which run is meant; leave out --wd and --state-file")
        found = report_of_run(run)
    else:
        variables = read_environment(os.environ, bare=False)
        given = merge_settings(options, variables)
        is_placed = any(name in given for name in NAMED_BY)
        if not is_placed:
            above = find_project(Path(), Path.home())
            variables |= {"WD": str(above)} if above else {}
        config = RunConfig.from_env(read_all_settings(options, variables, None))
        meant = "" if "STATE_FILE" in given else last_run(config, anywhere=not is_placed)
        found = report_of_run(meant) if meant else report_of_folder(config)
    if as_json:
        click.echo(json.dumps(fields_of(found), indent=2))
    else:
        click.echo(printable(markdown(found, Path.home(), state_folder(os.environ))))


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run keeps what a report is made from."""

    wd: Path
    state_file: Path
    archive: Folder | None = None
    """Of prompts and replies, if not in the work folder."""

    @classmethod
    def of(cls, config: RunConfig) -> "Places":
        return cls(config.wd, config.state_file)


def last_run(config: RunConfig, *, anywhere: bool) -> str:
    """Return the id of the run that is meant if none is named, and say what may not be expected.

    Empty if it is the one that is saved in the folder, which may be in no list. `anywhere` if the
    only run there is may be of another folder.
    """
    runs: list[RunSummary] = []
    with suppress(UsageError, OSError):
        runs = list_runs(state_folder(os.environ))
    is_saved = os.path.lexists(config.state_file)
    own = runs_of_folder(runs, config.wd, is_saved)
    begun = [run for run in own if not run.unsaved] or ([] if is_saved else own[:1])
    if begun:
        newer = own.index(begun[0])
        if newer:
            some = f"{newer} newer run{'' if newer == 1 else 's'}"
            click.echo(f"This is {begun[0].id}; {some} of this folder did not begin.", err=True)
        return begun[0].id
    if is_saved or not (runs and anywhere):
        return ""
    found = choose_run(runs, None, config.wd, to_look=True)
    say_if_elsewhere(found, config.wd)
    return found.id


def runs_of_folder(runs: Sequence[RunSummary], wd: Path, is_saved: bool) -> list[RunSummary]:
    """Return the runs of a folder, else those above or below it if none is saved in it."""
    own = [run for run in runs if str(wd) in (run.wd, run.project)]
    return own or [run for run in runs if run.works_in(wd) and not is_saved]


def report_of_run(name: str) -> Report:
    """Return the report of a run that is named, whatever its project's state file is about now."""
    state = state_folder(os.environ)
    folder = run_folder(state, find_run(state, name, Path.cwd().resolve()).id)
    record = read_record(folder)
    if record is None:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    places = Places(Path(record.wd), Path(record.state_file))
    with suppress(RunError, UsageError):
        saved = read_state(places.state_file, places.wd)
        if saved.progress.archive == record.archive:
            found = build_report(saved, replace(places, archive=archive_of(folder, record)))
            return _with_ways(_with_own(found, folder), record)
    found = report_of_record(folder, record, read_events(folder))
    return _with_ways(_with_own(found, folder), record)


def report_of_folder(config: RunConfig) -> Report:
    """Return the report on the run that is saved in a folder."""
    saved = read_state(config.state_file, config.wd)
    found = build_report(saved, Places.of(config))
    return _with_own(found, own_folder(saved.progress.archive, config.wd))


def _with_own(found: Report, folder: Folder | None) -> Report:
    """Return a report with what the run's own folder tells: what was done, and how it stands."""
    deeds = deeds_in(folder)
    if not deeds.proof and found.archive:
        deeds = with_proof_of(deeds, found.turns, Folder(Path(found.archive)))
    found = replace(found, deeds=deeds, diff=diff_in(folder))
    if folder is None or found.status is not FinalStatus.RUNNING:
        return found
    own = summary_of(folder)
    is_none = own.status is RunStatus.RUNNING or not (own.is_live or own.is_unfinished)
    record = read_record(folder)
    reason = record.reason if record is not None else ""
    command = command_to_resume(reason, own.id) or f"cao resume {own.id}"
    to_resume = "" if is_none else f"`{command}`"
    found = replace(found, standing=own.status, to_resume=to_resume, reason=reason)
    # Nothing was kept where it would have been.
    return replace(found, due="", archive="", state_file="") if own.unsaved else found


def diff_in(folder: Folder | None) -> str:
    """Return the beginning of what a run changed, as its snapshots have it."""
    with suppress(OrchestratorError, OSError):
        if folder is not None:
            kept = read_kept(folder)
            old, new = find_span(kept.taken, "")
            patch = kept.snapshots.diff(old.commit, new.commit).decode(errors="replace")
            rest = f"cao diff {short_name(kept.record.id)}"
            return excerpt([patch], DIFF_LINES, DIFF_LINES, rest)
    return ""


def _became(tree: SavedTree) -> str:
    """Say what became of work that is committed; nothing if it waits."""
    if tree.delivered is not Delivered.DISCARDED or not tree.earlier:
        return tree.delivered
    then = "removed" if tree.is_applied else tree.delivered
    return f"{tree.earlier}, and then {then}"


def _with_ways(found: Report, record: RunRecord) -> Report:
    """Return a report that says what can be done with a run in a work tree."""
    if record.tree is None:
        return found
    tree, run = record.tree, record.id
    became = _became(tree) if tree.has_work else "nothing is committed"
    return replace(
        found,
        project=record.project,
        branch=f"{tree.branch} ({became})" if became else tree.branch,
        delivery=f"`cao apply {run}`, `cao pr {run}` or `cao discard {run}`"
        if waiting_branch(record)
        else "",
    )


def report_of_record(folder: Folder, record: RunRecord, events: Sequence[RunEvent]) -> Report:
    """Return the report of a run from its own folder and its archive."""
    turns = turns_of(events)
    last = {turn.role: turn for turn in turns if turn.outcome}
    texts = {role: read_turn(folder, record, turn).reply or "" for role, turn in last.items()}
    entries = [_journal_entry(turn) for turn in turns if turn.outcome]
    kept = archive_of(folder, record)
    tests = [turn for turn in last.values() if turn.outcome in TESTED and turn.role != PROOF]
    tested = max(tests, key=lambda turn: turn.sequence, default=None)
    open_turn = next((turn for turn in turns if not turn.outcome), None)
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
    )


def read_state(path: Path, wd: Path) -> RunState:
    """Return the saved state; unlike a run, leave a file alone that cannot be read."""
    try:
        data = folder_of(path, wd).read(path.name, LARGEST_STATE)
        content = json.loads(data.decode("utf-8-sig"))
        state, half = from_json(content), find_half_character(content)
    except FileNotFoundError:
        raise UsageError(f"there is no saved run in {path}; `cao run` makes one") from None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    except (StateError, ValueError, RecursionError) as error:
        raise StateError(f"{path} is not the state of a run: {error}") from error
    check_text(path, half, "mend it")
    return state


def build_report(state: RunState, places: Places) -> Report:
    """Join the state of a run with what its archive tells."""
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
        open_notes={
            f"{opened.role}, round {opened.round}": opened.notes.text
            for opened in state.progress.open_notes
        },
        setbacks=setbacks,
        acts=state.progress.acts,
    )


def find_setbacks(turns: Sequence[TurnRecord], kept: Folder) -> dict[str, str]:
    """Return what each review and test that led to more work said first, by its turn."""
    found = {}
    for turn in turns:
        if _is_setback(turn):
            verdict, why = _setback(turn, kept)
            cycle = f", cycle {turn.cycle}" if turn.reviewed else ""
            found[f"Round {turn.round}{cycle}, {turn.role}, {verdict}"] = why
    return found


def _is_setback(turn: TurnRecord) -> bool:
    return not re.match(NO_SETBACK_PATTERN, turn.outcome)


def _setback(turn: TurnRecord, kept: Folder) -> tuple[str, str]:
    """Return the verdict of a turn, and what speaks for it."""
    judged, _, _ = turn.outcome.rpartition("; ")
    verdict, _, why = judged.partition(": ")
    if verdict == NOT_COUNTED:
        return verdict, why
    reply = read_reply(kept, turn.sequence, turn.role) or ""
    extract = extract_review_notes if turn.reviewed else extract_test_evidence
    point = first_point(extract(reply, EXCERPT_LINES))
    # A command may have a semicolon of its own.
    return judged or turn.outcome, point or turn.outcome


def fields_of(found: Report) -> dict[str, Any]:
    """Return a report for programs."""
    fields = {name: getattr(found, name) for name in Report.__slots__}
    turns, acts = map(asdict, found.turns), map(asdict, found.acts)
    return {**fields, "turns": list(turns), "acts": list(acts), "deeds": asdict(found.deeds)}


def markdown(found: Report, home: Path, state: Path) -> str:
    """Return a report for people, also for those who have never seen the machine it is from."""
    found = for_others(found, home, state)
    parts = [f"# {_title(found)}", "\n".join(_facts(found, home))]
    if found.setbacks:
        reasons = _grouped(found.setbacks).items()
        lines = (f"- {escape(where)}: {escape(why)}" for where, why in reasons)
        parts += ["## Why it took more than one try", "\n".join(lines)]
    lists = {
        "Look first": found.deeds.repository,
        "Not converging": found.deeds.circles,
        "What was changed": found.deeds.changes,
    }
    for head, texts in lists.items():
        parts += [f"## {head}", _list(texts)] if texts else []
    if found.deeds.proof:
        parts += ["## Proof", *_proof_parts(found.deeds)]
    if found.acts:
        lines = (f"- {_when(act.at)}: {escape(act.text)}" for act in found.acts)
        parts += ["## What people did", "\n".join(lines)]
    if found.evidence:
        parts += [f"## {_evidence_title(found.gate)}", fenced(found.evidence)]
    for role, notes in found.notes.items():
        if not any(_is_same(notes, opened) for opened in found.open_notes.values()):
            parts += [f"## Last notes of {escape(role)}", fenced(notes)]
    for where, notes in _grouped(found.open_notes).items():
        parts += [f"## Still open after the last cycle ({escape(where)})", fenced(notes)]
    return "\n\n".join([*parts, *_folds(found)])


def _folds(found: Report) -> Iterator[str]:
    """Yield what is long, each to be opened when it is wanted."""
    if found.diff:
        yield folded("What the run changed, line by line", block_of(found.diff))
    if found.turns:
        title = "The only turn" if len(found.turns) == 1 else f"All {len(found.turns)} turns"
        yield folded(title, _table(found.turns))


def _proof_parts(deeds: Deeds) -> list[str]:
    """Return what was proven, what was done to tests, and what had been done before."""
    patch = block_of(deeds.patch) if deeds.patch else ""
    before = f"{BEFORE_TITLE}\n\n{_list(deeds.before)}" if deeds.before else ""
    return list(filter(None, [escape(deeds.proof), _list(deeds.suspicions), patch, before]))


def _evidence_title(gate: str) -> str:
    if gate == PROOF:
        return "What the proof came to"
    return f"What the gate {escape(gate)} said" if gate else "What the tester found"


def _grouped(texts: Mapping[str, str]) -> dict[str, str]:
    """Return texts by all the places where each was said, so that it is shown once."""
    places: dict[str, list[str]] = {}
    for place, text in texts.items():
        places.setdefault(text, []).append(place)
    return {"; ".join(found): text for text, found in places.items()}


def _is_same(notes: str, opened: str) -> bool:
    """Are these the same notes? One may have been cut off sooner."""
    return bool(notes and opened) and (notes.startswith(opened) or opened.startswith(notes))


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


def _title(found: Report) -> str:
    rounds = f"{found.round} round{'' if found.round == 1 else 's'}"
    match found.status:
        case FinalStatus.RUNNING:
            standing = f" ({found.standing.word})" if found.standing else ""
            if not found.due:
                return f"Not begun{standing}: nothing of it is saved"
            return f"Not finished{standing}: {escape(found.due)} is due"
        case _:
            dry = f"{DRY_RUN}: " if is_dry(found.agents.values()) else ""
            proof = f", {found.deeds.verdict}" if found.deeds.proof else ""
            return f"{dry}{found.status} after {rounds}{proof}"


def _facts(found: Report, home: Path) -> list[str]:
    agents = ", ".join(f"{role}: {agent}" for role, agent in found.agents.items())
    lines = [
        f"- Task: {escape(found.task)}",
        f"- Folder: {escape(shown_folder(found.project or found.wd, home))}",
        *([f"- Branch: {escape(found.branch)}"] if found.branch else []),
        f"- Agents: {escape(agents)}",
    ]
    if found.turns:
        began, ended = found.turns[0].began, max(turn.ended for turn in found.turns)
        agents_turns = [turn for turn in found.turns if turn.provider != COMMAND]
        checks = [turn for turn in found.turns if turn.provider == COMMAND]
        lines.append(
            f"- Time: {duration(ended - began)}, {_when(began)} to {_when(ended)}; "
            f"{_counted(agents_turns, 'turn')}, agents worked {_worked(agents_turns)}"
            + (f"; {_counted(checks, 'check')}, {_worked(checks)}" if checks else "")
        )
    if found.reason:
        first, *more = found.reason.splitlines()
        lines += [f"- Stopped: {escape(first)}", *(f"  - {escape(line)}" for line in more)]
    if found.archive:
        lines.append(f"- Prompts and replies: {escape(found.archive)}")
    if found.deeds.logs:
        lines.append(f"- What gates wrote: {escape(found.deeds.logs)}")
    if found.state_file:
        lines.append(f"- State: {escape(found.state_file)}")
    if found.status is FinalStatus.RUNNING and found.to_resume:
        lines.append(f"- To resume: {found.to_resume}")
    if found.delivery:
        lines.append(f"- Next: {escape(found.delivery)}")
    return lines


def _counted(turns: Sequence[TurnRecord], what: str) -> str:
    return f"{len(turns)} {what}{'' if len(turns) == 1 else 's'}"


def _worked(turns: Sequence[TurnRecord]) -> str:
    return duration(sum(turn.worked for turn in turns))


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def _table(turns: Sequence[TurnRecord]) -> str:
    rows = [(*row, turn.reply) for row, turn in zip(rows_of(turns), turns, strict=True)]
    lines = [(*HEADINGS, "reply"), ("---",) * (len(HEADINGS) + 1)]
    lines += [tuple(map(cell, row)) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


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


def _last_test(state: RunState) -> str:
    """Return what the last tester of this round said, if one did."""
    tests = [stage.author for stage in state.flow.stages if stage.kind is StageKind.TEST]
    said = [state.output_of(tester).text for tester in tests if state.has_output(tester)]
    return said[-1] if said else ""


def _last_failed_gate(turns: Sequence[TurnRecord]) -> str:
    """Name the gate that led to the present round; nothing if it was a tester."""
    failed = [turn for turn in turns if _is_setback(turn) and not turn.reviewed]
    return failed[-1].role if failed and failed[-1].provider == COMMAND else ""


def _last_feedback(state: RunState) -> str:
    return state.feedback.text if state.round > 1 else ""
