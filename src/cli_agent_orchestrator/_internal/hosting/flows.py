"""The flows of a user in a project, checked against the profiles that our own server would find."""

from collections.abc import Mapping
from pathlib import Path

from cli_agent_orchestrator._internal.config import config_folder
from cli_agent_orchestrator._internal.runs.flows import Flows
from cli_agent_orchestrator._internal.terminals.profiles import profile_folders, profile_names


def flows_of(project: Path, environ: Mapping[str, str], *, api_given: bool = False) -> Flows:
    """Return the flows; a server that is named may have profiles that nobody knows here."""
    own = config_folder(environ)
    profiles = None if api_given else profile_names(profile_folders(project, own))
    return Flows(project, own, profiles)
