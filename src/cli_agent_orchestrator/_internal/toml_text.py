"""TOML from anybody, such as a cloned project: none keeps us busy for hours. And TOML of ours."""

import json
import tomllib
from typing import Any

MOST_DOTS = 200
"""On a line. The time that the parser takes for a key grows with the square of its parts."""


# Any: what a TOML file holds.
def read_toml(text: str) -> dict[str, Any]:
    """Return what a text holds; raise ValueError if it is no TOML for us."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"More than {MOST_DOTS} dots on a line (at line {number}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("Too many brackets in one another") from None


def toml_value(value: object) -> str:
    """Return a value as TOML has it; JSON writes the same, but for one character.

    >>> toml_value('say "a"'), toml_value(True)
    ('"say \\\\"a\\\\""', 'true')
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
