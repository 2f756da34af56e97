"""The settings file of a run: one that the user names, else the project's own.

A project may have come from anybody. Its own file cannot reach out of its folder, run a command, or
allow its agents more than the user does.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cli_agent_orchestrator._internal.layout import TEMPORARY_FOLDER
from cli_agent_orchestrator._internal.settings.file import read_project_settings, read_settings_file
from cli_agent_orchestrator._internal.settings.levels import merge_settings
from cli_agent_orchestrator._internal.settings.table import (
    BY_NAME,
    OUT_OF_PROJECT,
    PREFIX,
    SETTINGS_FILE,
)
from cli_agent_orchestrator._internal.settings.values import (
    FLOW_NAME_PATTERN,
    check_path,
    expand_path,
)
from cli_agent_orchestrator.errors import ConfigError

INSIDE_ONLY = ("STATE_FILE", "WD", "PROMPT_FILE")
"""Paths that a project's own file may set only within the project."""


def read_all_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    """Return the settings of options, environment (`read_environment`) and file."""
    return merge_settings(options, variables, read_file_settings(options, variables, config_file))


def read_file_settings(
    options: Mapping[str, str | None], variables: Mapping[str, str], config_file: str | None
) -> dict[str, str]:
    """Return the settings of the file that is named, else of the project's own."""
    if config_file is not None:
        check_path("--config", config_file)
        return read_settings_file(Path(config_file))
    folder = expand_path("WD", merge_settings(options, variables).get("WD") or ".")
    file = read_project_settings(folder)
    check_project_file(file, folder)
    return file


def check_project_file(settings: Mapping[str, str], folder: Path) -> None:
    """Refuse what the file of a project that was merely cloned cannot say."""
    for name in OUT_OF_PROJECT:
        if name in settings:
            said_by = f"{BY_NAME[name].option} or {PREFIX}{name}"
            raise _fault(name, settings[name], f"nothing: say it by {said_by}, for one run")
    flow = settings.get("FLOW", "").strip()
    if flow and not re.fullmatch(FLOW_NAME_PATTERN, flow):
        raise _fault(
            "FLOW", flow, "the name of a flow; a file only by --flow, CAO_FLOW or --config"
        )
    for name in INSIDE_ONLY:
        if name in settings:
            _check_place(name, settings[name], folder)
    # The user may have said `ask` to the server.
    permissions = settings.get("AGENT_PERMISSIONS", "").strip().lower()
    if permissions not in ("", "ask"):
        expected = "ask; more only by --permissions, CAO_AGENT_PERMISSIONS or --config"
        raise _fault("AGENT_PERMISSIONS", permissions, expected)


def _check_place(name: str, text: str, folder: Path) -> None:
    # Unlike `resolve` this does not mind links that lead in a circle.
    path = Path(os.path.realpath(folder / expand_path(_where(name), text)))
    if not path.is_relative_to(os.path.realpath(folder)):
        expected = f"a path in the project; elsewhere only by option, {PREFIX}{name} or --config"
        raise _fault(name, text, expected)
    if name == "STATE_FILE" and not _is_for_state(path, folder):
        expected = "a .json file below .tmp; another only by option, CAO_STATE_FILE or --config"
        raise _fault(name, text, expected)


def _is_for_state(path: Path, folder: Path) -> bool:
    """Is it a file that a project may name for its state, and none that it lives by?"""
    below = Path(os.path.realpath(folder), TEMPORARY_FOLDER)
    return path.suffix == ".json" and path.is_relative_to(below)


def _where(name: str) -> str:
    return f"{name.lower()} in {SETTINGS_FILE}"


def _fault(name: str, value: str, expected: str) -> ConfigError:
    return ConfigError(_where(name), value, expected)
