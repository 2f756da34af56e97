"""How a run is shown: lines with the time, or JSON for programs. `live.py` is for terminals."""

import os
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

import click

from ..errors import UsageError
from ..events import RunEvent, to_line
from ..hosting.user import read_notices
from ..runs.control import pass_on
from ..runs.event_log import read_events
from ..runs.recorder import View
from ..settings.config import tmux_socket
from ..settings.layout import run_folder
from ..terminals.programs import is_inside
from .narration import UNFINISHED, Narration
from .printable import beside_time


class PlainView:
    """Shows a run as lines, each with the time."""

    def __init__(self, base: Path, report: str = "", unfinished: str = UNFINISHED) -> None:
        self._narration = Narration(base, report, unfinished)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was written."""

    def tell(self, event: RunEvent) -> None:
        line = self._narration.tell(event)
        if line is not None:
            text = beside_time(line.text, _terminal_width())
            click.echo(f"{datetime.fromtimestamp(event.at):%H:%M:%S}  {text}")


class JsonView:
    """Shows a run as JSON, an object a line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was written."""

    def tell(self, event: RunEvent) -> None:
        click.echo(to_line(event))


def _terminal_width() -> int:
    """Return how wide the terminal is that is written to; 0 if it is none, or does not know."""
    # COLUMNS, which would count more, may be that of another terminal.
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def _kept_events(state_folder: Path, run: str) -> list[RunEvent]:
    """Return the events of a run; none if they cannot be read, which is said elsewhere."""
    try:
        return read_events(run_folder(state_folder, run))
    except (OSError, UsageError):
        return []


def choose_view(
    base: Path,
    as_json: bool,
    report: str,
    unfinished: str = UNFINISHED,
    state_folder: Path | None = None,
) -> View:
    """Return the view that suits where the output goes; `report` is the command that says more.

    `unfinished` is what is said of a run that ends without a verdict. With the state folder, where
    runs are, keys can be pressed that steer it; without it no command of another terminal would
    find the run, and none is shown.
    """
    if as_json:
        return JsonView()
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from .connect import connected
        from .live import LiveView

        ask = recall = None
        if state_folder is not None:
            recall = partial(_kept_events, state_folder)
            if not is_inside(tmux_socket(state_folder), os.environ):
                ask = partial(pass_on, state_folder)
        # Only who can press keys needs to know the choices of a question.
        connect = None if ask is None else partial(connected, os.environ)
        narration = Narration(base, report, unfinished)
        view = LiveView(narration, ask=ask, recall=recall, connect=connect)
        view.is_alone = state_folder is None
        if state_folder is not None:
            view.notify_by(read_notices(os.environ))
        return view
    return PlainView(base, report, unfinished)
