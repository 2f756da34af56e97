"""What an agent says that it does, on one line: `Bash: make test`."""

import re
from collections.abc import Mapping

from cli_agent_orchestrator._internal.characters import CONTROLS, HALVES

LONGEST_ACTION = 120
LOOKED_AT = 480
"""Characters of a text: a command may have megabytes, of which no more can be shown."""
TELLING = (
    "command", "cmd", "file_path", "filePath", "notebook_path", "path", "pattern", "url", "query",
    "description", "told",
)  # fmt: skip
"""The argument of a tool that says most about its use; the first that is there counts."""


def action_line(tool: str, arguments: Mapping[str, object]) -> str:
    """Return the use of a tool on one line.

    >>> action_line("Bash", {"description": "Runs the tests", "command": "make\\n  test"})
    'Bash: make test'
    """
    told = next((word for name in TELLING if (word := _words(arguments.get(name)))), "")
    line = f"{_words(tool)}: {told}" if told else _words(tool)
    return line if len(line) <= LONGEST_ACTION else line[: LONGEST_ACTION - 1] + "…"


def _words(value: object) -> str:
    """Return a text, or a list of words, as words with one blank between them."""
    if isinstance(value, list):
        value = " ".join(word for word in value if isinstance(word, str))
    if not isinstance(value, str):
        return ""
    return re.sub(f"[{CONTROLS}{HALVES}]", "�", " ".join(value[:LOOKED_AT].split()))
