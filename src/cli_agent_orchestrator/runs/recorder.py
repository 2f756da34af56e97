"""Writes what happens in a run to its folder: events, record and state.

A folder that cannot be written (the disk is full, it was removed) does not end a run: there is
one warning, and the next event is tried again. A state that cannot be saved is an error.

A run is resumed from the state in its own folder. Beside that, STATE_FILE in the project is
written for scripts; of that only the name of the run is read. A file that names no run of this user
was made by the shell script, another program or on another machine: the run in it can be taken
over.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from errno import ENOSPC
from pathlib import Path
from typing import Any, Protocol, Self

from msgspec import structs
from msgspec.structs import replace

from .. import events
from ..core import codec
from ..core.clock import Clock, SystemClock
from ..core.files import Folder, folder_of
from ..core.models import TerminalStatus
from ..errors import RunLocked, StateError
from ..events import OnRunEvent, RunEnded, RunEvent, RunOpened, Warned, tell_nobody
from ..pipeline.flow_file import LOOP
from ..pipeline.state import FinalStatus, RunState, decode_state, encode_state, from_json, to_json
from ..settings.layout import (
    DRAFT_PREFIX,
    EVENTS_FILE,
    RECORD_FILE,
    STATE_NAME,
    check_state_folder,
    run_folder,
)
from .log import logging_to
from .record import (
    RunRecord,
    RunStatus,
    SavedSetting,
    SavedTree,
    read_events,
    read_record,
    resumed_record,
    without_secrets,
    write_record,
)

BOM = b"\xef\xbb\xbf"
FIRST_SIGNAL_CODE, LAST_SIGNAL_CODE = 129, 192
"""128 and the number of the signal that ended a program."""
VERDICTS = {"passed": RunStatus.PASS, "rounds_used_up": RunStatus.FAIL}

logger = logging.getLogger(__name__)


class View(Protocol):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

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
        self._troubles: list[str] = []
        self._known_troubles: set[str] = set()
        self._early: list[str] | None = []
        """Warnings that wait; None once none has to."""

    def begin(self, record: RunRecord, *, resumed: bool) -> Folder:
        """Give the run its folder, which is returned, and report its id before anything else."""
        folder = self.start(record, resumed=resumed)
        self.tell(RunOpened(self._clock.now(), record.id, record.wd, resumed, record.project))
        self.give_early_warnings()
        return folder

    def give_early_warnings(self) -> None:
        """Give the warnings that have waited, also if the run never got an id."""
        early, self._early = self._early or [], None
        for text in early:
            self.warn(text)

    def warn(self, text: str) -> None:
        if self._early is None:
            self.tell(Warned(self._clock.now(), text))
        else:
            self._early.append(text)

    def tell(self, event: RunEvent) -> None:
        """Record an event and show it, or warn; any thread may call it, and waits its turn."""
        with self._telling:
            self._show(self.take(event))
        for trouble in (*self.pop_troubles(), *self._pop_warnings()):
            self.warn(trouble)

    def hold(self, run: str) -> None:
        """Keep others from a run that is to be resumed; raise `RunLocked` if one is at work."""
        folder = run_folder(self._state_folder, run)
        try:
            self._lock(folder, run)
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
                # Read under the lock: now no other process changes it.
                before = read_record(folder)
                if before is None:
                    raise RunLocked(f"the run {record.id} is removed")
                left = before.ended
                if left is None:
                    # It was killed, and could not record its end.
                    left = max((one.at for one in read_events(folder)), default=before.started)
                record = resumed_record(before, record, left)
                write_record(folder, record)
            else:
                # Who sees the folder sees it locked and with its record.
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
            return structs.replace(event, seq=self._seq)
        # The record first: a reader of the last event finds that the run has ended.
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
            return structs.replace(event, seq=self._seq)

    def pop_troubles(self) -> list[str]:
        troubles, self._troubles = self._troubles, []
        return troubles

    def _note_trouble(self, text: str) -> None:
        if text not in self._known_troubles:
            self._known_troubles.add(text)
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


class ExportedState:
    def __init__(self, path: Path, wd: Path) -> None:
        """A file in the work folder is opened like everything there: no link is followed."""
        self.path = path
        self._folder = folder_of(path, wd)

    def check(self) -> None:
        probe = f".{self.path.name}.probe"
        try:
            self._folder.status(self.path.name)
            self._folder.replace(probe, b"")
            self._folder.remove(probe)
        except OSError as error:
            raise StateError(
                f"no state can be saved in {self.path}: {error.strerror}; "
                "mend that, or name another STATE_FILE"
            ) from error

    def save_state(self, state: RunState) -> None:
        data = codec.encode(to_json(state), indent=2)
        self._folder.replace(self.path.name, data, lasting=False)

    def read(self) -> bytes | None:
        try:
            return self._folder.read(self.path.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror}") from error

    def named_run(self) -> str:
        content = self._content()
        run = content.get("run") if isinstance(content, dict) else ""
        return run if isinstance(run, str) else ""

    def load_state(self) -> RunState | None:
        """Return the state in the file; None if there is none, or an ended run of another flow.

        A file that holds no state is left alone, and never overwritten.
        """
        content = self._content()
        if isinstance(content, dict) and content.get("flow", LOOP) != LOOP:
            is_over = content.get("final_status") in (FinalStatus.PASS, FinalStatus.FAIL)
            content = None if is_over else content
        try:
            return None if content is None else from_json(content)
        except StateError as error:
            raise self._unusable(str(error)) from error

    # Any: JSON of any form
    def _content(self) -> Any:
        data = self.read()
        try:
            return None if data is None else codec.parse(data.removeprefix(BOM))
        except ValueError as error:
            raise self._unusable("it is no JSON") from error

    def _unusable(self, reason: str) -> StateError:
        return StateError(
            f"the state file {self.path} cannot be used: {reason}. It is left alone: remove it, or "
            "name another STATE_FILE"
        )


class StateFile:
    """The saved state of a run: replaced as a whole or not at all, and never lost."""

    def __init__(
        self,
        run: Folder,
        clock: Clock,
        export: ExportedState | None = None,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        self._run = run
        self._clock = clock
        self._export = export
        self._warn = warn

    def save_state(self, state: RunState) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        stamped = replace(state, updated_at=f"{now:%Y-%m-%dT%H:%M:%SZ}")
        try:
            self._run.replace(STATE_NAME, encode_state(stamped))
        except OSError as error:
            raise StateError(
                f"the state cannot be saved to {self._run.path}: {error.strerror}. What was saved "
                "before is unharmed; make room or give access, and resume"
            ) from error
        if self._export is not None:
            try:
                self._export.save_state(stamped)
            except OSError as error:
                self._warn(f"{self._export.path} is out of date from now on: {error.strerror}")
                self._export = None


def load_state(run: Folder) -> RunState | None:
    """Return the saved state of the run in a folder; None if it ended before its first turn."""
    path = run.path / STATE_NAME
    try:
        return decode_state(run.read(STATE_NAME))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    except StateError as error:
        raise StateError(f"{path} cannot be used: {error}") from error


def read_state_of(run: Folder) -> RunState | None:
    with suppress(StateError):
        return load_state(run)
    return None


def after_event(record: RunRecord, event: events.RunEvent) -> RunRecord:
    record = _after_question(_after_stall(record, event), event)
    match event:
        case events.ServerChosen():
            return replace(record, api=without_secrets(event.url))
        case events.AgentsStarting():
            return replace(record, providers={**record.providers, **event.providers})
        case events.AgentStarted():
            terminals = {**record.terminals, event.role: event.terminal_id}
            return replace(record, terminals=terminals)
        case events.RunBegan():
            return replace(
                record,
                session_name=event.session_name,
                terminals=event.terminals,
                providers=event.providers,
            )
        case events.TurnBegan():
            return replace(record, role=event.role, round=event.round, cycle=event.cycle)
        case events.CheckBegan():
            return replace(record, role=event.gate, round=event.round, cycle=0)
        case events.TurnEnded() | events.CheckEnded():
            return _after_verdict(record, event)
        case events.Paused():
            return replace(record, status=RunStatus.PAUSED, role="")
        case events.Unpaused():
            return replace(record, status=RunStatus.RUNNING)
        case events.SettingChanged():
            changed = {event.name: SavedSetting(event.value, "cao set")}
            return replace(record, settings={**record.settings, **changed})
        case events.RunEnded():
            return _after_end(record, event)
    return record


def _after_question(record: RunRecord, event: events.RunEvent) -> RunRecord:
    match event:
        case events.HandoffEvent(kind=events.EventKind.WAITING_FOR_PERSON):
            return replace(record, asking=event.role)
        case events.HandoffEvent(status=None | TerminalStatus.WAITING_USER_ANSWER):
            return record
        case events.HandoffEvent() | events.TurnBegan() | events.TurnEnded() | events.RunEnded():
            return replace(record, asking="")
    return record


def _after_stall(record: RunRecord, event: events.RunEvent) -> RunRecord:
    match event:
        case events.NotConverging():
            return replace(record, stalled=event.why)
        case events.FilesChanged(allowed=True) if event.count > 0:
            return replace(record, stalled="")
        case events.RunEnded(final_status=RunStatus.PASS):
            return replace(record, stalled="")
    return record


def _after_verdict(record: RunRecord, event: events.TurnEnded | events.CheckEnded) -> RunRecord:
    if event.outcome not in VERDICTS:
        return record
    record = replace(record, verdict=VERDICTS[event.outcome], judged=event.at)
    if isinstance(event, events.CheckEnded) and event.gate == events.PROOF:
        return replace(record, proof=event.why, proven=event.proven)
    return record


def _after_end(record: RunRecord, event: events.RunEnded) -> RunRecord:
    if event.final_status in (RunStatus.PASS, RunStatus.FAIL):
        status = RunStatus(event.final_status)
    else:
        by_signal = FIRST_SIGNAL_CODE <= event.exit_code <= LAST_SIGNAL_CODE
        status = RunStatus.STOPPED if by_signal else RunStatus.FAILED
    ended = replace(
        record,
        status=status,
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
        # Without a round it ended before it could resume: its agents are still there.
        return ended
    return replace(ended, session_name="", terminals={})


class EventLog:
    def __init__(self, folder: Folder) -> None:
        self._file = folder.append(EVENTS_FILE)
        try:
            with folder.open_to_read(EVENTS_FILE) as file:
                data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.ftruncate(self._file.fileno(), whole)
        except OSError:
            self._file.close()
            raise
        numbers = (codec.object_of(line).get("seq") for line in data[:whole].split(b"\n"))
        self.last_seq = max((one for one in numbers if isinstance(one, int)), default=0)
        self._torn = False

    def append(self, event: events.RunEvent) -> events.RunEvent:
        """Add an event and return it with its number, which is given even if OSError is raised."""
        self.last_seq += 1
        numbered = structs.replace(event, seq=self.last_seq)
        # The rest of a line that did not fit must not run into this one.
        data = b"\n" * self._torn + events.to_line(numbered).encode() + b"\n"
        self._torn = True
        if os.write(self._file.fileno(), data) < len(data):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        self._torn = False
        return numbered

    def close(self) -> None:
        self._file.close()
