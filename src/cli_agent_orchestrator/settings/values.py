"""Settings as text: how values are written, which are none, and the places they come from.

A value comes from a mapping of text to text: the environment, the options, or a file flattened to
the same names. Empty means unset. A bad value is a `ConfigError` that names the variable, its
value and what was expected.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.codec import read_toml, toml_value
from ..core.files import Folder, read_named
from ..core.text import BREAKS, CONTROLS
from ..errors import ConfigError, UsageError, suggestion
from .gates import gates_text, read_gates, read_gates_table
from .layout import TEMPORARY_FOLDER
from .table import (
    BY_KEY,
    BY_NAME,
    CHANGEABLE_NAMES,
    NEVER_BARE,
    PREFIX,
    PROVIDER_SUFFIX,
    ROLE_SETTINGS,
    SETTINGS_FILE,
    ValueKind,
    meant_by,
)

MOST_PATHS = 100
PLAIN_PATHS = "paths in the project, without .., .git, commas and control characters"

CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}]"
"""What has no place in a path: a log, a prompt or a screen would take it for more than a name."""

FLOW_NAME_PATTERN = r"[a-z][a-z0-9_]*"
"""A flow by its name; the path of a file is for the user alone to give."""

MOST_SECONDS = 1e7
"""Months: enough for "for ever", and no clock of the system overflows."""

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")


# Any: what the table says of a setting's kind
def read_value(texts: Mapping[str, str], name: str) -> Any:
    setting = BY_NAME[name]
    text = texts.get(name, "").strip() or setting.default
    match setting.kind:
        case ValueKind.FLAG:
            if text.lower() not in TRUE_WORDS + FALSE_WORDS:
                raise ConfigError(name, text, "1/0, true/false, yes/no or on/off")
            return text.lower() in TRUE_WORDS
        case ValueKind.COUNT:
            return read_count(name, text, setting.minimum)
        case ValueKind.SECONDS:
            return read_seconds(name, text)
        case ValueKind.CHOICE if text:
            return read_choice(name, text, setting.choices)
        case ValueKind.GATES:
            return read_gates(text)
        case ValueKind.PATHS:
            return read_paths(name, text)
    return text


def read_count(name: str, text: str, minimum: int, maximum: int | None = None) -> int:
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum or (maximum is not None and number > maximum):
        raise ConfigError(name, text, f"a whole number {limits}")
    return number


def read_seconds(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= MOST_SECONDS:
        raise ConfigError(name, text, f"a number of seconds from 0 to {MOST_SECONDS:.0f}")
    return number


def read_choice(name: str, text: str, known: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in known:
        raise ConfigError(name, text, f"one of {', '.join(known)}{suggestion(word, known)}")
    return word


def read_role_providers(texts: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    text = texts.get("ROLE_PROVIDERS", "")
    for item in filter(str.strip, text.split(",")):
        role, equals, agent = (part.strip() for part in item.partition("="))
        if not equals or not role or not is_word(agent):
            raise ConfigError("ROLE_PROVIDERS", text, "NAME=AGENT, separated by commas")
        found[role] = _one_agent("ROLE_PROVIDERS", agent)
    for name in ROLE_SETTINGS:
        if name.endswith(PROVIDER_SUFFIX) and texts.get(name, "").strip():
            found[name.removesuffix(PROVIDER_SUFFIX).lower()] = read_word(texts, name)
    return found


def read_word(texts: Mapping[str, str], name: str) -> str:
    word = texts.get(name, "").strip()
    if word and not is_word(word):
        raise ConfigError(name, texts[name], "the name of an agent, such as codex or claude_code")
    return _one_agent(name, word)


def _one_agent(name: str, word: str) -> str:
    """Return the whole name of an agent; one that we do not know may be known to a server."""
    meant = meant_by(word) or [word]
    if len(meant) > 1:
        raise ConfigError(name, word, f"one agent; it could be {' or '.join(meant)}")
    return meant[0]


def is_word(text: str) -> bool:
    return text.replace("_", "").replace("-", "").isalnum()


def read_paths(name: str, text: str) -> tuple[str, ...]:
    """Return the paths that a text names, separated by commas or line breaks."""
    found = []
    for path in filter(None, map(str.strip, re.split("[,\n]", text))):
        parts = [part for part in path.split("/") if part not in ("", ".")]
        own = parts[:1] not in ([], [TEMPORARY_FOLDER])
        plain = path.isprintable() and {"..", ".git"}.isdisjoint(map(str.lower, parts))
        if path.startswith("/") or not own or not plain:
            raise ConfigError(name, path, PLAIN_PATHS)
        found.append("/".join(parts))
    if len(found) > MOST_PATHS:
        raise ConfigError(name, f"{len(found)} paths", f"at most {MOST_PATHS}")
    return tuple(dict.fromkeys(found))


def check_path(name: str, text: str) -> None:
    """Refuse a path that would be more than a path wherever it is written."""
    if re.search(CONTROL_PATTERN, text):
        raise ConfigError(name, text, "a path without control characters")


def expand_path(name: str, text: str) -> Path:
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError) as error:
        raise ConfigError(name, text, f"a path ({error})") from None


def canonical(name: str, text: str) -> str | None:
    """Return a value in the form in which values are compared: for yes 1, None for a bad one."""
    try:
        value = read_value({name: text}, name)
    except ConfigError:
        return None
    match BY_NAME[name].kind:
        case ValueKind.FLAG:
            return str(int(value))
        case ValueKind.SECONDS:
            return f"{value:.15g}"
        case ValueKind.GATES:
            return gates_text(value)
        case ValueKind.PATHS:
            return "\n".join(value)
    return str(value)


def read_change(key: str, text: str) -> tuple[str, str]:
    name = key.upper().replace("-", "_").removeprefix("CAO_")
    # A letter of another alphabet may become one of ours.
    if name not in CHANGEABLE_NAMES or not key.isascii():
        known = [one.lower() for one in CHANGEABLE_NAMES]
        meant = suggestion(name.lower(), known)
        raise UsageError(
            f"{key!r} cannot be changed in a run{meant}; these can: {', '.join(known)}"
        )
    if not text.strip():
        raise ConfigError(name.lower(), text, "a value")
    read_value({name: text}, name)
    return name, canonical(name, text) or ""


OVERRULED = {
    # a name that is set at one level silences these at the levels below it
    "PROMPT": ("PROMPT_FILE",),
    "PROMPT_FILE": ("PROMPT",),
    "PROVIDER": ROLE_SETTINGS,
}


def merge_settings(*levels: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings that are given, by variable name; an earlier level wins over a later one.

    `--provider scripted` is meant for all roles, so it also silences an `analyst_provider` of the
    file; likewise a task given as text silences a task file of a lower level.
    """
    merged: dict[str, str] = {}
    silenced: set[str] = set()
    for level in levels:
        here = {name: text for name, text in given(level).items() if name not in silenced}
        for name in here:
            silenced.update((name, *OVERRULED.get(name, ())))
        merged |= here
    return merged


def find_sources(**levels: Mapping[str, str | None]) -> dict[str, str]:
    return {
        name: next(word for word, level in levels.items() if (level.get(name) or "").strip())
        for name in merge_settings(*levels.values())
    }


def read_environment(environ: Mapping[str, str], *, bare: bool) -> dict[str, str]:
    """Return the environment's settings by bare names; those are read only if `bare` is true."""
    prefixed = {name: environ.get(f"{PREFIX}{name}") for name in BY_NAME}
    others = {name: text for name, text in environ.items() if name not in NEVER_BARE}
    return merge_settings(prefixed, others if bare else {})


def name_as_given(
    name: str,
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    file: str,
    called: str = "",
) -> str:
    """Name a setting as its giver did: as an option, a variable, an argument or in a file."""
    if (options.get(name) or "").strip():
        setting = BY_NAME[name]
        return f"{setting.key} in {called}" if called else setting.option or setting.variable
    bare = [] if name in NEVER_BARE else [name]
    for variable in [f"{PREFIX}{name}", *bare]:
        if environ.get(variable, "").strip():
            return variable
    return f"{BY_NAME[name].key} in {file}"


def given(level: Mapping[str, str | None]) -> dict[str, str]:
    """Return what one level says: the known names that are not empty, their paths checked."""
    texts = {name: text for name in BY_NAME if (text := level.get(name)) and text.strip()}
    for name, text in texts.items():
        if BY_NAME[name].kind is ValueKind.PATH:
            check_path(name, text)
    return texts


LARGEST_SETTINGS = 1024 * 1024

FROM_FILE_FOLDER = ("PROMPT_FILE", "WD")
GATES = "GATES"
WORKTREE_KEY = BY_NAME["WORKSPACE"].key


def read_project_settings(project: Path) -> dict[str, str]:
    path = project / SETTINGS_FILE
    return flatten_settings(read_own_file(path, project), path)


def read_settings_file(path: Path) -> dict[str, str]:
    return flatten_settings(read_own_file(path), path)


# Any: what a TOML file holds
def read_own_file(path: Path, project: Path | None = None) -> dict[str, Any]:
    """Return what a TOML file of the user's own holds; it may be a link, but to a regular file.

    One of a project is no link, and need not be there.
    """
    try:
        if project is None:
            data = read_named(path, LARGEST_SETTINGS)
        else:
            data = Folder(project).read(path.name, LARGEST_SETTINGS)
        return read_toml(data.decode("utf-8-sig"))
    except OSError as error:
        if project and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
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
        raise ConfigError(where, value, "a known setting" + _suggestion(key))
    if setting.kind is ValueKind.PATH and isinstance(value, str):
        check_path(where, value)
    if key == WORKTREE_KEY and not isinstance(value, bool):
        raise ConfigError(where, value, "true or false; setup stands in a line of its own")
    match value:
        case bool() if key == WORKTREE_KEY:
            return setting.name, "worktree" if value else "folder"
        case bool():
            return setting.name, "true" if value else "false"
        case int() | float():
            return setting.name, str(value)
        case dict() if setting.kind is ValueKind.GATES:
            return setting.name, read_gates_table(value, f" in {path.name}")
        case list() if setting.kind is ValueKind.PATHS:
            if not all(isinstance(one, str) and len(read_paths(where, one)) == 1 for one in value):
                raise ConfigError(where, value, PLAIN_PATHS)
            return setting.name, "\n".join(value)
        case str() if setting.name in FROM_FILE_FOLDER and value.strip() and value[0] != "~":
            return setting.name, str(path.parent / value)
        case str():
            return setting.name, value
        case _:
            raise ConfigError(where, value, "text, a number, true or false")


def _suggestion(key: str) -> str:
    if key == "providers":
        return "; how an agent is started stands in your own configuration, never in a project"
    return suggestion(key, BY_KEY) or f": {', '.join(BY_KEY)}"


def settings_toml(chosen: Mapping[str, str]) -> str:
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
    if not isinstance(task, str):
        return {} if task is None else {"prompt_file": task}
    is_file = False
    with suppress(OSError, ValueError):
        is_file = "\n" not in task and Path(task).is_file()
    if is_file:
        raise UsageError(f"the task {task!r} is the name of a file: give it as a pathlib.Path")
    return {"prompt": task}
