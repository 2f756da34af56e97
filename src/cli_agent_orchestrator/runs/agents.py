"""How a run gets its agents: a new one for each role, or those of a saved run.

A saved run is resumed only if each of its agents is still there or may be replaced; a terminal in
another session is none of them. A lost agent, or one in error, is replaced only on request; the new
one knows nothing of the earlier prompts, so it is not counted among the briefed ones.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from ..core.clock import Retry
from ..core.models import TerminalStatus
from ..errors import ApiError, ApiRefused, ApiUnreachable, RunError, Stopped
from ..pipeline.flow import Flow
from ..pipeline.machine import begin
from ..pipeline.state import Progress, RunState
from .prepare import Prepared
from .record import run_of_session, session_name_of, short_name

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

    A `repeatable` request is sent again even if it may have been received. A server may end when
    it has worked on one for long: the time counts from then on.
    """
    stopped = stopped or threading.Event()
    retry: Retry | None = None
    while True:
        try:
            return ask()
        except ApiUnreachable as error:
            now = time.monotonic()
            retry = retry or Retry(now, limit=seconds)
            if (error.maybe_received and not repeatable) or retry.is_over(now):
                raise
            retry = retry.after_failure()
            if stopped.wait(retry.next_try(now, LONGEST_PAUSE_SECONDS) - now):
                raise


logger = logging.getLogger(__name__)

GONE = 404
AGAIN_SECONDS = 0.2
"""After this a session is deleted once more: a request to start an agent may be on its way."""
EXIT_AWAY_SECONDS = 5.0
STOP_LOOKS = 10

# Any: JSON from a server that may not be ours.
Terminal = dict[str, Any]
OnStarted = Callable[[str, str], None]
WhenStopped = Callable[[Callable[[], None]], None]
"""Takes a function that stops the start; a signal handler may call that."""


class AgentServer(Protocol):
    def create_session(
        self,
        agent_profile: str,
        *,
        provider: str | None = None,
        session_name: str | None = None,
        role: str | None = None,
    ) -> Terminal: ...

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str | None = None,
        role: str | None = None,
    ) -> Terminal: ...

    def get_terminal(self, terminal_id: str) -> Terminal: ...

    def exit_terminal(self, terminal_id: str) -> None: ...

    def press_key(self, terminal_id: str, key: str) -> None: ...

    def delete_session(self, session_name: str) -> None: ...


def _start_in_new_session(
    server: AgentServer,
    name: str,
    flow: Flow,
    providers: Mapping[str, str],
    on_started: OnStarted | None,
    when_stopped: WhenStopped | None,
) -> tuple[str, dict[str, str]]:
    """Start agents in a session of their own; return its real name and their ids.

    A server may end in the middle of a request, whose result is then unknown. In that case the
    session is ended, and all agents are started once more.
    """
    start_all = partial(_start, server, name, flow, providers, on_started, when_stopped, new=True)
    try:
        return start_all()
    except ApiUnreachable as error:
        if not error.maybe_received:
            raise
        logger.warning("the agents are started once more: %s", error)
    try:
        patiently(partial(server.delete_session, name), repeatable=True)
    except ApiRefused as error:
        if not is_gone(error):
            raise
    return start_all()


def _start(
    server: AgentServer,
    session: str,
    flow: Flow,
    providers: Mapping[str, str],
    on_started: OnStarted | None,
    when_stopped: WhenStopped | None = None,
    *,
    new: bool = False,
) -> tuple[str, dict[str, str]]:
    """Start all agents or none, in threads, and report them in this one.

    The first one opens a `new` session. The first of each agent starts alone: what it sets up at
    its first start ever, such as a database, several would set up at the same time.

    When it is stopped, the session is deleted until no start is under way any more, and once more
    for the agents that were ready.
    """
    # SimpleQueue, because its put may interrupt its get: signal handlers stop us.
    news: SimpleQueue[Future[str] | None] = SimpleQueue()
    stopped = threading.Event()

    def start(role: str, after: Sequence[Future[str]]) -> str:
        nonlocal session
        for one in after:
            one.result()
        opens = new and not after
        make: Callable[..., Terminal] = server.create_session if opens else server.create_terminal
        create = partial(make, agent_profile=flow.role(role).profile, session_name=session)
        create = partial(create, provider=providers[role], role=role)
        terminal = patiently(create, stopped=stopped)
        terminal_id = _read(terminal, "id")
        undo.callback(exit_quietly, server, terminal_id)
        if opens:
            session = _read(terminal, "session_name")
        return terminal_id

    with ExitStack() as undo, ThreadPoolExecutor(max(len(providers), 1)) as pool:
        firsts: dict[str, Future[str]] = {}
        starting: dict[Future[str], str] = {}
        for role, provider in providers.items():
            opener = next(iter(firsts), "") if new else ""
            after = [firsts[one] for one in (opener, provider) if one in firsts]
            starting[future := pool.submit(start, role, after)] = role
            firsts.setdefault(provider, future)
        for started in starting:
            started.add_done_callback(news.put)
        if when_stopped is not None:
            when_stopped(lambda: news.put(None))
        for _ in starting:
            done = news.get()
            if done is None:
                stopped.set()
                while wait(starting, 0).not_done:
                    delete_session(server, session)
                    wait(starting, AGAIN_SECONDS)
                fault = delete_session(server, session)
                raise Stopped(fault or "the agents that were being started are ended again")
            if done.exception() is None and on_started is not None:
                on_started(starting[done], done.result())
        ids = {role: started.result() for started, role in starting.items()}
        undo.pop_all()
    return session, ids


def _read(terminal: Terminal, name: str) -> str:
    value = terminal.get(name)
    if not isinstance(value, str) or not value:
        raise RunError(f"the server returned no {name} of an agent; is it a cao server?")
    return value


def delete_session(server: AgentServer, session: str) -> str:
    try:
        server.delete_session(session)
    except ApiError as error:
        if not is_gone(error):
            return f"session {session} could not be ended: {error}"
    return ""


def is_gone(error: ApiError) -> bool:
    return isinstance(error, ApiRefused) and error.status_code == GONE


def exit_quietly(server: AgentServer, terminal_id: str) -> None:
    try:
        patiently(lambda: server.exit_terminal(terminal_id), seconds=EXIT_AWAY_SECONDS)
    except ApiError as error:
        if not is_gone(error):
            logger.warning("%s could not be ended: %s", terminal_id, error)


def init_new_run(
    server: AgentServer,
    new: Prepared,
    on_started: OnStarted | None = None,
    when_stopped: WhenStopped | None = None,
) -> RunState:
    """Start an agent for each role, in a session of their own, and return the first state.

    Raises `Stopped` when it is stopped; then no agent is left.
    """
    config, providers = new.config, new.providers
    session, ids = _start_in_new_session(
        server, session_name_of(new.run_id), new.flow, providers, on_started, when_stopped
    )
    state = RunState(
        api=config.api,
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
    server: AgentServer, state: RunState, *, also_failed: bool = False
) -> Mapping[str, str]:
    """Return the roles whose agent is lost, or in error with `also_failed`, each with its fate."""

    def fate(role: str) -> str:
        terminal_id = state.terminal_of(role)
        if not terminal_id:
            return "was never started"
        terminal = _find_terminal(server, terminal_id)
        if terminal is None:
            return "is not there any more"
        if _is_of_another_run(terminal, state):
            return "is an agent of another run"
        if terminal.get("alive") is not False:
            failed = also_failed and terminal.get("status") == TerminalStatus.ERROR
            return "is in the error state" if failed else ""
        code = terminal.get("exit_code")
        return "has ended" if code is None else f"has ended with exit code {code}"

    roles = [role.name for role in state.flow.roles]
    with ThreadPoolExecutor(len(roles)) as pool:
        fates = pool.map(fate, roles)
    return {role: one for role, one in zip(roles, fates, strict=True) if one}


def _find_terminal(server: AgentServer, terminal_id: str) -> Terminal | None:
    try:
        return server.get_terminal(terminal_id)
    except ApiRefused as error:
        if not is_gone(error):
            raise
        return None


def _is_of_another_run(terminal: Terminal, state: RunState) -> bool:
    """Is it in another session? A saved state that another user made can name any terminal."""
    return terminal.get("session_name") not in (None, state.session_name)


def verify_resume_terminals(server: AgentServer, state: RunState) -> None:
    lost = find_lost_terminals(server, state)
    if not lost:
        return
    names = "; ".join(
        f"{role} ({state.terminal_of(role) or 'no id'}) {fate}" for role, fate in lost.items()
    )
    resume = f"cao resume {short_name(state.progress.archive)} --replace-terminals"
    raise RunError(
        f"the saved run cannot go on: {names}. `{resume}` starts new agents for these and goes on "
        "at the same turn",
        to_resume=resume,
    )


def replace_terminals(
    server: AgentServer,
    state: RunState,
    providers: Mapping[str, str],
    on_started: OnStarted | None = None,
    when_stopped: WhenStopped | None = None,
) -> RunState:
    """Start new agents for some roles and return the state with them.

    The session is kept if it is still there; then this cannot be stopped, since it has other
    agents, which are to stay. A turn that a replaced agent was working on is forgotten: the new one
    gets it with the whole context.
    """
    if not providers:
        return state
    for terminal_id in filter(None, map(state.terminal_of, providers)):
        try:
            terminal = _find_terminal(server, terminal_id)
            if terminal is not None and not _is_of_another_run(terminal, state):
                exit_quietly(server, terminal_id)
        except ApiError as error:
            logger.warning("%s could not be ended: %s", terminal_id, error)
    session, ids = state.session_name, dict[str, str]()
    try:
        if session:
            session, ids = _start(server, session, state.flow, providers, on_started)
    except ApiRefused as error:
        if not is_gone(error):
            raise
    if not ids:
        # Its name is free again, and `cao ls` knows the run by it.
        name = session if run_of_session(session) else session_name_of(uuid.uuid4().hex[:8])
        session, ids = _start_in_new_session(
            server, name, state.flow, providers, on_started, when_stopped
        )
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


def stop_sleepers(server: AgentServer, state: RunState) -> dict[str, str]:
    """Stop the agents that would go on by themselves; return when they would have, by role.

    One that cannot be stopped is ended.
    """

    def wakes(terminal_id: str) -> str:
        return str((_find_terminal(server, terminal_id) or {}).get("wakes") or "")

    found: dict[str, str] = {}
    for role, terminal_id in state.terminals.items():
        with suppress(ApiError):
            if not terminal_id or not (at := wakes(terminal_id)):
                continue
            found[role] = at
            with suppress(ApiRefused):
                server.press_key(terminal_id, "Escape")
            for _ in range(STOP_LOOKS):
                if not wakes(terminal_id):
                    break
                time.sleep(AGAIN_SECONDS)
            else:
                exit_quietly(server, terminal_id)
    return found


def exit_terminals(server: AgentServer, ids: Collection[str]) -> None:
    with ThreadPoolExecutor(max(len(ids), 1)) as pool:
        list(pool.map(partial(exit_quietly, server), filter(None, ids)))
