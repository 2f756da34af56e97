"""Watches one turn: looks at the terminal and the response file, waits, and reports."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from ..core.clock import Clock, Retry, is_transient
from ..core.models import Delivery, FileChange, TerminalEvent, TerminalStatus
from ..errors import ApiError
from ..events import EventKind, HandoffEvent
from .files import Response, ResponseFiles
from .wait import FileState, Observation, Signature

LONGEST_WAIT = 3600.0
"""Seconds after which one looks again in any case; the system knows no end of the larger ones."""
END_SECONDS = 5.0
END_TRIES = 50
STEADY_SECONDS = 10.0
"""A connection that lasted for so long was a good one: the next pause is a short one again."""
STATUS_KINDS = frozenset({"snapshot", "status"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileSignal:
    """Something happened to a response file."""

    path: Path
    change: FileChange


@dataclass(frozen=True, slots=True)
class StatusSignal:
    """The server reported the status of a terminal."""

    terminal_id: str
    status: TerminalStatus
    reason: str = field(default="", compare=False)
    """Why, as the server says it: `hook: PermissionRequest: May I run make?`."""


@dataclass(frozen=True, slots=True)
class ActionSignal:
    """The server reported what an agent does."""

    terminal_id: str
    action: str


@dataclass(frozen=True, slots=True)
class WakeSignal:
    """Reason enough to look: the stream broke, a terminal was removed, a stop was asked for."""


Signal = FileSignal | StatusSignal | ActionSignal | WakeSignal
Post = Callable[[Signal], None]


class Mailbox(Protocol):
    """Where signals wait to be read."""

    def post(self, signal: Signal) -> None:
        """Add a signal; any thread may, and a signal handler too."""
        ...

    def wait(self, seconds: float) -> Signal | None:
        """Return the next signal, or None when none has come after so many seconds."""
        ...


class QueueMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        # SimpleQueue, because its put may interrupt its get: signal handlers post too.
        self._signals: SimpleQueue[Signal] = SimpleQueue()

    def post(self, signal: Signal) -> None:
        self._signals.put(signal)

    def wait(self, seconds: float) -> Signal | None:
        try:
            return self._signals.get(timeout=min(max(seconds, 0), LONGEST_WAIT))
        except Empty:
            return None


class EventSource(Protocol):
    """The part of the server that reports what happens."""

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


class Agents(EventSource, Protocol):
    """What a handoff needs of the server."""

    def features(self) -> frozenset[str]: ...

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery: ...

    def get_status(self, terminal_id: str) -> TerminalStatus: ...

    # Any: JSON from a server that may not be ours
    def get_terminal(self, terminal_id: str) -> dict[str, Any]: ...

    def get_last_output(self, terminal_id: str) -> str: ...


class StatusStream:
    """Listens to the server in a thread of its own, and connects again when the stream breaks.

    A broken stream is posted too, so that the status is asked for; after the next connection the
    server reports what happened meanwhile, or else the status of every terminal. The stream counts
    as lost when the first attempt to connect again has failed.
    """

    def __init__(self, source: EventSource, post: Post, clock: Clock) -> None:
        self._source = source
        self._post = post
        self._clock = clock
        self._closing = threading.Event()
        self._last_id: str | None = None
        self._lost = ""
        """Why there is no stream; empty if there is one."""
        self._reported = ""
        """What `take_news` last said of that."""
        self._thread = threading.Thread(target=self._run, name="status-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the stream."""
        self._closing.set()
        for _ in range(END_TRIES):
            # Again, because the thread may have been about to open another stream.
            self._source.close_events()
            self._thread.join(END_SECONDS / END_TRIES)
            if not self._thread.is_alive():
                return

    def take_news(self, poll_seconds: float) -> tuple[EventKind, str] | None:
        """Return that the stream is lost, or back, in words too; None if that is no news."""
        lost, reported = self._lost, self._reported
        self._reported = lost
        if lost and not reported:
            text = f"the event stream is lost ({lost}); polling every {poll_seconds:g} s"
            return EventKind.STREAM_LOST, text
        if reported and not lost:
            return EventKind.STREAM_BACK, "the event stream is back"
        return None

    def _run(self) -> None:
        retry = Retry(self._clock.monotonic())
        while not self._closing.is_set():
            began = self._clock.monotonic()
            reason, for_good = self._listen()
            if self._closing.is_set():
                return
            if self._clock.monotonic() - began >= STEADY_SECONDS:
                retry = Retry(began)
            retry = retry.after_failure()
            if retry.failures > 1 or for_good:
                if not self._lost:
                    logger.warning("no status stream, the status will be polled: %s", reason)
                self._lost = reason
            self._post(WakeSignal())
            if for_good:
                return
            self._closing.wait(retry.pause)

    def _listen(self) -> tuple[str, bool]:
        """Post events until the stream ends; return why it did, and whether it has to stay so."""
        try:
            for event in self._source.events(self._last_id, self._on_open):
                if self._closing.is_set():
                    break
                self._last_id = event.id or self._last_id
                if event.kind in STATUS_KINDS:
                    self._post(StatusSignal(event.terminal_id, event.status, event.reason))
                elif event.kind == "action":
                    self._post(ActionSignal(event.terminal_id, event.action))
                elif event.kind == "removed":
                    self._post(WakeSignal())
        except ApiError as error:
            logger.info("the status stream broke: %s", error)
            return error.summary, not is_transient(error)
        return "the server ended it", False

    def _on_open(self) -> None:
        if self._lost:
            self._lost = ""
            self._post(WakeSignal())


DELAY_SECONDS = 2.0
"""A delivery that takes longer is worth reporting."""
DELAY_FACTOR = 3.0
"""It is reported again when it has taken so many times as long."""
STOPS = "the run stops"
SOURCES_WITH_WORDS = ("hook", "session record")
"""Who names what happened before what is asked."""
LONGEST_QUESTION = 200
NOT_SHOWN = "; the screen does not show it"
"""What the server adds as long as a question was told and not drawn."""
SAME_QUESTION_SECONDS = 1.0
"""How long after a question something else may tell of the same one."""
WORDS_SECONDS = 0.5
"""How long a question that is seen may wait for its words: a screen may be ahead of a hook."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnAgent:
    """Whose turn it is."""

    terminal_id: str
    role: str
    run: str = ""
    """How a person names its run; empty if it has no name."""
    is_review: bool = False

    @property
    def attach(self) -> str:
        """The command that leads a person to it."""
        return (
            f"cao attach {self.run}/{self.role}" if self.run else f"cao attach {self.terminal_id}"
        )

    @property
    def resume(self) -> str:
        """The command by which its run goes on."""
        return f"cao resume {self.run}".rstrip()

    @property
    def resume_anew(self) -> str:
        """The command by which its run goes on with another agent in its place."""
        return f"{self.resume} --replace-terminals"

    @property
    def ways_on(self) -> str:
        """What a person can do about its error, each on a line of its own."""
        return (
            f"\n  Look at it:               {self.attach}"
            f"\n  Go on with a new agent:   {self.resume_anew}"
        )

    def __str__(self) -> str:
        return f"{self.role} (terminal {self.terminal_id})"


OnEvent = Callable[[HandoffEvent], None]


def ignore(event: HandoffEvent) -> None:
    """Report to nobody."""


def words_of(signal: StatusSignal) -> str:
    """Return the agent's own words in the reason of a status; empty if there are none.

    `hook: PermissionRequest: May I run make?` becomes `May I run make?`.
    """
    source, _, said = signal.reason.removesuffix(NOT_SHOWN).partition(": ")
    event, colon, text = said.partition(": ")
    is_named = bool(colon) and event.isalnum()
    asked = text if is_named else said if " " in said else ""
    return " ".join(asked.split())[:LONGEST_QUESTION] if source in SOURCES_WITH_WORDS else ""


class TurnReporter:
    """Reports what happens in one turn, each thing once."""

    def __init__(self, agent: TurnAgent, on_event: OnEvent, clock: Clock) -> None:
        self._who = (agent.terminal_id, agent.role)
        self._attach = agent.attach
        self._on_event = on_event
        self._clock = clock
        self._status: TerminalStatus | None = None
        self._silent = False
        self._file_seen = False
        self._action = ""
        self.question = ""
        """What the agent asks, as far as it is known."""
        self.question_due = inf
        """When a question is reported without its words, if they do not come before that."""
        self._delay = ""
        self._delay_reported = 0.0

    def report(
        self,
        kind: EventKind,
        text: str = "",
        status: TerminalStatus | None = None,
        *,
        question: str = "",
        since: float | None = None,
        until: float | None = None,
    ) -> None:
        now = self._clock.now()
        terminal_id, role = self._who
        self._on_event(
            HandoffEvent(
                now, kind, terminal_id, role, text, status, since, until=until, question=question
            )
        )

    def warn(self, text: str) -> None:
        logger.warning("%s %s: %s", *self._who, text)
        self.report(EventKind.WARNING, text)

    def on_status(self, status: TerminalStatus) -> None:
        """Report a status if it is news, and a question once its words are there."""
        if status is not self._status or self._silent:
            self._status = status
            self._silent = False
            self.report(EventKind.STATUS, status=status)
            asks = status is TerminalStatus.WAITING_USER_ANSWER
            self.question_due = self._clock.monotonic() + WORDS_SECONDS if asks else inf
        if self.question_due < inf and self.question:
            self.report_question()

    def report_question(self) -> None:
        """Report that the agent asks, and what, as far as that is known."""
        self.question_due = inf
        kind = EventKind.WAITING_FOR_PERSON
        self.report(kind, self._attach, self._status, question=self.question)

    def on_delay(self, seconds: float, reason: str) -> None:
        """Report that a message cannot be delivered: after a moment, then more and more seldom.

        Another reason is reported at once.
        """
        if seconds < self._delay_reported:
            self._delay_reported = 0.0
        due = max(DELAY_SECONDS, self._delay_reported * DELAY_FACTOR)
        if seconds < DELAY_SECONDS or (seconds < due and reason == self._delay):
            return
        self._delay, self._delay_reported = reason, seconds
        logger.warning("%s %s: not delivered: %s", *self._who, reason)
        self.report(EventKind.DELAYED, reason, since=self._clock.now() - seconds)

    def on_action(self, action: str) -> None:
        if action != self._action:
            self._action = action
            self.report(EventKind.ACTION, action)

    def on_silence(self, error: object) -> None:
        """Report that the server does not answer, unless that is known."""
        if not self._silent:
            self._silent = True
            self.warn(f"the server does not answer; trying again: {error}")

    def on_file(self, path: object) -> None:
        """Report that the response is complete, unless that is known."""
        if not self._file_seen:
            self._file_seen = True
            self.report(EventKind.FILE_SEEN, str(path))


class TurnWatch:
    """Watches one turn: listens, looks at the terminal and the response file, and reports."""

    def __init__(
        self,
        agent: TurnAgent,
        agents: Agents,
        files: ResponseFiles,
        listen: Callable[[float], Signal | None],
        reporter: TurnReporter,
        clock: Clock,
        unchanged_seconds: float,
    ) -> None:
        """`listen` returns the next signal, or None if none has come by a certain time.

        A file is complete when it has been unchanged for so many seconds, if its closing is not
        reported.
        """
        self.agent = agent
        self.path = files.response_path_for(agent.role)
        self.reporter = reporter
        self.old_error = False
        """Was the terminal in error before the last prompt was sent?"""
        self.if_missing = STOPS
        """What is done if the agent stays at rest without its file."""
        self.trouble = ""
        """What the agent itself says of its error."""
        self.error: ApiError | None = None
        """Why the server's last answer did not come."""
        self._agents = agents
        self._files = files
        self._listen = listen
        self._clock = clock
        self._file = FileState(unchanged_seconds)
        self._read: tuple[Signature, Response | None] | None = None
        self._asked_at = -inf

    def observe(self, by: float) -> Observation:
        """Return the next thing that is seen: after a signal, or by a certain time.

        A status other than at rest is as good as seen when it is reported: it was true a moment
        ago, and may be over before one asks. One that could end the turn is asked for again, and
        then the file is read: this file is the one that an agent at rest has left behind.
        """
        complete_at, now = self._file.complete_at, self._clock.monotonic()
        until = min(by, complete_at) if complete_at > now else by
        status = None
        while (signal := self._next_signal(until)) is not None:
            if self._is_news(signal):
                if isinstance(signal, StatusSignal) and not may_end(signal.status):
                    status = signal.status
                break
            # Signals that mean nothing must not keep us from looking.
            if self._clock.monotonic() >= until:
                break
        status = status or self._ask_status()
        response, warnings = self._response()
        if status is None:
            self.reporter.on_silence(self.error)
        else:
            self.reporter.on_status(status)
        if response is not None:
            self.reporter.on_file(self.path)
        for text in warnings:
            self.reporter.warn(f"{self.path}: {text}")
        reply = None if response is None else response.text
        return Observation(self._clock.monotonic(), status, reply, self._files.is_folder_gone)

    def pause(self, seconds: float) -> None:
        """Let time pass, but not beyond the next thing that happens to the terminal or its file."""
        until = self._clock.monotonic() + seconds
        while (signal := self._next_signal(until)) is not None:
            if self._is_news(signal) or self._clock.monotonic() >= until:
                return

    def ask(self, question: Callable[[], T]) -> T:
        """Return the server's answer; ask again, for a while, if there is none."""
        retry = Retry(self._clock.monotonic())
        while True:
            try:
                return question()
            except ApiError as error:
                now = self._clock.monotonic()
                if not is_transient(error) or retry.is_over(now):
                    raise
                self.reporter.on_silence(error)
            retry = retry.after_failure()
            self.pause(retry.next_try(now) - now)

    def _next_signal(self, until: float) -> Signal | None:
        """Return the next signal; report a question meanwhile whose words do not come."""
        while (signal := self._listen(min(until, self.reporter.question_due))) is None:
            if self.reporter.question_due >= until:
                return None
            self.reporter.report_question()
        return signal

    def _is_news(self, signal: Signal) -> bool:
        """Take in a signal; is it a reason to look?"""
        match signal:
            case FileSignal(path, change) if path == self.path:
                self._file = self._file.on_event(change)
                # A slow writer causes one for every line; none of them ends the turn.
                return change is not FileChange.WRITING
            case StatusSignal(terminal_id, status) if terminal_id == self.agent.terminal_id:
                self._note_words(status, words_of(signal))
                return True
            case ActionSignal(terminal_id, action) if terminal_id == self.agent.terminal_id:
                self.reporter.on_action(action)
        return isinstance(signal, WakeSignal)

    def _note_words(self, status: TerminalStatus, words: str) -> None:
        """Remember what is asked; what is told of the same question later may say less."""
        if status is TerminalStatus.ERROR:
            self.trouble = words or self.trouble
        elif status is TerminalStatus.WAITING_USER_ANSWER:
            now = self._clock.monotonic()
            if words or now - self._asked_at > SAME_QUESTION_SECONDS:
                self.reporter.question = words
            self._asked_at = now

    def _ask_status(self) -> TerminalStatus | None:
        try:
            return self._agents.get_status(self.agent.terminal_id)
        except ApiError as error:
            if not is_transient(error):
                raise
            self.error = error
            return None

    def _response(self) -> tuple[Response | None, tuple[str, ...]]:
        """Return the response if it is there, complete and not blank; and its repairs, once."""
        now = self._clock.monotonic()
        signature = self._files.signature(self.agent.role)
        self._file = self._file.on_look(signature, now)
        if signature is None or now < self._file.complete_at:
            return None, ()
        if self._read is not None and self._read[0] == signature:
            return self._read[1], ()
        response = self._files.read(self.agent.role)
        if self._files.signature(self.agent.role) != signature:
            return None, ()
        self._read = (signature, response)
        return response, response.warnings if response else ()


def may_end(status: TerminalStatus) -> bool:
    """Can a turn end with this status?"""
    return status.at_rest or status is TerminalStatus.ERROR
