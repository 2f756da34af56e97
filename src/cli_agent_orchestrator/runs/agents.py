"""How a run gets its agents: five new ones, or those of a saved run (see `resuming.py`).

A saved run goes on only if every one of its agents is still there, or may be replaced; a terminal
in another session is none of them. Agents are started side by side, all of them or none: if one
cannot be started, the others are ended again. A lost agent, or one in error, is replaced only if
that is asked for; the new one knows nothing of what was said before, so it is not counted among the
briefed ones.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

from cli_agent_orchestrator.config import DEFAULT_API
from cli_agent_orchestrator.errors import ApiError, ApiRefused, ResumeError, RunError
from cli_agent_orchestrator.models import TerminalStatus
from cli_agent_orchestrator.pipeline.roles import Role
from cli_agent_orchestrator.pipeline.state import Progress, RunState
from cli_agent_orchestrator.pipeline.task import Task
from cli_agent_orchestrator.run_config import RunConfig

logger = logging.getLogger(__name__)

GONE = 404
OTHERS: tuple[Role, ...] = (
    Role.ANALYST_REVIEW,
    Role.PROGRAMMER,
    Role.PROGRAMMER_REVIEW,
    Role.TESTER,
)
"""Who joins the analyst's session."""

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]
OnStarted = Callable[[Role, str], None]
"""Takes whose agent has been started, and the id of its terminal."""


class Terminals(Protocol):
    """What the setup needs of the server."""

    def create_session(
        self, agent_profile: str, *, provider: str | None = None, session_name: str | None = None
    ) -> Answer: ...

    def create_terminal(
        self, session_name: str, agent_profile: str, *, provider: str | None = None
    ) -> Answer: ...

    def get_terminal(self, terminal_id: str) -> Answer: ...

    def exit_terminal(self, terminal_id: str) -> None: ...


def tell_nobody(role: Role, terminal_id: str) -> None:
    """Take that an agent has been started and do nothing about it."""


def init_new_run(
    terminals: Terminals,
    config: RunConfig,
    task: Task,
    run_id: str,
    on_started: OnStarted = tell_nobody,
) -> RunState:
    """Start five agents in a session of their own and return the state of a run that begins."""
    with ExitStack() as undo:
        first = terminals.create_session(
            Role.ANALYST.profile, provider=config.providers[Role.ANALYST], session_name=run_id
        )
        analyst = _id_of(first)
        undo.callback(_exit_quietly, terminals, analyst)
        session = _session_of(first)
        on_started(Role.ANALYST, analyst)
        others = {role: config.providers[role] for role in OTHERS}
        ids = {Role.ANALYST: analyst, **_start_in_session(terminals, session, others, on_started)}
        undo.pop_all()
    return RunState(
        api=config.api if config.api_given else DEFAULT_API,
        provider=config.provider,
        wd=str(config.wd),
        prompt=task.text,
        session_name=session,
        terminals={role.terminal: ids[role] for role in Role},
        progress=Progress(
            archive=run_id,
            providers={role.terminal: config.providers[role] for role in Role},
            settings=config.settings,
        ),
    )


def find_lost_terminals(
    terminals: Terminals, state: RunState, *, also_failed: bool = False
) -> Mapping[Role, str]:
    """Return the roles whose agent is not there any more, each with what is known about it.

    One that is in the error state can still be asked; it counts only if that is wanted.
    """
    with ThreadPoolExecutor(len(Role)) as pool:
        fates = pool.map(lambda role: _fate(terminals, state, role, also_failed), Role)
    return {role: fate for role, fate in zip(Role, fates, strict=True) if fate}


def verify_resume_terminals(terminals: Terminals, state: RunState) -> None:
    """Raise `ResumeError`, with names, unless every agent of a saved run can be reached."""
    lost = find_lost_terminals(terminals, state)
    if not lost:
        return
    names = "; ".join(
        f"{role} ({state.terminal_of(role) or 'no id'}) {fate}" for role, fate in lost.items()
    )
    raise ResumeError(
        f"the saved run cannot go on: {names}. `cao run --replace-terminals` starts new agents for "
        "these and goes on at the same turn; RESUME=0 starts a new run"
    )


def replace_terminals(
    terminals: Terminals,
    state: RunState,
    providers: Mapping[Role, str],
    on_started: OnStarted = tell_nobody,
) -> RunState:
    """Start new agents for some roles and return the state in which they have their place.

    The session is kept if it is still there. A turn that one of them had in hand is forgotten: it
    will be asked of the new agent, with the whole context.
    """
    if not providers:
        return state
    for role in providers:
        if state.terminal_of(role):
            _exit_quietly(terminals, state.terminal_of(role), of=state)
    session, ids = _start_again(terminals, state.session_name, providers, on_started)
    progress = state.progress
    in_flight = progress.in_flight
    if in_flight is not None and in_flight.turn.role in ids:
        in_flight = None
    agents = {role.terminal: provider for role, provider in providers.items()}
    return replace(
        state,
        session_name=session,
        terminals={**state.terminals, **{role.terminal: ids[role] for role in ids}},
        progress=replace(progress, in_flight=in_flight, providers={**progress.providers, **agents}),
    )


def exit_terminals(terminals: Terminals, state: RunState) -> None:
    """Ask all agents of a run to quit; one that cannot be asked does not keep the others."""
    ids = [terminal_id for terminal_id in state.terminals.values() if terminal_id]
    with ThreadPoolExecutor(len(Role)) as pool:
        list(pool.map(lambda terminal_id: _exit_quietly(terminals, terminal_id), ids))


def exit_left_terminals(terminals: Terminals, state: RunState) -> bool:
    """End those agents of a run that are still alive in its session; were there any?"""

    def is_left(terminal_id: str) -> bool:
        try:
            terminal = terminals.get_terminal(terminal_id)
        except ApiRefused as error:
            if error.status_code != GONE:
                raise
            return False
        in_session = terminal.get("session_name") == state.session_name
        return in_session and terminal.get("alive") is not False

    left = {name: one for name, one in state.terminals.items() if one and is_left(one)}
    exit_terminals(terminals, replace(state, terminals=left))
    return bool(left)


def _tell_as_they_start(starting: Mapping[Role, Future[str]], on_started: OnStarted) -> None:
    """Tell of agents that are started by other threads, in this one."""
    roles = {started: role for role, started in starting.items()}
    for started in as_completed(roles):
        if started.exception() is None:
            on_started(roles[started], started.result())


def _start_again(
    terminals: Terminals, session: str, providers: Mapping[Role, str], on_started: OnStarted
) -> tuple[str, Mapping[Role, str]]:
    try:
        if session:
            return session, _start_in_session(terminals, session, providers, on_started)
    except ApiRefused as error:
        if error.status_code != GONE:
            raise
    (first, provider), *others = providers.items()
    with ExitStack() as undo:
        answer = terminals.create_session(first.profile, provider=provider)
        undo.callback(_exit_quietly, terminals, _id_of(answer))
        session = _session_of(answer)
        on_started(first, _id_of(answer))
        ids = _start_in_session(terminals, session, dict(others), on_started)
        undo.pop_all()
    return session, {first: _id_of(answer), **ids}


def _start_in_session(
    terminals: Terminals, session: str, providers: Mapping[Role, str], on_started: OnStarted
) -> dict[Role, str]:
    """Start agents side by side; if one cannot be started, end the others and raise why."""

    def start(role: Role) -> str:
        answer = terminals.create_terminal(session, role.profile, provider=providers[role])
        terminal_id = _id_of(answer)
        undo.callback(_exit_quietly, terminals, terminal_id)
        return terminal_id

    with ExitStack() as undo:
        with ThreadPoolExecutor(len(Role)) as pool:
            starting = {role: pool.submit(start, role) for role in providers}
            _tell_as_they_start(starting, on_started)
        ids = {role: started.result() for role, started in starting.items()}
        undo.pop_all()
    return ids


def _fate(terminals: Terminals, state: RunState, role: Role, also_failed: bool) -> str:
    """Return what became of a terminal, in words; nothing if it is there and alive."""
    terminal_id = state.terminal_of(role)
    if not terminal_id:
        return "was never started"
    try:
        terminal = terminals.get_terminal(terminal_id)
    except ApiRefused as error:
        if error.status_code != GONE:
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


def _exit_quietly(terminals: Terminals, terminal_id: str, of: RunState | None = None) -> None:
    """End a terminal; with `of`, only if it is of that run."""
    try:
        if of is None or not _is_of_another_run(terminals.get_terminal(terminal_id), of):
            terminals.exit_terminal(terminal_id)
    except ApiError as error:
        gone = isinstance(error, ApiRefused) and error.status_code == GONE
        if not gone:
            logger.warning("%s could not be ended: %s", terminal_id, error)


def _id_of(answer: Answer) -> str:
    terminal_id = answer.get("id")
    if not isinstance(terminal_id, str) or not terminal_id:
        raise RunError("the server started an agent and returned no id; is it a cao server?")
    return terminal_id


def _session_of(answer: Answer) -> str:
    session = answer.get("session_name")
    if not isinstance(session, str) or not session:
        raise RunError("the server did not tell the name of the session; is it a cao server?")
    return session
