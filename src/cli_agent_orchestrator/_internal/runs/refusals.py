"""What speaks against a run as it was asked for: said before anything of it is started."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.client import is_loopback
from cli_agent_orchestrator._internal.config import DEFAULT_API
from cli_agent_orchestrator._internal.gates import Gate, When
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.missing import Remedy, find_fault
from cli_agent_orchestrator._internal.pipeline.resuming import GivenTask, Wanted, find_objections
from cli_agent_orchestrator._internal.pipeline.state import RunState
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.gates.gate import unreadable
from cli_agent_orchestrator._internal.runs.gates.sandbox import find_sandbox
from cli_agent_orchestrator._internal.runs.gates.trust import Trust, check_consent, commands_text
from cli_agent_orchestrator._internal.runs.looking import in_need_of_snapshots
from cli_agent_orchestrator._internal.runs.records.run_record import RunRecord
from cli_agent_orchestrator._internal.runs.records.state_file import read_task_text
from cli_agent_orchestrator._internal.runs.request import RunRequest
from cli_agent_orchestrator._internal.runs.work.work_folder import GONE
from cli_agent_orchestrator._internal.settings.table import BY_NAME, PROVIDER_SUFFIX
from cli_agent_orchestrator._internal.settings.values import (
    canonical,
    read_role_providers,
    read_word,
)
from cli_agent_orchestrator._internal.workspace.git import MISSING, find_git
from cli_agent_orchestrator._internal.workspace.repository import has_repository
from cli_agent_orchestrator.errors import (
    ApiRefused,
    ApiUnreachable,
    OrchestratorError,
    PromptError,
    ResumeError,
    UnknownName,
    UsageError,
)

logger = logging.getLogger(__name__)

ONE_LINE = "the task of -m or --prompt"
"""What a task is called that no file has."""
NOT_BEGUN = "no run was begun"
TOO_LATE = "the task or the settings file says otherwise, but the run goes on as it began"


def objections_to(saved: RunState, request: RunRequest, *, own: bool) -> tuple[str, ...]:
    """Return what speaks against going on with a saved run, which may not be the user's `own`."""
    insisted = request.insisted
    # With new agents for lost ones, these may be of a different vendor.
    free = request.replace_terminals
    asked = Wanted(
        task=_given_task(request.config),
        provider="" if free else read_word(insisted, "PROVIDER"),
        role_providers={} if free else read_role_providers(insisted),
        flow=Path(insisted.get("FLOW", "")).stem,
    )
    return find_objections(saved, asked, own=own)


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
    for text in find_objections(saved, asked, own=True):
        yield f"{TOO_LATE}: {text}"


def check_folder(saved: RunState, config: RunConfig) -> None:
    """Refuse a saved run of another folder."""
    if saved.wd and not _is_folder(saved.wd, config.wd):
        raise ResumeError(
            f"the saved run works in {saved.wd!r}, not in {config.wd}: name that with --wd, or "
            "start a new run with --no-resume"
        )


def check_repository(record: RunRecord | None, wd: Path, environ: Mapping[str, str]) -> None:
    """Refuse a run whose repository was removed; in a work tree it is mended instead."""
    if record is None or record.wd != str(wd) or record.tree is not None:
        return
    had_one = bool(record.base or record.branch)
    if had_one and not has_repository(Path(record.top), environ):
        raise ResumeError(GONE.format(record.top, "was there when the run began"))


def check_remedy(saved: RunState, config: RunConfig) -> None:
    """Refuse a decision about a missing reply that does not fit what is missing."""
    if config.missing and (fault := find_fault(saved, Remedy(config.missing))):
        raise UsageError(fault)


def check_flow(flow: Flow, config: RunConfig) -> None:
    """Refuse settings that do not fit a flow."""
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
            "reviews the work: say --review-bound show, or take another flow"
        )


def check_gates(gates: Sequence[Gate], environ: Mapping[str, str]) -> None:
    """Refuse gates that could not be run, whatever agents do."""
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
    """Refuse settings that nobody could go by without git."""
    if find_git(environ) is not None:
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


def with_saved_api(config: RunConfig, saved: RunState, *, own: bool) -> RunConfig:
    """Go back to the server that was named when the run began, unless one is named now.

    A state file that is not the user's `own` may have come with a cloned project, so it can lead
    to nobody.
    """
    if config.api_given or saved.api in ("", DEFAULT_API):
        return config
    if not own or not is_loopback(saved.api):
        raise ResumeError(
            f"the saved run used the server {saved.api}: name it with --api to resume the run, or "
            "start a new one with --no-resume"
        )
    return replace(config, api=saved.api, api_named_by="the saved run")


@contextmanager
def logging_refusals() -> Iterator[None]:
    """Log which request it was that stops a run: people are told what it means instead."""
    try:
        yield
    except OrchestratorError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ApiRefused | ApiUnreachable):
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
