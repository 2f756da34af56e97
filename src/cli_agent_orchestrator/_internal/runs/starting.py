"""Starts agents side by side, all of them or none: if one cannot be started, the others are ended.

The same goes if nobody can be told of one.

Agents take their time to start. Who stops the start of a new session does not have to wait: the
session is deleted, with the agents that are there and those that are still being started. It has a
name from the beginning, so that this can be done before the server has told it.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, Protocol

from cli_agent_orchestrator._internal.runs.patience import patiently
from cli_agent_orchestrator._internal.runs.records.run_id import session_name_of
from cli_agent_orchestrator.errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    RunError,
    Stopped,
)

logger = logging.getLogger(__name__)

GONE = 404
AGAIN_SECONDS = 0.2
"""When a session is deleted once more: a request to start an agent in it may be on its way."""
EXIT_AWAY_SECONDS = 5.0
"""How long the end of an agent is tried while there is no server."""

# Any: JSON from a server that may not be ours.
Answer = dict[str, Any]
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
    ) -> Answer: ...

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> Answer: ...

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
    """Return a name that no session has yet."""
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
    answers: list[Answer] = []

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
    """End a terminal, if that can be done."""
    try:
        patiently(lambda: terminals.exit_terminal(terminal_id), seconds=EXIT_AWAY_SECONDS)
    except ApiError as error:
        if not is_gone(error):
            logger.warning("%s could not be ended: %s", terminal_id, error)


def is_gone(error: ApiError) -> bool:
    """Does the server say that there is no such thing?"""
    return isinstance(error, ApiRefused) and error.status_code == GONE


def id_of(answer: Answer) -> str:
    """Return the id of the terminal that was started."""
    terminal_id = answer.get("id")
    if not isinstance(terminal_id, str) or not terminal_id:
        raise RunError("the server started an agent and returned no id; is it a cao server?")
    return terminal_id


def session_of(answer: Answer) -> str:
    """Return the session of the terminal that was started."""
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
