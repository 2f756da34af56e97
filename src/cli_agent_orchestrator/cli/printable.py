"""Text from agents and servers, made safe to be shown in a terminal."""

import re

CONTROL_PATTERN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
"""All but LF and TAB: an escape sequence could rewrite the screen or the title."""


def printable(text: str) -> str:
    """Return a text in which nothing but line ends and tabs controls the terminal.

    >>> printable("a\\x1b[31mb\\r\\n")
    'a�[31mb�\\n'
    """
    return re.sub(CONTROL_PATTERN, "�", text)
