"""The stylesheets of the package."""

from functools import cache
from importlib.resources import files

BASE = "base.css"
"""What the live page and the report share."""
REPORT = "report.css"


@cache
def stylesheet(name: str) -> str:
    """Return a stylesheet that comes with the package."""
    return (files("cli_agent_orchestrator._internal.html") / name).read_text(encoding="utf-8")
