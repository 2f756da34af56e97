"""The settings file: reading it, and writing one."""

import os
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..core.codec import read_toml, toml_value
from ..core.files import Folder, read_named
from ..errors import ConfigError, UsageError
from .gates import read_gates, read_gates_table
from .table import (
    BY_KEY,
    BY_NAME,
    SETTINGS_FILE,
    ValueKind,
)
from .values import PLAIN_PATHS, check_path, read_paths

LARGEST_SETTINGS = 1024 * 1024
LARGEST_NUMBER_BITS = 64
"""More is no number of anything here."""

FROM_FILE_FOLDER = ("PROMPT_FILE", "WD")
GATES = "GATES"
WORKTREE_KEY = BY_NAME["WORKSPACE"].key
MOVED = {"workspace": "worktree = true", "worktree_setup": 'setup = "COMMAND"'}
"""Keys of earlier versions, and what is written now."""


def read_project_settings(project: Path) -> dict[str, str]:
    """Return the settings of a project's own file, by variable name; none if there is no file."""
    path = project / SETTINGS_FILE
    try:
        data = Folder(project).read(SETTINGS_FILE, LARGEST_SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return flatten_settings(_parse(data, path), path)


def read_settings_file(path: Path) -> dict[str, str]:
    """Return the settings of a TOML file that the user has named, by variable name."""
    return flatten_settings(read_own_file(path), path)


# Any: what a TOML file holds
def read_own_file(path: Path) -> dict[str, Any]:
    """Return what a TOML file of the user's own holds; it may be a link, but to a regular file."""
    try:
        data = read_named(path, LARGEST_SETTINGS)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return _parse(data, path)


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        return read_toml(data.decode("utf-8-sig"))
    except ValueError as error:
        raise UsageError(f"{path} is not a TOML file in UTF-8: {error}") from error


def flatten_settings(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Turn the parsed table of a settings file into text by variable name.

    `{"max_rounds": 4, "prompt_file": "task.md"}` of `/p/cao.toml` becomes
    `{"MAX_ROUNDS": "4", "PROMPT_FILE": "/p/task.md"}`: the path is meant from the file's folder.
    """
    return dict(_flatten(key, value, path) for key, value in table.items())


def _flatten(key: str, value: object, path: Path) -> tuple[str, str]:
    setting = BY_KEY.get(key)
    where = f"{key} in {path.name}"
    if setting is None:
        raise ConfigError(where, _shown(value), "a known setting" + _suggestion(key))
    if setting.kind is ValueKind.PATH and isinstance(value, str):
        check_path(where, value)
    if key == WORKTREE_KEY and not isinstance(value, bool):
        raise ConfigError(where, _shown(value), "true or false; setup stands in a line of its own")
    match value:
        case bool() if key == WORKTREE_KEY:
            return setting.name, "worktree" if value else "folder"
        case bool():
            return setting.name, "true" if value else "false"
        case int() if value.bit_length() > LARGEST_NUMBER_BITS:
            raise ConfigError(where, _shown(value), "a smaller number")
        case int() | float():
            return setting.name, str(value)
        case dict() if setting.kind is ValueKind.GATES:
            return setting.name, read_gates_table(value, f" in {path.name}")
        case list() if setting.kind is ValueKind.PATHS:
            return setting.name, _paths_text(value, where)
        case str() if setting.name in FROM_FILE_FOLDER and value.strip() and value[0] != "~":
            return setting.name, str(path.parent / value)
        case str():
            return setting.name, value
        case _:
            raise ConfigError(where, _shown(value), "text, a number, true or false")


def _paths_text(items: list[object], where: str) -> str:
    for item in items:
        if not isinstance(item, str) or len(read_paths(where, item)) != 1:
            raise ConfigError(where, _shown(item), PLAIN_PATHS)
    return "\n".join(map(str, items))


def _shown(value: object) -> object:
    """Return what can be told of a value; Python does not print all that a file can hold."""
    match value:
        case int() if value.bit_length() > LARGEST_NUMBER_BITS:
            return f"a number of {value.bit_length()} bits"
        case list():
            return "a list"
        case dict():
            return "a table"
    return value


def _suggestion(key: str) -> str:
    if key == "providers":
        return "; how an agent is started stands in your own configuration, never in a project"
    if key in MOVED:
        return f": {MOVED[key]}"
    close = get_close_matches(key.lower().replace("-", "_"), BY_KEY)
    return f"; did you mean {' or '.join(close)}?" if close else f": {', '.join(BY_KEY)}"


def settings_toml(chosen: Mapping[str, str]) -> str:
    """Return a `cao.toml` with these settings, which are given as text by variable name."""
    lines = [
        "# Settings of `cao run`. An option or an environment variable wins over this file.",
        "# All settings are explained in docs/run.md of cao.",
        "",
    ]
    for name, text in chosen.items():
        if name == "WORKSPACE":
            lines.append(f"{WORKTREE_KEY} = {'true' if text == 'worktree' else 'false'}")
        elif name != GATES:
            lines.append(f"{BY_NAME[name].key} = {toml_value(text)}")
    if GATES in chosen:
        # A table takes all keys that follow it.
        lines += ["", f"[{BY_NAME[GATES].key}]"]
        lines += [f"{gate.name} = {toml_value(gate.run)}" for gate in read_gates(chosen[GATES])]
    return "\n".join(lines) + "\n"


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
