"""Finds out before anything is started that a run can begin, or that a saved one can go on."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.machine import unpause, with_more_rounds
from cli_agent_orchestrator._internal.pipeline.resuming import choose_settings
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.pipeline.task import Task, parse_task
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.prepared import Prepared
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id, new_run_id
from cli_agent_orchestrator._internal.runs.records.run_record import read_record
from cli_agent_orchestrator._internal.runs.records.state_file import read_task_text
from cli_agent_orchestrator._internal.runs.refusals import (
    NOT_BEGUN,
    check_commands,
    check_flow,
    check_folder,
    check_gates,
    check_held_back,
    check_remedy,
    check_repository,
    check_snapshots,
    told_too_late,
    with_saved_api,
)
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.surroundings import Surroundings
from cli_agent_orchestrator._internal.runs.work.own_tree import OwnTree
from cli_agent_orchestrator._internal.settings.table import BY_NAME, PROVIDER_SUFFIX
from cli_agent_orchestrator.errors import ApiUnreachable, PromptError, UsageError


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A saved run that is to go on."""

    state: RunState
    own: bool
    """Was it saved like that by this user on this machine?"""
    config: RunConfig
    """What is given now, for the folder that the run is in."""
    tree: OwnTree | None = None
    """Its work tree, if it has one."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is asked for, looked at by what is there; who is warned of what is surely not meant."""

    request: RunRequest
    given: Surroundings
    clock: Clock
    warn: Callable[[str], None]

    def new_run(self) -> Prepared:
        """Return the run that is asked for; raise why it cannot begin."""
        config = self.request.config
        task = _read_new_task(config)
        flow = self.given.find_flow(config.flow, config.wd)
        self._check_settings(config, flow, in_tree=config.in_worktree)
        prepared = Prepared(config, flow, task, new_run_id(self.clock))
        self._check_providers(config, prepared.providers.values())
        self._check_server(prepared)
        return prepared

    def reopened(self, saved: RunState | None) -> RunState | None:
        """Return a saved run; one that has failed goes on if it is resumed with more rounds."""
        config = self.request.config
        if saved is None or not config.resume or "MAX_ROUNDS" not in self.request.insisted:
            return saved
        return with_more_rounds(saved, config.rules.limits.max_rounds)

    def saved_run(self, saved: SavedRun) -> tuple[Prepared, RunState]:
        """Return a saved run and the state it goes on from; raise why it cannot."""
        check_folder(saved.state, saved.config)
        config = self._settings_of(saved)
        # Whoever resumes it wants it to go on.
        state = unpause(saved.state)
        if saved.tree is not None:
            saved.tree.check_held_back(config.held_back)
        in_tree = saved.tree is not None or config.in_worktree
        self._check_settings(config, state.flow, in_tree=in_tree)
        config = with_saved_api(config, state, own=saved.own)
        if self.request.replace_terminals:
            chosen = (self.request.chosen_provider(role.name) for role in state.flow.roles)
            self._check_providers(config, filter(None, chosen))
        task = parse_task(state.prompt if state.prompt.strip() else read_task_text(config))
        check_remedy(state, config)
        archive = state.progress.archive or new_run_id(self.clock)
        if is_run_id(archive):
            record = read_record(run_folder(self.given.state_folder, archive))
            check_repository(record, config.wd, self.given.environ)
        progress = replace(state.progress, archive=archive, settings=config.settings)
        return Prepared(config, state.flow, task, archive), replace(state, progress=progress)

    def _settings_of(self, saved: SavedRun) -> RunConfig:
        """Return the settings with which a run began, and those that are given anew."""
        asked, here = self.request.settings, saved.config
        request = replace(self.request, settings=self._still_told(saved))
        # Somebody else's could let the agents do more than this user would.
        began_with = saved.state.progress.settings if saved.own else {}
        resumed = choose_settings(began_with, request.insisted, request.settings)
        for remark in (*resumed.remarks, *told_too_late(saved.state, request)):
            self.warn(remark)
        config = RunConfig.from_env({**asked, **resumed.settings}, here.api_named_by)
        # Those of the work tree, if there is one.
        return replace(config, wd=here.wd, state_file=here.state_file)

    def _still_told(self, saved: SavedRun) -> Mapping[str, str]:
        """Return what is given without what an option or variable won over from the start."""
        run, request = saved.state.progress.archive, self.request
        known = saved.own and is_run_id(run)
        record = read_record(run_folder(self.given.state_folder, run)) if known else None
        won = {name for name, its in record.settings.items() if its.is_given} if record else set()
        lost = won - set(request.insisted)
        return {name: text for name, text in request.settings.items() if name not in lost}

    def _check_settings(self, config: RunConfig, flow: Flow, *, in_tree: bool) -> None:
        """Refuse what does not fit, or is not allowed."""
        check_flow(flow, config)
        known = [role.name for role in flow.roles]
        for role in config.providers:
            name = f"{role.upper()}{PROVIDER_SUFFIX}"
            if role not in known and self.request.sources.get(name) == "option":
                self.warn(f"{BY_NAME[name].option}: the flow {flow.name} has no {role}")
        check_held_back(config, in_tree=in_tree)
        check_snapshots(config, self.given.environ)
        for warning in config.warnings(flow.least_evidence):
            self.warn(warning)
        check_commands(self.request, config, self.given.state_folder)
        check_gates(config.gates, self.given.environ)

    def _check_providers(self, config: RunConfig, providers: Iterable[str]) -> None:
        """Refuse agents that our own server could not start; another one may know more."""
        if not config.api_given:
            for provider in providers:
                self.given.check_provider(provider)

    def _check_server(self, prepared: Prepared) -> None:
        """Refuse a server that was named and is not there: no other takes its place.

        If it is this user's own, it knows no other agents than we do.
        """
        config = prepared.config
        if not config.api_given:
            return
        try:
            with self.given.connect(config, self.warn) as link:
                for provider in prepared.providers.values() if link.is_ours else ():
                    self.given.check_provider(provider)
        except ApiUnreachable as error:
            raise UsageError(f"{NOT_BEGUN}: {error}") from error


def _read_new_task(config: RunConfig) -> Task:
    """Return the task of a new run; what is wrong with a file names it."""
    text, file = read_task_text(config), config.prompt_file
    try:
        return parse_task(text)
    except PromptError as error:
        raise PromptError(f"{file.name}: {error}" if file else str(error)) from None
