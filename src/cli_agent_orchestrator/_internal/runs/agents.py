"""How a run gets its agents: a new one for each role, or those of a saved run (see `resuming.py`).

A saved run goes on only if every one of its agents is still there, or may be replaced; a terminal
in another session is none of them. How agents are started says `starting.py`. A lost agent, or one
in error, is replaced only if that is asked for; the new one knows nothing of what was said before,
so it is not counted among the briefed ones.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from cli_agent_orchestrator._internal.config import DEFAULT_API
from cli_agent_orchestrator._internal.models import TerminalStatus
from cli_agent_orchestrator._internal.pipeline.flow import Flow
from cli_agent_orchestrator._internal.pipeline.machine import begin
from cli_agent_orchestrator._internal.pipeline.state import Progress, RunState
from cli_agent_orchestrator._internal.runs.prepared import Prepared
from cli_agent_orchestrator._internal.runs.records.run_id import (
    is_run_id,
    run_of_session,
    session_name_of,
    short_name,
)
from cli_agent_orchestrator._internal.runs.starting import (
    Answer,
    NewAgent,
    Onlooker,
    Starts,
    exit_quietly,
    is_gone,
    new_session_name,
    start_in_new_session,
    start_in_session,
)
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ResumeError

logger = logging.getLogger(__name__)


class AgentServer(Starts, Protocol):
    """What the setup needs of the server."""

    def get_terminal(self, terminal_id: str) -> Answer: ...


ALONE = Onlooker()


def init_new_run(terminals: AgentServer, new: Prepared, onlooker: Onlooker = ALONE) -> RunState:
    """Start an agent for each role, in a session of their own, and return how the run begins.

    Session and archive have the id of the run. Raises `Stopped` when the onlooker stops it; none of
    the agents is left then.
    """
    config, providers = new.config, new.providers
    agents = _agents(new.flow, providers)
    session, ids = start_in_new_session(terminals, session_name_of(new.run_id), agents, onlooker)
    state = RunState(
        api=config.api if config.api_given else DEFAULT_API,
        provider=config.provider,
        wd=str(config.wd),
        prompt=new.task.text,
        session_name=session,
        flow=new.flow,
        terminals={role: ids[role] for role in providers},
        phase=new.flow.first.name,
        progress=Progress(archive=new.run_id, providers=providers, settings=config.settings),
    )
    return begin(state)


def find_lost_terminals(
    terminals: AgentServer, state: RunState, *, also_failed: bool = False
) -> Mapping[str, str]:
    """Return the roles whose agent is not there any more, each with what is known about it.

    One that is in the error state can still be asked; it counts only if that is wanted.
    """
    roles = [role.name for role in state.flow.roles]
    with ThreadPoolExecutor(len(roles)) as pool:
        fates = pool.map(lambda role: _fate(terminals, state, role, also_failed), roles)
    return {role: fate for role, fate in zip(roles, fates, strict=True) if fate}


def verify_resume_terminals(terminals: AgentServer, state: RunState) -> None:
    """Raise `ResumeError`, with names, unless every agent of a saved run can be reached."""
    lost = find_lost_terminals(terminals, state)
    if not lost:
        return
    names = "; ".join(
        f"{role} ({state.terminal_of(role) or 'no id'}) {fate}" for role, fate in lost.items()
    )
    run = state.progress.archive
    resume = f"cao resume {short_name(run)}" if is_run_id(run) else "cao run --resume"
    resume += " --replace-terminals"
    raise ResumeError(
        f"the saved run cannot go on: {names}. `{resume}` starts new agents for these and goes on "
        "at the same turn",
        to_resume=resume,
    )


def replace_terminals(
    terminals: AgentServer,
    state: RunState,
    providers: Mapping[str, str],
    onlooker: Onlooker = ALONE,
) -> RunState:
    """Start new agents for some roles and return the state in which they have their place.

    The session is kept if it is still there. A turn that one of them had in hand is forgotten: it
    will be asked of the new agent, with the whole context.
    """
    if not providers:
        return state
    for role in providers:
        if state.terminal_of(role):
            _exit_own(terminals, state.terminal_of(role), state)
    agents = _agents(state.flow, providers)
    session, ids = _start_again(terminals, state.session_name, agents, onlooker)
    progress = state.progress
    in_flight = progress.in_flight
    if in_flight is not None and in_flight.turn.role in ids:
        in_flight = None
    return replace(
        state,
        session_name=session,
        terminals={**state.terminals, **ids},
        progress=replace(
            progress, in_flight=in_flight, providers={**progress.providers, **providers}
        ),
    )


def exit_terminals(terminals: AgentServer, state: RunState) -> None:
    """Ask all agents of a run to quit; one that cannot be asked does not keep the others."""
    ids = [terminal_id for terminal_id in state.terminals.values() if terminal_id]
    with ThreadPoolExecutor(max(len(ids), 1)) as pool:
        list(pool.map(lambda terminal_id: exit_quietly(terminals, terminal_id), ids))


def exit_left_terminals(terminals: AgentServer, state: RunState) -> bool:
    """End those agents of a run that are still alive in its session; were there any?"""

    def is_left(terminal_id: str) -> bool:
        try:
            terminal = terminals.get_terminal(terminal_id)
        except ApiRefused as error:
            if not is_gone(error):
                raise
            return False
        in_session = terminal.get("session_name") == state.session_name
        return in_session and terminal.get("alive") is not False

    left = {name: one for name, one in state.terminals.items() if one and is_left(one)}
    exit_terminals(terminals, replace(state, terminals=left))
    return bool(left)


def _agents(flow: Flow, providers: Mapping[str, str]) -> Mapping[str, NewAgent]:
    return {role: NewAgent(flow.role(role).profile, agent) for role, agent in providers.items()}


def _start_again(
    terminals: AgentServer, session: str, agents: Mapping[str, NewAgent], onlooker: Onlooker
) -> tuple[str, Mapping[str, str]]:
    try:
        if session:
            started = start_in_session(terminals, session, agents, onlooker.on_started)
            return session, started
    except ApiRefused as error:
        if not is_gone(error):
            raise
    # Its name is free again, and by it `cao ls` knows the run.
    name = session if run_of_session(session) else new_session_name()
    return start_in_new_session(terminals, name, agents, onlooker)


def _fate(terminals: AgentServer, state: RunState, role: str, also_failed: bool) -> str:
    """Return what became of a terminal, in words; nothing if it is there and alive."""
    terminal_id = state.terminal_of(role)
    if not terminal_id:
        return "was never started"
    try:
        terminal = terminals.get_terminal(terminal_id)
    except ApiRefused as error:
        if not is_gone(error):
            raise
        return "is not there any more"
    if _is_of_another_run(terminal, state):
        return "is an agent of another run"
    if terminal.get("alive") is not False:
        failed = also_failed and terminal.get("status") == TerminalStatus.ERROR
        return "is in the error state" if failed else ""
    code = terminal.get("exit_code")
    return "has ended" if code is None else f"has ended with exit code {code}"


def _is_of_another_run(terminal: Answer, state: RunState) -> bool:
    """Is it in another session? A saved state that somebody else made can name any terminal."""
    return terminal.get("session_name") not in (None, state.session_name)


def _exit_own(terminals: AgentServer, terminal_id: str, state: RunState) -> None:
    """End a terminal, if it is of that run."""
    try:
        if _is_of_another_run(terminals.get_terminal(terminal_id), state):
            return
    except ApiError as error:
        if not is_gone(error):
            logger.warning("%s could not be ended: %s", terminal_id, error)
        return
    exit_quietly(terminals, terminal_id)
