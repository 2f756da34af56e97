"""Text from agents, servers and files, made safe to be shown in a terminal.

Everything that is printed and is not ours goes through here, and JSON through `json.dumps`.
"""

import re

from cli_agent_orchestrator._internal.characters import BREAKS, CONTROLS, HALVES

DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that make a text look like another one, by showing it from right to left."""
UNSAFE_PATTERN = f"[{CONTROLS}{DIRECTIONS}{HALVES}]"


def printable(text: str) -> str:
    """Return a text in which nothing but line ends and tabs controls the terminal.

    >>> printable("a\\x1b[31mb\\r\\n")
    'a�[31mb�\\n'
    """
    return re.sub(UNSAFE_PATTERN, "�", text)


def one_line(text: str) -> str:
    """Return a text for a place in a line: it cannot pretend to be a line of its own."""
    return re.sub(f"[{BREAKS}]", "�", printable(text))


def beside_time(text: str) -> str:
    """Return a text to be shown behind the time: lines after its first cannot look like another."""
    return printable(text).replace("\n", "\n" + " " * len("00:00:00  "))
