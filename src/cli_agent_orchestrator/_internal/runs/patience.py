"""Asking a server that may be away for a moment.

A server that was merely found may end with whoever started it, and another takes its place. What
has certainly not reached the one is asked of the other.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from cli_agent_orchestrator._internal.retry import Retry
from cli_agent_orchestrator.errors import ApiUnreachable

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
