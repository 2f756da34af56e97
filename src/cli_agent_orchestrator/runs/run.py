"""Conducts a run, new or saved, in the user's own folder or in a work tree of its own.

A new run is prepared, opened (now it has an id), given a server and agents, and saved; a saved one
is prepared, opened, given its server, and its agents are found again. Then both enter the loop. The
caller must call `end()` when the run is over.
"""

import logging
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Self

from msgspec import structs
from msgspec.structs import replace

from .. import errors
from ..client.client import ApiClient
from ..core.clock import SystemClock
from ..core.files import Folder
from ..core.models import RUN_INDEX, Feature
from ..core.text import first_names
from ..events import AgentsStarting, AgentStarted, RunBegan, RunEnded, ServerChosen, StepEnded
from ..gates.check import page_of
from ..gates.checking import GatePlace, GateRunner
from ..handoff.files import ResponseFiles, ensure_response_dir
from ..pipeline.machine import with_more_rounds
from ..pipeline.prompts import Briefing
from ..pipeline.resuming import should_auto_resume
from ..pipeline.state import FinalStatus, RunState
from ..settings.gates import Gate
from ..settings.layout import REPLACED_STATE, check_place, run_folder, said_of_place, turns_folder
from ..work.folder import held_back_of, open_work_folder, repository_of, said_of_repository
from ..work.held_back import in_their_place
from ..work.worktree import Worktree
from .agents import (
    delete_session,
    exit_terminals,
    find_lost_terminals,
    init_new_run,
    patiently,
    replace_terminals,
    stop_sleepers,
    verify_resume_terminals,
)
from .control import Listener
from .loop import Plan, Runner, StoppedByPerson
from .prepare import NOT_BEGUN, Prepared, objections_to, prepare_new_run, prepare_saved_run
from .record import (
    Fate,
    RunRecord,
    SavedSetting,
    forget_agents,
    is_run_id,
    keeping_runs_out,
    one_line,
    read_events,
    read_record,
    run_index,
    session_name_of,
    short_name,
    without_secrets,
)
from .recorder import ExportedState, Recorder, StateFile, load_state, read_state_of
from .request import Environment, Interrupts, RunRequest
from .screens import keep_screen
from .tree import commit_tree, note_of, plan_tree, reopen_tree, repair_tree, saved_tree, store_of
from .view import find_live_run, list_runs

logger = logging.getLogger(__name__)

NOT_RECORDED = ("PROMPT", "RESUME", "MISSING")
"""The task is recorded as such; the others are about one start."""
SETUP = "setup"
"""What prepares a work tree is logged like a gate of this name."""
NO_GATE = "no command of yours checked it (--gate tests='…')"
SERVER_FAULT = 500
"""From this status on it is not the agent: the disk of the server is full, or tmux is gone."""
EXIT_CODES = {FinalStatus.PASS: errors.EXIT_PASS, FinalStatus.FAIL: errors.EXIT_FAIL}


class Conductor:
    def __init__(self, request: RunRequest, given: Environment) -> None:
        self._request = request
        self._config = request.config
        self._given = given
        self._interrupts = given.interrupts
        self._clock = SystemClock()
        self._export = ExportedState(request.config.state_file, request.config.wd)
        self._recorder = Recorder(given.state_folder, given.show, self._clock, given.pop_warnings)
        self._tell = self._recorder.tell
        self._warn = self._recorder.warn
        self._tree: Worktree | None = None
        """None if its agents work in the user's own folder."""
        self._noticed: set[str] = set()
        """Known files in the place of those that are held back."""
        self._held = ExitStack()
        """What ends with the run, after its end was reported."""
        # Of an open run; if it is resumed, its folder has the record of its first start.
        self._record: RunRecord
        self._folder: Folder
        self._state_file: StateFile
        self._environ: Mapping[str, str]
        self._state: RunState | None = None
        self._agents_ended = False
        self.is_saved = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # First: another command that sees the end may remove the run, or resume it.
        self._recorder.close()
        self._held.close()

    def run(self) -> RunState:
        check_place(self._given.state_folder, self._config.wd)
        if run := self._request.run or self._left_in_tree():
            return self._resume_known(run)
        return self._begin_in_tree() if self._config.in_worktree else self._run_here()

    def _left_in_tree(self) -> str:
        """Return the run in a work tree of this project that is to be resumed, if there is one.

        It is the last one if that is asked for, else the last that the same command began.
        """
        config, store = self._config, self._given.state_folder
        is_task_named = config.prompt_file is not None or bool(config.prompt)
        if config.resume is False or (is_task_named and not (config.resume or config.in_worktree)):
            return ""
        runs = (run for run in list_runs(store) if run.is_unfinished)
        left = [run.id for run in runs if run.project == str(config.wd)]
        if left and not config.in_worktree:
            saved = self._load_saved(self._named_record())
            if saved is not None and saved.final_status is FinalStatus.RUNNING:
                return ""
        for run in left:
            saved = read_state_of(run_folder(store, run))
            if config.resume or (saved and not objections_to(saved, self._request)):
                return run
        if left and config.in_worktree:
            self._warn(
                f"an unfinished run of this project is there too: {left[0]}; "
                f"`cao resume {left[0]}` goes on with it, and this one is new"
            )
        return ""

    def _run_here(self) -> RunState:
        with self._holding_folder():
            record = self._named_record()
            saved = self._load_saved(record)
            against = objections_to(saved, self._request) if saved else ()
            if saved and should_auto_resume(saved, self._config.resume, against):
                for objection in against:
                    self._warn(f"the saved run goes on all the same: {objection}")
                return self._resume(saved, record)
            prepared = prepare_new_run(self._request, self._given, self._warn)
            self._open(prepared)
            is_open = saved is not None and saved.final_status is FinalStatus.RUNNING
            return self._begin(prepared, left=is_open, record=record)

    def _named_record(self) -> RunRecord | None:
        """Return the record of the run that the state file names, if it works in this folder."""
        run = self._export.named_run()
        record = read_record(run_folder(self._given.state_folder, run)) if is_run_id(run) else None
        return record if record is not None and record.wd == str(self._config.wd) else None

    def _load_saved(self, record: RunRecord | None) -> RunState | None:
        """Return the state of a run; without its record, what the state file has.

        One that has failed can be resumed with more rounds. None: nothing was saved.
        """
        if record is None:
            state = self._export.load_state()
        else:
            state = load_state(run_folder(self._given.state_folder, record.id))
        if state is None or not self._config.resume or "MAX_ROUNDS" not in self._request.insisted:
            return state
        return with_more_rounds(state, self._config.rules.max_rounds)

    def _begin_in_tree(self) -> RunState:
        if "STATE_FILE" in self._request.insisted:
            raise errors.UsageError(
                "a run in a work tree is saved in its own folder: leave out CAO_STATE_FILE"
            )
        prepared = prepare_new_run(self._request, self._given, self._warn)
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
        config = self._config
        prepared = replace(prepared, config=config)
        self._open(prepared)
        # First of all: a work tree of many files takes its time.
        self._tell(AgentsStarting(self._clock.now(), prepared.providers))
        held_back_of(self._folder, tree.held_back).take(tree.repository.top)
        self._tree, remarks = tree.make()
        try:
            self._recorder.note_tree(saved_tree(self._tree))
            for remark in remarks:
                self._warn(f"in the work tree: {remark}")
            if config.worktree_setup:
                runner = GateRunner()
                self._interrupts.when_noted(runner.stop)
                place = GatePlace(config.wd, config.gate_timeout, self._environ, self._folder)
                gate = Gate(SETUP, config.worktree_setup)
                result = runner.run_in(gate, place, f"000-{SETUP}")
                if not result.passed:
                    raise errors.UsageError(
                        "the command that prepares the work tree failed; no run was begun:\n"
                        f"{page_of(result)}"
                    )
            with self._holding_folder():
                return self._begin(prepared)
        finally:
            if not self.is_saved:
                # No agent was given anything to do.
                with suppress(errors.GitError):
                    self._tree.remove(self._tree.base)

    def _resume_known(self, run: str) -> RunState:
        # First: another command may be about to apply or discard its work.
        self._recorder.hold(run)
        record = read_record(run_folder(self._given.state_folder, run))
        saved = None if record is None else self._load_saved(record)
        # It could be resumed when it was chosen.
        tree = None if record is None else record.tree
        is_gone = tree is not None and tree.delivered is Fate.DISCARDED
        if record is None or saved is None or is_gone:
            raise errors.UsageError(
                f"the run {run} was removed or discarded meanwhile: start a new one"
            )
        if tree is not None:
            self._move_into(reopen_tree(record, tree, self._given.environ), run)
        self._repair_tree()
        with self._holding_folder():
            return self._resume(saved, record)

    @contextmanager
    def _holding_folder(self) -> Iterator[None]:
        wd = self._config.wd
        ensure_response_dir(wd)
        if self._tree is None:
            self._export.check()
        at_work = partial(find_live_run, self._given.state_folder, wd=wd)
        with keeping_runs_out(wd, at_work):
            yield

    def _move_into(self, tree: Worktree, run: str) -> None:
        self._store = store_of(self._given.state_folder, run)
        self._tree = tree
        self._config = replace(self._config, wd=tree.wd)

    def _open(self, prepared: Prepared, *, resumed: bool = False) -> None:
        """Give the run its folder, and report its id before anything else."""
        given, tree, config, task = self._given, self._tree, prepared.config, prepared.task
        if given.state_stays:
            for warning in said_of_place(given.state_folder, config.wd):
                self._warn(warning)
        settings = {n: text for n, text in self._request.settings.items() if n not in NOT_RECORDED}
        if "API" in settings:
            settings["API"] = without_secrets(settings["API"])
        base, branch, top = "", "", str(config.wd)
        if tree is not None:
            base, branch, top = tree.base, tree.onto, str(tree.folder)
        elif repository := repository_of(config.wd, given.environ):
            base, branch, top = repository.head, repository.branch, str(repository.top)
            if repository.under_way and not resumed:
                self._warn(
                    f"{repository.under_way} is under way in {top}: agents see what it has left in "
                    "the files; Ctrl-C, and end it first, if that is not meant"
                )
        self._record = RunRecord(
            id=prepared.run_id,
            wd=str(config.wd),
            state_file="" if tree else str(config.state_file),
            task=task.text,
            task_line=one_line(task.explore_summary),
            started=self._clock.now(),
            base=base,
            branch=branch,
            top=top,
            flow=prepared.flow.name,
            settings={
                name: SavedSetting(value, self._request.sources.get(name, "default"))
                for name, value in {**settings, **config.settings}.items()
            },
            machine=platform.node(),
            pid=os.getpid(),
            project=str(tree.project) if tree else "",
            tree=saved_tree(tree) if tree else None,
        )
        self._folder = self._recorder.begin(self._record, resumed=resumed)
        self._number = self._held.enter_context(run_index(given.state_folder))
        self._environ = {**given.environ, RUN_INDEX: str(self._number)}
        export = None if tree else self._export
        self._state_file = StateFile(self._folder, self._clock, export, self._warn)

    def _tell_started(self, role: str, terminal_id: str) -> None:
        self._tell(AgentStarted(self._clock.now(), role, terminal_id))

    def _begin(
        self, prepared: Prepared, *, left: bool = False, record: RunRecord | None = None
    ) -> RunState:
        """Begin a run; is an unfinished one `left`, which this one replaces in the work folder?"""
        if self._tree is None:
            self._tell(AgentsStarting(self._clock.now(), prepared.providers))
        client = self._connect()
        self._end_agents_of_killed(client)
        try:
            state = init_new_run(client, prepared, self._tell_started, self._interrupts.when_noted)
        except errors.Stopped as stopped:
            self._warn(str(stopped))
            raise
        except errors.ApiRefused as error:
            # All or none are started, so there is nothing to resume.
            kind = errors.UsageError if error.status_code < SERVER_FAULT else errors.RunError
            raise kind(f"{NOT_BEGUN}: {error.detail}") from error
        with ExitStack() as undo:
            undo.callback(exit_terminals, client, state.terminals.values())
            self._interrupts.check()
            if left:
                self._leave(record, client)
            self._save(state)
            undo.pop_all()
        with self._runner(prepared, client, state) as runner:
            self._tell(self._began(client, state))
            return self._loop(client, runner, state)

    def _leave(self, record: RunRecord | None, client: ApiClient) -> None:
        if record is None:
            # Of unknown origin: it could name any agents, so these are left alone.
            self._folder.replace(REPLACED_STATE, self._export.read() or b"")
            self._warn(f"the unfinished run of {self._export.path} is kept in {self._folder.path}")
            return
        if record.terminals:
            # They know the same response files.
            exit_terminals(client, record.terminals.values())
            forget_agents(run_folder(self._given.state_folder, record.id))
            self._warn("the unfinished run's agents are ended, so that they do not write into this")
        self._warn(
            f"`cao resume {record.id}` goes on with the unfinished run when this one has ended"
        )

    def _end_agents_of_killed(self, client: ApiClient) -> None:
        """End the agents of runs here that were killed before their first turn: none is resumed.

        Some of them may not have been recorded yet.
        """
        if self._config.api_given:
            return
        for run in list_runs(self._given.state_folder):
            is_ours = (run.project or run.wd) == (self._record.project or self._record.wd)
            if is_ours and run.unsaved and not run.ended and not run.is_live:
                delete_session(client, session_name_of(run.id))
                forget_agents(run_folder(self._given.state_folder, run.id))

    def _save(self, state: RunState) -> None:
        self._state_file.save_state(state)
        self.is_saved = True

    def _connect(self) -> ApiClient:
        """Return a client of the server; raise `Stopped` if the run is to stop by then.

        A server of our own stays, with its page, until the end is reported.
        """
        config = self._config
        client, found = self._held.enter_context(self._given.connect(config, self._warn))
        self._interrupts.check()
        client.run_index = self._number
        client.record = config.recording
        # Without API our own commands look in the state folder, and find the same server.
        self._tell(ServerChosen(self._clock.now(), found.url, found.how, config.api_given))
        if config.permissions and Feature.PERMISSIONS not in client.features():
            self._warn(
                f"the server at {client.base_url} does not take --permissions: its agents may "
                f"do what it was started with, not {config.permissions}"
            )
        return client

    def _resume(self, saved: RunState, record: RunRecord | None) -> RunState:
        self.is_saved = True
        if record is not None and not record.terminals:
            self._request = replace(self._request, replace_terminals=True)
        prepared, saved = prepare_saved_run(
            self._request, self._given, self._warn, saved, record, self._config, self._tree
        )
        self._config = prepared.config
        self._open(prepared, resumed=record is not None)
        if record is None:
            self._warn(f"the run that was saved in {self._export.path} is taken over")
            self._save(saved)
        client = self._connect()
        with self._runner(prepared, client, saved) as runner:
            try:
                state = runner.record_archived_reply(saved)
            except errors.RunError:
                # It has begun long ago, and is reported so.
                self._state = saved
                raise
            state, replaced = self._find_agents(client, state)
            began = self._began(client, state)
            self._tell(structs.replace(began, resumed=True, replaced=replaced))
            if self._config.missing:
                state = runner.answer_missing(state, self._config.missing)
            return self._loop(client, runner, state)

    def _find_agents(self, client: ApiClient, state: RunState) -> tuple[RunState, tuple[str, ...]]:
        """Find every agent of a saved run again; return also the roles that have a new one."""
        state = replace(state, api=self._config.api)
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
        if successors:
            self._tell(AgentsStarting(self._clock.now(), successors))
        state = replace_terminals(
            client, state, successors, self._tell_started, self._interrupts.when_noted
        )
        self._save(state)
        return state, tuple(successors)

    def _runner(self, prepared: Prepared, client: ApiClient, state: RunState) -> Runner:
        config, tree, folder = prepared.config, self._tree, self._folder
        names = {role.name: role.response_file for role in state.flow.roles}
        files = ResponseFiles(config.wd, turns_folder(folder), names)
        work = open_work_folder(
            config.wd, folder, self._environ, *((self._repair_tree, tree.held_back) if tree else ())
        )
        briefing = Briefing(
            prepared.task,
            files.folder,
            config.rules.condensation,
            config.project_test_cmd,
            note="" if tree is None else note_of(tree),
        )
        plan = Plan(
            briefing,
            config.rules,
            config.handoff,
            self._state_file,
            files,
            partial(keep_screen, folder, client.get_view),
            GatePlace(config.wd, config.gate_timeout, self._environ, folder),
            work,
            since=self._record.started,
            run=short_name(self._record.id),
            told=max(
                (one.sequence for one in read_events(folder) if isinstance(one, StepEnded)),
                default=0,
            ),
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
            except errors.FolderGone as gone:
                if self._tree is None:
                    raise
                self._repair_tree()
                # They work in the folder that was removed, even where a new one has its name.
                self._agents_ended = True
                exit_terminals(client, agents)
                resume = f"cao resume {short_name(self._record.id)} --replace-terminals"
                raise errors.RunError(
                    f"the work tree {gone.folder} was removed while {gone.role} was at work. It is "
                    "back as the last snapshot has it, and the agents, which cannot work on, are "
                    f"ended: `{resume}` goes on with new ones",
                    to_resume=resume,
                ) from gone
            except (errors.HandoffError, errors.HandoffTimeout) as error:
                if self._config.cleanup_on_exit:
                    # It is about an agent that is ended with the others.
                    error.drop_advice()
                raise
            finally:
                self._state = runner.state
                for role, at in stop_sleepers(client, runner.state).items():
                    self._warn(
                        f"{role} hit its usage limit and would go on by itself at {at}, with no "
                        "run watching: it is stopped"
                    )
            # Every setting is saved: only the request shows what the user said about the agents.
            is_asked = "CLEANUP_ON_EXIT" in self._request.settings
            has_passed = done.final_status is FinalStatus.PASS
            if has_passed and not is_asked and not self._given.is_watched(state.session_name):
                self._agents_ended = True
                exit_terminals(client, agents)
                # With one that was started by a process that was killed just then.
                delete_session(client, state.session_name)
        self._commit(done)
        return done

    def _repair_tree(self) -> None:
        if self._tree is None:
            return
        for fault in repair_tree(self._tree, self._store):
            self._warn(f"the work tree was broken, and is repaired: {fault}")
        made = in_their_place(self._tree.folder, self._tree.held_back)
        if new := [path for path in made if path not in self._noticed]:
            self._noticed.update(new)
            self._warn(
                f"{first_names(new)} was made where your own is held back: gates use yours, and no "
                "commit has the other"
            )

    def _commit(self, state: RunState) -> None:
        if self._tree is None or state.final_status is not FinalStatus.PASS:
            return
        record = self._record
        try:
            self._repair_tree()
            self._tree, done = commit_tree(
                self._tree, self._store, record.id, state, record.task_line
            )
            self._recorder.note_tree(saved_tree(self._tree))
        except (errors.RunError, errors.GitError, OSError) as error:
            self._warn(f"the work could not be committed: {error}; it is in {self._tree.wd}")
            return
        if self._tree.tip == self._tree.base:
            self._warn("no file was changed: there is nothing to commit")
        left_out = [f"not committed: {one.path} ({one.reason})" for one in done.left_out]
        for remark in (*done.remarks, *left_out):
            self._warn(remark)

    def end(
        self, exit_code: int, reason: str = "", error: errors.OrchestratorError | None = None
    ) -> None:
        self._recorder.give_early_warnings()
        state, tree, folder = self._state, self._tree, self._recorder.folder
        ended = run_ended(self._clock.now(), state, exit_code, reason, error)
        if folder is not None:
            ended = structs.replace(ended, repository=said_of_repository(read_events(folder)))
        if state is not None and not self._config.cleanup_on_exit and not self._agents_ended:
            ended = structs.replace(ended, session_left=state.session_name)
        if tree is not None and tree.tip != tree.base:
            ended = structs.replace(ended, branch=tree.branch)
        elif tree is not None and self.is_saved:
            ended = structs.replace(ended, tree=str(tree.wd))
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
            max_rounds=self._config.rules.max_rounds,
            reviewers=tuple(stage.reviewer for stage in state.flow.stages if stage.reviewer),
        )


def run_ended(
    at: float,
    state: RunState | None,
    exit_code: int,
    reason: str,
    error: errors.OrchestratorError | None = None,
) -> RunEnded:
    status = FinalStatus.RUNNING if state is None else state.final_status
    ended = RunEnded(at, status, state.round if state else 0, exit_code, reason)
    if error is not None:
        ended = structs.replace(ended, to_resume=error.to_resume, error=errors.kind_of(error))
    if state is None or status is not FinalStatus.PASS:
        return ended
    proof = state.progress.proof
    if proof is None:
        return ended if state.gates else structs.replace(ended, gaps=NO_GATE)
    return structs.replace(
        ended,
        proof=str(proof),
        proven=proof.is_proven,
        gaps="" if proof.is_proven else proof.said,
        look_at=proof.look_at,
        before=proof.before,
    )


def carry_out(conductor: Conductor, interrupts: Interrupts) -> int:
    """Take a run to its end and return its exit code; raise what stopped it."""

    def end(code: int, reason: str = "", error: errors.OrchestratorError | None = None) -> int:
        # The output may be what is gone.
        with suppress(OSError):
            conductor.end(code, reason, error)
        return code

    try:
        state = conductor.run()
    except errors.Stopped as stopped:
        return end(interrupts.exit_code, interrupts.reason or str(stopped))
    except errors.OrchestratorError as error:
        # The user sees what the refusal of a request means, not the request.
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, errors.ApiRefused | errors.ApiUnreachable) and cause.request:
                logger.warning("the request that stopped the run: %s", cause.request)
            cause = cause.__cause__
        end(errors.exit_code_of(error), str(error), error)
        raise
    except BrokenPipeError as error:
        end(errors.EXIT_CLOSED, "nobody reads its output any more")
        left = "what is saved can be resumed" if conductor.is_saved else NOT_BEGUN
        raise BrokenPipeError(f"nobody reads the output any more; {left}") from error
    except OSError as error:
        if interrupts.reason:
            # The output of a closed terminal is gone.
            return end(interrupts.exit_code, interrupts.reason)
        end(errors.EXIT_ERROR, errors.in_words(error))
        kept = "the run is saved and can be resumed" if conductor.is_saved else NOT_BEGUN
        raise errors.RunError(f"{errors.in_words(error)}; {kept}") from error
    except Exception as error:
        end(errors.EXIT_ERROR, f"a fault of cao: {type(error).__name__}")
        raise
    return end(EXIT_CODES[state.final_status])
