"""Conducts a run, new or saved, in the user's own folder or in a work tree of its own.

A new run is prepared, opened (from then on it has an id), given a server and agents, and saved; a
saved one is prepared, opened, given its server, and its agents are looked for. Then both go into
the loop. Whoever starts a conductor tells it at last how that ended.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from ..client.client import ApiClient
from ..core.clock import SystemClock
from ..core.files import Folder
from ..core.models import (
    EXIT_CLOSED,
    EXIT_ERROR,
    EXIT_FAIL,
    EXIT_PASS,
    RUN_INDEX,
    Feature,
    exit_code_of,
)
from ..core.text import first_names
from ..errors import (
    ApiRefused,
    FolderGone,
    GitError,
    HandoffError,
    HandoffTimeout,
    OrchestratorError,
    RunError,
    Stopped,
    UsageError,
    in_words,
    kind_of,
)
from ..events import AgentsStarting, AgentStarted, RunBegan, RunEnded, ServerChosen
from ..gates.check import page_of
from ..gates.checking import Checker, GatePlace, GateRunner
from ..handoff.files import ResponseFiles, ensure_response_dir
from ..pipeline.prompts import Briefing
from ..pipeline.resuming import Remedy, should_auto_resume
from ..pipeline.state import FinalStatus, RunState
from ..settings.gates import Gate
from ..settings.layout import (
    REPLACED_STATE,
    check_place,
    run_folder,
    said_of_place,
    turns_folder,
)
from ..work.folder import (
    began_at,
    held_back_of,
    open_work_folder,
    said_of_repository,
    said_of_start,
)
from ..work.held_back import in_their_place
from .agents import (
    exit_left_terminals,
    exit_terminals,
    find_lost_terminals,
    init_new_run,
    patiently,
    replace_terminals,
    verify_resume_terminals,
)
from .control import Listener
from .event_log import read_events
from .loop import Plan, Runner, StoppedByPerson
from .prepare import NOT_BEGUN, Preparation, Prepared, SavedRun, logging_refusals, objections_to
from .record import (
    VERSION,
    RunRecord,
    SavedSetting,
    forget_agents,
    is_run_id,
    keeping_runs_out,
    one_line,
    read_record,
    run_index,
    short_name,
    without_secrets,
)
from .recorder import Recorder
from .request import Interrupts, RunRequest, Surroundings
from .screens import Screens
from .state_file import ExportedState, StateFile, load_state, read_state_of
from .tree import OwnTree, hold_tree, plan_tree, reopen_tree, store_of
from .view import RunView, list_runs, run_at_work

NOT_RECORDED = ("PROMPT", "RESUME", "MISSING")
"""The task is recorded as such; the others are about one start."""


NO_FOLDER_FOR_TREE = "without a folder for the run there is no place for a work tree"
SETUP = "setup"
"""What prepares a work tree is logged like a gate of this name."""


def new_record(
    prepared: Prepared,
    request: RunRequest,
    tree: OwnTree | None,
    now: float,
    environ: Mapping[str, str],
) -> RunRecord:
    config, task = prepared.config, prepared.task
    given = {name: text for name, text in request.settings.items() if name not in NOT_RECORDED}
    if "API" in given:
        given["API"] = without_secrets(given["API"])
    if tree is None:
        base, branch, top = began_at(config.wd, environ)
    else:
        base, branch, top = tree.base, tree.onto, tree.saved.folder
    return RunRecord(
        id=prepared.run_id,
        wd=str(config.wd),
        state_file="" if tree else str(config.state_file),
        task=task.text,
        task_line=one_line(task.explore_summary),
        started=now,
        base=base,
        branch=branch,
        top=top,
        flow=prepared.flow.name,
        settings={
            name: SavedSetting(value, request.sources.get(name, "default"))
            for name, value in {**given, **config.settings}.items()
        },
        machine=platform.node(),
        pid=os.getpid(),
        project="" if tree is None else str(tree.project),
        tree=None if tree is None else tree.saved,
    )


def response_files(wd: Path, run: Folder, state: RunState) -> ResponseFiles:
    names = {role.name: role.response_file for role in state.flow.roles}
    return ResponseFiles(wd, turns_folder(run), names)


class Conductor:
    """One run, from its beginning or from where it was left."""

    def __init__(self, request: RunRequest, given: Surroundings) -> None:
        self._request = request
        self._config = request.config
        self._given = given
        self._interrupts = given.interrupts
        self._clock = SystemClock()
        self._export = ExportedState(request.config.state_file, request.config.wd)
        self._recorder = Recorder(
            given.state_folder, given.view.tell, self._clock, given.pop_warnings
        )
        self._tell = self._recorder.tell
        self._warn = self._recorder.warn
        self._tree: OwnTree | None = None
        """None if its agents work in the user's own folder."""
        self._noticed: set[str] = set()
        """Files in the place of those that are held back, which were named."""
        self._held = ExitStack()
        """What ends with the run, after it was told how it ended."""
        self._record: RunRecord | None = None
        """Of this start; if the run is resumed, its folder has that of the first."""
        self._environ: Mapping[str, str] = given.environ
        """What its commands inherit."""
        self._state_file: StateFile | None = None
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
        check_place(self._given.state_folder, self._config.wd)
        if self._request.run:
            return self._resume_known(self._request.run)
        left = self._left_in_tree()
        if left is not None and not self._config.in_worktree:
            saved = self._find_saved()
            if saved is not None and saved.state.final_status is FinalStatus.RUNNING:
                left = None
        if left is not None:
            if not left.has_agents:
                self._request = replace(self._request, replace_terminals=True)
            return self._resume_known(left.id)
        return self._begin_in_tree() if self._config.in_worktree else self._run_here()

    def _preparation(self) -> Preparation:
        return Preparation(self._request, self._given, self._clock, self._warn)

    def _left_in_tree(self) -> RunView | None:
        """Return the run in a work tree of this project that goes on; None if none does.

        It is the last one that is asked for, or that the same command began.
        """
        config, store = self._config, self._given.state_folder
        is_task_named = config.prompt_file is not None or bool(config.prompt)
        if config.resume is False or (is_task_named and not (config.resume or config.in_worktree)):
            return None
        others = []
        for run in list_runs(store):
            if run.is_unfinished and run.round and run.project == str(config.wd):
                saved = read_state_of(run_folder(store, run.id))
                against = saved is None or objections_to(saved, self._request)
                if config.resume or not against:
                    return run
                others.append(run.id)
        if others and config.in_worktree:
            self._warn(
                f"an unfinished run of this project is there too: {others[0]}; "
                f"`cao resume {others[0]}` goes on with it, and this one is new"
            )
        return None

    def _run_here(self) -> RunState:
        """Take a run to its end in the user's own folder: the saved one, else a new one."""
        with self._holding_folder():
            saved = self._find_saved()
            state = None if saved is None else saved.state
            against = objections_to(state, self._request) if state else ()
            if should_auto_resume(state, self._config.resume, against):
                assert saved is not None, "only what is saved is resumed"
                for objection in against:
                    self._warn(f"the saved run goes on all the same: {objection}")
                return self._resume(saved)
            if self._config.missing:
                raise UsageError("--missing is for a saved run that is resumed, and there is none")
            prepared = self._preparation().new_run()
            if said := said_of_start(self._config.wd, self._given.environ):
                self._warn(said)
            self._open(prepared)
            return self._begin(prepared, saved)

    def _find_saved(self) -> SavedRun | None:
        """Return the run that the state file names, from its own folder if there is one."""
        run = self._export.named_run()
        record = read_record(run_folder(self._given.state_folder, run)) if is_run_id(run) else None
        if record is not None and record.wd == str(self._config.wd):
            return self._load_saved(record)
        state = self._export.load_state()
        if state is None:
            return None
        return SavedRun(self._preparation().reopened(state), None, self._config)

    def _load_saved(self, record: RunRecord) -> SavedRun | None:
        """Return a run as its own folder has it; None if it ended before its first turn."""
        state = load_state(run_folder(self._given.state_folder, record.id))
        if state is None:
            return None
        return SavedRun(self._preparation().reopened(state), record, self._config, self._tree)

    def _begin_in_tree(self) -> RunState:
        if self._config.resume or self._config.missing:
            raise UsageError(
                "no run of this project in a work tree can go on; `cao runs` lists all"
            )
        if "STATE_FILE" in self._request.insisted:
            raise UsageError(
                "a run in a work tree is saved in its own folder: leave out CAO_STATE_FILE"
            )
        prepared = self._preparation().new_run()
        tree, warnings = plan_tree(
            self._config.wd,
            self._given.state_folder,
            prepared.run_id,
            self._given.environ,
            self._config.held_back,
        )
        for warning in warnings:
            self._warn(warning)
        self._move_into(tree, prepared.run_id)
        prepared = replace(prepared, config=self._config)
        self._open(prepared)
        # Before anything that takes its time, as a work tree of many files does.
        self._tell_starting(prepared.providers)
        folder, worktree = self._recorder.folder, tree.worktree
        if folder is None:
            raise UsageError(NO_FOLDER_FOR_TREE)
        held_back_of(folder, worktree.held_back).take(worktree.repository.top)
        self._tree, remarks = tree.make()
        try:
            self._recorder.note_tree(self._tree.saved)
            for remark in remarks:
                self._warn(f"in the work tree: {remark}")
            self._set_tree_up()
            with self._holding_folder():
                return self._begin(prepared, None)
        finally:
            if not self.is_saved:
                # No agent was given anything to do.
                with suppress(GitError):
                    self._tree.remove()

    def _set_tree_up(self) -> None:
        """Run the command that prepares a work tree; it is stopped when a signal is noted."""
        config = self._config
        if not config.worktree_setup:
            return
        runner = GateRunner()
        self._interrupts.when_noted(runner.stop)
        place = GatePlace(config.wd, config.gate_timeout, self._environ, self._recorder.folder)
        gate = Gate(SETUP, config.worktree_setup)
        result = Checker(runner).run_in(gate, place, f"000-{SETUP}")
        if not result.passed:
            raise UsageError(
                "the command that prepares the work tree failed; no run was begun:\n"
                f"{page_of(result)}"
            )

    def _resume_known(self, run: str) -> RunState:
        """Take the run with an id to its end, in its work tree if it has one."""
        given = self._given
        record = read_record(run_folder(given.state_folder, run))
        if record is None:
            raise UsageError(f"the run {run} is removed, or its record cannot be read")
        if record.version != VERSION:
            raise UsageError(
                f"the run {run} was begun by an earlier version of cao: start a new one"
            )
        if record.tree is not None:
            record, saved_tree = hold_tree(run, given.state_folder, self._recorder)
            tree = reopen_tree(record, saved_tree, given.state_folder, given.environ)
            self._move_into(tree, run)
        saved = self._load_saved(record)
        if saved is None:
            discard = f", and remove what is left of this with `cao discard {run}`"
            raise UsageError(
                f"the run {run} was ended before its first turn, and nothing of it is saved: start "
                f"a new one{discard if record.tree else ''}"
            )
        self._repair_tree()
        with self._holding_folder():
            return self._resume(saved)

    @contextmanager
    def _holding_folder(self) -> Iterator[None]:
        wd = self._config.wd
        ensure_response_dir(wd)
        if self._tree is None:
            self._export.check()
        at_work = partial(run_at_work, self._given.state_folder, wd)
        with keeping_runs_out(wd, at_work), logging_refusals():
            yield

    def _move_into(self, tree: OwnTree, run: str) -> None:
        """Let all that follows happen in a work tree."""
        self._store = store_of(self._given.state_folder, run)
        self._tree = tree
        self._config = replace(self._config, wd=tree.wd)

    def _open(self, prepared: Prepared, *, resumed: bool = False) -> Folder:
        """Give the run its folder, and report its id before anything else."""
        given, tree = self._given, self._tree
        if given.state_stays:
            for warning in said_of_place(given.state_folder, prepared.config.wd):
                self._warn(warning)
        self._record = new_record(prepared, self._request, tree, self._clock.now(), given.environ)
        folder = self._recorder.begin(self._record, resumed=resumed)
        self._number = self._held.enter_context(run_index(given.state_folder))
        self._environ = {**given.environ, RUN_INDEX: str(self._number)}
        export = self._export if tree is None else None
        self._state_file = StateFile(folder, self._clock, export, self._warn)
        return folder

    def _tell_starting(self, providers: Mapping[str, str]) -> None:
        if providers:
            self._tell(AgentsStarting(self._clock.now(), providers))

    def _tell_started(self, role: str, terminal_id: str) -> None:
        self._tell(AgentStarted(self._clock.now(), role, terminal_id))

    def _begin(self, prepared: Prepared, saved: SavedRun | None) -> RunState:
        """Start the agents of a flow and take a new run to its end."""
        if self._tree is None:
            self._tell_starting(prepared.providers)
        client = self._connect()
        try:
            state = init_new_run(client, prepared, self._tell_started, self._interrupts.when_noted)
        except Stopped as stopped:
            self._warn(str(stopped))
            raise
        except ApiRefused as error:
            # All or none are started, so there is nothing that could be resumed.
            raise UsageError(f"{NOT_BEGUN}: {error.detail}") from error
        with ExitStack() as undo:
            undo.callback(exit_terminals, client, state.terminals.values())
            self._interrupts.check()
            if saved is not None and saved.state.final_status is FinalStatus.RUNNING:
                self._leave(saved, client)
            self._save(state)
            undo.pop_all()
        with self._runner(prepared, client, state) as runner:
            self._tell(self._began(client, state))
            return self._loop(client, runner, state)

    def _leave(self, saved: SavedRun, client: ApiClient) -> None:
        """Leave an unfinished run for another one in the same work folder.

        Somebody else's state could name any agent, so that nothing is done to these.
        """
        if saved.record is None:
            folder = self._folder
            folder.replace(REPLACED_STATE, self._export.read() or b"")
            self._warn(f"the unfinished run of {self._export.path} is kept in {folder.path}")
            return
        # They know the same response files.
        if exit_left_terminals(client, saved.state):
            self._warn("the unfinished run's agents are ended, so that they do not write into this")
        run = saved.record.id
        forget_agents(run_folder(self._given.state_folder, run))
        self._warn(f"`cao resume {run}` goes on with the unfinished run when this one has ended")

    def _save(self, state: RunState) -> None:
        assert self._state_file is not None, "the run is open"
        self._state_file.save_state(state)
        self.is_saved = True

    @property
    def _folder(self) -> Folder:
        assert self._recorder.folder is not None, "the run is open"
        return self._recorder.folder

    def _connect(self) -> ApiClient:
        """Lead to the server; raise `Stopped` if the run is to stop by then.

        One of our own stays, and with it the page, until all is told.
        """
        config = self._config
        link = self._held.enter_context(self._given.connect(config, self._warn))
        self._interrupts.check()
        client = link.client
        client.run_index = self._number
        client.record = config.recording
        # Without API our own commands look in the state folder, and find the same server.
        self._tell(ServerChosen(self._clock.now(), link.url, link.how, config.api_given))
        if config.permissions and Feature.PERMISSIONS not in client.features():
            self._warn(
                f"the server at {client.base_url} does not take --permissions: its agents may "
                f"do what it was started with, not {config.permissions}"
            )
        return client

    def _resume(self, found: SavedRun) -> RunState:
        """Take a saved run to its end with its own agents, and new ones for those that are lost."""
        self.is_saved = True
        prepared, saved = self._preparation().saved_run(found)
        self._config = prepared.config
        self._open(prepared, resumed=found.record is not None)
        if found.record is None:
            self._warn(f"the run that was saved in {self._export.path} is taken over")
            self._save(saved)
        client = self._connect()
        with self._runner(prepared, client, saved) as runner:
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
            return self._loop(client, runner, state)

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
        self._tell_starting(successors)
        state = replace_terminals(
            client, state, successors, self._tell_started, self._interrupts.when_noted
        )
        self._save(state)
        return state, tuple(successors)

    def _runner(self, prepared: Prepared, client: ApiClient, state: RunState) -> Runner:
        assert self._state_file is not None, "the run is open"
        assert self._record is not None, "the run is open"
        config, tree, folder = prepared.config, self._tree, self._folder
        files = response_files(config.wd, folder, state)
        if tree is None:
            work = open_work_folder(config.wd, folder, self._environ)
        else:
            held_back = tree.worktree.held_back
            work = open_work_folder(config.wd, folder, self._environ, self._repair_tree, held_back)
        briefing = Briefing(
            prepared.task,
            files.folder,
            config.rules.condensation,
            config.project_test_cmd,
            note="" if tree is None else tree.note,
        )
        plan = Plan(
            briefing,
            config.rules,
            config.handoff,
            self._state_file,
            files,
            Screens(client, folder),
            GatePlace(config.wd, config.gate_timeout, self._environ, folder),
            work,
            config.readonly_roles,
            since=self._record.started,
            run=short_name(self._record.id),
        )
        return Runner(client, plan, self._tell)

    def _loop(self, client: ApiClient, runner: Runner, state: RunState) -> RunState:
        self._state = state
        agents = state.terminals.values()
        with ExitStack() as stack:
            if self._config.cleanup_on_exit:
                stack.callback(exit_terminals, client, agents)
            self._interrupts.when_noted(runner.stop)
            heard = state.progress.heard
            stack.enter_context(Listener(self._folder, heard, runner.hear, self._warn))
            try:
                done = runner.run(state)
            except StoppedByPerson:
                self._agents_ended = True
                exit_terminals(client, agents)
                raise
            except FolderGone as gone:
                if self._tree is None:
                    raise
                self._repair_tree()
                # They stand in a folder that is not there any more, also when another is.
                self._agents_ended = True
                exit_terminals(client, agents)
                resume = f"cao resume {short_name(self._run_id)} --replace-terminals"
                raise RunError(
                    f"the work tree {gone.folder} was removed while {gone.role} was at work. It is "
                    "back as the last snapshot has it, and the agents, which cannot work on, are "
                    f"ended: `{resume}` goes on with new ones",
                    to_resume=resume,
                ) from gone
            except (HandoffError, HandoffTimeout) as error:
                if self._config.cleanup_on_exit:
                    # It is about an agent that is ended with the others.
                    error.drop_advice()
                raise
            finally:
                self._state = runner.state
            if self._are_agents_done(done):
                self._agents_ended = True
                exit_terminals(client, agents)
        self._commit(done)
        return done

    def _are_agents_done(self, state: RunState) -> bool:
        """Has the run passed and is nobody at its agents, where the user did not say what to do?

        What the run began with says nothing: every setting is saved, also those that nobody gave.
        """
        is_asked = "CLEANUP_ON_EXIT" in self._request.settings
        has_passed = state.final_status is FinalStatus.PASS
        return has_passed and not is_asked and not self._given.is_watched(state.session_name)

    @property
    def _run_id(self) -> str:
        assert self._record is not None, "the run is open"
        return self._record.id

    def _repair_tree(self) -> None:
        """Bring back what agents have broken of the work tree, if there is one, and report it."""
        if self._tree is None:
            return
        for fault in self._tree.repair(self._store):
            self._warn(f"the work tree was broken, and is repaired: {fault}")
        worktree = self._tree.worktree
        made = in_their_place(worktree.folder, worktree.held_back)
        if new := [path for path in made if path not in self._noticed]:
            self._noticed.update(new)
            self._warn(
                f"{first_names(new)} was made where your own is held back: gates use yours, and no "
                "commit has the other"
            )

    def _commit(self, state: RunState) -> None:
        """Commit the work of a run that passed in its work tree."""
        if self._tree is None or state.final_status is not FinalStatus.PASS:
            return
        assert self._record is not None, "the run is open"
        try:
            self._repair_tree()
            self._tree, done = self._tree.commit(
                self._store, self._run_id, state, self._record.task_line
            )
            self._recorder.note_tree(self._tree.saved)
        except (RunError, GitError, OSError) as error:
            self._warn(f"the work could not be committed: {error}; it is in {self._tree.wd}")
            return
        if not self._tree.saved.has_work:
            self._warn("no file was changed: there is nothing to commit")
        left_out = [f"not committed: {one.path} ({one.reason})" for one in done.left_out]
        for remark in (*done.remarks, *left_out):
            self._warn(remark)

    def end(self, exit_code: int, reason: str = "", error: OrchestratorError | None = None) -> None:
        self._recorder.speak_up()
        ended = run_ended(self._clock.now(), self._state, exit_code, reason, error)
        if self._recorder.folder is not None:
            said = said_of_repository(read_events(self._recorder.folder))
            ended = replace(ended, repository=said)
        stay = not self._config.cleanup_on_exit and not self._agents_ended
        if self._state is not None and stay:
            ended = replace(ended, session_left=self._state.session_name)
        if (tree := self._tree) is not None:
            if tree.saved.has_work:
                ended = replace(ended, branch=tree.worktree.branch)
            elif self.is_saved:
                ended = replace(ended, tree=str(tree.wd))
        self._tell(ended)

    def _began(self, client: ApiClient, state: RunState) -> RunBegan:
        told: set[str] = set()
        if Feature.PERMISSIONS in patiently(client.features, repeatable=True):
            for one in state.terminals.values():
                agent = patiently(partial(client.get_terminal, one), repeatable=True)
                told.add(str(agent.get("permissions") or ""))
        return RunBegan(
            at=self._clock.now(),
            session_name=state.session_name,
            terminals=state.terminals,
            providers={role: state.provider_of(role) for role in state.terminals},
            archive=str(turns_folder(self._folder).path),
            permissions=", ".join(sorted(filter(None, told))),
            max_rounds=self._config.rules.limits.max_rounds,
            reviewers=tuple(stage.reviewer for stage in state.flow.stages if stage.reviewer),
        )


def run_ended(
    at: float,
    state: RunState | None,
    exit_code: int,
    reason: str,
    error: OrchestratorError | None = None,
) -> RunEnded:
    """Return the event of a run that is over; without a state it had not begun."""
    if state is None:
        ended = RunEnded(at, FinalStatus.RUNNING, 0, exit_code, reason)
    else:
        ended = RunEnded(at, state.final_status, state.round, exit_code, reason)
    if error is not None:
        ended = replace(ended, to_resume=error.to_resume, error=kind_of(error))
    proof = None if state is None else state.progress.proof
    if proof is None or ended.final_status is not FinalStatus.PASS:
        return ended
    return replace(
        ended,
        proof=str(proof),
        proven=proof.is_proven,
        gaps="" if proof.is_proven else proof.said,
        look_at=proof.look_at,
        before=proof.before,
    )


EXIT_CODES = {FinalStatus.PASS: EXIT_PASS, FinalStatus.FAIL: EXIT_FAIL}
"""How a finished run ends."""


def carry_out(conductor: Conductor, interrupts: Interrupts) -> int:
    """Take a run to its end and return its exit code; raise what keeps it from going on."""
    try:
        state = conductor.run()
    except Stopped as stopped:
        _end(conductor, interrupts.exit_code, interrupts.reason or str(stopped))
        return interrupts.exit_code
    except OrchestratorError as error:
        _end(conductor, exit_code_of(error), str(error), error)
        raise
    except BrokenPipeError:
        _end(conductor, EXIT_CLOSED, "nobody reads its output any more")
        raise
    except OSError as error:
        if interrupts.reason:
            # A terminal that was closed takes with it the place where things are told.
            _end(conductor, interrupts.exit_code, interrupts.reason)
            return interrupts.exit_code
        _end(conductor, EXIT_ERROR, in_words(error))
        kept = "the run is saved and can be resumed" if conductor.is_saved else NOT_BEGUN
        raise RunError(f"{in_words(error)}; {kept}") from error
    except Exception as error:
        _end(conductor, EXIT_ERROR, f"a fault of cao: {type(error).__name__}")
        raise
    _end(conductor, EXIT_CODES[state.final_status])
    return EXIT_CODES[state.final_status]


def _end(
    conductor: Conductor,
    exit_code: int,
    reason: str = "",
    error: OrchestratorError | None = None,
) -> None:
    # Where the output goes may be what is gone.
    with suppress(OSError):
        conductor.end(exit_code, reason, error)
