"""The process of a run that was started apart from any terminal; see `runs/service.py`."""

import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from ..core.models import exit_code_of
from ..errors import OrchestratorError, kind_of
from ..events import RunBegan, RunEnded, RunEvent, to_line
from ..runs.request import build_request
from .conduct import conduct


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
