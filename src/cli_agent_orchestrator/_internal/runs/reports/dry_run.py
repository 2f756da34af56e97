"""A run in which the built-in agent played a role says nothing about the project."""

from collections.abc import Iterable

BUILT_IN = "scripted"
DRY_RUN = "DRY RUN"


def is_dry(agents: Iterable[str]) -> bool:
    """Was one of these agents the built-in one, which obeys a script?"""
    return BUILT_IN in agents
