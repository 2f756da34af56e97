"""What the programs on this machine give to a run: servers, agents, flows, the state folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Self

from ..core.programs import ask
from ..events import RunEvent, RunOpened
from ..notices.send import Sender, channels_of
from ..pipeline.flow import Flow
from ..providers import get_provider
from ..runs.flows import Flows
from ..runs.recorder import View, log_afterwards
from ..runs.request import Interrupts, ServerLink, Surroundings
from ..settings.config import RunConfig, config_folder, state_folder, tmux_socket
from ..settings.layout import run_folder
from ..terminals.launch import profile_folders, profile_names
from .connect import Importing, server_for
from .user import check_sign_in, read_notices

TMUX_SECONDS = 5.0


def flows_of(project: Path, environ: Mapping[str, str], *, api_given: bool = False) -> Flows:
    own = config_folder(environ)
    profiles = None if api_given else profile_names(profile_folders(project, own))
    return Flows(project, own, profiles)


class NotifyingView:
    """Shows a run as another view does, and tells of it elsewhere."""

    def __init__(self, view: View, sender: Sender) -> None:
        self._view = view
        self._sender = sender
        self.run = ""
        """The id, once the run has one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The other view is left by whoever entered it."""

    def tell(self, event: RunEvent) -> None:
        if isinstance(event, RunOpened):
            self.run = event.run
        try:
            self._view.tell(event)
        finally:
            self._sender.tell(event)

    def pop_warnings(self) -> list[str]:
        return self._sender.pop_warnings()


@contextmanager
def notifying(
    view: View, environ: Mapping[str, str], on_warning: Callable[[str], None]
) -> Iterator[NotifyingView]:
    """Yield a view that also sends notices, and send what is under way when it is left.

    That takes some seconds at most; Ctrl-C ends it. What went wrong then goes to `on_warning`, and
    to the log of the run, which is closed by then.
    """
    settings = read_notices(environ)
    sender = Sender(channels_of(settings, environ), settings.events)
    notified = NotifyingView(view, sender)
    try:
        yield notified
    finally:
        with suppress(KeyboardInterrupt):
            sender.close()
        for warning in sender.pop_warnings():
            if notified.run:
                log_afterwards(run_folder(state_folder(environ), notified.run), __name__, warning)
            on_warning(warning)


def is_watched(session: str, environ: Mapping[str, str]) -> bool:
    """Is the user attached to a session of our tmux? Also true where it is not known or not there.

    A server elsewhere has its sessions in a tmux of its own.
    """
    socket = tmux_socket(state_folder(environ))
    words = ["list-clients", "-t", f"={session}", "-F", "#{client_control_mode}"]
    with suppress(OSError):
        # 0
        answer = ask(["tmux", "-L", socket, *words], environ, TMUX_SECONDS)
        return answer.code != 0 or "0" in answer.text.split()
    return True


def surroundings_of(
    view: NotifyingView,
    interrupts: Interrupts,
    environ: Mapping[str, str],
    *,
    importing: Importing = nullcontext,
    api_given: bool = False,
) -> Surroundings:
    """Return what a run is given here; `importing` is around the import of our own server."""

    def connect(
        config: RunConfig, on_warning: Callable[[str], None]
    ) -> AbstractContextManager[ServerLink]:
        return server_for(config, environ, on_warning, importing=importing)

    def find_flow(named: str, folder: Path) -> Flow:
        return flows_of(folder, environ, api_given=api_given).find(named)

    return Surroundings(
        view,
        interrupts,
        connect,
        get_provider,
        state_folder(environ),
        environ,
        find_flow,
        check_sign_in=lambda names, wd: check_sign_in(names, wd, environ),
        pop_warnings=view.pop_warnings,
        is_watched=lambda session: is_watched(session, environ),
    )
