"""Has a run carried out: by this command, or in a process apart from any terminal (`-m`)."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import click

from ..core.models import exit_code_of
from ..errors import OrchestratorError, kind_of
from ..events import RunBegan, RunEnded, RunEvent, to_line
from ..hosting.environment import notifying, surroundings_of
from ..runs.prepare import NOT_BEGUN
from ..runs.recorder import View
from ..runs.request import RunRequest, build_request
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


class StartView:
    """Tells whoever waits for it how a run begins, and nothing after that."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, event: RunEvent) -> None:
        self.write(to_line(event))
        if isinstance(event, RunBegan | RunEnded):
            self.close()

    def write(self, line: str) -> None:
        if self._file is not None:
            # Nobody may wait any more; the run goes on all the same.
            with suppress(OSError):
                os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def main() -> None:
    """Carry out the run that standard input describes."""
    # Any: JSON of our own
    wanted: dict[str, Any] = json.load(sys.stdin)
    view = StartView(os.dup(sys.stdout.fileno()))
    _let_go()
    try:
        request = build_request(
            wanted["options"],
            os.environ,
            wanted["config_file"],
            replace_terminals=wanted["replace_terminals"],
        )
        sys.exit(conduct(replace(request, run=wanted["run"]), view, os.environ))
    except OrchestratorError as error:
        view.write(json.dumps({"error": str(error), "kind": kind_of(error)}))
        view.close()
        sys.exit(exit_code_of(error))


def _let_go() -> None:
    """Keep nothing of the terminal or pipes of whoever started this."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)


if __name__ == "__main__":
    main()
