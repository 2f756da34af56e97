"""A run as it is shown: its record, its real status, and what its events tell.

A list of runs reads `run.json` (`read_run`), and the last events of a killed run. To show one run,
its events are folded in, in one pass (`view_run`); the live view folds them in as they come.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import NODEFAULT, defstruct, structs
from msgspec.structs import asdict, fields, replace

from ..core import codec
from ..core.files import Folder
from ..core.models import TurnFacts
from ..errors import NotFound, NotSteerable, StateError, UsageError, listed
from ..events import (
    AGAINST,
    PROOF,
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
from ..settings.layout import (
    RECORD_FILE,
    STATE_NAME,
    STATE_VERSION,
    check_state_folder,
    run_folder,
    runs_folder,
)
from .record import RunRecord, RunStatus, decode_record, is_run_id, read_events, read_record

if TYPE_CHECKING:
    # A list of runs imports nothing of the pipeline.
    from ..pipeline.state import PersonalAct

COMMAND = "command"
RUNNING = "RUNNING"
UNREADABLE = "(its run.json cannot be read)"
ABOUT_REPOSITORY = "repository"


class Turn(TurnFacts, frozen=True):
    @property
    def is_setback(self) -> bool:
        return self.outcome in AGAINST and not self.early

    @property
    def is_gate(self) -> bool:
        return self.provider == COMMAND

    @property
    def place(self) -> str:
        return f"round {self.round}" + (f", cycle {self.cycle}" if self.reviewed else "")


class RunView(RunRecord, frozen=True, kw_only=True):
    """A run: its record with its real status; below that, what only its events tell."""

    unsaved: bool = False
    """Did it end before its first turn, so that there is nothing to resume?"""
    lost: bool = False
    """Is its saved state gone, or that of another run?"""
    turns: tuple[Turn, ...] = ()
    """In order, gates among them; one that was begun again is one turn."""
    changes: tuple[FilesChanged, ...] = ()
    acts: "tuple[Steered | PersonalAct, ...]" = ()
    warnings: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    """The warnings about changes to the settings, hooks and branches of the repository."""
    stalls: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    proof_check: CheckEnded | None = None
    gate_logs: str = ""
    question: str = ""

    @property
    def is_live(self) -> bool:
        return self.status.is_open

    @property
    def is_readable(self) -> bool:
        """Can its record be read? Every record names a folder."""
        return bool(self.wd)

    @property
    def has_agents(self) -> bool:
        return bool(self.terminals)

    @property
    def waiting(self) -> str:
        """The branch of its work tree, if the work there waits to be applied; else empty."""
        is_waiting = self.tree is not None and self.tree.has_work and not self.tree.delivered
        return self.tree.branch if self.tree is not None and is_waiting else ""

    @property
    def applied(self) -> bool:
        """Is its work in the user's branch? The work tree may be gone since."""
        return self.tree is not None and self.tree.is_applied

    @property
    def is_unproven(self) -> bool:
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
        """Was a pause requested that waits for the end of a turn?"""
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
            return "not begun"
        if self.lost:
            return "gone"
        return "asks you" if self.asking and self.is_live else self.status.word

    @property
    def label(self) -> str:
        return f"{self.id} ({self.words}, {self.project or self.wd or 'folder unknown'})"

    def spent(self, until: float) -> float:
        return until - self.started - self.paused_seconds

    def lies_in(self, folder: Path) -> bool:
        """Is its folder, or its project's, this one or one below it?"""
        return any(_is_within(one, str(folder)) for one in (self.wd, self.project) if one)

    def works_in(self, folder: Path) -> bool:
        """Does it work in this folder, or in one above or below it?"""
        own = (one for one in (self.wd, self.project) if one)
        return self.lies_in(folder) or any(_is_within(str(folder), one) for one in own)


def _is_within(folder: str, other: str) -> bool:
    # Of texts: a list of runs asks thousands of times.
    return f"{folder.rstrip('/')}/".startswith(f"{other.rstrip('/')}/")


LISTED = (
    *("id", "wd", "started", "flow", "status", "round", "role", "asking", "stalled", "ended"),
    *("paused_seconds", "providers", "terminals", "machine", "reason", "proof", "project"),
    *("unsaved", "lost", "waiting", "discarded", "applied"),
)
DETAILED = ("base", "branch", "exit_code", "session_name")
"""The fields in the JSON of one run, besides those of a list, its settings and turns."""


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
"""Most of a record, and nothing that a list shows: without them it is read twice as fast."""
# Any: it has fields of a RunRecord; making a second class takes as long as reading a hundred runs.
ListedRecord: Any = defstruct(
    "ListedRecord",
    [
        (one.name, one.type)
        if one.required
        else (one.name, one.type, {} if one.default is NODEFAULT else one.default)
        for one in fields(RunRecord)
        if one.name not in NOT_LISTED
    ],
)


def list_views(runs: Folder) -> Iterator[RunView]:
    """Yield all runs in a folder of run folders, without their whole task and settings."""
    for name, data in runs.read_in_each(RECORD_FILE):
        # A run may just have been removed.
        with suppress(OSError):
            if is_run_id(name):
                record = decode_record(data, ListedRecord)
                yield _view(runs.below(name), record and structs.asdict(record))


def read_run(folder: Folder) -> RunView:
    record = read_record(folder)
    return _view(folder, structs.asdict(record) if record else None)


# Any: fields of a record
def _view(folder: Folder, told: dict[str, Any] | None) -> RunView:
    if told is None:
        is_live = folder.is_locked()
        return RunView(
            id=folder.parts[-1],
            wd="",
            task_line=UNREADABLE,
            flow="",
            status=RunStatus.RUNNING if is_live else RunStatus.INTERRUPTED,
            lost=not is_live,
        )
    run = RunView(**{**told, "id": folder.parts[-1]})
    if run.is_live and not folder.is_locked():
        # It was killed, perhaps just after its verdict.
        run = replace(run, status=run.verdict or RunStatus.INTERRUPTED, ended=run.judged)
    if run.status.is_open or run.status.is_verdict or is_saved_as(folder):
        return run
    lost = run.round > 0 and not is_saved_as(folder, RunStatus.PASS)
    return replace(run, unsaved=run.round == 0, lost=lost)


def view_run(folder: Folder, events: Iterable[RunEvent] | None = None) -> RunView:
    """Return the run in a folder with what its events tell; raise `StateError` if there is none."""
    run = readable_run(folder)
    return fold(run, read_events(folder) if events is None else events)


def readable_run(folder: Folder) -> RunView:
    run = read_run(folder)
    if not run.is_readable:
        raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
    return run


def fold(run: RunView, events: Iterable[RunEvent]) -> RunView:
    folded = Fold()
    for event in events:
        folded.add(event)
    return folded.view(run)


class Fold:
    """What the events of a run tell, folded in one by one.

    A turn that was begun again is one turn. The last one may be under way, unless the run has ended
    since.
    """

    def __init__(self) -> None:
        self.turns: dict[int, Turn] = {}
        self.under_way: TurnBegan | CheckBegan | None = None
        self.last = 0.0
        self.changes: list[FilesChanged] = []
        self.reviewers: tuple[str, ...] = ()
        self._acts: list[Steered] = []
        self._warnings: dict[str, str] = {}
        """By text: what each is about."""
        self._stalls: dict[str, None] = {}
        self._proof: CheckEnded | None = None
        self._log = ""
        self._questions: dict[str, str] = {}

    def add(self, event: RunEvent) -> None:
        if isinstance(event, Steered):
            self._acts.append(event)
        match event:
            case TurnBegan() | CheckBegan():
                self._break_off(self.last)
                turn = _turn_of(event)
                if (before := self.turns.get(event.sequence)) and not turn.is_gate:
                    turn = replace(turn, began=before.began, seconds=before.seconds)
                self.turns[event.sequence] = turn
                self.under_way = event
            case TurnEnded() | CheckEnded():
                self.turns[event.sequence] = replace(
                    self.turns.get(event.sequence) or _turn_of(event),
                    ended=event.at,
                    seconds=event.seconds,
                    outcome=event.outcome,
                    detail=event.detail,
                    verdict=event.verdict,
                    why=event.why,
                    reason=event.reason if isinstance(event, TurnEnded) else "",
                    early=isinstance(event, TurnEnded) and event.early,
                )
                self.under_way = None
                if isinstance(event, CheckEnded):
                    self._log = event.log or self._log
                    self._proof = event if event.gate == PROOF else self._proof
            case RunOpened() | RunEnded():
                # A killed run has not recorded its end.
                self._break_off(event.at if isinstance(event, RunEnded) else self.last)
            case HandoffEvent(kind=EventKind.WAITING_FOR_PERSON):
                self._questions[event.role] = event.question
            case FilesChanged():
                self.changes.append(event)
            case Warned():
                self._warnings.setdefault(event.text, event.about)
            case NotConverging():
                self._stalls[event.why] = None
            case RunBegan():
                self.reviewers = event.reviewers
        self.last = event.at

    def view(self, run: RunView) -> RunView:
        if not run.is_live:
            self._break_off(self.last)
        return replace(
            run,
            turns=tuple(self.turns[sequence] for sequence in sorted(self.turns)),
            changes=tuple(self.changes),
            acts=tuple(self._acts),
            warnings=tuple(self._warnings),
            repository=tuple(
                text for text, about in self._warnings.items() if about == ABOUT_REPOSITORY
            ),
            stalls=tuple(self._stalls),
            reviewers=self.reviewers,
            proof_check=self._proof,
            gate_logs=str(Path(self._log).parent) if self._log else "",
            question=self._questions.get(run.asking, "") if run.is_live else "",
        )

    def _break_off(self, at: float) -> None:
        if self.under_way is not None:
            turn = self.turns[self.under_way.sequence]
            worked = turn.seconds + max(at - self.under_way.at, 0.0)
            self.turns[turn.sequence] = replace(turn, ended=at, seconds=worked)
            self.under_way = None


def _turn_of(event: TurnBegan | TurnEnded | CheckBegan | CheckEnded) -> Turn:
    if isinstance(event, CheckBegan | CheckEnded):
        named, of_agent, reviewed = (event.gate, event.round, 1), (COMMAND, ""), False
    else:
        named, reviewed = (event.role, event.round, event.cycle), event.reviewed
        # A turn that a killed run archived has an end alone.
        of_agent = ("", "")
        if isinstance(event, TurnBegan):
            of_agent = (event.provider, event.terminal_id)
    return Turn(event.sequence, *named, *of_agent, event.at, reviewed=reviewed)


def is_saved_as(folder: Folder, status: str = RUNNING) -> bool:
    """Has the saved state of a run this status? One that cannot be read may have it."""
    try:
        content = codec.parse(folder.read(STATE_NAME))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    is_ours = isinstance(content, dict) and content.get("version") == STATE_VERSION
    return is_ours and content.get("final_status") == status


MOST_NAMED = 10
Purpose = Literal["look", "act", "steer", "stop", "resume", "extend"]
BETWEEN = "/"
# 7f3a
TERMINAL_PATTERN = r"[0-9a-f]+"


def list_runs(state_folder: Path) -> list[RunView]:
    check_state_folder(state_folder)
    found = list_views(runs_folder(state_folder))
    return sorted(found, key=lambda run: (run.started, run.id), reverse=True)


def find_live_run(state_folder: Path, *, wd: Path | None = None, pid: int | None = None) -> str:
    with suppress(OSError, UsageError):
        for run in list_runs(state_folder):
            if run.is_live and (Path(run.wd) == wd or run.pid == pid):
                return run.id
    return ""


def find_run(state_folder: Path, text: str | None, here: Path, to: Purpose = "act") -> RunView:
    if text is not None and is_run_id(text):
        check_state_folder(state_folder)
        with suppress(OSError):
            if text in runs_folder(state_folder).names():
                return read_run(run_folder(state_folder, text))
    return choose_run(list_runs(state_folder), text, here, to)


def choose_run(
    runs: Sequence[RunView], text: str | None, here: Path, to: Purpose = "act"
) -> RunView:
    """Return the run whose id is, begins or ends with a text; without one, what `to` looks for."""
    if text:
        return _the_one(runs_that_fit(runs, text), runs, text)
    own = [run for run in runs if run.works_in(here)]
    live = [run for run in runs if run.is_live]
    last, at_work = own[:1], [run for run in own if run.is_live]
    with_agents = [run for run in own if run.has_agents][:1]
    last_unfinished = [run for run in last if run.is_unfinished]
    unfinished = [run for run in own if run.is_unfinished][:1]
    extensible = [run for run in own if run.can_go_on][:1]
    paused = [run for run in live if run.status is RunStatus.PAUSED]
    resting = [run for run in at_work if run in paused]
    choices: dict[Purpose, list[Sequence[RunView]]] = {
        "act": [at_work, last, live],
        "look": [at_work, last, live, runs if len(runs) == 1 else []],
        "steer": [at_work, last_unfinished, live],
        "stop": [at_work, with_agents or last_unfinished, live],
        "resume": [resting, at_work, unfinished, last, paused, live],
        "extend": [at_work, extensible, last, paused, live],
    }
    found = next(filter(None, choices[to]), [])
    if to == "steer" and not found:
        raise NotSteerable("no run is running; `cao runs` lists those that have ended")
    if to == "stop" and not found:
        raise UsageError(
            "no run is running; name a terminal, --session NAME, --all (in this folder) or "
            "--everywhere; `cao ls` lists them"
        )
    return _the_one(found, runs, "")


def runs_that_fit(runs: Sequence[RunView], text: str) -> list[RunView]:
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
        return choose_run(runs, None, here, "steer"), None
    live = [run for run in runs if run.is_live]
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        return (run, role) if run.is_live else (None, None)
    having = [run for run in live if text in run.providers]
    if having:
        return choose_run(having, None, here), text
    agents = [
        (run, role)
        for run in live
        for role, terminal in run.terminals.items()
        if terminal.startswith(text)
    ]
    if len(agents) > 1:
        roles = ", ".join(role for _, role in agents)
        raise UsageError(f"{text!r} could be the agent of any of: {roles}; write more of the id")
    if agents:
        return agents[0]
    if is_surely_run(runs, text) or runs_that_fit(live, text):
        return choose_run(runs, text, here), None
    return None, None


def is_surely_run(runs: Sequence[RunView], text: str) -> bool:
    """Does a text name a run and nothing that a terminal could be called?"""
    return bool(runs_that_fit(runs, text)) and not re.fullmatch(TERMINAL_PATTERN, text)
