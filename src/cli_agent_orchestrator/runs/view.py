"""A run as it is shown: its record, how it really stands, and what its events tell.

A list of runs reads `run.json` (`read_run`), and of a killed run its last events. Whoever looks at
one run has its events folded in, in one pass (`view_run`). Words are made of it where they are
shown.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import codec
from ..core.files import Folder
from ..errors import NotFound, NotSteerable, StateError, UsageError, listed
from ..events import (
    AGAINST,
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    PauseAsked,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    Steered,
    TurnBegan,
    TurnEnded,
    Unpaused,
    Warned,
)
from ..settings.config import check_state_folder
from ..settings.gates import PROOF
from ..settings.layout import (
    RECORD_FILE,
    STATE_NAME,
    STATE_VERSION,
    kept_name,
    run_folder,
    runs_folder,
)
from .event_log import last_events, read_events
from .record import (
    Fate,
    RunRecord,
    RunStatus,
    after_event,
    decode_record,
    end_told,
    is_run_id,
    read_record,
    short_name,
)

if TYPE_CHECKING:
    # A list of runs imports nothing of the pipeline.
    from ..pipeline.state import PersonalAct

COMMAND = "command"
"""What a gate has where a turn has its agent."""
NOT_BEGUN = "not begun"
LOST = "gone"
RUNNING = "RUNNING"
UNREADABLE = "(its run.json cannot be read)"
ABOUT_REPOSITORY = "repository"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of an agent, or the command of a gate, as the events tell it."""

    sequence: int
    """Its number in the run, under which prompt and reply are kept."""
    role: str
    """Of a gate its name."""
    round: int
    cycle: int
    provider: str
    """Of a gate `command`."""
    terminal_id: str
    began: float
    ended: float | None = None
    """None as long as it is under way; one without an outcome was broken off then."""
    seconds: float = 0.0
    """How long the agent worked."""
    outcome: str = ""
    """As a word; empty as long as there is no reply."""
    detail: str = ""
    """The same for people."""
    reviewed: bool = True
    """Does a review follow, or is it one?"""
    verdict: str = ""
    """As its event has it."""
    why: str = ""
    reason: str = ""
    """The first point against the work in the agent's own words; empty if there is none."""
    early: bool = False
    """Is it an approval that came too early to count, and nothing else speaks against it?"""

    @property
    def is_setback(self) -> bool:
        return self.outcome in AGAINST and not self.early

    @property
    def is_gate(self) -> bool:
        return self.provider == COMMAND

    @property
    def reply_name(self) -> str:
        """The file of the reply; empty if a person did not want to wait for one."""
        return "" if self.outcome == "skipped" else kept_name(self.sequence, self.role)

    @property
    def place(self) -> str:
        return f"round {self.round}" + (f", cycle {self.cycle}" if self.reviewed else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView(RunRecord):
    """A run: its record with its real status; below that, what only its events tell."""

    unsaved: bool = False
    """Did it end before its first turn, so that there is nothing to resume?"""
    lost: bool = False
    """Is what was saved of it not there any more, or that of another run?"""
    turns: tuple[Turn, ...] = ()
    """In order, gates among them; one that was begun again is one turn."""
    changes: tuple[FilesChanged, ...] = ()
    """Who changed files."""
    acts: "tuple[Steered | PersonalAct, ...]" = ()
    """What people did to it."""
    warnings: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    """Those about changes to the repository itself: its settings, hooks and branches."""
    stalls: tuple[str, ...] = ()
    """Why it did not converge, whenever that was noticed."""
    reviewers: tuple[str, ...] = ()
    """The roles that review the work of others."""
    proof_check: CheckEnded | None = None
    """The last proof."""
    gate_logs: str = ""
    """The folder with what gates wrote; empty if nothing is kept."""
    question: str = ""
    """What the agent that asks wants to know; empty if none asks, or it is not known."""

    @property
    def is_live(self) -> bool:
        return self.status.is_open

    @property
    def is_readable(self) -> bool:
        """Can its record be read? Every one names a folder."""
        return bool(self.wd)

    @property
    def has_agents(self) -> bool:
        """Are its agents there? `cao stop` ends them."""
        return bool(self.terminals)

    @property
    def in_tree(self) -> str:
        """Its id if its agents work in a work tree, else nothing."""
        return self.id if self.project else ""

    @property
    def waiting(self) -> str:
        """The branch of its work tree, if the work there waits to be applied; else empty."""
        is_waiting = self.tree is not None and self.tree.has_work and not self.tree.delivered
        return self.tree.branch if self.tree is not None and is_waiting else ""

    @property
    def applied(self) -> bool:
        """Was its work brought into the user's branch? The work tree may be gone since."""
        return self.tree is not None and self.tree.is_applied

    @property
    def discarded(self) -> bool:
        """Was its work tree removed, and its work with it?"""
        return is_discarded(self)

    @property
    def is_unproven(self) -> bool:
        """Has it passed, and its work was looked into and not proven?"""
        return self.status is RunStatus.PASS and bool(self.proof) and not self.proven

    @property
    def is_unfinished(self) -> bool:
        """Has it ended without a verdict, and can be resumed?"""
        is_settled = self.status.is_verdict or self.discarded or self.unsaved or self.lost
        return not (self.is_live or is_settled)

    @property
    def can_go_on(self) -> bool:
        """Can it be resumed: paused, unfinished, or failed, if it is given more rounds?"""
        has_failed = self.status is RunStatus.FAIL and not (self.discarded or self.lost)
        return self.is_unfinished or has_failed or self.status is RunStatus.PAUSED

    @property
    def done_turns(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.outcome]

    @property
    def is_pausing(self) -> bool:
        """Was a pause asked for that has not begun, because a turn is under way?"""
        asked = [act for act in self.acts if isinstance(act, PauseAsked | Unpaused)]
        is_asked = bool(asked) and isinstance(asked[-1], PauseAsked)
        return is_asked and self.status is RunStatus.RUNNING

    @property
    def words(self) -> str:
        if self.applied:
            return f"{self.status.word}, applied"
        if self.discarded:
            return f"{self.status.word}, discarded" if self.status.is_verdict else "discarded"
        if self.unsaved and not (self.is_live or self.status.is_verdict):
            return NOT_BEGUN
        if self.lost:
            return LOST
        return "asks you" if self.asking and self.is_live else self.status.word

    @property
    def label(self) -> str:
        return f"{self.id} ({self.words}, {self.project or self.wd or 'folder unknown'})"

    def spent(self, until: float) -> float:
        return until - self.started - self.paused_seconds

    def works_at(self, folder: Path) -> bool:
        """Is it at work in this very folder?"""
        return self.is_live and Path(self.wd) == folder

    def lies_in(self, folder: Path) -> bool:
        """Is its folder, or its project's, this one or one below it?"""
        return any(Path(one).is_relative_to(folder) for one in (self.wd, self.project) if one)

    def works_in(self, folder: Path) -> bool:
        """Does it work in this folder, or in one above or below it?"""
        above = (one for one in (self.wd, self.project) if one)
        return self.lies_in(folder) or any(folder.is_relative_to(one) for one in above)


LISTED = (
    *("id", "wd", "flow", "status", "round", "role", "started", "ended", "paused_seconds"),
    *("providers", "terminals", "project", "waiting", "discarded", "applied", "asking"),
    *("stalled", "unsaved", "lost", "reason", "proof", "machine"),
)
"""What programs are told of a run in a list, besides its task."""
DETAILED = ("base", "branch", "exit_code", "session_name")
"""What they are told of one run, besides its settings and turns."""


# Any: JSON
def listed_json(run: RunView) -> dict[str, Any]:
    return {"task": run.task_line, **{name: getattr(run, name) for name in LISTED}}


# Any: JSON
def detailed_json(run: RunView) -> dict[str, Any]:
    return {
        **listed_json(run),
        **{name: getattr(run, name) for name in DETAILED},
        "settings": {name: asdict(saved) for name, saved in run.settings.items()},
        "turns": [asdict(turn) for turn in run.turns],
    }


NOT_LISTED = ("task", "settings")
"""Most of a record, and nothing that a list shows."""
ListedRecord = make_dataclass(
    "ListedRecord",
    [(one.name, one.type, copy(one)) for one in fields(RunRecord) if one.name not in NOT_LISTED],
    slots=True,
)
"""A record without that: so a list of ten thousand runs takes half the time."""
LISTED_FIELDS = tuple(one.name for one in fields(ListedRecord))


def list_views(runs: Folder) -> Iterator[RunView]:
    """Yield all runs in a folder of run folders, without their whole task and settings."""
    names = [*filter(is_run_id, runs.names())]
    for name, data in runs.read_in_each(names, RECORD_FILE) if names else ():
        folder = Folder(runs.root, (*runs.parts, name), runs.private)
        # Something else that has the name of a run, or one that was just removed.
        with suppress(OSError):
            yield _view(folder, decode_record(data, ListedRecord))


def read_run(folder: Folder) -> RunView:
    """Return what the record in a run folder says; no events are read."""
    return _view(folder, read_record(folder))


def _view(folder: Folder, record: RunRecord | None) -> RunView:
    if record is None:
        is_live = folder.is_locked()
        return RunView(
            id=folder.parts[-1],
            wd="",
            state_file="",
            task="",
            task_line=UNREADABLE,
            started=0.0,
            flow="",
            status=RunStatus.RUNNING if is_live else RunStatus.INTERRUPTED,
            lost=not is_live,
        )
    record = settled(folder, record)
    told = {name: getattr(record, name) for name in LISTED_FIELDS}
    status = record.status
    needs_nothing = status.is_open or status.is_verdict or can_resume(folder)
    is_whole = isinstance(record, RunRecord)
    told |= {
        "id": folder.parts[-1],
        "status": status,
        "task": record.task if is_whole else "",
        "settings": record.settings if is_whole else {},
    }
    return RunView(
        **told,
        unsaved=not (needs_nothing or record.round),
        lost=not needs_nothing and record.round > 0 and not has_passed(folder),
    )


def view_run(folder: Folder, events: Iterable[RunEvent] | None = None) -> RunView:
    """Return the run in a folder with what its events tell; raise `StateError` if there is none.

    `events` are those of the run, if they have been read already.
    """
    run = read_run(folder)
    if not run.is_readable:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    return fold(run, read_events(folder) if events is None else events)


def fold(run: RunView, events: Iterable[RunEvent]) -> RunView:
    told: dict[type[RunEvent], list[Any]] = {}  # Any: events of this type
    acts: list[Steered] = []
    events = list(events)
    for event in events:
        told.setdefault(type(event), []).append(event)
        if isinstance(event, Steered):
            acts.append(event)
    warned: list[Warned] = told.get(Warned, [])
    checks: list[CheckEnded] = told.get(CheckEnded, [])
    logs = [check.log for check in checks if check.log]
    asked: list[HandoffEvent] = told.get(HandoffEvent, []) if run.is_live else []
    questions = {e.role: e.question for e in asked if e.kind is EventKind.WAITING_FOR_PERSON}
    about_repository = (one.text for one in warned if one.about == ABOUT_REPOSITORY)
    return replace(
        run,
        turns=tuple(turns_of(events, is_live=run.is_live)),
        changes=tuple(told.get(FilesChanged, ())),
        acts=tuple(acts),
        warnings=tuple(dict.fromkeys(one.text for one in warned)),
        repository=tuple(dict.fromkeys(about_repository)),
        stalls=tuple(dict.fromkeys(one.why for one in told.get(NotConverging, ()))),
        reviewers=next((one.reviewers for one in reversed(told.get(RunBegan, []))), ()),
        proof_check=next((one for one in reversed(checks) if one.gate == PROOF), None),
        gate_logs=str(Path(logs[-1]).parent) if logs else "",
        question=questions.get(run.asking, ""),
    )


def turns_of(events: Iterable[RunEvent], *, is_live: bool = True) -> list[Turn]:
    """Return the turns in their order; one that was begun again is one turn.

    The last one may be under way, unless the run has ended since, or is not live any more.
    """
    turns: dict[int, Turn] = {}
    under_way: TurnBegan | CheckBegan | None = None
    last = 0.0

    def break_off(at: float) -> None:
        if under_way is not None:
            turn = turns[under_way.sequence]
            worked = turn.seconds + max(at - under_way.at, 0.0)
            turns[turn.sequence] = replace(turn, ended=at, seconds=worked)

    for event in events:
        match event:
            case TurnBegan() | CheckBegan():
                break_off(last)
                turns[event.sequence] = _begun(turns.get(event.sequence), event)
                under_way = event
            case TurnEnded() | CheckEnded():
                turns[event.sequence] = _ended(turns.get(event.sequence), event)
                under_way = None
            case RunOpened() | RunEnded():
                # A run that was killed has not told its end.
                break_off(event.at if isinstance(event, RunEnded) else last)
                under_way = None
        last = event.at
    if not is_live:
        break_off(last)
    return [turns[sequence] for sequence in sorted(turns)]


def _begun(before: Turn | None, event: TurnBegan | CheckBegan) -> Turn:
    if isinstance(event, CheckBegan):
        return _check(event)
    return Turn(
        sequence=event.sequence,
        role=event.role,
        round=event.round,
        cycle=event.cycle,
        provider=event.provider,
        terminal_id=event.terminal_id,
        began=before.began if before else event.at,
        seconds=before.seconds if before else 0.0,
        reviewed=event.reviewed,
    )


def _check(event: CheckBegan | CheckEnded) -> Turn:
    return Turn(event.sequence, event.gate, event.round, 1, COMMAND, "", event.at, reviewed=False)


def _ended(turn: Turn | None, event: TurnEnded | CheckEnded) -> Turn:
    if turn is None:
        # One that was archived by a run that was killed has an end alone.
        turn = (
            _check(event)
            if isinstance(event, CheckEnded)
            else Turn(event.sequence, event.role, event.round, event.cycle, "", "", event.at)
        )
        turn = replace(turn, reviewed=isinstance(event, TurnEnded) and event.reviewed)
    return replace(
        turn,
        ended=event.at,
        seconds=event.seconds,
        outcome=event.outcome,
        detail=event.detail,
        verdict=event.verdict,
        why=event.why,
        reason=event.reason if isinstance(event, TurnEnded) else "",
        early=isinstance(event, TurnEnded) and event.early,
    )


def read_settled(folder: Folder) -> RunRecord | None:
    """Return the record of a run with its real status: one that says it runs may have been killed.

    If it had ended and could not record that, its events tell. Not to be written back.
    """
    record = read_record(folder)
    return record and settled(folder, record)


def settled(folder: Folder, record: RunRecord) -> RunRecord:
    if not record.status.is_open or folder.is_locked():
        return record
    end = end_told(last_events(folder), record.session_name)
    if end is None:
        return replace(record, status=RunStatus.INTERRUPTED)
    return after_event(record, end)


def is_discarded(record: RunRecord) -> bool:
    tree = record.tree
    return tree is not None and not tree.is_applied and tree.delivered is Fate.DISCARDED


def has_passed(folder: Folder) -> bool:
    """Does the saved state of a run say that it has passed, whatever its record says?"""
    return can_resume(folder, str(RunStatus.PASS))


def can_resume(folder: Folder, status: str = RUNNING) -> bool:
    """Does the saved state of a run wait for it, with this status? What cannot be read may."""
    try:
        content = codec.parse(folder.read(STATE_NAME))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    is_ours = isinstance(content, dict) and content.get("version") == STATE_VERSION
    return is_ours and content.get("final_status") == status


MOST_NAMED = 10
BETWEEN = "/"
"""Between a run and a role."""
# 7f3a
TERMINAL_PATTERN = r"[0-9a-f]+"


def list_runs(state_folder: Path) -> list[RunView]:
    check_state_folder(state_folder)
    found = list_views(runs_folder(state_folder))
    return sorted(found, key=lambda run: (run.started, run.id), reverse=True)


def run_at_work(state_folder: Path, wd: Path) -> str:
    """Return the id of the run that works in a folder; empty if none of this user does."""
    with suppress(OSError, UsageError):
        return next((one.id for one in list_runs(state_folder) if one.works_at(wd)), "")
    return ""


def run_of_process(state_folder: Path, pid: int) -> str:
    with suppress(OSError, UsageError):
        live = (one for one in list_runs(state_folder) if one.is_live)
        return next((one.id for one in live if one.pid == pid), "")
    return ""


def find_run(state_folder: Path, text: str | None, here: Path, *, to_look: bool = False) -> RunView:
    if text is not None and is_run_id(text):
        check_state_folder(state_folder)
        with suppress(OSError):
            if text in runs_folder(state_folder).names():
                return read_run(run_folder(state_folder, text))
    return choose_run(list_runs(state_folder), text, here, to_look=to_look)


def choose_run(
    runs: Sequence[RunView], text: str | None, here: Path, *, to_look: bool = False
) -> RunView:
    """Return the run whose id is, begins or ends with a text.

    Without a text it is the one that runs in this folder, else the last one here, else the one
    that runs elsewhere. Who only wants to look may also mean the only one that there is.
    """
    if text:
        return _the_one(runs_that_fit(runs, text), runs, text)
    own = [run for run in runs if run.works_in(here)]
    found = [run for run in own if run.is_live] or own[:1] or [run for run in runs if run.is_live]
    if to_look and not found and len(runs) == 1:
        found = [*runs]
    return _the_one(found, runs, "")


def choose_live_run(runs: Sequence[RunView], text: str | None, here: Path) -> RunView:
    """Return the run that a text names, else the one that runs in this folder, else the only one.

    One that is named may have ended, and so may the last one here: if it can go on, that is meant
    rather than one elsewhere.
    """
    if text:
        return choose_run(runs, text, here)
    live = [run for run in runs if run.is_live]
    own = [run for run in runs if run.works_in(here)]
    if own and own[0].is_unfinished and not any(run.is_live for run in own):
        return own[0]
    if not live:
        raise NotSteerable("no run is running; `cao runs` lists those that have ended")
    return _the_one([run for run in live if run.works_in(here)] or live, runs, "")


def choose_run_to_resume(runs: Sequence[RunView], text: str | None, here: Path) -> RunView:
    """Return the run that a text names, else the one here that is paused or the last to go on with.

    If none can, it is the last one here; without one here, the one that is paused elsewhere.
    """
    own = [run for run in runs if run.works_in(here)]
    unfinished = [run for run in own if run.is_unfinished]
    if unfinished and not text and not any(run.is_live for run in own):
        return unfinished[0]
    paused = [run for run in runs if run.status is RunStatus.PAUSED]
    if text or own or not paused:
        return choose_run(runs, text, here)
    return _the_one(paused, runs, "")


def runs_that_fit(runs: Sequence[RunView], text: str) -> list[RunView]:
    """Return the run with this id, else those whose ids begin or end like that."""
    exact = [run for run in runs if run.id == text]
    return exact or [run for run in runs if run.id.startswith(text) or run.id.endswith(text)]


def _the_one(found: Sequence[RunView], runs: Sequence[RunView], text: str) -> RunView:
    if len(found) == 1:
        return found[0]
    if found:
        named = "\n  ".join(run.label for run in found[:MOST_NAMED])
        what = f"{text!r} fits several runs" if text else "there are several runs"
        raise UsageError(f"{what}; write enough of an id to tell them apart:\n  {named}")
    labels = [run.label for run in runs[:MOST_NAMED]]
    if text:
        raise NotFound("run", text, labels)
    if not runs:
        raise UsageError("there is no run yet; `cao run` starts one")
    raise UsageError(f"there is no run in this folder; name one of: {listed(labels)}")


def find_agent(runs: Sequence[RunView], text: str, here: Path) -> str | None:
    """Return the id of the terminal whose run and role a text names; None if it names no role."""
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        if role not in run.terminals:
            raise NotFound(f"agent of the run {run.id} for the role", role, run.terminals)
        return run.terminals[role]
    having = [run for run in runs if text in run.terminals]
    return choose_run(having, None, here).terminals[text] if having else None


def find_addressee(
    runs: Sequence[RunView], text: str | None, here: Path
) -> tuple[RunView | None, str | None]:
    """Return the run that a message to `text` goes to, and the role, if one is meant.

    `text` is RUN, ROLE, RUN/ROLE or the id of a terminal; without it, it is the run of this folder.
    The run is None if the text names an agent of no run under way.
    """
    if text is None:
        return choose_live_run(runs, None, here), None
    live = [run for run in runs if run.is_live]
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        return (run, role) if run.is_live else (None, None)
    having = [run for run in live if text in run.providers]
    if having:
        return choose_run(having, None, here), text
    for run in live:
        for role, terminal in run.terminals.items():
            if terminal.startswith(text):
                return run, role
    if is_surely_run(runs, text) or text in (short_name(run.id) for run in runs):
        return choose_run(runs, text, here), None
    return None, None


def is_surely_run(runs: Sequence[RunView], text: str) -> bool:
    """Does a text name a run, or several, and nothing that a terminal could be called?"""
    return bool(runs_that_fit(runs, text)) and not re.fullmatch(TERMINAL_PATTERN, text)
