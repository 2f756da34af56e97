"""A run in a work tree of its own: the tree is prepared, mended, and its work committed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.characters import first_names
from cli_agent_orchestrator._internal.gates import Gate
from cli_agent_orchestrator._internal.layout import run_folder, temporary_folder
from cli_agent_orchestrator._internal.pipeline.check import page_of
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.gates.checking import Checker, GatePlace
from cli_agent_orchestrator._internal.runs.gates.gate import GateRunner
from cli_agent_orchestrator._internal.runs.records.lock import keeping_runs_out
from cli_agent_orchestrator._internal.runs.records.recorder import Recorder
from cli_agent_orchestrator._internal.runs.records.run_id import short_name
from cli_agent_orchestrator._internal.runs.records.run_record import (
    Fate,
    RunRecord,
    SavedTree,
    read_record,
)
from cli_agent_orchestrator._internal.runs.teller import Teller
from cli_agent_orchestrator._internal.runs.work.own_tree import OwnTree, store_of
from cli_agent_orchestrator._internal.runs.work.work_folder import KeptOut, held_back_of
from cli_agent_orchestrator._internal.workspace.held_back import in_their_place
from cli_agent_orchestrator.errors import (
    FolderGone,
    GitError,
    RunError,
    RunLocked,
    StateError,
    UsageError,
)

SETUP = "setup"
"""What prepares a work tree is logged like a gate of this name."""


class TreeRun:
    """What a run does with its work tree, besides working there."""

    def __init__(
        self, tree: OwnTree, run: str, state_folder: Path, recorder: Recorder, teller: Teller
    ) -> None:
        self.tree = tree
        self._run = run
        self._state_folder = state_folder
        self._recorder = recorder
        self._teller = teller
        self._noticed: set[str] = set()
        """Files in the place of those that are held back, which were named."""

    @property
    def kept_out(self) -> KeptOut:
        """What of the tree is in no snapshot."""
        return KeptOut(self.tree.worktree.held_back, self.tree.worktree.ours)

    def placed(self, config: RunConfig) -> RunConfig:
        """Return settings by which all happens in the work tree."""
        return replace(config, wd=self.tree.wd, state_file=self.tree.state_file)

    def make(self) -> tuple[str, ...]:
        """Make the tree and return what the user should know.

        What is held back goes into the folder of the run first.
        """
        folder = self._recorder.folder
        if folder is None:
            raise UsageError("without a folder for the run there is no place for a work tree")
        worktree = self.tree.worktree
        held_back_of(folder, worktree.held_back).take(worktree.repository.top)
        self.tree, remarks = self.tree.make()
        return remarks

    def prepare(
        self,
        remarks: tuple[str, ...],
        config: RunConfig,
        environ: Mapping[str, str],
        when_noted: Callable[[Callable[[], None]], None],
    ) -> None:
        """Note that the tree is there, and run the command that prepares it.

        That is stopped when a signal is noted.
        """
        self._recorder.note_tree(self.tree.saved)
        for remark in remarks:
            self._teller.warn(f"in the work tree: {remark}")
        if not config.worktree_setup:
            return
        runner = GateRunner()
        when_noted(runner.stop)
        place = GatePlace(self.tree.wd, config.gate_timeout, environ, self._recorder.folder)
        gate = Gate(SETUP, config.worktree_setup)
        result = Checker(runner).run_in(gate, place, f"000-{SETUP}")
        if not result.passed:
            raise UsageError(
                "the command that prepares the work tree failed; no run was begun:\n"
                f"{page_of(result)}"
            )

    def mend(self) -> None:
        """Bring back what agents have broken of the tree, and say it."""
        for fault in self.tree.mend(store_of(self._state_folder, self._run)):
            self._teller.warn(f"the work tree was broken, and is mended: {fault}")
        worktree = self.tree.worktree
        made = in_their_place(worktree.folder, worktree.held_back)
        if new := [path for path in made if path not in self._noticed]:
            self._noticed.update(new)
            self._teller.warn(
                f"{first_names(new)} was made where your own is held back: gates use yours, and no "
                "commit has the other"
            )

    def bring_back(self, gone: FolderGone) -> RunError:
        """Mend a tree that was removed under its agents, which are to be ended; return the news."""
        self.mend()
        resume = f"cao resume {short_name(self._run)} --replace-terminals"
        return RunError(
            f"the work tree {gone.folder} was removed while {gone.role} was at work. It is back as "
            "the last snapshot has it, and the agents, which cannot work on, are ended: "
            f"`{resume}` goes on with new ones",
            to_resume=resume,
        )

    def commit(self, state: RunState, task_line: str) -> None:
        """Commit what has passed; without a commit the work is still in the work tree."""
        if state.final_status is not FinalStatus.PASS:
            return
        try:
            self.mend()
            store = store_of(self._state_folder, self._run)
            self.tree, done = self.tree.commit(store, self._run, state, task_line)
            self._recorder.note_tree(self.tree.saved)
        except (RunError, GitError, OSError) as error:
            self._teller.warn(f"the work could not be committed: {error}; it is in {self.tree.wd}")
            return
        if not self.tree.saved.has_work:
            self._teller.warn("no file was changed: there is nothing to commit")
        left_out = [f"{one.path} ({one.reason})" for one in done.left_out]
        for remark in (*done.remarks, *(f"not committed: {one}" for one in left_out)):
            self._teller.warn(remark)


def hold_tree(run: str, state_folder: Path, recorder: Recorder) -> tuple[RunRecord, SavedTree]:
    """Keep other commands from a run in a work tree that is to go on; return what is known of it.

    Raise why it cannot go on.
    """
    folder = run_folder(state_folder, run)
    if (found := read_record(folder)) is None or found.tree is None:
        raise UsageError(f"{run} is no run with a work tree")
    try:
        recorder.hold(run)
    except RunLocked:
        # If it is a run itself that is at work, this says which.
        with suppress(StateError), keeping_runs_out(temporary_folder(Path(found.wd))):
            pass
        raise
    # As it is now that nobody else changes it.
    record = read_record(folder)
    if record is None or record.tree is None:
        raise UsageError(f"the run {run} is removed")
    if record.tree.delivered is Fate.DISCARDED:
        became = "applied" if record.tree.is_applied else "discarded"
        raise UsageError(f"the work of the run {run} was {became}: start a new one")
    return record, record.tree
