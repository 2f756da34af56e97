"""How a run gets its agents: a new one for each role, or those of a saved run (see `resuming.py`).

A saved run goes on only if every one of its agents is still there, or may be replaced; a terminal
in another session is none of them. How agents are started says `starting.py`. A lost agent, or one
in error, is replaced only if that is asked for; the new one knows nothing of what was said before,
so it is not counted among the briefed ones.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, Protocol, TypeVar

from ..core.clock import Retry
from ..core.models import TerminalStatus
from ..errors import ApiError, ApiRefused, ApiUnreachable, ResumeError, RunError, Stopped
from ..pipeline.flow import Flow
from ..pipeline.machine import begin
from ..pipeline.state import Progress, RunState
from ..settings.config import DEFAULT_API
from .prepare import Prepared
from .record import is_run_id, run_of_session, session_name_of, short_name

AWAY_SECONDS = 20.0
"""How long there may be no server."""
LONGEST_PAUSE_SECONDS = 1.0

Answer = TypeVar("Answer")


def patiently(
    ask: Callable[[], Answer],
    *,
    seconds: float = AWAY_SECONDS,
    stopped: threading.Event | None = None,
    repeatable: bool = False,
) -> Answer:
    """Return the answer of the first server that takes the request.

    One that is `repeatable` is asked again also where nobody knows whether it was received.
    """
    stopped = stopped or threading.Event()
    retry = Retry(time.monotonic(), limit=seconds)
    while True:
        try:
            return ask()
        except ApiUnreachable as error:
            now = time.monotonic()
            if (error.maybe_received and not repeatable) or retry.is_over(now):
                raise
            retry = retry.after_failure()
            if stopped.wait(retry.next_try(now, LONGEST_PAUSE_SECONDS) - now):
                raise


logger = logging.getLogger(__name__)

GONE = 404
AGAIN_SECONDS = 0.2
"""When a session is deleted once more: a request to start an agent in it may be on its way."""
EXIT_AWAY_SECONDS = 5.0
"""How long the end of an agent is tried while there is no server."""

# Any: JSON from a server that may not be ours.
AnswerStarting = dict[str, Any]
OnStarted = Callable[[str, str], None]
"""Takes whose agent has been started, and the id of its terminal."""
WhenStopped = Callable[[Callable[[], None]], None]
"""Takes what is to be called when the start is to be stopped; a signal handler may call it."""


class Starts(Protocol):
    """What is needed of the server to start agents."""

    def create_session(
        self,
        agent_profile: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        role: str | None = None,
    ) -> AnswerStarting: ...

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> AnswerStarting: ...

    def exit_terminal(self, terminal_id: str) -> None: ...

    def delete_session(self, session_name: str) -> None: ...


def tell_nobody(role: str, terminal_id: str) -> None:
    """Take that an agent has been started and do nothing about it."""


def never_stopped(stop: Callable[[], None]) -> None:
    """Take what is to be called and never call it."""


@dataclass(frozen=True, slots=True)
class NewAgent:
    """What is started for a role."""

    profile: str
    provider: str


@dataclass(frozen=True, slots=True)
class Onlooker:
    """Who is told of every agent that has started, and may stop the start."""

    on_started: OnStarted = tell_nobody
    when_stopped: WhenStopped = never_stopped


def new_session_name() -> str:
    return session_name_of(uuid.uuid4().hex[:8])


def start_in_new_session(
    terminals: Starts, name: str, agents: Mapping[str, NewAgent], onlooker: Onlooker
) -> tuple[str, dict[str, str]]:
    """Start agents in a session of their own; return what it is called now and their ids.

    A server may end in the middle of a request, and nobody knows what became of it. Then whatever
    there is of the session is ended, and all agents are started once more.
    """
    try:
        return _start_session(terminals, name, agents, onlooker)
    except ApiUnreachable as error:
        if not error.maybe_received:
            raise
        logger.warning("the agents are started once more: %s", error)
    try:
        patiently(partial(terminals.delete_session, name), repeatable=True)
    except ApiRefused as error:
        if not is_gone(error):
            raise
    return _start_session(terminals, name, agents, onlooker)


def _start_session(
    terminals: Starts, name: str, agents: Mapping[str, NewAgent], onlooker: Onlooker
) -> tuple[str, dict[str, str]]:
    (first, agent), *others = agents.items()
    answers: list[AnswerStarting] = []

    def begin(_: str) -> str:
        answer = terminals.create_session(
            agent.profile, provider=agent.provider, session_name=name, role=first
        )
        answers.append(answer)
        return id_of(answer)

    def tell(role: str, terminal_id: str) -> None:
        undo.callback(exit_quietly, terminals, terminal_id)
        onlooker.on_started(role, terminal_id)

    with ExitStack() as undo:
        alone = replace(onlooker, on_started=tell)
        ids = _start([first], begin, alone, lambda: _delete(terminals, name))
        session = session_of(answers[0])
        ids |= _join(terminals, session, dict(others), onlooker)
        undo.pop_all()
    return session, ids


def start_in_session(
    terminals: Starts, session: str, agents: Mapping[str, NewAgent], on_started: OnStarted
) -> dict[str, str]:
    """Start agents in a session that is there, and return their ids.

    This cannot be stopped: the session has other agents, which are to stay.
    """
    return _join(terminals, session, agents, Onlooker(on_started))


def exit_quietly(terminals: Starts, terminal_id: str) -> None:
    try:
        patiently(lambda: terminals.exit_terminal(terminal_id), seconds=EXIT_AWAY_SECONDS)
    except ApiError as error:
        if not is_gone(error):
            logger.warning("%s could not be ended: %s", terminal_id, error)


def is_gone(error: ApiError) -> bool:
    return isinstance(error, ApiRefused) and error.status_code == GONE


def id_of(answer: AnswerStarting) -> str:
    terminal_id = answer.get("id")
    if not isinstance(terminal_id, str) or not terminal_id:
        raise RunError("the server started an agent and returned no id; is it a cao server?")
    return terminal_id


def session_of(answer: AnswerStarting) -> str:
    session = answer.get("session_name")
    if not isinstance(session, str) or not session:
        raise RunError("the server returned no name of the session; is it a cao server?")
    return session


def _join(
    terminals: Starts, session: str, agents: Mapping[str, NewAgent], onlooker: Onlooker
) -> dict[str, str]:
    def join(role: str) -> str:
        agent = agents[role]
        answer = terminals.create_terminal(
            session, agent.profile, provider=agent.provider, role=role
        )
        terminal_id = id_of(answer)
        undo.callback(exit_quietly, terminals, terminal_id)
        return terminal_id

    with ExitStack() as undo:
        ids = _start(agents, join, onlooker, lambda: _delete(terminals, session))
        undo.pop_all()
    return ids


def _start(
    roles: Collection[str],
    start: Callable[[str], str],
    onlooker: Onlooker,
    give_up: Callable[[], str],
) -> dict[str, str]:
    """Start agents in threads, and tell of them in this one.

    `give_up` lets the starts fail, and returns why it could not.
    """
    # SimpleQueue, because its put may interrupt its get: signal handlers stop us.
    news: SimpleQueue[Future[str] | None] = SimpleQueue()
    stopped = threading.Event()
    with ThreadPoolExecutor(max(len(roles), 1)) as pool:
        starting = {
            pool.submit(patiently, partial(start, role), stopped=stopped): role for role in roles
        }
        for started in starting:
            started.add_done_callback(news.put)
        onlooker.when_stopped(lambda: news.put(None))
        for _ in starting:
            done = news.get()
            if done is None:
                stopped.set()
                _stop(starting, give_up)
            elif done.exception() is None:
                onlooker.on_started(starting[done], done.result())
    return {role: started.result() for started, role in starting.items()}


def _stop(starting: Collection[Future[str]], give_up: Callable[[], str]) -> NoReturn:
    """Give up until no start is under way any more, and once more for those that were ready."""
    while wait(starting, 0).not_done:
        give_up()
        wait(starting, AGAIN_SECONDS)
    raise Stopped(give_up() or "the agents that were being started are ended again")


def _delete(terminals: Starts, session: str) -> str:
    """Delete a session and return, in words, why it may still be there."""
    try:
        terminals.delete_session(session)
    except ApiError as error:
        if not is_gone(error):
            return f"session {session} could not be ended: {error}"
    return ""


class AgentServer(Starts, Protocol):
    """What the setup needs of the server."""

    def get_terminal(self, terminal_id: str) -> AnswerStarting: ...


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


def _is_of_another_run(terminal: AnswerStarting, state: RunState) -> bool:
    """Is it in another session? A saved state that somebody else made can name any terminal."""
    return terminal.get("session_name") not in (None, state.session_name)


def _exit_own(terminals: AgentServer, terminal_id: str, state: RunState) -> None:
    try:
        if _is_of_another_run(terminals.get_terminal(terminal_id), state):
            return
    except ApiError as error:
        if not is_gone(error):
            logger.warning("%s could not be ended: %s", terminal_id, error)
        return
    exit_quietly(terminals, terminal_id)
