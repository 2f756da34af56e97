"""Finds out before anything is started that a run can begin, or that a saved one can go on."""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..client.client import is_loopback
from ..core.clock import Clock
from ..errors import (
    ApiRefused,
    ApiUnreachable,
    GitError,
    OrchestratorError,
    PromptError,
    ResumeError,
    UnknownName,
    UsageError,
)
from ..gates.checking import find_sandbox, unreadable
from ..pipeline.flow import Flow
from ..pipeline.machine import unpause, with_more_rounds
from ..pipeline.resuming import (
    GivenTask,
    Remedy,
    Wanted,
    choose_settings,
    find_fault,
    find_objections,
)
from ..pipeline.state import RunState
from ..pipeline.task import Task, parse_task
from ..settings.config import DEFAULT_API, RunConfig
from ..settings.gates import Gate, Trust, When, check_consent, commands_text
from ..settings.table import BY_NAME, PROVIDER_SUFFIX
from ..settings.values import canonical, read_role_providers, read_word
from ..work.folder import GONE
from ..work.git import MISSING, find_program, find_repository
from .loop import in_need_of_snapshots
from .record import RunRecord, new_run_id
from .request import RunRequest, Surroundings
from .state_file import read_task_text
from .tree import OwnTree


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can begin, or go on."""

    config: RunConfig
    flow: Flow
    task: Task
    run_id: str

    @property
    def providers(self) -> Mapping[str, str]:
        return {role.name: self.config.provider_of(role.name) for role in self.flow.roles}


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A saved run that is to go on."""

    state: RunState
    record: RunRecord | None
    """None if it comes from a state file that no run of this user wrote."""
    config: RunConfig
    """What is given now, for the folder that the run is in."""
    tree: OwnTree | None = None
    """Its work tree, if it has one."""


logger = logging.getLogger(__name__)

ONE_LINE = "the given text"
"""What a task is called that no file has."""
NOT_BEGUN = "no run was begun"
TOO_LATE = "ignored: a resumed run keeps the settings it started with"


def objections_to(saved: RunState, request: RunRequest) -> tuple[str, ...]:
    insisted = request.insisted
    # With new agents for lost ones, these may be of a different vendor.
    free = request.replace_terminals
    asked = Wanted(
        task=_given_task(request.config),
        provider="" if free else read_word(insisted, "PROVIDER"),
        role_providers={} if free else read_role_providers(insisted),
        flow=Path(insisted.get("FLOW", "")).stem,
    )
    return find_objections(saved, asked)


def told_too_late(saved: RunState, request: RunRequest) -> Iterator[str]:
    """Say which agents or flow merely stand in a task or a file, and change nothing any more."""
    if request.replace_terminals:
        return
    given = {name: text for name, text in request.settings.items() if name not in request.insisted}
    asked = Wanted(
        provider=read_word(given, "PROVIDER"),
        role_providers=read_role_providers(given),
        flow=Path(given.get("FLOW", "")).stem,
    )
    for text in find_objections(saved, asked):
        yield f"{TOO_LATE}: {text}"


def check_folder(saved: RunState, config: RunConfig) -> None:
    if saved.wd and not _is_folder(saved.wd, config.wd):
        raise ResumeError(
            f"the saved run works in {saved.wd!r}, not in {config.wd}: name that with --wd, or "
            "start a new run with --no-resume"
        )


def check_repository(record: RunRecord, wd: Path, environ: Mapping[str, str]) -> None:
    """Refuse a run whose repository was removed; in a work tree it is repaired instead."""
    if record.wd != str(wd) or record.tree is not None:
        return
    if not record.base and not record.branch:
        return
    # Git that cannot be asked says why at the first snapshot.
    with suppress(GitError):
        found = find_repository(Path(record.top), environ)
        if found is None or str(found.top) != record.top:
            raise ResumeError(GONE.format(record.top, "was there when the run began"))


def check_remedy(saved: RunState, config: RunConfig) -> None:
    """Refuse a decision about a missing reply that does not fit what is missing."""
    if config.missing and (fault := find_fault(saved, Remedy(config.missing))):
        raise UsageError(fault)


def check_flow(flow: Flow, config: RunConfig) -> None:
    known = [role.name for role in flow.roles]
    for role in config.providers:
        # A variable for a role of the usual flow may well be set for all runs.
        if role not in known and f"{role.upper()}{PROVIDER_SUFFIX}" not in BY_NAME:
            raise UnknownName(f"role of the flow {flow.name}", role, known)
    if flow.has_gate and not any(When.AFTER_TESTER in gate.when for gate in config.gates):
        raise UsageError(
            f"in the flow {flow.name} a command of yours decides, and none is given: name a gate, "
            "such as tests='make test'"
        )
    last = flow.last_work
    if config.rules.is_review_bound and (last is None or not last.reviewer):
        raise UsageError(
            f"REVIEW_BOUND=require asks for an approval, and in the flow {flow.name} nobody "
            "reviews the work: set CAO_REVIEW_BOUND=show, or take another flow"
        )


def check_gates(gates: Sequence[Gate], environ: Mapping[str, str]) -> None:
    for gate in gates:
        if gate.sandbox and (problem := find_sandbox().problem):
            raise UsageError(f"the gate {gate.name} could not be run: {problem}")
        for command in filter(None, (gate.setup, gate.run)):
            if said := unreadable(command, environ):
                raise UsageError(
                    f"the gate {gate.name} could not be run: the shell cannot read `{command}` "
                    f"({said}); no agent could mend that. Give it another command, such as "
                    f"{gate.name}='make test'"
                )


def check_snapshots(config: RunConfig, environ: Mapping[str, str]) -> None:
    if find_program("git", environ) is not None:
        return
    if needy := in_need_of_snapshots(config.rules, config.readonly_roles, config.gates):
        raise UsageError(
            f"{MISSING}, and without them there is no way to go by {needy}: install git, or change "
            "that"
        )


def check_held_back(config: RunConfig, *, in_tree: bool) -> None:
    """Refuse to hold files back where agents would see them all the same, or for nobody."""
    if not config.held_back:
        return
    named = ", ".join(config.held_back)
    if not in_tree:
        raise UsageError(
            f"held_back ({named}) needs a work tree: in your own folder agents would see the "
            "files. --worktree keeps them out"
        )
    if not config.gates:
        raise UsageError(
            f"held_back ({named}) is for gates, and none is given: nobody would use the files. Say "
            "--gate tests='make test', for example, or set CAO_GATES"
        )


def check_commands(request: RunRequest, config: RunConfig, state_folder: Path) -> None:
    """Refuse commands of the project's own file that the user has not allowed."""
    commands = request.project_commands
    if any(canonical(name, text) == config.settings.get(name) for name, text in commands.items()):
        trust, text = Trust(state_folder), commands_text(commands)
        check_consent(trust, request.config.wd, text, request.project_file)


def with_saved_api(config: RunConfig, saved: SavedRun) -> RunConfig:
    """Go back to the server that was named when the run began, unless one is named now.

    A state file that nobody knows may have come with a cloned project, so it can lead to nobody.
    """
    api = saved.state.api
    if config.api_given or api in ("", DEFAULT_API):
        return config
    if saved.record is None or not is_loopback(api):
        raise ResumeError(
            f"the saved run used the server {api}: name it with --api to resume the run, or "
            "start a new one with --no-resume"
        )
    return replace(config, api=api, api_named_by="the saved run")


@contextmanager
def logging_refusals() -> Iterator[None]:
    """Log which request it was that stops a run: people are told what it means instead."""
    try:
        yield
    except OrchestratorError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ApiRefused | ApiUnreachable) and cause.request:
                logger.warning("the request that stopped the run: %s", cause.request)
                break
            cause = cause.__cause__
        raise


def _given_task(config: RunConfig) -> GivenTask | None:
    if config.prompt_file is None and not config.prompt:
        return None
    name = f"the task file {config.prompt_file}" if config.prompt_file else ONE_LINE
    try:
        return GivenTask(name, read_task_text(config))
    except PromptError as error:
        return GivenTask(name, "", str(error))


def _is_folder(text: str, folder: Path) -> bool:
    """Does a text lead to a folder? It may be none that could be the path of anything."""
    try:
        return Path(os.path.realpath(text)) == folder
    except (OSError, ValueError):
        return False


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

    def reopened(self, saved: RunState) -> RunState:
        """Return a saved run; one that has failed goes on if it is resumed with more rounds."""
        config = self.request.config
        if not config.resume or "MAX_ROUNDS" not in self.request.insisted:
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
        config = with_saved_api(config, saved)
        if self.request.replace_terminals:
            roles = (role.name for role in state.flow.roles)
            used = (self.request.chosen_provider(one) or state.provider_of(one) for one in roles)
            self._check_providers(config, set(filter(None, used)))
        task = parse_task(state.prompt if state.prompt.strip() else read_task_text(config))
        check_remedy(state, config)
        run_id = new_run_id(self.clock)
        if saved.record is not None:
            run_id = saved.record.id
            check_repository(saved.record, config.wd, self.given.environ)
        progress = replace(state.progress, archive=run_id, settings=config.settings)
        return Prepared(config, state.flow, task, run_id), replace(state, progress=progress)

    def _settings_of(self, saved: SavedRun) -> RunConfig:
        """Return the settings with which a run began, and those that are given anew."""
        asked, here = self.request.settings, saved.config
        request = replace(self.request, settings=self._still_told(saved))
        # Somebody else's could let the agents do more than this user would.
        began_with = {} if saved.record is None else saved.state.progress.settings
        resumed = choose_settings(began_with, request.insisted, request.settings)
        for remark in (*resumed.remarks, *told_too_late(saved.state, request)):
            self.warn(remark)
        config = RunConfig.from_env({**asked, **resumed.settings}, here.api_named_by)
        # Those of the work tree, if there is one.
        return replace(config, wd=here.wd, state_file=here.state_file)

    def _still_told(self, saved: SavedRun) -> Mapping[str, str]:
        """Return what is given without what an option or variable won over from the start."""
        settings = {} if saved.record is None else saved.record.settings
        won = {name for name, its in settings.items() if its.is_given}
        lost = won - set(self.request.insisted)
        return {name: text for name, text in self.request.settings.items() if name not in lost}

    def _check_settings(self, config: RunConfig, flow: Flow, *, in_tree: bool) -> None:
        check_flow(flow, config)
        known = [role.name for role in flow.roles]
        for role in config.providers:
            name = f"{role.upper()}{PROVIDER_SUFFIX}"
            if role not in known and self.request.sources.get(name) == "option":
                self.warn(f"{BY_NAME[name].option} {role}: the flow {flow.name} has no such role")
        check_held_back(config, in_tree=in_tree)
        check_snapshots(config, self.given.environ)
        for warning in config.warnings(flow.least_evidence):
            self.warn(warning)
        check_commands(self.request, config, self.given.state_folder)
        check_gates(config.gates, self.given.environ)

    def _check_providers(self, config: RunConfig, providers: Collection[str]) -> None:
        """Refuse agents that our own server could not start; another one may know more."""
        if not config.api_given:
            for provider in providers:
                self.given.check_provider(provider)
            self.given.check_sign_in(providers, config.wd)

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
