"""Watches one turn: looks at the terminal and the response file, waits, and reports."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ..core.clock import Clock, Retry, is_transient
from ..core.models import Delivery, FileChange, TerminalEvent, TerminalStatus
from ..errors import ApiError, TurnFailed
from ..events import EventKind, HandoffEvent
from .files import Response, ResponseFiles
from .wait import FileState, Observation, Signature

END_SECONDS = 5.0
END_TRIES = 50
STEADY_SECONDS = 10.0
"""A connection that lasted for so long was a good one: the next pause is a short one again."""
STATUS_KINDS = ("snapshot", "status")
NEWS_KINDS = (*STATUS_KINDS, "removed")

logger = logging.getLogger(__name__)


class FileSignal(Struct, frozen=True):
    path: Path
    change: FileChange


class WakeSignal(Struct, frozen=True):
    """Reason enough to look: the stream broke, or a stop was asked for."""


Signal = FileSignal | TerminalEvent | WakeSignal
Post = Callable[[Signal], None]


class Mailbox:
    """Where signals wait to be read; any thread may add one, and a signal handler too."""

    def __init__(self) -> None:
        # SimpleQueue, because its put may interrupt its get.
        self._signals: SimpleQueue[Signal] = SimpleQueue()

    def post(self, signal: Signal) -> None:
        self._signals.put(signal)

    def wait(self, seconds: float) -> Signal | None:
        try:
            return self._signals.get(timeout=max(seconds, 0))
        except Empty:
            return None


class Agents(Protocol):
    def features(self) -> frozenset[str]: ...

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery: ...

    def get_status(self, terminal_id: str) -> TerminalStatus: ...

    # Any: JSON from a server that may not be ours
    def get_terminal(self, terminal_id: str) -> dict[str, Any]: ...

    def get_question(self, terminal_id: str) -> dict[str, Any] | None: ...

    def get_last_output(self, terminal_id: str) -> str: ...

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


class StatusStream:
    """Listens to the server in a thread of its own, and connects again when the stream breaks.

    A broken stream is posted too, so that the status is asked for; after the next connection the
    server reports what happened meanwhile, or else the status of every terminal. The stream counts
    as lost when the first attempt to connect again has failed.
    """

    def __init__(self, source: Agents, post: Post, clock: Clock) -> None:
        self._source = source
        self._post = post
        self._clock = clock
        self._closing = threading.Event()
        self.is_open = False
        self._last_id: str | None = None
        self._lost = ""
        self._reported = ""
        self._thread = threading.Thread(target=self._run, name="status-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        for _ in range(END_TRIES):
            # Again, because the thread may have been about to open another stream.
            self._source.close_events()
            self._thread.join(END_SECONDS / END_TRIES)
            if not self._thread.is_alive():
                return

    def take_news(self, poll_seconds: float) -> tuple[EventKind, str] | None:
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
        try:
            for event in self._source.events(self._last_id, self._on_open):
                if self._closing.is_set():
                    break
                self._last_id = event.id or self._last_id
                self._post(event)
        except ApiError as error:
            logger.info("the status stream broke: %s", error)
            return error.summary, not is_transient(error)
        finally:
            self.is_open = False
        return "the server ended it", False

    def _on_open(self) -> None:
        self.is_open = True
        if self._lost:
            self._lost = ""
            self._post(WakeSignal())


DELAY_SECONDS = 2.0
DELAY_FACTOR = 3.0
STOPS = "the run stops"
SOURCES_WITH_WORDS = ("hook", "session record")
"""Who names what happened before what is asked."""
LONGEST_QUESTION = 200
LONGEST_SHOWN = 1000
"""Characters of what a screen shows, where the agent does not tell what it asks."""
NOT_SHOWN = "; the screen does not show it"
"""What the server adds as long as a question was told and not drawn."""
SAME_QUESTION_SECONDS = 1.0
WORDS_SECONDS = 0.5
"""How long a question that is seen may wait for its words: a screen may be ahead of a hook."""

TOLD_SECONDS = 29.0
"""How long an agent counts as at work while the stream of the server reports nothing else."""

T = TypeVar("T")


class TurnAgent(Struct, frozen=True):
    terminal_id: str
    role: str
    run: str = ""
    is_review: bool = False

    @property
    def attach(self) -> str:
        agent = f"{self.run}/{self.role}" if self.run else self.terminal_id
        return f"cao attach {agent}"

    @property
    def resume(self) -> str:
        return f"cao resume {self.run}".rstrip()

    @property
    def resume_anew(self) -> str:
        return f"{self.resume} --replace-terminals"

    @property
    def ways_on(self) -> str:
        return (
            f"\n  Look at it:               {self.attach}"
            f"\n  Go on with a new agent:   {self.resume_anew}"
        )

    def takes_no_input(self, why: str) -> TurnFailed:
        text = f"{self} takes no input: {why}{self.ways_on}"
        return TurnFailed(text, to_resume=self.resume_anew)

    def __str__(self) -> str:
        return f"{self.role} (terminal {self.terminal_id})"


OnEvent = Callable[[HandoffEvent], None]


def words_of(reason: str) -> str:
    """Return the agent's own words in the reason of a status; empty if there are none.

    `hook: PermissionRequest: May I run make?` becomes `May I run make?`.
    """
    source, _, said = reason.removesuffix(NOT_SHOWN).partition(": ")
    event, colon, text = said.partition(": ")
    is_named = bool(colon) and event.isalnum()
    asked = text if is_named else said if " " in said else ""
    return " ".join(asked.split())[:LONGEST_QUESTION] if source in SOURCES_WITH_WORDS else ""


class TurnWatch:
    def __init__(
        self,
        agent: TurnAgent,
        agents: Agents,
        files: ResponseFiles,
        listen: Callable[[float], Signal | None],
        on_event: OnEvent,
        clock: Clock,
        unchanged_seconds: float,
        is_told: Callable[[], bool] = lambda: False,
    ) -> None:
        """`listen` returns the next signal, or None if none has come by a certain time.

        `is_told` returns whether the server reports each change of the status. A file is complete
        when it has been unchanged for so many seconds, if its closing is not reported.
        """
        self.agent = agent
        self.path = files.response_path_for(agent.role)
        self.old_error = False
        """Was the terminal in error before the last prompt was sent?"""
        self.if_missing = STOPS
        self.trouble = ""
        """What the agent itself says of its error."""
        self.wakes = ""
        """When it goes on by itself after a usage limit; empty if it does not."""
        self.error: ApiError | None = None
        """Why the server's last answer did not come."""
        self._agents = agents
        self._files = files
        self._listen = listen
        self._is_told = is_told
        self._worked_at = -inf
        """When the server said last that the agent works; no signal of a status came since."""
        self._on_event = on_event
        self._clock = clock
        self._status: TerminalStatus | None = None
        self._silent = False
        self._file_seen = False
        self._action = ""
        self._question = ""
        self._question_due = inf
        """When a question is reported without its words, if they do not come before that."""
        self._delay = ""
        self._delay_reported = 0.0
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
                if isinstance(signal, TerminalEvent) and signal.kind != "removed":
                    is_still = signal.status.at_rest or signal.status is TerminalStatus.ERROR
                    status = None if is_still else signal.status
                break
            # Signals that mean nothing must not keep us from looking.
            if self._clock.monotonic() >= until:
                break
        if signal is None and self._is_told() and now - self._worked_at < TOLD_SECONDS:
            status = TerminalStatus.PROCESSING
        else:
            status = status or self._ask_status()
            is_working = status is TerminalStatus.PROCESSING
            self._worked_at = self._clock.monotonic() if is_working else -inf
        response = self._response()
        if status is None:
            self._on_silence(self.error)
        else:
            self.on_status(status)
        if response is not None and not self._file_seen:
            self._file_seen = True
            self.report(EventKind.FILE_SEEN, str(self.path))
        reply = None if response is None else response.text
        return Observation(self._clock.monotonic(), status, reply, self._files.is_folder_gone)

    def pause(self, seconds: float) -> None:
        """Let time pass, but not beyond the next thing that happens to the terminal or its file."""
        until = self._clock.monotonic() + seconds
        while (signal := self._next_signal(until)) is not None:
            if self._is_news(signal) or self._clock.monotonic() >= until:
                return

    def ask(self, question: Callable[[], T]) -> T:
        retry = Retry(self._clock.monotonic())
        while True:
            try:
                return question()
            except ApiError as error:
                now = self._clock.monotonic()
                if not is_transient(error) or retry.is_over(now):
                    raise
                self._on_silence(error)
            retry = retry.after_failure()
            self.pause(retry.next_try(now) - now)

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
        now, agent = self._clock.now(), self.agent
        self._on_event(
            HandoffEvent(
                now,
                kind,
                agent.terminal_id,
                agent.role,
                text,
                status,
                since,
                until=until,
                question=question,
            )
        )

    def warn(self, text: str) -> None:
        logger.warning("%s: %s", self.agent, text)
        self.report(EventKind.WARNING, text)

    def on_status(self, status: TerminalStatus) -> None:
        if status is not self._status or self._silent:
            self._status = status
            self._silent = False
            self.report(EventKind.STATUS, status=status)
            asks = status is TerminalStatus.WAITING_USER_ANSWER
            self._question_due = self._clock.monotonic() + WORDS_SECONDS if asks else inf
        if self._question_due < inf and self._question:
            self._report_question()

    def _report_question(self) -> None:
        """Report what the agent asks, else what its screen shows.

        Raise `TurnFailed` if it has to be signed in, which is not done in its terminal.
        """
        self._question_due = inf
        question = self._question
        if not question:
            with suppress(ApiError):
                shown = self._agents.get_question(self.agent.terminal_id) or {}
                if advice := shown.get("advice"):
                    raise self.agent.takes_no_input(str(advice))
                question = str(shown.get("text") or "")[-LONGEST_SHOWN:]
        kind = EventKind.WAITING_FOR_PERSON
        self.report(kind, self.agent.attach, self._status, question=question)

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
        logger.warning("%s: not delivered: %s", self.agent, reason)
        self.report(EventKind.DELAYED, reason, since=self._clock.now() - seconds)

    def _on_silence(self, error: object) -> None:
        if not self._silent:
            self._silent = True
            self.warn(f"the server does not answer; trying again: {error}")

    def _next_signal(self, until: float) -> Signal | None:
        while (signal := self._listen(min(until, self._question_due))) is None:
            if self._question_due >= until:
                return None
            self._report_question()
        return signal

    def _is_news(self, signal: Signal) -> bool:
        match signal:
            case FileSignal(path, change) if path == self.path:
                self._file = self._file.on_event(change)
                # A slow writer causes one for every line; none of them ends the turn.
                return change is not FileChange.WRITING
            case TerminalEvent(terminal_id=name) if name == self.agent.terminal_id:
                if signal.kind in STATUS_KINDS:
                    self._note_words(signal.status, words_of(signal.reason))
                    if signal.wakes and signal.wakes != self.wakes:
                        self.warn(f"it hit a usage limit and goes on by itself at {signal.wakes}")
                    self.wakes = signal.wakes
                    self._worked_at = -inf
                elif signal.kind == "action" and signal.action != self._action:
                    self._action = signal.action
                    self.report(EventKind.ACTION, self._action)
                return signal.kind in NEWS_KINDS
        return isinstance(signal, WakeSignal)

    def _note_words(self, status: TerminalStatus, words: str) -> None:
        """Remember the question; a later signal about the same one may say less."""
        if status is TerminalStatus.ERROR:
            self.trouble = words or self.trouble
        elif status is TerminalStatus.WAITING_USER_ANSWER:
            now = self._clock.monotonic()
            if words or now - self._asked_at > SAME_QUESTION_SECONDS:
                self._question = words
            self._asked_at = now

    def _ask_status(self) -> TerminalStatus | None:
        try:
            return self._agents.get_status(self.agent.terminal_id)
        except ApiError as error:
            if not is_transient(error):
                raise
            self.error = error
            return None

    def _response(self) -> Response | None:
        """Return the response if it is there, complete and not blank; warn of its repairs once."""
        now = self._clock.monotonic()
        signature = self._files.signature(self.agent.role)
        self._file = self._file.on_look(signature, now)
        if signature is None or now < self._file.complete_at:
            return None
        if self._read is not None and self._read[0] == signature:
            return self._read[1]
        response = self._files.read(self.agent.role)
        if self._files.signature(self.agent.role) != signature:
            return None
        self._read = (signature, response)
        for text in response.warnings if response else ():
            self.warn(f"{self.path}: {text}")
        return response
