"""Notices of a run that goes on in this process, as the user's own configuration wants them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Self

from cli_agent_orchestrator._internal.hosting.environment import read_notices
from cli_agent_orchestrator._internal.notices.channels import channels_of
from cli_agent_orchestrator._internal.notices.sending import Sender
from cli_agent_orchestrator._internal.runs.view import View
from cli_agent_orchestrator.events import RunEvent


class NotifyingView:
    """Shows a run as another view does, and tells of it elsewhere."""

    def __init__(self, view: View, sender: Sender) -> None:
        self._view = view
        self._sender = sender

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The other view is left by whoever entered it."""

    def tell(self, event: RunEvent) -> None:
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

    That takes some seconds at most; Ctrl-C ends it. What went wrong then goes to `on_warning`.
    """
    settings = read_notices(environ)
    sender = Sender(channels_of(settings, environ), settings.events)
    try:
        yield NotifyingView(view, sender)
    finally:
        with suppress(KeyboardInterrupt):
            sender.close()
        for warning in sender.pop_warnings():
            on_warning(warning)
