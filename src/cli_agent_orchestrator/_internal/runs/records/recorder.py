"""Keeps what is told of a run in the run's folder.

A folder that cannot be written (the disk is full, somebody removed it) is no reason to end a run:
that is said once, and each event is tried anew.
"""

import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.config import check_state_folder
from cli_agent_orchestrator._internal.layout import DRAFT_PREFIX, run_folder
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.event_log import EventLog, read_events
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id, new_run_id
from cli_agent_orchestrator._internal.runs.records.run_log import logging_to
from cli_agent_orchestrator._internal.runs.records.run_record import (
    RunRecord,
    SavedTree,
    read_record,
    resumed_record,
    write_record,
)
from cli_agent_orchestrator._internal.runs.records.standing import after_event
from cli_agent_orchestrator.errors import RunLocked, StateError, UsageError
from cli_agent_orchestrator.events import OnRunEvent, RunEnded, RunEvent


class Recorder:
    """Numbers the events of a run, and writes them and the run's record to its folder."""

    def __init__(self, state_folder: Path, clock: Clock) -> None:
        self._state_folder = state_folder
        self._clock = clock
        self._held = ExitStack()
        self._locked: Folder | None = None
        self._folder: Folder | None = None
        self._log: EventLog | None = None
        self._record: RunRecord | None = None
        self._seq = 0
        self._telling = threading.RLock()
        self._said: set[str] = set()
        self._troubles: list[str] = []

    @property
    def folder(self) -> Folder | None:
        """The folder of the run; None if it has none that can be written."""
        return None if self._log is None else self._folder

    def hold(self, run: str) -> None:
        """Keep others from a run that is to go on; raise `RunLocked` if one of them is at work."""
        folder = run_folder(self._state_folder, run)
        try:
            self._lock(folder, run)
        except FileNotFoundError:
            raise RunLocked(f"the run {run} is removed") from None

    def start(self, record: RunRecord, *, resumed: bool) -> str:
        """Take the folder of a run, or make it, and return the id that the run has now.

        Raise `RunLocked` if another command holds it: that may be about to remove the run.
        """
        self._record = record
        try:
            check_state_folder(self._state_folder)
            self._folder, self._record = self._take_folder(record, resumed)
            self._log = EventLog(self._folder)
            self._held.callback(self._log.close)
            self._seq = self._log.last_seq
            with suppress(StateError):
                self._held.enter_context(logging_to(self._folder))
        except (OSError, UsageError) as error:
            self._say(f"this run will not be listed by `cao runs`: {_reason(error)}")
        return self._record.id

    def note_tree(self, tree: SavedTree) -> None:
        """Write down how the work tree of the run stands now; raise OSError if that cannot be."""
        assert self._record is not None, "the run was started"
        self._record = replace(self._record, tree=tree)
        if self._folder is not None and self._log is not None:
            write_record(self._folder, self._record)

    def close(self) -> None:
        """Let go of the folder."""
        self._held.close()
        self._locked = None
        self._log = None

    def tell(self, event: RunEvent, on_event: OnRunEvent) -> None:
        """Write an event and pass it on; several threads may, and each has to wait its turn."""
        with self._telling:
            on_event(self.take(event))

    def take(self, event: RunEvent) -> RunEvent:
        """Return an event with its number, after it was written."""
        # The record first: whoever reads the last event finds that the run has ended.
        self._note(event)
        self._seq += 1
        if self._log is None:
            return replace(event, seq=self._seq)
        try:
            return self._log.append(event)
        except OSError as error:
            self._say(f"what happens cannot be recorded in {self._place()}: {_reason(error)}")
            return replace(event, seq=self._seq)

    def pop_troubles(self) -> list[str]:
        """Return why the folder cannot be written, each reason once."""
        troubles, self._troubles = self._troubles, []
        return troubles

    def _note(self, event: RunEvent) -> None:
        if self._record is None:
            return
        record = after_event(self._record, event)
        if record == self._record:
            return
        self._record = record
        if self._folder is not None and self._log is not None:
            try:
                write_record(self._folder, record, lasting=isinstance(event, RunEnded))
            except OSError as error:
                self._say(f"the run's record in {self._place()} is out of date: {_reason(error)}")

    def _take_folder(self, record: RunRecord, resumed: bool) -> tuple[Folder, RunRecord]:
        if resumed and is_run_id(record.id):
            folder = run_folder(self._state_folder, record.id)
            before = read_record(folder)
            if before is not None and (before.wd, before.archive) == (record.wd, record.archive):
                self._lock(folder, record.id)
                # As it is now that nobody else changes it.
                before = read_record(folder)
                if before is None:
                    raise RunLocked(f"the run {record.id} is removed")
                record = resumed_record(before, record, _left(folder, before))
                write_record(folder, record)
                return folder, record
            if folder.path.name in Folder(folder.root, folder.parts[:-1]).names():
                # Somebody else's run: the saved state was not made here.
                record = replace(record, id=new_run_id(self._clock))
        elif not is_run_id(record.id):
            record = replace(record, id=new_run_id(self._clock))
        # Whoever sees it sees it locked and with its record.
        draft = run_folder(self._state_folder, DRAFT_PREFIX + record.id)
        draft.make()
        self._lock(draft, record.id)
        write_record(draft, record)
        return draft.rename_to(record.id), record

    def _lock(self, folder: Folder, run: str) -> None:
        if self._locked == folder:
            return
        try:
            self._held.enter_context(folder.locked())
        except BlockingIOError:
            raise RunLocked(
                f"another command is at work on the run {run}; when it has ended, `cao runs` says "
                "what became of the run"
            ) from None
        self._locked = folder

    def _place(self) -> str:
        return str(self._folder.path) if self._folder else "its folder"

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._troubles.append(text)


def _left(folder: Folder, record: RunRecord) -> float:
    """Return when a run was last at work; one that was killed has not noted its end."""
    if record.ended is not None:
        return record.ended
    return max((event.at for event in read_events(folder)), default=record.started)


def _reason(error: OSError | UsageError) -> str:
    return str((error.strerror if isinstance(error, OSError) else None) or error)
