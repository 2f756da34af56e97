"""How the values of settings are written, as text, and what is none."""

import re
from collections.abc import Mapping
from pathlib import Path

from ..core.text import BREAKS, CONTROLS
from ..errors import ConfigError, UsageError, suggestion
from .config import read_bool, read_choice, read_int, read_seconds
from .gates import gates_text, read_gates
from .layout import TEMPORARY_FOLDER
from .table import (
    BY_NAME,
    CHANGEABLE_NAMES,
    NEVER_BARE,
    PREFIX,
    PROVIDER_SUFFIX,
    ROLE_SETTINGS,
    Setting,
    ValueKind,
    full_name,
    meant_by,
)

MOST_PATHS = 100
PLAIN_PATHS = "paths in the project, without .., .git, commas and control characters"

CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}]"
"""What has no place in a path: a log, a prompt or a screen would take it for more than a name."""

FLOW_NAME_PATTERN = r"[a-z][a-z0-9_]*"
"""A flow by its name; the path of a file is for the user alone to give."""


def read_role_providers(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the agent of each role for which one is named.

    `{"TESTER_PROVIDER": "codex", "ROLE_PROVIDERS": "designer=kiro_cli"}` becomes
    `{"designer": "kiro_cli", "tester": "codex"}`.
    """
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
    """Return the whole name of an agent, empty if none is given; its beginning may be given."""
    word = texts.get(name, "").strip()
    if word and not is_word(word):
        raise ConfigError(name, texts[name], "the name of an agent, such as codex or claude_code")
    return _one_agent(name, word)


def _one_agent(name: str, word: str) -> str:
    """Return the whole name of an agent; one that we do not know may be known to a server."""
    meant = meant_by(word)
    if len(meant) > 1:
        raise ConfigError(name, word, f"one agent; it could be {' or '.join(meant)}")
    return full_name(word)


def is_word(text: str) -> bool:
    """Could it be the name of an agent?"""
    return text.replace("_", "").replace("-", "").isalnum()


def read_paths(name: str, text: str) -> tuple[str, ...]:
    """Return the paths that a text names, separated by commas or line breaks.

    `"tests/acceptance/, ./scenario.md"` becomes `("tests/acceptance", "scenario.md")`.
    """
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
    """Return a path in which `~` and `~user` are replaced."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(name, text, f"a path ({error})") from None


def canonical(name: str, text: str) -> str | None:
    """Return a setting's value in the one form in which values are compared, None if it is none.

    `yes` and `on` become `1`, `08` becomes `8`, `2.50` becomes `2.5`.
    """
    setting = BY_NAME[name]
    values = {name: text.strip()}
    try:
        match setting.kind:
            case ValueKind.FLAG:
                return str(int(read_bool(values, name, setting.default == "1")))
            case ValueKind.CHOICE:
                return read_choice(values, name, setting.default, ("", *setting.choices))
            case ValueKind.COUNT:
                return str(read_int(values, name, int(setting.default), setting.minimum))
            case ValueKind.SECONDS:
                return f"{read_seconds(values, name, float(setting.default)):.15g}"
            case ValueKind.GATES:
                return gates_text(read_gates(text))
            case ValueKind.PATHS:
                return "\n".join(read_paths(name, text))
    except ConfigError:
        return None
    return values[name]


def read_change(key: str, text: str) -> tuple[str, str]:
    """Return the variable and the value of a setting that is to change in a run under way.

    `("max-rounds", "012")` becomes `("MAX_ROUNDS", "12")`.
    """
    name = key.upper().replace("-", "_").removeprefix("CAO_")
    # A letter of another alphabet may become one of ours.
    if name not in CHANGEABLE_NAMES or not key.isascii():
        known = [one.lower() for one in CHANGEABLE_NAMES]
        meant = suggestion(name.lower(), known)
        raise UsageError(
            f"{key!r} cannot be changed in a run{meant}; these can: {', '.join(known)}"
        )
    value = canonical(name, text)
    if value is None or not text.strip():
        raise ConfigError(name.lower(), text, _expected(BY_NAME[name]))
    return name, value


def _expected(setting: Setting) -> str:
    match setting.kind:
        case ValueKind.FLAG:
            return "1 or 0"
        case ValueKind.COUNT:
            return f"a whole number of at least {setting.minimum}"
        case ValueKind.CHOICE:
            return f"one of {', '.join(setting.choices)}"
    return "a number of seconds"


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
        merged.update(here)
    return merged


def find_sources(**levels: Mapping[str, str | None]) -> dict[str, str]:
    """Return by its word the level that each setting comes from which `merge_settings` returns."""
    sources: dict[str, str] = {}
    above: list[Mapping[str, str | None]] = []
    for word, level in levels.items():
        above.append(level)
        for name in merge_settings(*above):
            sources.setdefault(name, word)
    return sources


def read_environment(environ: Mapping[str, str], *, bare: bool) -> dict[str, str]:
    """Return the settings that the environment names, by their bare names.

    `CAO_MAX_ROUNDS` wins over `MAX_ROUNDS`, which is read only if `bare` names are.
    """
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
    """Name a setting as whoever gave it did: `--max-rounds`, `CAO_MAX_ROUNDS`, or in a file.

    `called` is the function whose arguments the options are, if they are.
    """
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
