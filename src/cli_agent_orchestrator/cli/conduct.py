"""Has a run carried out from the command line."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

import click

from ..hosting.environment import notifying, surroundings_of
from ..runs.prepare import NOT_BEGUN
from ..runs.recorder import View
from ..runs.request import RunRequest
from ..runs.run import Conductor, carry_out
from .imports import importing
from .interrupts import Interrupts

SLOW_SECONDS = 1.0
"""How long a run may be prepared without a word."""
CLOSED = "cao: nobody reads the output any more"


def conduct(
    request: RunRequest,
    view: View,
    environ: Mapping[str, str],
    *,
    state_stays: bool = True,
) -> int:
    """Carry out a run and return its exit code; raise what keeps it from going on."""
    # Notices last longest: they go on when the verdict is shown and saved, until a Ctrl-C.
    with (
        notifying(view, environ, _warn) as notified,
        Interrupts() as interrupts,
        view,
        announcing_slow_start(lambda: bool(notified.run)),
    ):
        given = surroundings_of(
            notified, interrupts, environ, importing=importing, api_given=request.config.api_given
        )
        with Conductor(request, replace(given, state_stays=state_stays)) as conductor:
            return take_to_its_end(conductor, interrupts)


@contextmanager
def announcing_slow_start(
    has_begun: Callable[[], bool], seconds: float = SLOW_SECONDS
) -> Iterator[None]:
    """Say what takes so long, once, if a run has not begun by then: its folder may be large."""

    def announce() -> None:
        if not has_begun():
            _warn("looking at the files ...")

    timer = threading.Timer(seconds, announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warn(text: str) -> None:
    with suppress(OSError):
        click.echo(f"cao: {text}", err=True)


def take_to_its_end(conductor: Conductor, interrupts: Interrupts) -> int:
    """Carry out a run; that nobody reads its output any more is said on the other channel."""
    try:
        return carry_out(conductor, interrupts)
    except BrokenPipeError:
        # A run that is saved is not lost, and its agents may still be there.
        left = "what is saved can be resumed" if conductor.is_saved else NOT_BEGUN
        with suppress(OSError):
            click.echo(f"{CLOSED}; {left}", err=True)
        raise
