"""Has a run carried out: by this command, or in a process apart from any terminal (`-m`)."""

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import click
from msgspec.structs import replace

from ..core import codec
from ..errors import OrchestratorError, exit_code_of, kind_of
from ..events import RunBegan, RunEnded, RunEvent, to_line
from ..hosting import environment
from ..runs.recorder import View
from ..runs.request import RunRequest, build_request
from ..runs.service import RunToLaunch
from .interrupts import Interrupts

SLOW_SECONDS = 1.0


def conduct(
    request: RunRequest, view: View, environ: Mapping[str, str], *, state_stays: bool = True
) -> int:
    # A folder may be large: say what takes so long.
    slow = threading.Timer(SLOW_SECONDS, _warn, ["looking at the files ..."])
    slow.daemon = True
    slow.start()

    def tell(event: RunEvent) -> None:
        slow.cancel()
        view.tell(event)

    @contextmanager
    def stopping() -> Iterator[Interrupts]:
        with Interrupts() as interrupts, view:
            yield interrupts

    try:
        return environment.conduct(
            request, tell, stopping(), environ, _warn, state_stays=state_stays
        )
    except BrokenPipeError as error:
        _warn(str(error))
        raise
    finally:
        slow.cancel()


def _warn(text: str) -> None:
    with suppress(OSError):
        click.echo(f"cao: {text}", err=True)


class StartView(View):
    def __init__(self, file: int) -> None:
        self._file: int | None = file

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, event: RunEvent) -> None:
        self.write(to_line(event))
        if isinstance(event, RunBegan | RunEnded):
            self.close()

    def write(self, line: str) -> None:
        if self._file is not None:
            # The launching process may be gone; the run continues.
            with suppress(OSError):
                os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def main() -> None:
    wanted = codec.decode(RunToLaunch, sys.stdin.buffer.read())
    view = StartView(os.dup(sys.stdout.fileno()))
    # Keep nothing of the terminal or the pipes of the process that started this.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    try:
        request = build_request(
            wanted.options,
            os.environ,
            wanted.config_file,
            replace_terminals=wanted.replace_terminals,
        )
        sys.exit(conduct(replace(request, run=wanted.run), view, os.environ))
    except OrchestratorError as error:
        view.write(json.dumps({"error": str(error), "kind": kind_of(error)}))
        view.close()
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
