"""Keeps what is told of a run in the run's folder.

A folder that cannot be written (the disk is full, somebody removed it) is no reason to end a run:
that is said once, and each event is tried anew.
"""

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

from ..core.files import Folder
from ..core.models import EXIT_FAIL, EXIT_PASS, TerminalStatus
from ..core.text import BREAKS, CONTROLS, HALVES
from ..errors import RunLocked, StateError
from ..events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    EventKind,
    FilesChanged,
    HandoffEvent,
    NotConverging,
    OnRunEvent,
    Paused,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    ServerChosen,
    SettingChanged,
    TurnBegan,
    TurnEnded,
    Unpaused,
)
from ..settings.config import check_state_folder
from ..settings.layout import DRAFT_PREFIX, LOG_FILE, RECORD_FILE, run_folder
from .event_log import EventLog, read_events
from .record import (
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    read_record,
    resumed_record,
    without_secrets,
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
    """Add a warning to the log of a run that has ended, if that log is still there."""
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


FIRST_SIGNAL_CODE, LAST_SIGNAL_CODE = 129, 192
"""128 and the number of the signal that ended a program."""
BY_PERSON = "cao set"
VERDICTS = {
    "passed": (RunStatus.PASS, EXIT_PASS),
    "rounds_used_up": (RunStatus.FAIL, EXIT_FAIL),
}
"""Outcomes of a turn or a gate after which a run has nothing left to do."""


def after_event(record: RunRecord, event: RunEvent) -> RunRecord:
    """Return how a run stands after an event."""
    record = _after_circle(_after_question(record, event), event)
    match event:
        case ServerChosen():
            return replace(record, api=without_secrets(event.url))
        case AgentsStarting():
            return replace(record, providers={**record.providers, **event.providers})
        case AgentStarted():
            terminals = {**record.terminals, event.role: event.terminal_id}
            return replace(record, terminals=terminals)
        case RunBegan():
            return replace(
                record,
                session_name=event.session_name,
                terminals=event.terminals,
                providers=event.providers,
            )
        case TurnBegan():
            return replace(record, role=event.role, round=event.round, cycle=event.cycle)
        case Paused():
            return replace(record, status=RunStatus.PAUSED, role="")
        case Unpaused():
            return replace(record, status=RunStatus.RUNNING)
        case CheckBegan():
            return replace(record, role=event.gate, round=event.round, cycle=0)
        case RunEnded():
            return _after_end(record, event)
    return _with_changed_setting(record, event)


def _after_question(record: RunRecord, event: RunEvent) -> RunRecord:
    """Note who asks a person something, until its status says that it does not any more."""
    match event:
        case HandoffEvent(kind=EventKind.WAITING_FOR_PERSON):
            return replace(record, asking=event.role)
        case HandoffEvent(status=None):
            return record
        case HandoffEvent() if event.status is not TerminalStatus.WAITING_USER_ANSWER:
            return replace(record, asking="")
        case TurnBegan() | TurnEnded() | RunEnded():
            return replace(record, asking="")
    return record


def _after_circle(record: RunRecord, event: RunEvent) -> RunRecord:
    """Note why the run does not converge, until an author has changed files or it passes."""
    match event:
        case NotConverging():
            return replace(record, circling=event.why)
        case FilesChanged(allowed=True) if event.count > 0:
            return replace(record, circling="")
        case RunEnded(final_status=RunStatus.PASS):
            return replace(record, circling="")
    return record


def _with_changed_setting(record: RunRecord, event: RunEvent) -> RunRecord:
    if not isinstance(event, SettingChanged):
        return record
    changed = {event.name: SavedSetting(event.value, BY_PERSON)}
    return replace(record, settings={**record.settings, **changed})


def _after_end(record: RunRecord, event: RunEnded) -> RunRecord:
    ended = replace(
        record,
        status=status_at_end(event),
        ended=event.at,
        role="",
        reason=event.reason,
        to_resume=event.to_resume,
        exit_code=event.exit_code,
        proof=event.proof,
        proven=event.proven,
        round=event.round or record.round,
    )
    if event.session_left or (record.session_name and not event.round):
        # Without a round it ended before it went on; nobody has ended the agents it had.
        return ended
    return replace(ended, session_name="", terminals={})


def end_told(events: Sequence[RunEvent], session: str) -> RunEnded | None:
    """Return how a run ended by what it told last; None if more was to come.

    One that was killed right after its verdict has told that, but not its end. Its agents are in
    the `session` still.
    """
    for event in reversed(events):
        match event:
            case RunEnded():
                return event
            case TurnEnded() | CheckEnded() if event.outcome in VERDICTS:
                status, code = VERDICTS[event.outcome]
                return RunEnded(
                    event.at,
                    status,
                    event.round,
                    code,
                    session_left=session,
                    proof=event.why,
                    proven=isinstance(event, CheckEnded) and event.proven,
                )
            case TurnEnded() | CheckEnded() | TurnBegan() | CheckBegan() | RunOpened():
                return None
    return None


def status_at_end(event: RunEnded) -> RunStatus:
    """Return how a run stands that has ended like that."""
    if event.final_status in (RunStatus.PASS, RunStatus.FAIL):
        return RunStatus(event.final_status)
    by_signal = FIRST_SIGNAL_CODE <= event.exit_code <= LAST_SIGNAL_CODE
    return RunStatus.STOPPED if by_signal else RunStatus.FAILED


class Recorder:
    """Numbers the events of a run, and writes them and the run's record to its folder."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
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
        """Write down how the work tree of the run stands now; raise OSError if that cannot be."""
        assert self.folder is not None, "the run was started"
        assert self._record is not None, "the run was started"
        self._record = replace(self._record, tree=tree)
        write_record(self.folder, self._record)

    def close(self) -> None:
        """Let go of the folder."""
        self._held.close()
        self._locked = self._log = None

    def tell(self, event: RunEvent, on_event: OnRunEvent) -> None:
        """Write an event and pass it on; several threads may, and each has to wait its turn."""
        with self._telling:
            on_event(self.take(event))

    def take(self, event: RunEvent) -> RunEvent:
        """Return an event with its number, after it was written."""
        self._seq += 1
        if self.folder is None or self._record is None or self._log is None:
            return replace(event, seq=self._seq)
        # The record first: whoever reads the last event finds that the run has ended.
        before, self._record = self._record, after_event(self._record, event)
        if self._record != before:
            try:
                write_record(self.folder, self._record, lasting=isinstance(event, RunEnded))
            except OSError as error:
                self._say(f"the run's {RECORD_FILE} is out of date: {error.strerror}")
        try:
            return self._log.append(event)
        except OSError as error:
            self._say(f"what happens cannot be recorded: {error.strerror}")
            return replace(event, seq=self._seq)

    def pop_troubles(self) -> list[str]:
        """Return why the folder cannot be written, each reason once."""
        troubles, self._troubles = self._troubles, []
        return troubles

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

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._troubles.append(text)


def _left(folder: Folder, record: RunRecord) -> float:
    """Return when a run was last at work; one that was killed has not noted its end."""
    if record.ended is not None:
        return record.ended
    return max((event.at for event in read_events(folder)), default=record.started)
