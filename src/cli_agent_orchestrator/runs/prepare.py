"""Finds out before anything is started that a run can begin, or that a saved one can go on."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..client.client import is_loopback
from ..core.clock import SystemClock
from ..errors import ApiUnreachable, GitError, PromptError, RunError, UnknownName, UsageError
from ..gates.checking import find_sandbox, unreadable
from ..pipeline.flow import Flow, StageKind
from ..pipeline.resuming import choose_settings, find_fault, find_objections
from ..pipeline.state import RunState
from ..pipeline.task import Task, parse_task
from ..settings.config import DEFAULT_API, RunConfig
from ..settings.gates import Gate, Trust, When, check_consent, commands_text
from ..settings.table import BY_NAME, PROVIDER_SUFFIX
from ..settings.values import canonical
from ..work.folder import GONE
from ..work.git import MISSING, find_program, find_repository
from ..work.worktree import Worktree
from .loop import in_need_of_snapshots
from .record import RunRecord, new_run_id
from .request import Environment, RunRequest, read_task_text
from .tree import check_held_back


class Prepared(Struct, frozen=True):
    config: RunConfig
    flow: Flow
    task: Task
    run_id: str

    @property
    def providers(self) -> Mapping[str, str]:
        return {role.name: self.config.provider_of(role.name) for role in self.flow.roles}


NOT_BEGUN = "no run was begun"
TOO_LATE = "ignored: a resumed run keeps the settings it started with"


def objections_to(saved: RunState, request: RunRequest) -> tuple[str, ...]:
    config, insisted = request.config, request.insisted
    # With new agents for lost ones, these may be of a different vendor.
    given = {"FLOW": insisted.get("FLOW", "")} if request.replace_terminals else insisted
    if config.prompt_file is None and not config.prompt:
        return find_objections(saved, given)
    name = f"the task file {config.prompt_file}" if config.prompt_file else "the given text"
    try:
        return find_objections(saved, given, name, read_task_text(config))
    except PromptError as error:
        problem = (str(error),) if saved.prompt.strip() else ()
        return (*problem, *find_objections(saved, given))


def check_flow(flow: Flow, config: RunConfig) -> None:
    known = [role.name for role in flow.roles]
    for role in config.providers:
        # A variable for a role of the usual flow may well be set for all runs.
        if role not in known and f"{role.upper()}{PROVIDER_SUFFIX}" not in BY_NAME:
            raise UnknownName(f"role of the flow {flow.name}", role, known)
    has_gate = any(stage.kind is StageKind.GATE for stage in flow.stages)
    if has_gate and not any(When.AFTER_TESTER in gate.when for gate in config.gates):
        raise UsageError(
            f"in the flow {flow.name} a command of yours decides, and none is given: name a gate, "
            "such as tests='make test'"
        )
    last = flow.last_work
    if config.rules.review_bound == "require" and (last is None or not last.reviewer):
        raise UsageError(
            f"REVIEW_BOUND=require asks for an approval, and in the flow {flow.name} nobody "
            "reviews the work: set CAO_REVIEW_BOUND=show, or take another flow"
        )


def check_gates(gates: Sequence[Gate], environ: Mapping[str, str]) -> None:
    for gate in gates:
        if gate.sandbox and (problem := find_sandbox()[1]):
            raise UsageError(f"the gate {gate.name} could not be run: {problem}")
        for command in filter(None, (gate.setup, gate.run)):
            if said := unreadable(command, environ):
                raise UsageError(
                    f"the gate {gate.name} could not be run: the shell cannot read `{command}` "
                    f"({said}); no agent could mend that. Give it another command, such as "
                    f"{gate.name}='make test'"
                )


Warn = Callable[[str], None]


def prepare_new_run(request: RunRequest, given: Environment, warn: Warn) -> Prepared:
    config = request.config
    if config.resume or config.missing:
        option = "--missing" if config.missing else "--resume"
        raise UsageError(
            f"{option} is for a saved run that is resumed, and there is none; `cao runs` lists all"
        )
    text, file = read_task_text(config), config.prompt_file
    try:
        task = parse_task(text)
    except PromptError as error:
        raise PromptError(f"{file.name}: {error}" if file else str(error)) from None
    flow = given.find_flow(config.flow, config.wd)
    _check_settings(request, given, warn, config, flow, in_tree=config.in_worktree)
    prepared = Prepared(config, flow, task, new_run_id(SystemClock()))
    agents = {*prepared.providers.values()}
    if not config.api_given:
        given.check_agents(agents, config.wd)
        return prepared
    # No other server replaces a named one. The user's own knows the same agents as we do.
    try:
        with given.connect(config, warn) as (_, server):
            if server.socket:
                given.check_agents(agents, config.wd)
    except ApiUnreachable as error:
        raise UsageError(f"{NOT_BEGUN}: {error}") from error
    return prepared


def prepare_saved_run(
    request: RunRequest,
    given: Environment,
    warn: Warn,
    state: RunState,
    record: RunRecord | None,
    here: RunConfig,
    tree: Worktree | None,
) -> tuple[Prepared, RunState]:
    """Check that a saved run can be resumed with what is given now, in its folder or tree.

    It has no record if it comes from a state file that no run of this user wrote.
    """
    if state.wd and os.path.realpath(state.wd) != str(here.wd):
        raise RunError(
            f"the saved run works in {state.wd!r}, not in {here.wd}: name that with --wd, or "
            "start a new run with --no-resume"
        )
    config = _settings_of(request, warn, state, record, here)
    state = state.progressed(paused=False)
    if tree is not None:
        check_held_back(tree, config.held_back)
    in_tree = tree is not None or config.in_worktree
    _check_settings(request, given, warn, config, state.flow, in_tree=in_tree)
    if not config.api_given and state.api not in ("", DEFAULT_API):
        # A state file of unknown origin may have come with a cloned project.
        if record is None or not is_loopback(state.api):
            raise RunError(
                f"the saved run used the server {state.api}: name it with --api to resume the "
                "run, or start a new one with --no-resume"
            )
        named = replace(config, api=state.api, api_named_by="the saved run")
        try:
            with given.connect(named, warn):
                config = named
        except ApiUnreachable as error:
            if error.maybe_received:
                raise
            warn(f"{error}; this run uses your own server")
    if request.replace_terminals and not config.api_given:
        roles = (role.name for role in state.flow.roles)
        used = (request.chosen_provider(one) or state.provider_of(one) for one in roles)
        given.check_agents({*filter(None, used)}, config.wd)
    task = parse_task(state.prompt if state.prompt.strip() else read_task_text(config))
    if config.missing and (fault := find_fault(state, config.missing)):
        raise UsageError(fault)
    # The repository of a work tree is repaired instead.
    if record and not record.tree and (record.base or record.branch):
        # If git fails here, the first snapshot reports why.
        with suppress(GitError):
            found = find_repository(Path(record.top), given.environ)
            if found is None or str(found.top) != record.top:
                raise RunError(GONE.format(record.top, "was there when the run began"))
    run_id = new_run_id(SystemClock()) if record is None else record.id
    state = state.progressed(archive=run_id, settings=config.settings)
    return Prepared(config, state.flow, task, run_id), state


def _settings_of(
    request: RunRequest, warn: Warn, state: RunState, record: RunRecord | None, here: RunConfig
) -> RunConfig:
    began_with: Mapping[str, str] = {}
    won: set[str] = set()
    # Those of a stranger could allow the agents more than this user would.
    if record is not None:
        began_with = state.progress.settings
        won = {name for name, its in record.settings.items() if its.is_given} - {*request.insisted}
    # What an option or a variable won at the start, a file does not change now.
    told = {name: text for name, text in request.settings.items() if name not in won}
    settings, remarks = choose_settings(began_with, request.insisted, told)
    for remark in remarks:
        warn(remark)
    if not request.replace_terminals:
        # A task or a file changes nothing any more.
        others = {n: text for n, text in told.items() if n not in request.insisted}
        for objection in find_objections(state, others):
            warn(f"{TOO_LATE}: {objection}")
    config = RunConfig.from_env({**request.settings, **settings}, here.api_named_by)
    return replace(config, wd=here.wd, state_file=here.state_file)


def _check_settings(
    request: RunRequest,
    given: Environment,
    warn: Warn,
    config: RunConfig,
    flow: Flow,
    *,
    in_tree: bool,
) -> None:
    check_flow(flow, config)
    known = [role.name for role in flow.roles]
    for role in config.providers:
        name = f"{role.upper()}{PROVIDER_SUFFIX}"
        if role not in known and request.sources.get(name) == "option":
            warn(f"{BY_NAME[name].option} {role}: the flow {flow.name} has no such role")
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
    if config.rules.proof == "require" and not config.gates:
        raise UsageError(
            "PROOF=require needs a gate, and none is given: nothing could be proven. Say "
            "--gate tests='make test', for example, or set CAO_GATES"
        )
    needy = in_need_of_snapshots(config.rules, config.gates)
    if needy and find_program("git", given.environ) is None:
        raise UsageError(
            f"{MISSING}, and without them there is no way to go by {needy}: install git, or "
            "change that"
        )
    groups = [len(role.evidence) for role in flow.roles if role.evidence]
    for warning in config.warnings(min(groups, default=None)):
        warn(warning)
    # The project's own file may be anybody's: its commands need the user's consent.
    commands = request.project_commands
    if any(canonical(name, one) == config.settings.get(name) for name, one in commands.items()):
        trust, text = Trust(given.state_folder), commands_text(commands)
        check_consent(trust, request.config.wd, text, request.project_file)
    check_gates(config.gates, given.environ)
