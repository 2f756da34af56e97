"""What of ended runs can be removed: agents that are still there, and old run folders.

A run whose record cannot be read, or whose folder is gone, has ended too: nobody can resume it.

Never touched is what belongs to a run that is at work or can be resumed, whatever another run's
record says about it.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ..core.files import Folder
from ..errors import ApiRefused, in_words
from ..settings.layout import DRAFT_PREFIX, run_folder, runs_folder, worktree_folder
from .deliver import (
    CHANGED_LATER,
    UNDELIVERED,
    has_later_work,
    has_tree,
    is_unchanged,
    remove_applied,
)
from .record import (
    RunRecord,
    RunStatus,
    began_at,
    is_run_id,
    read_record,
    session_name_of,
    write_record,
)
from .view import can_resume, is_discarded, read_run, read_settled

GONE = 404
TREE_LEFT = "its work tree is still there"
DAY_SECONDS = 86400.0


class AgentsToEnd(Protocol):
    """What is asked of the server."""

    # Any: JSON from a server that may not be ours
    def get_terminal(self, terminal_id: str) -> dict[str, Any]: ...

    def exit_terminal(self, terminal_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run, and whether it is of any use yet."""

    record: RunRecord
    words: str
    """How it stands, as the list of runs says it."""
    in_use: bool
    """Is it at work, or can it be resumed?"""
    waits: str = ""
    """Why it stays though it is old: what is in its work tree; empty if it may go."""

    @property
    def is_readable(self) -> bool:
        """Does its record tell anything? One that cannot be read has no folder."""
        return bool(self.record.wd)


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What can be removed."""

    agents: tuple[KnownRun, ...]
    """Runs whose agents are left."""
    folders: tuple[KnownRun, ...]
    """Runs whose folders are old."""
    drafts: tuple[str, ...] = ()
    """Names of folders that a killed process has left half made."""
    waiting: tuple[KnownRun, ...] = ()
    """Old runs that stay, for what is in their work trees."""

    def __bool__(self) -> bool:
        return bool(self.agents or self.folders or self.drafts)


def plan_cleanup(runs: Iterable[KnownRun], before: float, api: str = "") -> Cleanup:
    """Return what can be removed: the folders of runs that ended before a time.

    `api` is the server that is named, if one is. Agents are its own or those of the state folder;
    of another server's nothing is known.
    """
    runs = tuple(runs)
    used = {one for run in runs if run.in_use for one in run.record.terminals.values()}
    sessions = {one for run in runs if run.in_use for one in sessions_of(run.record)}
    agents: list[KnownRun] = []
    folders: list[KnownRun] = []
    waiting: list[KnownRun] = []
    for run in (run for run in runs if not run.in_use):
        record = run.record
        left = bool(record.terminals)
        safe = sessions.isdisjoint(sessions_of(record)) and used.isdisjoint(
            record.terminals.values()
        )
        if left and safe and server_named(record) in ("", api):
            agents.append(run)
            left = False
        if not left and (record.ended or record.started) < before:
            (waiting if run.waits else folders).append(run)
    return Cleanup(tuple(agents), tuple(folders), waiting=tuple(waiting))


def server_named(record: RunRecord) -> str:
    """Return the server that a run was told to use; empty if it is that of the state folder."""
    setting = record.settings.get("API")
    return setting.value if setting else ""


def known_runs(state_folder: Path, environ: Mapping[str, str]) -> list[KnownRun]:
    """Return the runs that have a folder, also those whose records cannot be read."""
    found = []
    for name in sorted(filter(is_run_id, runs_folder(state_folder).names())):
        folder = run_folder(state_folder, name)
        with suppress(OSError):
            record = read_settled(folder)
            words = read_run(folder).words
            if record is None:
                found += _unreadable_run(state_folder, name, words)
                continue
            in_use = folder.is_locked() or record.status.is_open or _may_go_on(folder, record)
            waits = ""
            is_work = not is_unchanged(state_folder, record, environ)
            if is_work and has_tree(state_folder, record):
                waits = UNDELIVERED
            elif has_later_work(state_folder, record, environ):
                waits = CHANGED_LATER.format(record.wd)
            found.append(KnownRun(record, words, in_use, waits))
    return found


def _unreadable_run(state_folder: Path, name: str, words: str) -> list[KnownRun]:
    """Return a run that is known by its name alone; nothing if that does not tell its age."""
    began = began_at(name)
    if began is None:
        return []
    record = RunRecord(name, "", started=began, status=RunStatus.INTERRUPTED)
    in_use = run_folder(state_folder, name).is_locked()
    waits = TREE_LEFT if _has_folder(state_folder, name) else ""
    return [KnownRun(record, words, in_use, waits)]


def _has_folder(state_folder: Path, name: str) -> bool:
    return os.path.lexists(worktree_folder(state_folder, name))


def listed_names(state_folder: Path) -> set[str]:
    """Return the ids of runs whose agents are theirs: all but those that nothing is known of.

    A folder that is just being made counts, and so does one that cannot be looked into.
    """
    names = runs_folder(state_folder).names()
    telling = {name for name in names if not _tells_nothing(run_folder(state_folder, name))}
    return {name.removeprefix(DRAFT_PREFIX) for name in names if is_draft(name) or name in telling}


def _tells_nothing(folder: Folder) -> bool:
    with suppress(OSError):
        return read_record(folder) is None and not folder.is_locked()
    return False


def left_drafts(state_folder: Path) -> tuple[str, ...]:
    """Return the names of folders that nobody is about to make any more."""
    found = []
    for name in sorted(filter(is_draft, runs_folder(state_folder).names())):
        # What is no folder is none of ours.
        with suppress(OSError):
            if not run_folder(state_folder, name).is_locked():
                found.append(name)
    return tuple(found)


def is_draft(name: str) -> bool:
    """Is it the name of a run folder that is being made?"""
    return name.startswith(DRAFT_PREFIX) and is_run_id(name.removeprefix(DRAFT_PREFIX))


def end_agents(terminals: AgentsToEnd, state_folder: Path, run_id: str) -> int:
    """End the agents of a run that are still there, unless it is at work again; how many?"""
    folder = run_folder(state_folder, run_id)
    try:
        with folder.locked():
            record = read_record(folder)
            if record is None or _may_go_on(folder, record):
                return 0
            return end_all(terminals, folder, record)
    except BlockingIOError:
        return 0


def end_all(terminals: AgentsToEnd, folder: Folder, record: RunRecord) -> int:
    """End the agents of a run that is held; how many were still there?"""
    sessions = sessions_of(record)
    ended = sum(_end(terminals, one, sessions) for one in record.terminals.values())
    write_record(folder, replace(record, terminals={}, session_name=""))
    return ended


def end_unlisted(terminals: AgentsToEnd, run_id: str, ids: Iterable[str]) -> int:
    """End the agents of a run that nothing is known of; how many were still there?"""
    return sum(_end(terminals, one, (session_name_of(run_id),)) for one in ids)


def sessions_of(record: RunRecord) -> tuple[str, ...]:
    """Return what the session of a run may be called; one that never began did not tell it."""
    return (record.session_name,) if record.session_name else (record.id, f"cao-{record.id}")


def _end(terminals: AgentsToEnd, terminal_id: str, sessions: Collection[str]) -> bool:
    try:
        terminal = terminals.get_terminal(terminal_id)
        if terminal.get("session_name") in sessions:
            # One that is dead is still listed.
            terminals.exit_terminal(terminal_id)
            return terminal.get("alive") is not False
    except ApiRefused as error:
        if error.status_code != GONE:
            raise
    return False


def remove_folder(state_folder: Path, name: str, environ: Mapping[str, str]) -> str:
    """Remove a run folder or a draft of one; return why it stays, nothing if it does not.

    A work tree whose work was applied goes with it; one with other work keeps it.
    """
    if not is_run_id(name) and not is_draft(name):
        return "it is no run"
    folder = run_folder(state_folder, name)
    record = read_record(folder)
    if record is None and _has_folder(state_folder, name):
        return TREE_LEFT
    if record is not None and (left := remove_applied(state_folder, record, environ)):
        return left
    try:
        with folder.locked():
            record = read_record(folder)
            if record is not None and _may_go_on(folder, record):
                return "it can be resumed"
            folder.remove_all()
    except FileNotFoundError:
        return ""
    except BlockingIOError:
        return "another command is at work on it"
    except OSError as error:
        return in_words(error)
    return ""


def _may_go_on(folder: Folder, record: RunRecord) -> bool:
    """Can a run that nobody holds be resumed?"""
    is_over = record.status.is_verdict or is_discarded(record)
    return not is_over and can_resume(folder)
