"""What the programs on this machine give to a run: servers, agents, flows, the state folder."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from ..core.programs import Programs, ask
from ..core.sockets import LASTING, PASSING, find_socket
from ..errors import UsageError
from ..events import OnRunEvent, RunEvent, RunOpened
from ..notices.send import Sender, channels_of
from ..pipeline.flow import Flow
from ..providers import get_provider, scripted
from ..providers.base import not_found
from ..runs.flows import Flows
from ..runs.log import log_afterwards
from ..runs.request import Environment, Interrupts, RunRequest
from ..runs.run import Conductor, carry_out
from ..settings.config import tmux_socket
from ..settings.layout import config_folder, run_folder, state_folder
from ..terminals.launch import profile_folders, profile_names
from ..terminals.tmux import read_version
from .connect import server_for
from .user import (
    LOGIN_QUESTIONS,
    Program,
    ask_agent,
    find_program,
    login_command,
    read_notices,
    read_server_config,
)


def flows_of(project: Path, environ: Mapping[str, str], *, api_given: bool = False) -> Flows:
    own = config_folder(environ)
    profiles = None if api_given else profile_names(profile_folders(project, own))
    return Flows(project, own, profiles)


@contextmanager
def notifying(
    show: OnRunEvent, environ: Mapping[str, str], on_warning: Callable[[str], None]
) -> Iterator[tuple[OnRunEvent, Callable[[], Sequence[str]]]]:
    """Yield what shows events and sends notices, and what returns its new warnings.

    At the end wait until the notices are sent. That takes some seconds at most; Ctrl-C ends it.
    What went wrong then goes to `on_warning`, and to the log of the run, which is closed by then.
    """
    settings = read_notices(environ)
    if not settings.channels:
        yield show, tuple
        return
    sender = Sender(channels_of(settings, environ), settings.events)
    run = ""

    def tell(event: RunEvent) -> None:
        nonlocal run
        if isinstance(event, RunOpened):
            run = event.run
        try:
            show(event)
        finally:
            sender.tell(event)

    try:
        yield tell, sender.pop_warnings
    finally:
        with suppress(KeyboardInterrupt):
            sender.close()
        for warning in sender.pop_warnings():
            if run:
                log_afterwards(run_folder(state_folder(environ), run), __name__, warning)
            on_warning(warning)


def check_agents(
    names: Collection[str], wd: Path, environ: Mapping[str, str], seconds: float = 10
) -> None:
    """Refuse agents that are not known or report no login; one that does not answer may be used.

    Without a server of the user, whose PATH may be another, refuse what is not installed, too:
    tmux and agents.
    """
    config = read_server_config(environ)
    agents = {one.name: one for one in (get_provider(name, config.config_dir) for name in names)}
    folder = state_folder(environ)
    if find_socket(folder, LASTING) is None and find_socket(folder, PASSING) is None:
        read_version("tmux", environ)
        for name in sorted(agents.keys() - {scripted.PROVIDER.name}):
            wanted, program = find_program(agents[name], config, environ)
            if program is None:
                raise UsageError(f"{name}: {not_found(agents[name], wanted, 'on your PATH')}")
    with Programs(environ, agent_seconds=seconds) as programs:
        asked = {}
        for name in LOGIN_QUESTIONS.keys() & agents:
            _, program = find_program(agents[name], config, environ)
            if program is not None:
                asked[name] = programs.begin(
                    partial(ask_agent, name, program, config, wd, programs)
                )
        told = {name: one.result() for name, one in asked.items()}
    refused = [
        f"{name} is not signed in: run `{login_command(name, found.path)}`"
        for name, found in sorted(told.items())
        if isinstance(found, Program) and found.logged_in is False
    ]
    if refused:
        raise UsageError(f"{'; '.join(refused)}, then try again")


def is_watched(session: str, environ: Mapping[str, str]) -> bool:
    """Is the user attached to a session of our tmux? Also true where it has no such session."""
    socket = tmux_socket(state_folder(environ))
    words = ["list-clients", "-t", f"={session}", "-F", "#{client_control_mode}"]
    with suppress(OSError):
        # 0
        answer = ask(["tmux", "-L", socket, *words], environ, 5)
        return answer.code != 0 or "0" in answer.text.split()
    return True


def conduct(
    request: RunRequest,
    show: OnRunEvent,
    stopping: AbstractContextManager[Interrupts],
    environ: Mapping[str, str],
    on_warning: Callable[[str], None],
    *,
    flow: Flow | None = None,
    state_stays: bool = True,
) -> int:
    """Take a run to its end and return its exit code; a `flow` replaces the one it names."""

    def find_flow(named: str, folder: Path) -> Flow:
        return flow or flows_of(folder, environ, api_given=request.config.api_given).find(named)

    # Notices last longest: they are sent after the verdict is shown and saved, until a Ctrl-C.
    with notifying(show, environ, on_warning) as (tell, pop_warnings), stopping as interrupts:
        given = Environment(
            tell,
            interrupts,
            lambda config, warn: server_for(config, environ, warn),
            state_folder(environ),
            environ,
            find_flow,
            check_agents=lambda names, wd: check_agents(names, wd, environ),
            is_watched=lambda session: is_watched(session, environ),
            pop_warnings=pop_warnings,
            state_stays=state_stays,
        )
        with Conductor(request, given) as conductor:
            return carry_out(conductor, interrupts)
