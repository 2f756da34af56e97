"""How a run is shown: lines with the time, or JSON for programs. `live.py` is for terminals."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Protocol, Self

import click

from cli_agent_orchestrator.cli.narration import Narration, fields_of
from cli_agent_orchestrator.config import DEFAULT_API, DEFAULT_PORT
from cli_agent_orchestrator.pipeline.events import RunEvent

USUAL_ADDRESSES = (DEFAULT_API, f"http://127.0.0.1:{DEFAULT_PORT}")


class Screens(Protocol):
    """The part of the server that can be looked at."""

    base_url: str

    def features(self) -> frozenset[str]: ...

    def get_output(self, terminal_id: str, mode: str) -> str: ...


class View(Protocol):
    """Whoever shows a run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def connect(self, server: Screens) -> None:
        """Take the server in which the agents are; it may be asked until `disconnect`."""
        ...

    def disconnect(self) -> None: ...

    def tell(self, event: RunEvent) -> None: ...


class PlainView:
    """Shows a run as lines, each with the time."""

    def __init__(self, base: Path) -> None:
        self._narration = Narration(base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was written."""

    def connect(self, server: Screens) -> None:
        self._narration.attach_prefix = attach_prefix(server.base_url)

    def disconnect(self) -> None:
        """Nothing is asked of the server."""

    def tell(self, event: RunEvent) -> None:
        line = self._narration.tell(event)
        if line is not None:
            click.echo(f"{datetime.fromtimestamp(event.at):%H:%M:%S}  {line.text}")


class JsonView:
    """Shows a run as JSON, an object a line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave what was written."""

    def connect(self, server: Screens) -> None:
        """Nothing is asked of the server."""

    def disconnect(self) -> None:
        """Nothing is asked of the server."""

    def tell(self, event: RunEvent) -> None:
        click.echo(json.dumps(fields_of(event)))


def attach_prefix(base_url: str) -> str:
    """Return what must stand before `cao attach` so that it finds the server."""
    return "" if base_url in USUAL_ADDRESSES else f"API={base_url} "


def choose_view(base: Path, as_json: bool) -> View:
    """Return the view that suits where the output goes."""
    if as_json:
        return JsonView()
    if sys.stdout.isatty():
        from cli_agent_orchestrator.cli.live import LiveView  # rich is heavy

        return LiveView(base)
    return PlainView(base)
