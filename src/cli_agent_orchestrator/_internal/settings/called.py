"""Settings as a Python program gives them, by the names they have in a settings file."""

import os
from collections.abc import Mapping
from pathlib import Path

from cli_agent_orchestrator._internal.settings.file import flatten_settings

PathText = str | os.PathLike[str]
Value = str | int | float | bool | os.PathLike[str] | None


def read_called(values: Mapping[str, Value], called: str) -> dict[str, str]:
    """Return settings by variable name; a fault is told as one of what was `called`."""
    table = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in values.items()
        if value is not None
    }
    return flatten_settings(table, Path(called))
