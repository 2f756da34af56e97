"""Settings as a Python program gives them, by the names they have in a settings file."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cli_agent_orchestrator._internal.settings.file import flatten_settings
from cli_agent_orchestrator.errors import UsageError

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


def read_task(task: PathText | None) -> Mapping[str, Value]:
    """Return the setting that names the task: a text, or the path of a file."""
    if not isinstance(task, str):
        return {} if task is None else {"prompt_file": task}
    if "\n" not in task and _is_file(task):
        raise UsageError(f"the task {task!r} is the name of a file: give it as a pathlib.Path")
    return {"prompt": task}


def _is_file(text: str) -> bool:
    with suppress(OSError, ValueError):
        return Path(text).is_file()
    return False
