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
    config: RunConfig
    flow: Flow
    task: Task
    run_id: str

    @property
    def providers(self) -> Mapping[str, str]:
        return {role.name: self.config.provider_of(role.name) for role in self.flow.roles}


@dataclass(frozen=True, slots=True)
class SavedRun:
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
    config, insisted = request.config, request.insisted
    # With new agents for lost ones, these may be of a different vendor.
    wanted = _wanted({"FLOW": insisted.get("FLOW", "")} if request.replace_terminals else insisted)
    if config.prompt_file is None and not config.prompt:
        return find_objections(saved, wanted)
    name = f"the task file {config.prompt_file}" if config.prompt_file else ONE_LINE
    try:
        task = GivenTask(name, read_task_text(config))
    except PromptError as error:
        task = GivenTask(name, "", str(error))
    return find_objections(saved, replace(wanted, task=task))


def _wanted(settings: Mapping[str, str]) -> Wanted:
    return Wanted(
        provider=read_word(settings, "PROVIDER"),
        role_providers=read_role_providers(settings),
        flow=Path(settings.get("FLOW", "")).stem,
    )


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


@dataclass(frozen=True, slots=True)
class Preparation:
    """Checks a run request against this machine and warns about likely mistakes."""

    request: RunRequest
    given: Surroundings
    clock: Clock
    warn: Callable[[str], None]

    def new_run(self) -> Prepared:
        config = self.request.config
        text, file = read_task_text(config), config.prompt_file
        try:
            task = parse_task(text)
        except PromptError as error:
            raise PromptError(f"{file.name}: {error}" if file else str(error)) from None
        flow = self.given.find_flow(config.flow, config.wd)
        self._check_settings(config, flow, in_tree=config.in_worktree)
        prepared = Prepared(config, flow, task, new_run_id(self.clock))
        self._check_providers(config, prepared.providers.values())
        if not config.api_given:
            return prepared
        # No other server takes the place of one that was named. The user's own knows no other
        # agents than we do.
        try:
            with self.given.connect(config, self.warn) as link:
                for provider in prepared.providers.values() if link.is_ours else ():
                    self.given.check_provider(provider)
        except ApiUnreachable as error:
            raise UsageError(f"{NOT_BEGUN}: {error}") from error
        return prepared

    def reopened(self, saved: RunState) -> RunState:
        """Return a saved run; one that has failed goes on if it is resumed with more rounds."""
        config = self.request.config
        if not config.resume or "MAX_ROUNDS" not in self.request.insisted:
            return saved
        return with_more_rounds(saved, config.rules.limits.max_rounds)

    def saved_run(self, saved: SavedRun) -> tuple[Prepared, RunState]:
        state, record, here = saved.state, saved.record, saved.config
        if state.wd and not _leads_to(state.wd, here.wd):
            raise ResumeError(
                f"the saved run works in {state.wd!r}, not in {here.wd}: name that with --wd, or "
                "start a new run with --no-resume"
            )
        config = self._settings_of(saved)
        # Whoever resumes it wants it to go on.
        state = unpause(state)
        if saved.tree is not None:
            saved.tree.check_held_back(config.held_back)
        in_tree = saved.tree is not None or config.in_worktree
        self._check_settings(config, state.flow, in_tree=in_tree)
        if not config.api_given and state.api not in ("", DEFAULT_API):
            # A state file that nobody knows may have come with a cloned project.
            if record is None or not is_loopback(state.api):
                raise ResumeError(
                    f"the saved run used the server {state.api}: name it with --api to resume the "
                    "run, or start a new one with --no-resume"
                )
            config = replace(config, api=state.api, api_named_by="the saved run")
        if self.request.replace_terminals:
            roles = (role.name for role in state.flow.roles)
            used = (self.request.chosen_provider(one) or state.provider_of(one) for one in roles)
            self._check_providers(config, set(filter(None, used)))
        task = parse_task(state.prompt if state.prompt.strip() else read_task_text(config))
        if config.missing and (fault := find_fault(state, Remedy(config.missing))):
            raise UsageError(fault)
        if record is not None:
            self._check_repository(record, config.wd)
        run_id = new_run_id(self.clock) if record is None else record.id
        progress = replace(state.progress, archive=run_id, settings=config.settings)
        return Prepared(config, state.flow, task, run_id), replace(state, progress=progress)

    def _check_repository(self, record: RunRecord, wd: Path) -> None:
        """Refuse a run whose repository was removed; in a work tree it is repaired instead."""
        had_none = not record.base and not record.branch
        if record.wd != str(wd) or record.tree is not None or had_none:
            return
        # Git that cannot be asked says why at the first snapshot.
        with suppress(GitError):
            found = find_repository(Path(record.top), self.given.environ)
            if found is None or str(found.top) != record.top:
                raise ResumeError(GONE.format(record.top, "was there when the run began"))

    def _settings_of(self, saved: SavedRun) -> RunConfig:
        """Return the settings with which a run began, and those that are given anew."""
        request, state, here = self.request, saved.state, saved.config
        began_with: Mapping[str, str] = {}
        won: set[str] = set()
        # A stranger's could let the agents do more than this user would.
        if saved.record is not None:
            began_with = state.progress.settings
            given_before = saved.record.settings.items()
            won = {name for name, its in given_before if its.is_given} - set(request.insisted)
        # What an option or a variable won over from the start is not said again by a file.
        told = {name: text for name, text in request.settings.items() if name not in won}
        resumed = choose_settings(began_with, request.insisted, told)
        for remark in resumed.remarks:
            self.warn(remark)
        if not request.replace_terminals:
            # What merely stands in a task or a file changes nothing any more.
            for objection in find_objections(
                state, _wanted({n: text for n, text in told.items() if n not in request.insisted})
            ):
                self.warn(f"{TOO_LATE}: {objection}")
        config = RunConfig.from_env({**request.settings, **resumed.settings}, here.api_named_by)
        # Those of the work tree, if there is one.
        return replace(config, wd=here.wd, state_file=here.state_file)

    def _check_settings(self, config: RunConfig, flow: Flow, *, in_tree: bool) -> None:
        request, environ = self.request, self.given.environ
        check_flow(flow, config)
        known = [role.name for role in flow.roles]
        for role in config.providers:
            name = f"{role.upper()}{PROVIDER_SUFFIX}"
            if role not in known and request.sources.get(name) == "option":
                self.warn(f"{BY_NAME[name].option} {role}: the flow {flow.name} has no such role")
        named = ", ".join(config.held_back)
        if named and not in_tree:
            raise UsageError(
                f"held_back ({named}) needs a work tree: in your own folder agents would see the "
                "files. --worktree keeps them out"
            )
        if named and not config.gates:
            raise UsageError(
                f"held_back ({named}) is for gates, and none is given: nobody would use the files. "
                "Say --gate tests='make test', for example, or set CAO_GATES"
            )
        needy = in_need_of_snapshots(config.rules, config.readonly_roles, config.gates)
        if needy and find_program("git", environ) is None:
            raise UsageError(
                f"{MISSING}, and without them there is no way to go by {needy}: install git, or "
                "change that"
            )
        for warning in config.warnings(flow.least_evidence):
            self.warn(warning)
        # The commands of the project's own file, which may be anybody's, need the user's consent.
        commands = request.project_commands
        if any(canonical(name, one) == config.settings.get(name) for name, one in commands.items()):
            trust, text = Trust(self.given.state_folder), commands_text(commands)
            check_consent(trust, request.config.wd, text, request.project_file)
        check_gates(config.gates, environ)

    def _check_providers(self, config: RunConfig, providers: Collection[str]) -> None:
        """Refuse agents that our own server could not start; another one may know more."""
        if not config.api_given:
            for provider in providers:
                self.given.check_provider(provider)
            self.given.check_sign_in(providers, config.wd)


def _leads_to(text: str, folder: Path) -> bool:
    """Does a text lead to a folder? It may be none that could be the path of anything."""
    try:
        return Path(os.path.realpath(text)) == folder
    except (OSError, ValueError):
        return False
