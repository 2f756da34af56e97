"""Notices of a run that goes on in this process, as the user's own configuration wants them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Self

from cli_agent_orchestrator._internal.config import state_folder
from cli_agent_orchestrator._internal.hosting.environment import read_notices
from cli_agent_orchestrator._internal.layout import run_folder
from cli_agent_orchestrator._internal.notices.channels import channels_of
from cli_agent_orchestrator._internal.notices.sending import Sender
from cli_agent_orchestrator._internal.runs.records.run_log import log_afterwards
from cli_agent_orchestrator._internal.runs.view import View
from cli_agent_orchestrator.events import RunEvent, RunOpened


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
        """Return why notices did not arrive."""
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
