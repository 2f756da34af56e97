"""Text from agents, servers and files, made safe to be shown in a terminal.

Everything that is printed and is not ours goes through here, and JSON through `json.dumps`.
"""

import re

CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All but LF and TAB: an escape sequence could rewrite the screen or the title."""
DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that make a text look like another one, by showing it from right to left."""
HALVES = r"\ud800-\udfff"
"""Halves of a character, which cannot be written at all."""
UNSAFE_PATTERN = f"[{CONTROLS}{DIRECTIONS}{HALVES}]"


def printable(text: str) -> str:
    """Return a text in which nothing but line ends and tabs controls the terminal.

    >>> printable("a\\x1b[31mb\\r\\n")
    'a�[31mb�\\n'
    """
    return re.sub(UNSAFE_PATTERN, "�", text)


def one_line(text: str) -> str:
    """Return a text for a place in a line: it cannot pretend to be a line of its own."""
    return re.sub(r"[\n\t\u2028\u2029]", "�", printable(text))
