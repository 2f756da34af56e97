"""Which runs there are: the run folders in the user's state folder, and nothing else."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..core.files import Folder, folder_of
from ..errors import NotFound, NotSteerable, UsageError, listed
from ..settings.config import check_state_folder
from ..settings.layout import run_folder, runs_folder
from .record import Fate, RunRecord, RunStatus, is_run_id, read_record

MOST_NAMED = 10
RUNNING = "RUNNING"
NOT_BEGUN = "not begun"
LOST = "gone"
UNREADABLE = "(its run.json cannot be read)"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as a list shows it."""

    id: str
    wd: str
    task: str
    """On one line."""
    flow: str
    status: RunStatus
    round: int
    role: str
    """Who works now."""
    started: float
    """Unix time."""
    ended: float | None
    providers: dict[str, str] = field(default_factory=dict)
    """The agent of each role."""
    terminals: dict[str, str] = field(default_factory=dict)
    """Ids by role, as long as the agents are there."""
    project: str = ""
    """The user's own folder, if the agents work in a work tree."""
    waiting: str = ""
    """The branch of that work tree, if its work waits to be applied."""
    discarded: bool = False
    """Was that work tree removed, and its work with it?"""
    applied: bool = False
    """Was its work brought into the user's branch? The work tree may be gone since."""
    asking: str = ""
    """The role whose agent asks a person something; empty if none does."""
    circling: str = ""
    """Why it does not converge, until an author has changed files; empty if it may, or passed."""
    unsaved: bool = False
    """Was it ended before its first turn, so that there is nothing to resume?"""
    lost: bool = False
    """Is what was saved of it not there any more, or that of another run?"""
    rested: float = 0.0
    """Seconds from each end to when it was resumed, all together."""
    reason: str = ""
    """Why it ended without a verdict."""
    proof: str = ""
    """Of a PASS `proven: …` or `not proven: …`; empty if that was not looked into."""

    @property
    def is_live(self) -> bool:
        return self.status.is_open

    def spent(self, until: float) -> float:
        """Return how many seconds it was under way until a time."""
        return until - self.started - self.rested

    @property
    def in_tree(self) -> str:
        """Its id if its agents work in a work tree, else nothing."""
        return self.id if self.project else ""

    @property
    def is_unproven(self) -> bool:
        """Has it passed, and its work was looked into and not proven?"""
        looked_into = self.status is RunStatus.PASS and bool(self.proof)
        return looked_into and not self.proof.startswith("proven")

    @property
    def is_readable(self) -> bool:
        """Can its record be read? Every one names a folder."""
        return bool(self.wd)

    @property
    def has_agents(self) -> bool:
        """Are its agents there? A run that is stopped by `cao stop` ends them."""
        return bool(self.terminals)

    @property
    def label(self) -> str:
        return f"{self.id} ({self.words}, {self.project or self.wd or 'folder unknown'})"

    @property
    def words(self) -> str:
        """How it stands."""
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
    def is_unfinished(self) -> bool:
        """Has it ended without a verdict, and can it go on?"""
        is_settled = self.status.is_verdict or self.discarded or self.unsaved or self.lost
        return not (self.is_live or is_settled)

    @property
    def can_go_on(self) -> bool:
        """Can it be resumed: paused, unfinished, or failed, if it is given more rounds?"""
        is_there = not (self.discarded or self.lost)
        has_failed = self.status is RunStatus.FAIL and is_there
        return self.is_unfinished or has_failed or self.status is RunStatus.PAUSED

    def works_at(self, folder: Path) -> bool:
        """Is it at work in this very folder?"""
        return self.is_live and Path(self.wd) == folder

    def works_in(self, folder: Path) -> bool:
        """Does it work in this folder, or in one above or below it?"""
        return self.lies_in(folder) or any(folder.is_relative_to(one) for one in self._folders)

    def lies_in(self, folder: Path) -> bool:
        """Is its folder, or its project's, this one or one below it?"""
        return any(one.is_relative_to(folder) for one in self._folders)

    @property
    def _folders(self) -> list[Path]:
        return [Path(text) for text in (self.wd, self.project) if text]


def list_runs(state_folder: Path) -> list[RunSummary]:
    """Return all runs, the newest first."""
    check_state_folder(state_folder)
    names = sorted(filter(is_run_id, runs_folder(state_folder).names()), reverse=True)
    found = []
    for name in names:
        # Something else that has the name of a run, or one that was just removed.
        with suppress(OSError):
            found.append(summary_of(run_folder(state_folder, name)))
    return sorted(found, key=lambda run: run.started, reverse=True)


def run_at_work(state_folder: Path, wd: Path) -> str:
    """Return the id of the run that works in a folder; empty if none of this user does."""
    with suppress(OSError, UsageError):
        return next((one.id for one in list_runs(state_folder) if one.works_at(wd)), "")
    return ""


def run_of_process(state_folder: Path, pid: int) -> str:
    """Return the id of the run under way in a process; empty if none is."""
    with suppress(OSError, UsageError):
        live = (one.id for one in list_runs(state_folder) if one.is_live)
        records = (read_record(run_folder(state_folder, name)) for name in live)
        return next((one.id for one in records if one is not None and one.pid == pid), "")
    return ""


def find_run(
    state_folder: Path, text: str | None, here: Path, *, to_look: bool = False
) -> RunSummary:
    """Return the run that is meant; see `choose_run`."""
    if text is not None and is_run_id(text):
        check_state_folder(state_folder)
        with suppress(OSError):
            if text in runs_folder(state_folder).names():
                return summary_of(run_folder(state_folder, text))
    return choose_run(list_runs(state_folder), text, here, to_look=to_look)


def choose_run(
    runs: Sequence[RunSummary], text: str | None, here: Path, *, to_look: bool = False
) -> RunSummary:
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


def choose_live_run(runs: Sequence[RunSummary], text: str | None, here: Path) -> RunSummary:
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


def choose_run_to_resume(runs: Sequence[RunSummary], text: str | None, here: Path) -> RunSummary:
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


def runs_that_fit(runs: Sequence[RunSummary], text: str) -> list[RunSummary]:
    """Return the run with this id, else those whose ids begin or end like that."""
    exact = [run for run in runs if run.id == text]
    return exact or [run for run in runs if run.id.startswith(text) or run.id.endswith(text)]


def _the_one(found: Sequence[RunSummary], runs: Sequence[RunSummary], text: str) -> RunSummary:
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


def summary_of(folder: Folder) -> RunSummary:
    """Return what a list shows of the run in a folder."""
    record = read_record(folder)
    if record is None:
        is_live = folder.is_locked()
        status = RunStatus.RUNNING if is_live else RunStatus.INTERRUPTED
        name = folder.parts[-1]
        return RunSummary(name, "", UNREADABLE, "", status, 0, "", 0.0, None, lost=not is_live)
    status = actual_status(record, folder)
    needs_nothing = status.is_open or status.is_verdict or can_resume(record)
    return RunSummary(
        id=record.id,
        wd=record.wd,
        task=record.task_line,
        flow=record.flow,
        status=status,
        round=record.round,
        role=record.role,
        started=record.started,
        ended=record.ended,
        providers=dict(record.providers),
        terminals=dict(record.terminals),
        project=record.project,
        waiting=waiting_branch(record),
        asking=record.asking,
        circling=record.circling,
        discarded=is_discarded(record),
        applied=record.tree is not None and record.tree.is_applied,
        unsaved=not (needs_nothing or record.round),
        lost=not needs_nothing and record.round > 0 and not has_passed(record),
        rested=record.rested,
        reason=record.reason,
        proof=record.proof,
    )


def is_discarded(record: RunRecord) -> bool:
    """Was the work tree of a run removed, and its work with it?"""
    tree = record.tree
    if tree is None or tree.is_applied:
        return False
    return tree.delivered is Fate.DISCARDED


def waiting_branch(record: RunRecord) -> str:
    """Return the branch with work of a run that nobody has applied or discarded; empty if none."""
    tree = record.tree
    is_waiting = tree is not None and tree.has_work and not tree.delivered
    return tree.branch if tree is not None and is_waiting else ""


def actual_status(record: RunRecord, folder: Folder) -> RunStatus:
    """Return how a run stands: one that says it is running may have been killed."""
    if record.status.is_open and not folder.is_locked():
        return RunStatus.INTERRUPTED
    return record.status


def has_passed(record: RunRecord) -> bool:
    """Does the state file of a run say that it has passed, whatever its record says?"""
    return can_resume(record, str(RunStatus.PASS))


def can_resume(record: RunRecord, status: str = RUNNING) -> bool:
    """Does the state file of a run still wait for it, with this status? What cannot be read may."""
    path = Path(record.state_file)
    try:
        data = json.loads(folder_of(path, Path(record.wd)).read(path.name))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return True
    if not isinstance(data, dict) or data.get("final_status") != status:
        return False
    progress = data.get("progress")
    return not isinstance(progress, dict) or progress.get("archive") == record.archive


BETWEEN = "/"
# 7f3a
TERMINAL_PATTERN = r"[0-9a-f]+"


def find_agent(runs: Sequence[RunSummary], text: str, here: Path) -> str | None:
    """Return the id of the terminal whose run and role a text names; None if it names no role."""
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        if role not in run.terminals:
            raise NotFound(f"agent of the run {run.id} for the role", role, run.terminals)
        return run.terminals[role]
    having = [run for run in runs if text in run.terminals]
    return choose_run(having, None, here).terminals[text] if having else None


def is_surely_run(runs: Sequence[RunSummary], text: str) -> bool:
    """Does a text name a run, or several, and nothing that a terminal could be called?"""
    return bool(runs_that_fit(runs, text)) and not re.fullmatch(TERMINAL_PATTERN, text)
