"""The control file of a run: the requests of people to it, a line of JSON each.

A request is a line that is added; no line is changed or removed. How much of the file was
processed, in bytes, is saved with the run, so that no request counts twice. No server is needed.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from typing import Self

from .. import events
from ..core.files import LARGEST_FILE, Folder
from ..core.models import Asked
from ..core.text import plural, twice_as_many
from ..core.watch import Waker, watch_file
from ..errors import NotSteerable, UnknownName, UsageError
from ..pipeline.requests import Hint, Request, SentRequest, Set, read_lines, to_line
from ..settings.layout import CONTROL_FILE, EVENTS_FILE, run_folder
from ..settings.values import read_change
from .record import VERSION, EventReader, RunStatus, is_run_id, read_record
from .view import RUNNING, RunView, is_saved_as, read_run

LOOK_SECONDS = 10.0
"""How often the file is read where the system reports no changes."""


def write_request(folder: Folder, request: Request) -> SentRequest:
    sent = SentRequest(uuid.uuid4().hex, time.time(), request)
    # The rest of a line that did not fit must not run into this one.
    data = b"\n" + to_line(sent).encode() + b"\n"
    fault = ""
    try:
        with folder.append(CONTROL_FILE) as file:
            if os.write(file.fileno(), data) < len(data):
                fault = os.strerror(ENOSPC)
    except OSError as error:
        fault = error.strerror or str(error)
    if fault:
        raise NotSteerable(f"{folder.path / CONTROL_FILE} cannot be written: {fault}")
    return sent


class Listener:
    """Passes requests to a run as soon as they are written, while the context lasts."""

    def __init__(
        self,
        folder: Folder,
        position: int,
        hear: Callable[[SentRequest, int], None],
        warn: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._position = position
        self._hear = hear
        self._warn = warn
        self._has_warned = False
        self._waker = Waker()
        self._stopped = False
        self._thread = threading.Thread(target=self._listen, name="control", daemon=True)

    def __enter__(self) -> Self:
        # At once, so that earlier requests count from the first step on.
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._waker.wake()
        self._thread.join()

    def _listen(self) -> None:
        with watch_file(self._folder.path / CONTROL_FILE, self._waker.wake):
            while not self._stopped:
                self._look()
                self._waker.wait(LOOK_SECONDS)

    def _look(self) -> None:
        try:
            with self._folder.open_to_read(CONTROL_FILE) as file:
                file.seek(self._position)
                data = file.read(LARGEST_FILE)
        except FileNotFoundError:
            return  # there was no request yet
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                # A closed output is for the run to find out.
                with suppress(OSError):
                    self._warn(f"nothing can be asked of the run: {CONTROL_FILE}: {error.strerror}")
            return
        for request, end in read_lines(data, self._position):
            self._position = end
            self._hear(request, end)


ANSWER_SECONDS = 4.0
STOP_SECONDS = 30.0
"""Ending the agents takes its time."""

NEEDS_PERSON = (
    "nothing passes in this run without what it requires; only a person can change that, with "
    "`cao set` at a terminal"
)
QUEUED = "The run has not heard of it yet; it will as soon as it looks."
NOTHING_SAVED = "it was ended before its first turn, and nothing of it is saved; start it anew"
NOT_THERE = "what was saved of it is not there any more"
UNREADABLE = "its run.json cannot be read"
ENDS = {
    RunStatus.INTERRUPTED: "was interrupted: its process is gone",
    RunStatus.STOPPED: "was stopped",
    RunStatus.FAILED: "was stopped by an error",
}


def check_live(run: RunView) -> None:
    if not run.is_live:
        raise NotSteerable(end_of(run))


def check_request(run: RunView, request: Request) -> None:
    check_live(run)
    match request:
        case Set(name, value):
            read_change(name, value)
        case Hint(role=str(role)) if run.providers and role not in run.providers:
            raise UnknownName(f"role of the run {run.id}", role, run.providers)


def loosens(folder: Folder, request: Request) -> bool:
    if not isinstance(request, Set) or (record := read_record(folder)) is None:
        return False
    name, value = read_change(request.name, request.value)
    saved = record.settings.get(name)
    return saved is not None and saved.value == "require" != value


def end_of(run: RunView) -> str:
    if run.discarded:
        was = f"the work of the run {run.id} was discarded, so it cannot be resumed"
        return f"{was}; start a new one with `cao run`"
    if run.status is RunStatus.FAIL:
        return f"the run {run.id} has ended with FAIL; {more_rounds_words(run.id, run.round)}"
    if run.status.is_verdict:
        return f"the run {run.id} has ended with {run.status}; nothing can be asked of it any more"
    goes_on = NOTHING_SAVED if run.unsaved else f"`cao resume {run.id}` resumes it"
    goes_on = NOT_THERE if run.lost else goes_on
    goes_on = goes_on if run.is_readable else f"{UNREADABLE}, so it cannot be resumed"
    return f"the run {run.id} {ENDS[run.status]}; {goes_on}"


def more_rounds_words(run: str, number: int) -> str:
    return f"`cao resume {run} --max-rounds {twice_as_many(number)}` goes on with more rounds"


def options_to_resume(
    run: RunView, folder: Folder, max_rounds: str | None = None
) -> dict[str, str]:
    """Return the options with which `cao run` resumes a run; raise why it cannot be resumed.

    A run that has used up its rounds can be resumed with more.
    """
    has_failed = run.status is RunStatus.FAIL
    if run.discarded or (run.status.is_verdict and not (has_failed and max_rounds)):
        raise NotSteerable(end_of(run))
    if has_failed and max_rounds:
        _, value = read_change("max_rounds", max_rounds)
        if int(value) <= run.round:
            had = plural(run.round, "round")
            more = more_rounds_words(run.id, run.round)
            raise UsageError(f"the run {run.id} has had {had} already; {more}")
    if not (run.is_readable and is_saved_as(folder, RunStatus.FAIL if has_failed else RUNNING)):
        raise NotSteerable(f"the run {run.id} cannot be resumed: {_why_not(run, folder)}")
    given = {} if max_rounds is None else {"MAX_ROUNDS": max_rounds}
    if run.tree is not None:
        # Settings and consent are those of the user's own folder.
        return {"WD": run.project, "WORKSPACE": "worktree", "RESUME": "1", **given}
    return {"WD": run.wd, "STATE_FILE": run.state_file, "RESUME": "1", **given}


def _why_not(run: RunView, folder: Folder) -> str:
    if not run.is_readable:
        return UNREADABLE
    if run.version != VERSION:
        return "it was begun by an earlier version of cao"
    if is_saved_as(folder, RunStatus.PASS):
        deliver = f"; `cao apply {run.id}` brings its work to you" if run.tree else ""
        return f"it has passed, and was ended just then{deliver}"
    if not run.round:
        return NOTHING_SAVED
    return f"{NOT_THERE}; `cao report {run.id}` tells what it did"


def ask_run(
    folder: Folder, request: Request, patience: float = ANSWER_SECONDS, *, agreed: bool = False
) -> Asked:
    """Send a request to a run and wait a moment for its answer; raise why it declines.

    `agreed`: a person agreed that a PASS may require less.
    """
    if not agreed and loosens(folder, request):
        raise NotSteerable(NEEDS_PERSON)
    reader = EventReader(folder)
    for _ in reader.read():
        pass  # earlier events are no answer
    sent = write_request(folder, request)
    told: events.Answer | events.RunEnded | None = None
    deadline = time.monotonic() + patience
    waker = Waker()
    with watch_file(folder.path / EVENTS_FILE, waker.wake):
        while (left := deadline - time.monotonic()) > 0:
            for event in reader.read():
                if isinstance(event, events.RunEnded):
                    if not isinstance(told, events.StopAsked):
                        return read_answer(event)
                    if event.round:
                        return Asked(True, "The run is stopped and saved; its agents are ended.")
                    return Asked(
                        True, "The run is stopped before its first turn: nothing of it is saved."
                    )
                if isinstance(event, events.Answer) and event.ask == sent.id:
                    told = event
                    if not isinstance(told, events.StopAsked):
                        return read_answer(told)
                    deadline = time.monotonic() + STOP_SECONDS
            waker.wait(left)
    return read_answer(told)


def pass_on(state_folder: Path, run: str, request: Request) -> None:
    """Send a request to the run with this id; its answer is among its events."""
    # The events of a run, from where the id comes, might name a folder elsewhere.
    if not is_run_id(run):
        raise NotSteerable("the run has no ID")
    folder = run_folder(state_folder, run)
    check_request(read_run(folder), request)
    write_request(folder, request)


def read_answer(told: events.Answer | events.RunEnded | None) -> Asked:
    """Return what the answer of a run means; raise why it declines."""
    match told:
        case None:
            return Asked(False, QUEUED)
        case events.RunEnded():
            how = "" if told.final_status == "RUNNING" else f" with {told.final_status}"
            raise NotSteerable(f"the run ended{how} before it heard of it")
        case events.AskDeclined(do="pause", text=reason):
            # Two pauses are one.
            text = f"Nothing to do: {reason}."
        case events.AskDeclined(text=reason):
            raise NotSteerable(reason)
        case events.PauseAsked():
            text = "The run pauses when the present turn has ended."
        case events.Unpaused():
            text = "The run goes on."
        case events.HintTaken(role=role):
            text = f"The hint will be in the next prompt{f' of {role}' if role else ''}."
        case events.SettingChanged():
            text = f"{told.words}. It counts from the next turn on."
        case events.ReviewSkipped():
            text = f"{told.words}."
        case events.QuestionAnswered():
            text = "The run knows of the answer."
        case events.StopAsked():
            text = "The run is stopping."
    return Asked(True, text)
