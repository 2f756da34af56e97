"""How the levels of settings become one.

The first level that says something wins: option, environment, the top of the task, file
(`cao.toml`), default. At each level an empty value says nothing.
"""

from collections.abc import Mapping

from cli_agent_orchestrator._internal.settings.table import (
    BY_NAME,
    NEVER_BARE,
    PREFIX,
    ROLE_SETTINGS,
    ValueKind,
)
from cli_agent_orchestrator._internal.settings.values import check_path

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
        return f"{BY_NAME[name].key} in {called}" if called else BY_NAME[name].option
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
