"""Keeps what is told of a run in the run's folder.

A folder that cannot be written (the disk is full, somebody removed it) is no reason to end a run:
that is said once, and each event is tried anew.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol, Self

from ..core.clock import Clock, SystemClock
from ..core.files import Folder
from ..core.text import BREAKS, CONTROLS, HALVES
from ..errors import RunLocked, StateError
from ..events import (
    OnRunEvent,
    RunEnded,
    RunEvent,
    RunOpened,
    Warned,
    tell_nobody,
)
from ..settings.config import check_state_folder
from ..settings.layout import DRAFT_PREFIX, LOG_FILE, RECORD_FILE, run_folder
from .event_log import EventLog, read_events
from .record import (
    RunRecord,
    SavedTree,
    after_event,
    read_record,
    resumed_record,
    write_record,
)

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

WATCHING_LIBRARY = "watchdog"
CONTROL_PATTERN = f"[{CONTROLS}{BREAKS}{HALVES}]"


class OneLine(logging.Formatter):
    """Keeps a record, its traceback too, on a line of its own: it may quote what is not ours."""

    def format(self, record: logging.LogRecord) -> str:
        return re.sub(CONTROL_PATTERN, _escaped, super().format(record))


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


class LogFile(logging.StreamHandler[TextIOWrapper]):
    """A log file; that it cannot be written any more is no reason to end a run."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Is it none of a library's remarks on its own threads? What it cannot do it raises."""
    return record.name.partition(".")[0] != WATCHING_LIBRARY


@contextmanager
def logging_to(folder: Folder) -> Iterator[None]:
    """Write warnings to a file while the context lasts: the terminal belongs to the progress."""
    root = logging.getLogger()
    with _log_of(folder) as handler:
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)


def log_afterwards(folder: Folder, logger: str, text: str) -> None:
    with suppress(OSError, StateError):
        if LOG_FILE in folder.names():
            with _log_of(folder) as handler:
                handler.handle(logging.LogRecord(logger, logging.WARNING, "", 0, text, (), None))


@contextmanager
def _log_of(folder: Folder) -> Iterator[LogFile]:
    try:
        binary = folder.append(LOG_FILE)
    except OSError as error:
        path = folder.path / LOG_FILE
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
    file = TextIOWrapper(binary, encoding="utf-8")
    handler = LogFile(file)
    handler.setFormatter(OneLine(LOG_FORMAT))
    handler.addFilter(is_worth_a_line)
    try:
        yield handler
    finally:
        handler.close()
        with suppress(OSError):
            file.close()


class View(Protocol):
    """Whoever shows a run; the events of the run are all it needs."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def tell(self, event: RunEvent) -> None: ...


class Recorder:
    """Numbers the events of a run, writes them and its record to its folder, and shows them.

    A warning from before the run has an id waits until it has one.
    """

    def __init__(
        self,
        state_folder: Path,
        show: OnRunEvent = tell_nobody,
        clock: Clock | None = None,
        pop_warnings: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`pop_warnings` returns what else is to be warned of, each thing once."""
        self._state_folder = state_folder
        self._show = show
        self._clock = clock or SystemClock()
        self._pop_warnings = pop_warnings
        self._held = ExitStack()
        self._locked: Folder | None = None
        self.folder: Folder | None = None
        """The folder of the run; None as long as it has none."""
        self._record: RunRecord | None = None
        self._log: EventLog | None = None
        self._seq = 0
        self._telling = threading.RLock()
        self._said: set[str] = set()
        self._troubles: list[str] = []
        self._early: list[str] | None = []
        """Warnings that wait; None once none has to."""

    @property
    def now(self) -> float:
        return self._clock.now()

    def begin(self, record: RunRecord, *, resumed: bool) -> Folder:
        """Give the run its folder, which is returned, and report its id before anything else."""
        folder = self.start(record, resumed=resumed)
        self.tell(RunOpened(self.now, record.id, record.wd, resumed, record.project))
        self.speak_up()
        return folder

    def speak_up(self) -> None:
        """Give the warnings that have waited, whether the run has come to an id or not."""
        early, self._early = self._early or [], None
        for text in early:
            self.warn(text)

    def warn(self, text: str) -> None:
        if self._early is None:
            self.tell(Warned(self.now, text))
        else:
            self._early.append(text)

    def tell(self, event: RunEvent) -> None:
        """Record an event and show it, and warn if it could not be recorded or sent.

        Several threads may, and each has to wait its turn.
        """
        with self._telling:
            self._show(self.take(event))
        for trouble in (*self.pop_troubles(), *self._pop_warnings()):
            self.warn(trouble)

    def hold(self, run: str) -> None:
        """Keep others from a run that is to go on; raise `RunLocked` if one of them is at work."""
        try:
            self._lock(run_folder(self._state_folder, run), run)
        except FileNotFoundError:
            raise RunLocked(f"the run {run} is removed") from None

    def start(self, record: RunRecord, *, resumed: bool) -> Folder:
        """Take the folder of a run, or make it, and return it.

        Raise `RunLocked` if another command holds it: that may be about to remove the run.
        """
        check_state_folder(self._state_folder)
        folder = run_folder(self._state_folder, record.id)
        try:
            if resumed:
                self.hold(record.id)
                # As it is now that nobody else changes it.
                before = read_record(folder)
                if before is None:
                    raise RunLocked(f"the run {record.id} is removed")
                record = resumed_record(before, record, _left(folder, before))
                write_record(folder, record)
            else:
                # Whoever sees the folder sees it locked and with its record.
                draft = run_folder(self._state_folder, DRAFT_PREFIX + record.id)
                draft.make()
                self._lock(draft, record.id)
                write_record(draft, record)
                draft.rename_to(record.id)
            self._log = EventLog(folder)
        except OSError as error:
            raise StateError(f"no run can be kept in {folder.path}: {error.strerror}") from error
        self._held.callback(self._log.close)
        self._seq = self._log.last_seq
        self.folder, self._record = folder, record
        with suppress(StateError):
            self._held.enter_context(logging_to(folder))
        return folder

    def note_tree(self, tree: SavedTree) -> None:
        assert self.folder is not None, "the run was started"
        assert self._record is not None, "the run was started"
        self._record = replace(self._record, tree=tree)
        write_record(self.folder, self._record)

    def close(self) -> None:
        self._held.close()
        self._locked = self._log = None

    def take(self, event: RunEvent) -> RunEvent:
        self._seq += 1
        if self.folder is None or self._record is None or self._log is None:
            return replace(event, seq=self._seq)
        # The record first: whoever reads the last event finds that the run has ended.
        before, self._record = self._record, after_event(self._record, event)
        if self._record != before:
            try:
                write_record(self.folder, self._record, lasting=isinstance(event, RunEnded))
            except OSError as error:
                self._note_trouble(f"the run's {RECORD_FILE} is out of date: {error.strerror}")
        try:
            return self._log.append(event)
        except OSError as error:
            self._note_trouble(f"what happens cannot be recorded: {error.strerror}")
            return replace(event, seq=self._seq)

    def pop_troubles(self) -> list[str]:
        """Return why the folder cannot be written, each reason once."""
        troubles, self._troubles = self._troubles, []
        return troubles

    def _note_trouble(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._troubles.append(text)

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


def _left(folder: Folder, record: RunRecord) -> float:
    """Return when a run was last at work; one that was killed has not noted its end."""
    if record.ended is not None:
        return record.ended
    return max((event.at for event in read_events(folder)), default=record.started)
