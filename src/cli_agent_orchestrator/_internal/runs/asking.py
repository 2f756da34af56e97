"""Asks something of a run under way, and learns what the run says to it."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator._internal.clock import SystemClock
from cli_agent_orchestrator._internal.file_watch import Waker, watch_file
from cli_agent_orchestrator._internal.layout import CONTROL_FILE, EVENTS_FILE, run_folder
from cli_agent_orchestrator._internal.pipeline.asks import Ask, Hint, Set, Wish
from cli_agent_orchestrator._internal.pipeline.rounds import twice_as_many
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator._internal.runs.records.control import write_ask
from cli_agent_orchestrator._internal.runs.records.event_log import EventReader
from cli_agent_orchestrator._internal.runs.records.registry import (
    RUNNING,
    RunSummary,
    can_resume,
    has_passed,
    summary_of,
)
from cli_agent_orchestrator._internal.runs.records.run_id import is_run_id
from cli_agent_orchestrator._internal.runs.records.run_record import (
    RunRecord,
    RunStatus,
    read_record,
)
from cli_agent_orchestrator._internal.settings.values import read_change
from cli_agent_orchestrator.errors import NotSteerable, UnknownName, UsageError
from cli_agent_orchestrator.events import (
    Answer,
    AskDeclined,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
    ReviewSkipped,
    RunEnded,
    RunEvent,
    SettingChanged,
    StopAsked,
    Unpaused,
)

ANSWER_SECONDS = 4.0
STOP_SECONDS = 30.0
"""Ending the agents takes its time."""

STOPPED = "The run is stopped and saved; its agents are ended."
NOT_BEGUN = "The run is stopped before its first turn: nothing of it is saved."
QUEUED = "The run has not heard of it yet; it will as soon as it looks."
NOTHING_SAVED = "it was ended before its first turn, and nothing of it is saved; start it anew"
NOT_THERE = "what was saved of it is not there any more"
UNREADABLE = "its run.json cannot be read"
ENDS = {
    RunStatus.INTERRUPTED: "was interrupted: its process is gone",
    RunStatus.STOPPED: "was stopped",
    RunStatus.FAILED: "was stopped by an error",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of an ask."""

    heard: bool
    text: str
    """What the run does now, as a sentence."""


def check_live(run: RunSummary) -> None:
    """Raise how a run ended, if it has."""
    if not run.is_live:
        raise NotSteerable(end_of(run))


def check_wish(run: RunSummary, wish: Wish) -> None:
    """Raise why something cannot be asked of a run."""
    check_live(run)
    match wish:
        case Set(name, value):
            read_change(name, value)
        case Hint(role=str(role)) if run.providers and role not in run.providers:
            raise UnknownName(f"role of the run {run.id}", role, run.providers)


def end_of(run: RunSummary) -> str:
    """Say how a run ended, and what can be done."""
    if run.discarded:
        return f"the work of the run {run.id} was discarded; nothing can be asked of it any more"
    if run.status is RunStatus.FAIL:
        return f"the run {run.id} has ended with FAIL; {more_rounds_words(run.id, run.round)}"
    if run.status.is_verdict:
        return f"the run {run.id} has ended with {run.status}; nothing can be asked of it any more"
    goes_on = NOTHING_SAVED if run.unsaved else f"`cao resume {run.id}` resumes it"
    goes_on = NOT_THERE if run.lost else goes_on
    goes_on = goes_on if run.is_readable else f"{UNREADABLE}, so it cannot be resumed"
    return f"the run {run.id} {ENDS[run.status]}; {goes_on}"


def more_rounds_words(run: str, number: int) -> str:
    """Say how a run goes on that has used up its rounds."""
    return f"`cao resume {run} --max-rounds {twice_as_many(number)}` goes on with more rounds"


def options_to_resume(
    run: RunSummary, folder: Folder, max_rounds: str | None = None
) -> dict[str, str]:
    """Return by which options `cao run` resumes a run; raise why it cannot be resumed.

    One that has used up its rounds goes on if it is given more.
    """
    if run.discarded:
        raise NotSteerable(
            f"the work of the run {run.id} was discarded, so it cannot be resumed; start a new one "
            "with `cao run`"
        )
    has_failed = run.status is RunStatus.FAIL
    if has_failed:
        _check_rounds(run, max_rounds)
    elif run.status.is_verdict:
        raise NotSteerable(f"the run {run.id} has ended with {run.status}; nothing is left to do")
    record = read_record(folder)
    if record is None or not can_resume(record, str(RunStatus.FAIL) if has_failed else RUNNING):
        raise NotSteerable(f"the run {run.id} cannot be resumed: {_why_not(run, record)}")
    given = {} if max_rounds is None else {"MAX_ROUNDS": max_rounds}
    if record.tree is not None:
        # Settings and consent are those of the user's own folder.
        return {"WD": record.project, "WORKSPACE": "worktree", "RESUME": "1", **given}
    return {"WD": record.wd, "STATE_FILE": record.state_file, "RESUME": "1", **given}


def _check_rounds(run: RunSummary, max_rounds: str | None) -> None:
    """Refuse to go on with a run that would fail at once again."""
    if max_rounds is None:
        raise NotSteerable(end_of(run))
    _, value = read_change("max_rounds", max_rounds)
    if int(value) <= run.round:
        rounds = f"{run.round} round{'' if run.round == 1 else 's'}"
        raise UsageError(
            f"the run {run.id} has had {rounds} already; {more_rounds_words(run.id, run.round)}"
        )


def _why_not(run: RunSummary, record: RunRecord | None) -> str:
    if record is None:
        return UNREADABLE
    if has_passed(record):
        deliver = f"; `cao apply {run.id}` brings its work to you" if record.tree else ""
        return f"it has passed, and was ended just then{deliver}"
    if not run.round:
        return NOTHING_SAVED
    return f"{NOT_THERE}; `cao report {run.id}` tells what it did"


def ask_run(folder: Folder, wish: Wish, patience: float = ANSWER_SECONDS) -> Asked:
    """Ask something of a run, and wait a moment for what it says; raise why it does not do it."""
    answers = _Answers(folder)
    ask = _write(folder, wish)
    told = answers.wait_for(ask.id, patience)
    if isinstance(told, StopAsked):
        told = answers.wait_for_end(STOP_SECONDS) or told
        return Asked(True, _stopped_words(told))
    return read_answer(told)


def pass_on(state_folder: Path, run: str, wish: Wish) -> None:
    """Ask something of the run with this id, whose answer is seen as it is followed anyway.

    Raise why it cannot be asked.
    """
    # Whoever can write the events of a run might name a folder elsewhere.
    if not is_run_id(run):
        raise NotSteerable("the run has no ID")
    folder = run_folder(state_folder, run)
    check_wish(summary_of(folder), wish)
    _write(folder, wish)


def _write(folder: Folder, wish: Wish) -> Ask:
    try:
        return write_ask(folder, wish, SystemClock())
    except OSError as error:
        path = folder.path / CONTROL_FILE
        raise NotSteerable(f"{path} cannot be written: {error.strerror}") from error


def read_answer(told: Answer | RunEnded | None) -> Asked:
    """Return what the answer of a run means; raise why it does not do what was asked."""
    match told:
        case None:
            return Asked(False, QUEUED)
        case RunEnded():
            how = "" if told.final_status == "RUNNING" else f" with {told.final_status}"
            raise NotSteerable(f"the run ended{how} before it heard of it")
        case AskDeclined(do="pause", text=text):
            # Two pauses are one.
            return Asked(True, f"Nothing to do: {text}.")
        case AskDeclined(text=text):
            raise NotSteerable(text)
    return Asked(True, _words(told))


def _words(told: Answer) -> str:
    match told:
        case PauseAsked():
            return "The run pauses when the present turn has ended."
        case Unpaused():
            return "The run goes on."
        case HintTaken(role=role):
            whose = f" of {role}" if role else ""
            return f"The hint will be in the next prompt{whose}."
        case SettingChanged():
            return f"{told.words}. It counts from the next turn on."
        case ReviewSkipped():
            return f"The run goes on: {told.words}."
        case QuestionAnswered():
            return "The run knows of the answer."
        case AskDeclined() | StopAsked():
            raise AssertionError("they are told otherwise")


def _stopped_words(told: StopAsked | RunEnded) -> str:
    if isinstance(told, StopAsked):
        return "The run is stopping."
    return STOPPED if told.round else NOT_BEGUN


class _Answers:
    """Reads what a run tells from now on."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._reader = EventReader(folder)
        self._unread: deque[RunEvent] = deque()
        for _ in self._reader.read():
            pass  # what it told before is no answer

    def wait_for(self, ask: str, seconds: float) -> Answer | RunEnded | None:
        """Return what the run says to an ask, or that it ended; None if nothing has come."""
        for event in self._events(seconds):
            if isinstance(event, RunEnded):
                return event
            if isinstance(event, Answer) and event.ask == ask:
                return event
        return None

    def wait_for_end(self, seconds: float) -> RunEnded | None:
        return next((one for one in self._events(seconds) if isinstance(one, RunEnded)), None)

    def _events(self, seconds: float) -> Iterator[RunEvent]:
        """Yield what comes in so many seconds."""
        deadline = time.monotonic() + seconds
        waker = Waker()
        with watch_file(self._folder.path / EVENTS_FILE, waker.wake):
            while (left := deadline - time.monotonic()) > 0:
                self._unread.extend(self._reader.read())
                while self._unread:
                    yield self._unread.popleft()
                waker.wait(left)
