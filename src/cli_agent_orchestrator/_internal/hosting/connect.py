"""The server of a command: the one that `discovery` finds, or one that lasts as long as it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from cli_agent_orchestrator._internal.address import ADDRESS_FILE, Found
from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.config import DEFAULT_PORT, state_folder
from cli_agent_orchestrator._internal.discovery import Discovery, discover, name_server
from cli_agent_orchestrator._internal.hosting.transports import transport_to
from cli_agent_orchestrator._internal.short_answer import ask
from cli_agent_orchestrator.errors import FolderTaken, ServerConflict, ServerSilent

PATIENCE_SECONDS = 10.0
"""How long a server that another command starts may take until it can be found."""
LOOKS = 10
"""How often it is looked for in that time even if nothing is told of it: who was about to start it
may have been killed."""
PS_SECONDS = 5.0

OnRemark = Callable[[str], None]
Importing = Callable[[], AbstractContextManager[None]]
"""What surrounds the import of heavy modules that are seldom needed."""


@contextmanager
def client_for(
    environ: Mapping[str, str],
    api: str | None,
    on_remark: OnRemark,
    *,
    default_port: int = DEFAULT_PORT,
    importing: Importing = nullcontext,
) -> Iterator[ApiClient]:
    """Yield a client of the server that a command is to use; `api` is the one named by option.

    A server of our own ends with the command; terminals outlive it in tmux.
    """
    named = name_server(environ, api)
    with ExitStack() as stack:
        found = find_or_start(
            lambda: discover(environ, named, default_port=default_port),
            lambda: stack.enter_context(
                run_own_server(environ, default_port, importing, lasting=False)
            ),
            on_remark,
            state_folder(environ),
        )
        client = ApiClient(found.url, token=found.token, transport=transport_to(found))
        yield stack.enter_context(client)


def find_or_start(
    find: Callable[[], Discovery],
    start: Callable[[], Found],
    on_remark: OnRemark,
    folder: Path,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Found:
    """Return the server that is found, else one of our own.

    Another command may start its own at the same moment, and have the state folder. Its server is
    found as soon as it tells there that it listens. One that soon ends is used only if it does not
    end in time.
    """
    discovery = find()
    chosen = discovery.found or _start_if_possible(start)
    for remark in discovery.remarks:
        on_remark(remark)
    if chosen is not None:
        return chosen
    with _told_of(folder / ADDRESS_FILE) as wait:
        deadline = time.monotonic() + patience
        while (discovery := find()).found is None:
            try:
                return start()
            except ServerConflict as conflict:
                left = deadline - time.monotonic()
                if left <= 0 and discovery.passing is not None:
                    return discovery.passing
                if left <= 0 and isinstance(conflict, FolderTaken):
                    raise ServerSilent(conflict, is_stopped=False) from None
                if left <= 0:
                    raise
            wait(min(left, patience / LOOKS))
    return discovery.found


def _start_if_possible(start: Callable[[], Found]) -> Found | None:
    """Return a server of our own, None if there will be another in a moment."""
    try:
        return start()
    except FolderTaken as taken:
        if taken.pid is not None and is_stopped(taken.pid):
            raise ServerSilent(taken, is_stopped=True) from None
    except ServerConflict:
        pass
    return None


def is_stopped(pid: int) -> bool:
    """Has somebody stopped a process, so that it does nothing until it is let go on?"""
    with suppress(OSError):
        # Ts
        return ask(["ps", "-o", "stat=", "-p", str(pid)], None, PS_SECONDS).text[:1] == "T"
    return False


@contextmanager
def _told_of(path: Path) -> Iterator[Callable[[float], None]]:
    """Yield what waits, for so many seconds at most, until something happens to a file."""
    # Heavy, and seldom needed.
    from cli_agent_orchestrator._internal.file_watch import Waker, watch_file

    waker = Waker()
    with watch_file(path, waker.wake):
        yield waker.wait


@contextmanager
def run_own_server(
    environ: Mapping[str, str],
    default_port: int,
    importing: Importing = nullcontext,
    *,
    lasting: bool = True,
    gone: int = 0,
) -> Iterator[Found]:
    """Run a server in this process, at the usual port if that is free; see `own_server`."""
    with importing():  # heavy, and not needed where a server runs
        from cli_agent_orchestrator._internal.hosting.server import own_server

    with own_server(environ, default_port, lasting=lasting, gone=gone) as found:
        yield found
