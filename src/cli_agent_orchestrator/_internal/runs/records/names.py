"""Which run, and which agent of a run, somebody means who writes a word for it.

k3f9                  a run, by its id, the beginning of it or its end
programmer            the agent of that role in the run of this folder, or the only one running
k3f9/programmer       the agent of that role in that run
"""

import re
from collections.abc import Sequence
from pathlib import Path

from cli_agent_orchestrator._internal.runs.records.registry import (
    RunSummary,
    choose_run,
    runs_that_fit,
)
from cli_agent_orchestrator.errors import NotFound

BETWEEN = "/"
# 7f3a
TERMINAL_PATTERN = r"[0-9a-f]+"


def find_agent(runs: Sequence[RunSummary], text: str, here: Path) -> str | None:
    """Return the id of the terminal whose run and role a text names; None if it names no role."""
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        if role not in run.terminals:
            raise NotFound(f"agent of the run {run.id} for the role", role, run.terminals)
        return run.terminals[role]
    having = [run for run in runs if text in run.terminals]
    return choose_run(having, None, here).terminals[text] if having else None


def is_surely_run(runs: Sequence[RunSummary], text: str) -> bool:
    """Does a text name a run, or several, and nothing that a terminal could be called?"""
    return bool(runs_that_fit(runs, text)) and not re.fullmatch(TERMINAL_PATTERN, text)
