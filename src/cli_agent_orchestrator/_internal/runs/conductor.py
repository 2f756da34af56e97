"""Conducts a run, new or saved, in the user's own folder or in a work tree of its own.

A new run is prepared, opened (from then on it has an id), given a server and agents, and saved; a
saved one is prepared, opened, given its server, and its agents are looked for. Then both go into
the loop. Whoever starts a conductor tells it at last how that ended.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.clock import Clock, SystemClock
from cli_agent_orchestrator._internal.handoff.responses import ResponseFiles
from cli_agent_orchestrator._internal.models import RUN_INDEX
from cli_agent_orchestrator._internal.pipeline.missing import Remedy
from cli_agent_orchestrator._internal.pipeline.resuming import should_auto_resume
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.agents import (
    exit_terminals,
    find_lost_terminals,
    init_new_run,
    replace_terminals,
    verify_resume_terminals,
)
from cli_agent_orchestrator._internal.runs.assembling import (
    make_plan,
    make_records,
    response_files,
)
from cli_agent_orchestrator._internal.runs.events import run_began, run_ended, with_error
from cli_agent_orchestrator._internal.runs.opening import OpenRun, new_record
from cli_agent_orchestrator._internal.runs.prepared import Prepared
from cli_agent_orchestrator._internal.runs.preparing import Preparation, SavedRun
from cli_agent_orchestrator._internal.runs.records.control import Listener
from cli_agent_orchestrator._internal.runs.records.lock import run_lock
from cli_agent_orchestrator._internal.runs.records.recorder import Recorder
from cli_agent_orchestrator._internal.runs.records.registry import run_at_work
from cli_agent_orchestrator._internal.runs.records.run_index import run_index
from cli_agent_orchestrator._internal.runs.records.run_log import logging_to
from cli_agent_orchestrator._internal.runs.records.seal import UserSeals
from cli_agent_orchestrator._internal.runs.records.state_file import StateFile
from cli_agent_orchestrator._internal.runs.refusals import (
    NOT_BEGUN,
    logging_refusals,
    objections_to,
)
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.runner import Runner, StoppedByPerson
from cli_agent_orchestrator._internal.runs.serving import connected, permissions_of
from cli_agent_orchestrator._internal.runs.starting import Onlooker
from cli_agent_orchestrator._internal.runs.surroundings import Surroundings
from cli_agent_orchestrator._internal.runs.teller import Teller
from cli_agent_orchestrator._internal.runs.tree_run import TreeRun, hold_tree
from cli_agent_orchestrator._internal.runs.unfinished import keep_aside, said_of_unfinished
from cli_agent_orchestrator._internal.runs.work.own_tree import OwnTree, plan_tree, reopen_tree
from cli_agent_orchestrator._internal.runs.work.place import check_place, said_of_place
from cli_agent_orchestrator._internal.runs.work.work_folder import said_of_start
from cli_agent_orchestrator.errors import (
    ApiRefused,
    FolderGone,
    GitError,
    HandoffError,
    HandoffTimeout,
    OrchestratorError,
    RunError,
    Stopped,
    UsageError,
)
from cli_agent_orchestrator.events import RunBegan

NO_ARCHIVE = "none"


class Conductor:
    """One run, from its beginning or from where it was left."""

    def __init__(self, request: RunRequest, given: Surroundings) -> None:
        self._request = request
        self._config = request.config
        self._given = given
        self._interrupts = given.interrupts
        self._clock = SystemClock()
        self._state_file = state_file_of(request.config, given.state_folder, self._clock)
        self._recorder = Recorder(given.state_folder, self._clock)
        self._teller = Teller(self._recorder, given.view, self._clock, given.pop_warnings)
        self._tell = self._teller.tell
        self._warn = self._teller.warn
        self._onlooker = Onlooker(self._teller.tell_started, given.interrupts.when_noted)
        self._preparation = Preparation(request, given, self._clock, self._warn)
        self._in_tree: TreeRun | None = None
        self._held = ExitStack()
        """What ends with the run, after it was told how it ended."""
        self._state: RunState | None = None
        self._agents_ended = False
        self.is_saved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # First: who has heard how it ended may remove it, or go on with it.
        self._recorder.close()
        self._held.close()

    def run(self) -> RunState:
        """Return the state of the finished run."""
        check_place(self._given.state_folder, self._config.wd)
        if self._request.run:
            return self._resume_in_tree(self._request.run)
        if self._config.in_worktree:
            return self._begin_in_tree()
        with self._holding_folder():
            saved = self._preparation.reopened(self._state_file.load_state())
            against = objections_to(saved, self._request, own=self._state_file.own) if saved else ()
            if should_auto_resume(saved, self._config.resume, against):
                assert saved is not None, "only what is saved is resumed"
                for objection in against:
                    self._warn(f"the saved run goes on all the same: {objection}")
                return self._resume(saved)
            if self._config.missing:
                raise UsageError("--missing is for a saved run that is resumed, and there is none")
            prepared = self._preparation.new_run()
            if said := said_of_start(self._config.wd, self._given.environ):
                self._warn(said)
            return self._begin(self._open(prepared, resumed=False), saved)

    def _begin_in_tree(self) -> RunState:
        """Make a work tree and take a new run to its end there."""
        if self._config.resume or self._config.missing:
            raise UsageError("say which run goes on: `cao resume RUN`; `cao runs` lists them")
        if "STATE_FILE" in self._request.insisted:
            raise UsageError(
                "a run in a work tree is saved in its own folder: leave out --state-file and "
                "CAO_STATE_FILE"
            )
        prepared = self._preparation.new_run()
        tree, warnings = plan_tree(
            self._config.wd,
            self._given.state_folder,
            prepared.run_id,
            self._given.environ,
            self._config.held_back,
        )
        for warning in (*warnings, *said_of_unfinished(self._given.state_folder, tree.project)):
            self._warn(warning)
        in_tree = self._move_into(tree, prepared.run_id)
        run = self._open(replace(prepared, config=self._config), resumed=False)
        remarks = in_tree.make()
        try:
            in_tree.prepare(remarks, self._config, run.environ, self._interrupts.when_noted)
            with self._holding_folder():
                return self._begin(run, None)
        finally:
            if not self.is_saved:
                # No agent was given anything to do.
                with suppress(GitError):
                    in_tree.tree.remove()

    def _resume_in_tree(self, run: str) -> RunState:
        """Find the work tree of a run, mend it and take the run to its end there."""
        given = self._given
        record, saved_tree = hold_tree(run, given.state_folder, self._recorder)
        tree = reopen_tree(record, saved_tree, given.state_folder, given.environ)
        in_tree = self._move_into(tree, run)
        if not os.path.lexists(tree.state_file):
            raise UsageError(
                f"the run {run} was ended before its first turn, and nothing of it is saved: start "
                f"a new one, and remove what is left of this with `cao discard {run}`"
            )
        in_tree.mend()
        with self._holding_folder():
            saved = self._preparation.reopened(self._state_file.load_state())
            if saved is None:
                raise UsageError(f"the run {run} cannot be resumed: nothing of it is saved")
            return self._resume(saved)

    @contextmanager
    def _holding_folder(self) -> Iterator[None]:
        """Keep others from the work folder."""
        wd = self._config.wd
        files = ResponseFiles(wd, NO_ARCHIVE, {})
        files.ensure_response_dir()
        self._state_file.check()
        at_work = partial(run_at_work, self._given.state_folder, wd)
        with (
            run_lock(files.temporary, self._clock, at_work),
            logging_to(files.temporary),
            logging_refusals(),
        ):
            yield

    def _move_into(self, tree: OwnTree, run: str) -> TreeRun:
        """Let all that follows happen in a work tree."""
        self._in_tree = TreeRun(tree, run, self._given.state_folder, self._recorder, self._teller)
        self._config = self._in_tree.placed(self._config)
        self._state_file = state_file_of(self._config, self._given.state_folder, self._clock)
        return self._in_tree

    def _open(self, prepared: Prepared, *, resumed: bool) -> OpenRun:
        """Give the run its folder, and tell its id before anything else."""
        given, in_tree = self._given, self._in_tree
        if given.state_stays:
            for warning in said_of_place(given.state_folder, prepared.config.wd):
                self._warn(warning)
        tree = None if in_tree is None else in_tree.tree
        record = new_record(prepared, self._request, tree, self._clock.now(), self._given.environ)
        self._teller.begin(record, resumed=resumed)
        folder = self._recorder.folder
        if folder is None:
            return OpenRun(prepared, record, None, None, given.environ, in_tree)
        number = self._held.enter_context(run_index(given.state_folder))
        environ = {**given.environ, RUN_INDEX: str(number)}
        return OpenRun(prepared, record, folder, number, environ, in_tree)

    def _begin(self, run: OpenRun, saved: RunState | None) -> RunState:
        """Start the agents of a flow and take a new run to its end."""
        # Before anything that takes its time, so that there is something to be seen.
        self._teller.tell_starting(run.prepared.providers)
        client = self._connect(run)
        state = self._start(client, run.prepared)
        with ExitStack() as undo:
            undo.callback(exit_terminals, client, state)
            self._interrupts.check()
            if saved is not None and saved.final_status is FinalStatus.RUNNING:
                folder = self._given.state_folder
                keep_aside(saved, self._state_file, client, folder, self._warn)
            self._state_file.save_state(state)
            self.is_saved = True
            undo.pop_all()
        with self._runner(run, client, state) as runner:
            self._tell(self._began(client, state))
            state = self._loop(run, client, runner, state)
        return self._committed(run, state)

    def _connect(self, run: OpenRun) -> ApiClient:
        """Lead to the server; one of our own stays, and with it the page, until all is told."""
        return self._held.enter_context(connected(run, self._given, self._teller))

    def _start(self, client: ApiClient, prepared: Prepared) -> RunState:
        try:
            return init_new_run(client, prepared, self._onlooker)
        except Stopped as stopped:
            self._warn(str(stopped))
            raise
        except ApiRefused as error:
            # All or none are started, so there is nothing that could be resumed.
            raise UsageError(f"{NOT_BEGUN}: {error.detail}") from error

    def _resume(self, saved: RunState) -> RunState:
        """Take a saved run to its end with its own agents, and new ones for those that are lost."""
        self.is_saved = True
        tree = None if self._in_tree is None else self._in_tree.tree
        found = SavedRun(saved, self._state_file.own, self._config, tree)
        prepared, saved = self._preparation.saved_run(found)
        self._config = prepared.config
        run = self._open(prepared, resumed=True)
        client = self._connect(run)
        with self._runner(run, client, saved) as runner:
            try:
                state = runner.record_archived_reply(saved)
            except RunError:
                # It has begun long ago, and is told as such.
                self._state = saved
                raise
            state, replaced = self._find_agents(client, state)
            began = self._began(client, state)
            self._tell(replace(began, resumed=True, replaced=replaced))
            if self._config.missing:
                state = runner.answer_missing(state, Remedy(self._config.missing))
            state = self._loop(run, client, runner, state)
        return self._committed(run, state)

    def _find_agents(self, client: ApiClient, state: RunState) -> tuple[RunState, tuple[str, ...]]:
        """Find every agent of a saved run again; return also the roles that have a new one."""
        if not self._request.replace_terminals:
            verify_resume_terminals(client, state)
            return state, ()
        # The one chosen now, else what it was before.
        successors = {
            role: self._request.chosen_provider(role)
            or state.provider_of(role)
            or self._config.provider_of(role)
            for role in find_lost_terminals(client, state, also_failed=True)
        }
        self._teller.tell_starting(successors)
        state = replace_terminals(client, state, successors, self._onlooker)
        self._state_file.save_state(state)
        return state, tuple(successors)

    def _runner(self, run: OpenRun, client: ApiClient, state: RunState) -> Runner:
        files = response_files(self._config.wd, state)
        plan = make_plan(run, files)
        records = make_records(run, self._state_file, files, client)
        return Runner(client, plan, records, self._tell)

    def _loop(self, run: OpenRun, client: ApiClient, runner: Runner, state: RunState) -> RunState:
        self._state = state
        with ExitStack() as stack:
            if self._config.cleanup_on_exit:
                stack.callback(lambda: exit_terminals(client, state))
            self._interrupts.when_noted(runner.stop)
            if run.folder is not None:
                heard = state.progress.heard
                stack.enter_context(Listener(run.folder, heard, runner.hear, self._warn))
            try:
                return runner.run(state)
            except StoppedByPerson:
                self._agents_ended = True
                exit_terminals(client, state)
                raise
            except FolderGone as gone:
                if run.in_tree is None:
                    raise
                news = run.in_tree.bring_back(gone)
                # They stand in a folder that is not there any more, also when another is.
                self._agents_ended = True
                exit_terminals(client, state)
                raise news from gone
            except (HandoffError, HandoffTimeout) as error:
                if self._config.cleanup_on_exit:
                    # It is about an agent that is ended with the others.
                    error.drop_advice()
                raise
            finally:
                self._state = runner.state

    def _committed(self, run: OpenRun, state: RunState) -> RunState:
        if run.in_tree is not None:
            run.in_tree.commit(state, run.record.task_line)
        return state

    def end(self, exit_code: int, reason: str = "", error: OrchestratorError | None = None) -> None:
        """Tell how the run ended."""
        self._teller.speak_up()
        ended = run_ended(self._clock.now(), self._state, exit_code, reason)
        ended = replace(ended, repository=self._teller.said_of_repository())
        stay = not self._config.cleanup_on_exit and not self._agents_ended
        if self._state is not None and stay:
            ended = replace(ended, session_left=self._state.session_name)
        if self.is_saved and ended.final_status == FinalStatus.RUNNING:
            ended = replace(ended, is_lost=not self._state_file.is_there)
        if self._in_tree is not None:
            tree = self._in_tree.tree
            if tree.saved.has_work:
                ended = replace(ended, branch=tree.worktree.branch)
            elif self.is_saved:
                ended = replace(ended, tree=str(tree.wd))
        self._tell(with_error(ended, error))

    def _began(self, client: ApiClient, state: RunState) -> RunBegan:
        archive = str(response_files(self._config.wd, state).archive_folder)
        most = self._config.rules.limits.max_rounds
        return run_began(self._clock.now(), state, archive, most, permissions_of(client, state))


def state_file_of(config: RunConfig, state_folder: Path, clock: Clock) -> StateFile:
    """Return the state file of a run, sealed with the key in the user's own state folder."""
    return StateFile(config.state_file, clock, config.wd, UserSeals(state_folder))
