"""Conducts a run: lock, saved state, server, agents, loop."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.clock import Clock, SystemClock
from cli_agent_orchestrator._internal.exit_codes import EXIT_FAIL, EXIT_PASS
from cli_agent_orchestrator._internal.handoff.responses import ResponseFiles
from cli_agent_orchestrator._internal.layout import run_folder, temporary_folder
from cli_agent_orchestrator._internal.models import RUN_INDEX
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.machine import unpause, with_more_rounds
from cli_agent_orchestrator._internal.pipeline.missing import Remedy
from cli_agent_orchestrator._internal.pipeline.prompts import Briefing
from cli_agent_orchestrator._internal.pipeline.resuming import (
    choose_settings,
    should_auto_resume,
)
from cli_agent_orchestrator._internal.pipeline.state import FinalStatus, RunState
from cli_agent_orchestrator._internal.pipeline.task import Task, parse_task
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.agents import (
    NewRun,
    exit_left_terminals,
    exit_terminals,
    find_lost_terminals,
    init_new_run,
    replace_terminals,
    verify_resume_terminals,
)
from cli_agent_orchestrator._internal.runs.checking import GatePlace
from cli_agent_orchestrator._internal.runs.control import Listener
from cli_agent_orchestrator._internal.runs.events import with_error, with_proof
from cli_agent_orchestrator._internal.runs.journal import Journal
from cli_agent_orchestrator._internal.runs.ledger import Records
from cli_agent_orchestrator._internal.runs.lock import keeping_runs_out, run_lock
from cli_agent_orchestrator._internal.runs.own_tree import (
    OwnTree,
    plan_tree,
    reopen_tree,
)
from cli_agent_orchestrator._internal.runs.patience import patiently
from cli_agent_orchestrator._internal.runs.place import check_place, said_of_place
from cli_agent_orchestrator._internal.runs.plan import Plan
from cli_agent_orchestrator._internal.runs.recorder import Recorder
from cli_agent_orchestrator._internal.runs.refusals import (
    check_commands,
    check_flow,
    check_folder,
    check_held_back,
    check_remedy,
    check_repository,
    check_snapshots,
    logging_refusals,
    objections_to,
    told_too_late,
    with_saved_api,
)
from cli_agent_orchestrator._internal.runs.registry import list_runs, run_at_work
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.run_id import is_run_id, new_run_id, short_name
from cli_agent_orchestrator._internal.runs.run_index import run_index
from cli_agent_orchestrator._internal.runs.run_log import logging_to
from cli_agent_orchestrator._internal.runs.run_record import (
    Delivered,
    RunRecord,
    SavedSetting,
    note_kept_aside,
    one_line,
    read_record,
    without_secrets,
)
from cli_agent_orchestrator._internal.runs.runner import Runner, StoppedByPerson
from cli_agent_orchestrator._internal.runs.screens import Screens
from cli_agent_orchestrator._internal.runs.seal import UserSeals
from cli_agent_orchestrator._internal.runs.starting import Onlooker
from cli_agent_orchestrator._internal.runs.state_file import StateFile, read_task_text
from cli_agent_orchestrator._internal.runs.surroundings import Surroundings
from cli_agent_orchestrator._internal.runs.teller import Teller
from cli_agent_orchestrator._internal.runs.tree_run import TreeRun
from cli_agent_orchestrator._internal.runs.work_folder import (
    KeptOut,
    began_at,
    leave_alone,
    open_work_folder,
    said_of_start,
)
from cli_agent_orchestrator._internal.settings.table import BY_NAME, PROVIDER_SUFFIX
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    FolderGone,
    GitError,
    OrchestratorError,
    PromptError,
    ResumeError,
    RunError,
    RunLocked,
    StateError,
    Stopped,
    UsageError,
)
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    RunBegan,
    RunEnded,
    RunEvent,
    ServerChosen,
)

EXIT_CODES = {FinalStatus.PASS: EXIT_PASS, FinalStatus.FAIL: EXIT_FAIL}
"""How a finished run ends."""
NO_ARCHIVE = "none"
MOST_NAMED = 3
NOT_BEGUN = "no run was begun"
NOT_RECORDED = ("PROMPT", "RESUME", "MISSING")
"""The task is recorded as such; the other is about one start."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run is made of before anything of it is started."""

    run_id: str
    task: Task
    flow: Flow
    providers: Mapping[str, str] = field(default_factory=dict)
    """The agent of each role, if they are to be started."""


class Conductor:
    """One run, from its beginning or from where it was left."""

    def __init__(self, request: RunRequest, given: Surroundings) -> None:
        self._request = request
        self._config = request.config
        self._given = given
        self._interrupts = given.interrupts
        self._clock = SystemClock()
        self._state_file = state_file_of(request.config, given.state_folder, self._clock)
        self._state: RunState | None = None
        self.is_saved = False
        self._recorder = Recorder(given.state_folder, self._clock)
        self._teller = Teller(self._recorder, given.view, self._clock)
        self._record: RunRecord | None = None
        self._agents_ended = False
        self._held = ExitStack()
        self._environ = given.environ
        self._number: int | None = None
        self._in_tree: TreeRun | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._recorder.close()

    def run(self) -> RunState:
        """Return the state of the finished run."""
        check_place(self._given.state_folder, self._config.wd)
        if self._request.run:
            return self._resume_in_tree(self._request.run)
        if self._config.in_worktree:
            return self._begin_in_tree()
        with self._holding_folder():
            saved = self._reopened(self._state_file.load_state())
            against = objections_to(saved, self._request, own=self._state_file.own) if saved else ()
            if should_auto_resume(saved, self._config.resume, against):
                assert saved is not None, "only what is saved is resumed"
                for objection in against:
                    self._warn(f"the saved run goes on all the same: {objection}")
                return self._resume(saved)
            if self._config.missing:
                raise UsageError("--missing is for a saved run that is resumed, and there is none")
            prepared = self._prepare()
            if said := said_of_start(self._config.wd):
                self._warn(said)
            return self._begin(prepared, saved)

    @contextmanager
    def _holding_folder(self) -> Iterator[None]:
        """Keep others from the work folder."""
        files = response_files(self._config.wd, NO_ARCHIVE)
        files.ensure_response_dir()
        self._state_file.check()
        with (
            run_lock(
                files.temporary,
                self._clock,
                partial(run_at_work, self._given.state_folder, self._config.wd),
            ),
            logging_to(files.temporary),
            logging_refusals(),
        ):
            yield

    def _begin_in_tree(self) -> RunState:
        """Make a work tree and take a new run to its end there."""
        if self._config.resume or self._config.missing:
            raise UsageError("say which run goes on: `cao resume RUN`; `cao runs` lists them")
        if "STATE_FILE" in self._request.insisted:
            raise UsageError(
                "a run in a work tree is saved in its own folder: leave out --state-file and "
                "CAO_STATE_FILE"
            )
        prepared = self._prepare()
        tree, warnings = plan_tree(
            self._config.wd,
            self._given.state_folder,
            prepared.run_id,
            self._given.environ,
            self._config.held_back,
        )
        for warning in (*warnings, *unfinished_runs(self._given.state_folder, tree.project)):
            self._warn(warning)
        run = self._move_into(tree, prepared.run_id)
        self._open(prepared, resumed=False)
        remarks = run.make()
        try:
            run.prepare(remarks, self._config, self._environ, self._interrupts.when_noted)
            with self._holding_folder():
                return self._commit(run, self._begin(prepared, None))
        finally:
            if not self.is_saved:
                # No agent was given anything to do.
                with suppress(GitError):
                    run.tree.remove()

    def _resume_in_tree(self, run: str) -> RunState:
        """Find the work tree of a run, mend it and take the run to its end there."""
        folder = run_folder(self._given.state_folder, run)
        if (found := read_record(folder)) is None or found.tree is None:
            raise UsageError(f"{run} is no run with a work tree")
        self._hold(found)
        # As it is now that nobody else changes it.
        record = read_record(folder)
        if record is None or record.tree is None:
            raise ResumeError(f"the run {run} is removed")
        if record.tree.delivered is Delivered.DISCARDED:
            became = "applied" if record.tree.is_applied else "discarded"
            raise ResumeError(f"the work of the run {run} was {became}: start a new one")
        tree = reopen_tree(record, record.tree, self._given.state_folder, self._given.environ)
        in_tree = self._move_into(tree, run)
        if not os.path.lexists(tree.state_file):
            raise ResumeError(
                f"the run {run} was ended before its first turn, and nothing of it is saved: start "
                f"a new one, and remove what is left of this with `cao discard {run}`"
            )
        in_tree.mend()
        with self._holding_folder():
            saved = self._reopened(self._state_file.load_state())
            if saved is None:
                raise ResumeError(f"the run {run} cannot be resumed: nothing of it is saved")
            return self._commit(in_tree, self._resume(saved))

    def _hold(self, record: RunRecord) -> None:
        """Keep other commands from a run; if it is a run itself that is at work, say which."""
        try:
            self._recorder.hold(record.id)
        except RunLocked:
            with suppress(StateError), keeping_runs_out(temporary_folder(Path(record.wd))):
                pass
            raise

    def _reopened(self, saved: RunState | None) -> RunState | None:
        """Return a saved run; one that has failed goes on if it is resumed with more rounds."""
        if saved is None or not self._config.resume or "MAX_ROUNDS" not in self._request.insisted:
            return saved
        return with_more_rounds(saved, self._config.rules.limits.max_rounds)

    def _move_into(self, tree: OwnTree, run: str) -> TreeRun:
        """Let all that follows happen in a work tree."""
        self._in_tree = TreeRun(tree, run, self._given.state_folder, self._recorder, self._teller)
        self._config = self._in_tree.placed(self._config)
        self._state_file = state_file_of(self._config, self._given.state_folder, self._clock)
        return self._in_tree

    def _commit(self, in_tree: TreeRun, state: RunState) -> RunState:
        assert self._record is not None, "the run was opened"
        in_tree.commit(state, self._record.task_line)
        return state

    def end(self, exit_code: int, reason: str = "", error: OrchestratorError | None = None) -> None:
        """Tell how the run ended."""
        self._teller.speak_up()
        status = self._state.final_status if self._state else FinalStatus.RUNNING
        number = self._state.round if self._state else 0
        ended = RunEnded(
            at=self._clock.now(),
            final_status=status,
            round=number,
            exit_code=exit_code,
            reason=reason,
            session_left=""
            if self._state is None or self._config.cleanup_on_exit or self._agents_ended
            else self._state.session_name,
            repository=self._teller.said_of_repository(),
        )
        if self._state and status is FinalStatus.PASS:
            ended = with_proof(ended, self._state.progress.proof)
        if self._in_tree is not None:
            tree = self._in_tree.tree
            if tree.saved.has_work:
                ended = replace(ended, branch=tree.worktree.branch)
            elif self.is_saved:
                ended = replace(ended, tree=str(tree.wd))
        self._tell(with_error(ended, error))

    def _prepare(self) -> Prepared:
        """Find out before anything is started that a new run can begin."""
        task = self._read_task()
        flow = self._given.find_flow(self._config.flow, self._config.wd)
        self._check_flow(flow)
        check_commands(self._request, self._config, self._given.state_folder)
        providers = {role.name: self._config.provider_of(role.name) for role in flow.roles}
        self._check_providers(self._config, providers.values())
        self._check_server()
        return Prepared(new_run_id(self._clock), task, flow, providers)

    def _read_task(self) -> Task:
        """Return the task of a new run; what is wrong with a file names it."""
        text, file = read_task_text(self._config), self._config.prompt_file
        try:
            return parse_task(text)
        except PromptError as error:
            raise PromptError(f"{file.name}: {error}" if file else str(error)) from None

    def _begin(self, prepared: Prepared, saved: RunState | None) -> RunState:
        """Start the agents of a flow and take a new run to its end."""
        task, flow = prepared.task, prepared.flow
        if not self._teller.is_open:
            self._open(prepared, resumed=False)
        # Before anything that takes its time, so that there is something to be seen.
        self._tell_starting(prepared.providers)
        with self._server(self._config) as client:
            state = self._start(client, NewRun(self._config, flow, task, prepared.run_id))
            with ExitStack() as undo:
                undo.callback(exit_terminals, client, state)
                self._interrupts.check()
                self._keep_unfinished(client, saved)
                self._state_file.save_state(state)
                self.is_saved = True
                undo.pop_all()
            with self._runner(client, task, state) as runner:
                self._tell_begin(client, state)
                return self._loop(client, runner, state)

    def _start(self, client: ApiClient, new: NewRun) -> RunState:
        try:
            return init_new_run(client, new, self._onlooker())
        except Stopped as stopped:
            self._warn(str(stopped))
            raise
        except ApiRefused as error:
            # All or none are started, so there is nothing that could be resumed.
            raise UsageError(f"{NOT_BEGUN}: {error.detail}") from error

    def _resume(self, saved: RunState) -> RunState:
        """Take a saved run to its end with its own agents, and new ones for those that are lost."""
        self.is_saved = True
        check_folder(saved, self._config)
        # Whoever resumes it wants it to go on.
        saved = unpause(self._with_its_settings(saved))
        if self._in_tree is not None:
            self._in_tree.tree.check_held_back(self._config.held_back)
        self._check_flow(saved.flow)
        check_commands(self._request, self._config, self._given.state_folder)
        config = with_saved_api(self._config, saved, own=self._state_file.own)
        if self._request.replace_terminals:
            chosen = (self._request.chosen_provider(role.name) for role in saved.flow.roles)
            self._check_providers(config, filter(None, chosen))
        task = parse_task(saved.prompt if saved.prompt.strip() else read_task_text(self._config))
        check_remedy(saved, self._config)
        archive = saved.progress.archive or new_run_id(self._clock)
        if is_run_id(archive):
            record = read_record(run_folder(self._given.state_folder, archive))
            check_repository(record, self._config.wd)
        saved = replace(saved, progress=replace(saved.progress, archive=archive))
        self._open(Prepared(archive, task, saved.flow), resumed=True)
        with (
            self._server(config) as client,
            self._runner(client, task, saved) as runner,
        ):
            try:
                state = runner.record_archived_reply(saved)
            except RunError:
                # It has begun long ago, and is told as such.
                self._state = saved
                raise
            lost: Mapping[str, str] = {}
            if self._request.replace_terminals:
                lost = find_lost_terminals(client, state, also_failed=True)
                successors = self._successors(state, lost)
                self._tell_starting(successors)
                state = replace_terminals(client, state, successors, self._onlooker())
                self._state_file.save_state(state)
            else:
                verify_resume_terminals(client, state)
            self._tell_begin(client, state, resumed=True, replaced=tuple(lost))
            if self._config.missing:
                state = runner.answer_missing(state, Remedy(self._config.missing))
            return self._loop(client, runner, state)

    def _loop(self, client: ApiClient, runner: Runner, state: RunState) -> RunState:
        self._state = state
        with ExitStack() as stack:
            if self._config.cleanup_on_exit:
                stack.callback(lambda: exit_terminals(client, state))
            self._interrupts.when_noted(runner.stop)
            folder = self._recorder.folder
            if folder is not None:
                heard = state.progress.heard
                stack.enter_context(Listener(folder, heard, runner.hear, self._warn))
            try:
                return runner.run(state)
            except StoppedByPerson:
                self._agents_ended = True
                exit_terminals(client, state)
                raise
            except FolderGone as gone:
                if self._in_tree is None:
                    raise
                self._in_tree.mend()
                # They stand in a folder that is not there any more, also when another is.
                self._agents_ended = True
                exit_terminals(client, state)
                raise self._tree_gone(gone) from gone
            finally:
                self._state = runner.state

    def _tree_gone(self, gone: FolderGone) -> RunError:
        assert self._record is not None, "the run was opened"
        resume = f"cao resume {short_name(self._record.id)} --replace-terminals"
        return RunError(
            f"the work tree {gone.folder} was removed while {gone.role} was at work. It is back as "
            "the last snapshot has it, and the agents, which cannot work on, are ended: "
            f"`{resume}` goes on with new ones",
            to_resume=resume,
        )

    @contextmanager
    def _server(self, config: RunConfig) -> Iterator[ApiClient]:
        with self._given.connect(config, self._warn) as link:
            self._interrupts.check()
            client = link.client
            client.run_index = self._number
            # Without API our own commands look in the state folder, and find the same server.
            named = config.api_given
            self._tell(ServerChosen(self._clock.now(), link.url, link.how, named))
            if config.permissions and "permissions" not in client.features():
                self._warn(
                    f"the server at {client.base_url} does not take --permissions: its agents may "
                    f"do what it was started with, not {config.permissions}"
                )
            yield client

    def _runner(self, client: ApiClient, task: Task, state: RunState) -> Runner:
        config, in_tree, record = self._config, self._in_tree, self._record
        assert record is not None, "the run was opened"
        files = response_files(config.wd, state.progress.archive, state.flow)
        briefing = Briefing(
            task,
            files.folder,
            config.rules.condensation,
            config.project_test_cmd,
            note="" if in_tree is None else in_tree.tree.note,
        )
        place = GatePlace(config.wd, config.gate_timeout, self._environ, self._recorder.folder)
        tend = leave_alone if in_tree is None else in_tree.mend
        kept_out = None
        if in_tree is not None:
            tree = in_tree.tree.worktree
            kept_out = KeptOut(tree.held_back, tree.ours)
        work = open_work_folder(config.wd, self._recorder.folder, self._clock, tend, kept_out)
        plan = Plan(
            briefing,
            config.rules,
            config.handoff,
            place,
            work,
            config.readonly_roles,
            since=record.started,
            run=short_name(record.id),
        )
        folder = self._recorder.folder
        screens = None if folder is None else Screens(client, folder)
        records = Records(self._state_file, files, Journal(files.kept), screens)
        return Runner(client, plan, records, self._tell)

    def _with_its_settings(self, saved: RunState) -> RunState:
        """Go on by the settings with which the run began, and those that are given anew."""
        request = self._request
        # Somebody else's could let the agents do more than this user would.
        began_with = saved.progress.settings if self._state_file.own else {}
        resumed = choose_settings(began_with, request.insisted, request.settings)
        for remark in (*resumed.remarks, *told_too_late(saved, request)):
            self._warn(remark)
        config = RunConfig.from_env(
            {**request.settings, **resumed.settings}, self._config.api_named_by
        )
        # Those of the work tree, if there is one.
        here = self._config
        self._config = replace(config, wd=here.wd, state_file=here.state_file)
        return replace(saved, progress=replace(saved.progress, settings=self._config.settings))

    def _check_flow(self, flow: Flow) -> None:
        """Refuse what does not fit a flow, and warn of what is surely not meant."""
        check_flow(flow, self._config)
        known = [role.name for role in flow.roles]
        for role in self._config.providers:
            name = f"{role.upper()}{PROVIDER_SUFFIX}"
            if role not in known and self._request.sources.get(name) == "option":
                self._warn(f"{BY_NAME[name].option}: the flow {flow.name} has no {role}")
        in_tree = self._in_tree is not None or self._config.in_worktree
        check_held_back(self._config, in_tree=in_tree)
        check_snapshots(self._config, self._given.environ)
        for warning in self._config.warnings(flow.least_evidence):
            self._warn(warning)

    def _successors(self, state: RunState, lost: Mapping[str, str]) -> Mapping[str, str]:
        """Return the agent for each lost one: the one chosen now, else what it was before."""
        return {
            role: self._request.chosen_provider(role)
            or state.provider_of(role)
            or self._config.provider_of(role)
            for role in lost
        }

    def _keep_unfinished(self, client: ApiClient, saved: RunState | None) -> None:
        if saved is not None and saved.final_status is FinalStatus.RUNNING:
            # They know the same response files. Somebody else's state could name any agent.
            if self._state_file.own and exit_left_terminals(client, saved):
                self._warn(
                    "the agents of the unfinished run are ended, so that they do not write into "
                    "this one"
                )
            aside = self._state_file.move_aside("unfinished")
            self._warn(f"the unfinished run that was saved here is kept in {aside}")
            self._let_go_on_later(saved, aside)

    def _let_go_on_later(self, saved: RunState, aside: Path) -> None:
        """See to it that a run whose state was moved can be resumed where that is now."""
        run = saved.progress.archive
        if not self._state_file.own or not is_run_id(run):
            return
        config = replace(self._config, state_file=aside)
        state_file_of(config, self._given.state_folder, self._clock).save_state(saved)
        if note_kept_aside(run_folder(self._given.state_folder, run), str(aside)):
            self._warn(f"`cao resume {run}` goes on with it when this one has ended")

    def _check_providers(self, config: RunConfig, providers: Iterable[str]) -> None:
        """Refuse agents that our own server could not start; another one may know more."""
        if not config.api_given:
            for provider in providers:
                self._given.check_provider(provider)

    def _check_server(self) -> None:
        """Refuse a server that was named and is not there: no other takes its place."""
        if not self._config.api_given:
            return
        try:
            with self._given.connect(self._config, self._warn):
                pass
        except ApiUnreachable as error:
            raise UsageError(f"{NOT_BEGUN}: {error}") from error

    def _tell_starting(self, providers: Mapping[str, str]) -> None:
        if providers:
            self._tell(AgentsStarting(self._clock.now(), providers))

    def _onlooker(self) -> Onlooker:
        return Onlooker(self._tell_started, self._interrupts.when_noted)

    def _tell_started(self, role: str, terminal_id: str) -> None:
        self._tell(AgentStarted(self._clock.now(), role, terminal_id))

    def _tell_begin(
        self,
        client: ApiClient,
        state: RunState,
        resumed: bool = False,
        replaced: tuple[str, ...] = (),
    ) -> None:
        providers = {role: state.provider_of(role) for role in state.terminals}
        began = RunBegan(
            at=self._clock.now(),
            session_name=state.session_name,
            terminals=state.terminals,
            providers=providers,
            archive=str(response_files(self._config.wd, state.progress.archive).archive_folder),
            resumed=resumed,
            replaced=replaced,
            permissions=permissions_of(client, state),
            max_rounds=self._config.rules.limits.max_rounds,
            reviewers=tuple(stage.reviewer for stage in state.flow.stages if stage.reviewer),
        )
        self._tell(began)

    def _open(self, prepared: Prepared, *, resumed: bool) -> None:
        """Give the run its folder, and tell its id before anything else."""
        config, task = self._config, prepared.task
        if self._given.state_stays:
            for warning in said_of_place(self._given.state_folder, config.wd):
                self._warn(warning)
        tree = self._in_tree.tree if self._in_tree is not None else None
        if tree is None:
            base, branch, top = began_at(config.wd)
        else:
            base, branch, top = tree.base, tree.onto, tree.saved.folder
        self._record = RunRecord(
            id=prepared.run_id,
            wd=str(config.wd),
            state_file=str(config.state_file),
            archive=prepared.run_id,
            task=task.text,
            task_line=one_line(task.explore_summary),
            started=self._clock.now(),
            base=base,
            branch=branch,
            top=top,
            flow=prepared.flow.name,
            settings=saved_settings(config, self._request),
            pid=os.getpid(),
            project="" if tree is None else str(tree.project),
            tree=None if tree is None else tree.saved,
        )
        self._teller.begin(self._record, resumed=resumed)
        if self._recorder.folder is not None:
            self._number = self._held.enter_context(run_index(self._given.state_folder))
            self._environ = {**self._given.environ, RUN_INDEX: str(self._number)}

    def _warn(self, text: str) -> None:
        self._teller.warn(text)

    def _tell(self, event: RunEvent) -> None:
        self._teller.tell(event)


def permissions_of(client: ApiClient, state: RunState) -> str:
    """Return what the agents of a run may do without asking, as their server says it."""
    if "permissions" not in patiently(client.features, repeatable=True):
        return ""
    agents = (
        patiently(partial(client.get_terminal, one), repeatable=True)
        for one in state.terminals.values()
    )
    told = (agent.get("permissions") for agent in agents)
    return ", ".join(sorted({str(word) for word in told if word}))


def unfinished_runs(state_folder: Path, project: Path) -> Iterator[str]:
    """Say which run of a project, in a work tree of its own, could go on instead of a new one."""
    runs = [run for run in list_runs(state_folder) if run.is_unfinished and run.round]
    if found := [run.id for run in runs if run.project == str(project)]:
        named = ", ".join(found[:MOST_NAMED])
        one = f"an unfinished run of this project is there too: {named}"
        some = f"{len(found)} unfinished runs of this project are there too: {named}"
        text = one if len(found) == 1 else some
        yield f"{text}; `cao resume {found[0]}` goes on with it, and this one is new"


def saved_settings(config: RunConfig, request: RunRequest) -> Mapping[str, SavedSetting]:
    """Return what a run is started with, by name: the value and where it came from."""
    given = {name: text for name, text in request.settings.items() if name not in NOT_RECORDED}
    if "API" in given:
        given["API"] = without_secrets(given["API"])
    return {
        name: SavedSetting(value, request.sources.get(name, "default"))
        for name, value in {**given, **config.settings}.items()
    }


def state_file_of(config: RunConfig, state_folder: Path, clock: Clock) -> StateFile:
    """Return the state file of a run, sealed with the key in the user's own state folder."""
    return StateFile(config.state_file, clock, config.wd, UserSeals(state_folder))


def response_files(wd: Path, archive: str, flow: Flow | None = None) -> ResponseFiles:
    """Return the response files of a run in a folder; without a flow only its folders."""
    roles = () if flow is None else flow.roles
    return ResponseFiles(wd, archive, {role.name: role.response_file for role in roles})
