"""Reads what an agent's program says about its version."""

import re

# codex-cli 0.166.2
VERSION_PATTERN = r"[0-9]{1,9}(?:\.[0-9]{1,9})+"


def find_version(text: str) -> tuple[int, ...]:
    """Return the first version number in what a program says, empty if there is none.

    >>> find_version("2.1.105 (Claude Code)")
    (2, 1, 105)
    """
    found = re.search(VERSION_PATTERN, text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
