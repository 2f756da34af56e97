"""Which runs there are: the run folders in the user's state folder, and nothing else."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import NotFound, NotSteerable, UsageError, listed
from ..settings.config import check_state_folder
from ..settings.layout import run_folder, runs_folder
from .record import RunStatus, is_run_id, short_name
from .view import RunView, list_views, read_run

MOST_NAMED = 10
BETWEEN = "/"
"""Between a run and a role."""
# 7f3a
TERMINAL_PATTERN = r"[0-9a-f]+"


def list_runs(state_folder: Path) -> list[RunView]:
    """Return all runs, the newest first."""
    check_state_folder(state_folder)
    found = list_views(runs_folder(state_folder))
    return sorted(found, key=lambda run: (run.started, run.id), reverse=True)


def run_at_work(state_folder: Path, wd: Path) -> str:
    """Return the id of the run that works in a folder; empty if none of this user does."""
    with suppress(OSError, UsageError):
        return next((one.id for one in list_runs(state_folder) if one.works_at(wd)), "")
    return ""


def run_of_process(state_folder: Path, pid: int) -> str:
    """Return the id of the run under way in a process; empty if none is."""
    with suppress(OSError, UsageError):
        live = (one for one in list_runs(state_folder) if one.is_live)
        return next((one.id for one in live if one.pid == pid), "")
    return ""


def find_run(state_folder: Path, text: str | None, here: Path, *, to_look: bool = False) -> RunView:
    """Return the run that is meant; see `choose_run`."""
    if text is not None and is_run_id(text):
        check_state_folder(state_folder)
        with suppress(OSError):
            if text in runs_folder(state_folder).names():
                return read_run(run_folder(state_folder, text))
    return choose_run(list_runs(state_folder), text, here, to_look=to_look)


def choose_run(
    runs: Sequence[RunView], text: str | None, here: Path, *, to_look: bool = False
) -> RunView:
    """Return the run whose id is, begins or ends with a text.

    Without a text it is the one that runs in this folder, else the last one here, else the one
    that runs elsewhere. Who only wants to look may also mean the only one that there is.
    """
    if text:
        return _the_one(runs_that_fit(runs, text), runs, text)
    own = [run for run in runs if run.works_in(here)]
    found = [run for run in own if run.is_live] or own[:1] or [run for run in runs if run.is_live]
    if to_look and not found and len(runs) == 1:
        found = [*runs]
    return _the_one(found, runs, "")


def choose_live_run(runs: Sequence[RunView], text: str | None, here: Path) -> RunView:
    """Return the run that a text names, else the one that runs in this folder, else the only one.

    One that is named may have ended, and so may the last one here: if it can go on, that is meant
    rather than one elsewhere.
    """
    if text:
        return choose_run(runs, text, here)
    live = [run for run in runs if run.is_live]
    own = [run for run in runs if run.works_in(here)]
    if own and own[0].is_unfinished and not any(run.is_live for run in own):
        return own[0]
    if not live:
        raise NotSteerable("no run is running; `cao runs` lists those that have ended")
    return _the_one([run for run in live if run.works_in(here)] or live, runs, "")


def choose_run_to_resume(runs: Sequence[RunView], text: str | None, here: Path) -> RunView:
    """Return the run that a text names, else the one here that is paused or the last to go on with.

    If none can, it is the last one here; without one here, the one that is paused elsewhere.
    """
    own = [run for run in runs if run.works_in(here)]
    unfinished = [run for run in own if run.is_unfinished]
    if unfinished and not text and not any(run.is_live for run in own):
        return unfinished[0]
    paused = [run for run in runs if run.status is RunStatus.PAUSED]
    if text or own or not paused:
        return choose_run(runs, text, here)
    return _the_one(paused, runs, "")


def runs_that_fit(runs: Sequence[RunView], text: str) -> list[RunView]:
    """Return the run with this id, else those whose ids begin or end like that."""
    exact = [run for run in runs if run.id == text]
    return exact or [run for run in runs if run.id.startswith(text) or run.id.endswith(text)]


def _the_one(found: Sequence[RunView], runs: Sequence[RunView], text: str) -> RunView:
    if len(found) == 1:
        return found[0]
    if found:
        named = "\n  ".join(run.label for run in found[:MOST_NAMED])
        what = f"{text!r} fits several runs" if text else "there are several runs"
        raise UsageError(f"{what}; write enough of an id to tell them apart:\n  {named}")
    labels = [run.label for run in runs[:MOST_NAMED]]
    if text:
        raise NotFound("run", text, labels)
    if not runs:
        raise UsageError("there is no run yet; `cao run` starts one")
    raise UsageError(f"there is no run in this folder; name one of: {listed(labels)}")


def find_agent(runs: Sequence[RunView], text: str, here: Path) -> str | None:
    """Return the id of the terminal whose run and role a text names; None if it names no role."""
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        if role not in run.terminals:
            raise NotFound(f"agent of the run {run.id} for the role", role, run.terminals)
        return run.terminals[role]
    having = [run for run in runs if text in run.terminals]
    return choose_run(having, None, here).terminals[text] if having else None


def find_addressee(
    runs: Sequence[RunView], text: str | None, here: Path
) -> tuple[RunView | None, str | None]:
    """Return the run that a message to `text` goes to, and the role, if one is meant.

    `text` is RUN, ROLE, RUN/ROLE or the id of a terminal; without it, it is the run of this folder.
    The run is None if the text names an agent of no run under way.
    """
    if text is None:
        return choose_live_run(runs, None, here), None
    live = [run for run in runs if run.is_live]
    named, between, role = text.rpartition(BETWEEN)
    if between:
        run = choose_run(runs, named, here)
        return (run, role) if run.is_live else (None, None)
    having = [run for run in live if text in run.providers]
    if having:
        return choose_run(having, None, here), text
    for run in live:
        for role, terminal in run.terminals.items():
            if terminal.startswith(text):
                return run, role
    if is_surely_run(runs, text) or text in (short_name(run.id) for run in runs):
        return choose_run(runs, text, here), None
    return None, None


def is_surely_run(runs: Sequence[RunView], text: str) -> bool:
    """Does a text name a run, or several, and nothing that a terminal could be called?"""
    return bool(runs_that_fit(runs, text)) and not re.fullmatch(TERMINAL_PATTERN, text)
