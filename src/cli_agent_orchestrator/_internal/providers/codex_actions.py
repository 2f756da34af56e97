"""What Codex does, from the calls of tools in its session record."""

import json
import re
from typing import Any

from cli_agent_orchestrator._internal.providers.actions import action_line

TOOL_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
# *** Update File: src/basket.py
PATCHED_FILE_PATTERN = r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$"


def action_of(call: dict[str, Any]) -> str:  # whatever JSON holds
    """Return what a call of a tool does: the command, or the file that a patch is for."""
    match call:
        case {"name": "apply_patch", "input": str(patch)}:
            file = re.search(PATCHED_FILE_PATTERN, patch)
            return action_line("apply_patch", {"path": file[1] if file else ""})
        case {"name": str(name), "arguments": str(text)}:
            return action_line(name, _arguments(text))
        case {"action": {"command": command}}:
            return action_line("shell", {"command": _inner(command)})
    return action_line(str(call.get("name") or call["type"]), {})


def _arguments(text: str) -> dict[str, Any]:  # whatever JSON holds
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: _inner(value) for name, value in found.items()}


def _inner(command: object) -> object:
    """Return the command that a shell is to run: the last of `["bash", "-lc", "make test"]`."""
    is_shell = isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c")
    return command[2] if isinstance(command, list) and is_shell else command
