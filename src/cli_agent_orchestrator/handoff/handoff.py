"""Takes a turn: sends the prompt, looks, asks `wait.py` what to do, and does it."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from types import TracebackType
from typing import Self

from ..core.clock import LONGEST_PAUSE_SECONDS, Clock, Retry, SystemClock, is_transient
from ..core.models import Delivery, Feature, TerminalStatus
from ..core.watch import REPORTS_CLOSE, WatchFile, watch_file
from ..errors import (
    ApiError,
    ApiRefused,
    ApiUnreachable,
    FolderGone,
    HandoffError,
    HandoffTimeout,
    NoResponseFile,
    Stopped,
    TurnFailed,
)
from ..events import EventKind
from ..settings.config import HandoffRules
from .files import ResponseFiles, check_size
from .wait import (
    AGAIN,
    Accept,
    Action,
    Envelope,
    Fail,
    FallBackToOutput,
    FileMissing,
    FirstStep,
    FolderLost,
    GiveUp,
    KeepWaiting,
    Reply,
    ReplySource,
    SaveSent,
    Sent,
    TimeOut,
    TurnEnd,
    Wait,
    advance,
    file_missing_in,
    first_step,
    reminder_for,
    save_nothing,
)
from .watch import (
    STOPS,
    Agents,
    FileSignal,
    Mailbox,
    OnEvent,
    QueueMailbox,
    Signal,
    StatusStream,
    TurnAgent,
    TurnReporter,
    TurnWatch,
    WakeSignal,
    ignore,
)

# A busy agent may be free at any moment, and not every server says so.
LONGEST_BUSY_PAUSE_SECONDS = 2.0
NEVER_READY = 422
"""The agent has to be signed in, which is not done in its terminal."""


class SendFailure(Enum):
    """What a failed attempt to deliver a message means."""

    AGAIN = "again"
    """It did not arrive, or a second copy does no harm."""
    BUSY = "busy"
    """The terminal cannot take input now; nothing was typed."""
    UNCERTAIN = "uncertain"
    """Nobody knows whether it arrived."""
    FINAL = "final"
    """It did not arrive and never will."""


def judge_failure(error: ApiError, knows_keys: bool) -> SendFailure:
    """Return what a failed attempt means to a server that knows messages by key, or does not."""
    match error:
        case ApiRefused(status_code=409):
            return SendFailure.BUSY
        case ApiUnreachable(maybe_received=False):
            return SendFailure.AGAIN
    if not is_transient(error):
        return SendFailure.FINAL
    return SendFailure.AGAIN if knows_keys else SendFailure.UNCERTAIN


def deliver(
    watch: TurnWatch, agents: Agents, clock: Clock, text: str, key: str, knows_keys: bool
) -> Delivery:
    """Return how a message was delivered; raise why it was not after five minutes in vain.

    `key` names it, and `knows_keys` if the server types a message only once and says whether the
    agent took it. The time a terminal refuses because its agent waits for a person does not count.
    """
    agent = watch.agent
    retry = Retry(clock.monotonic())
    while True:
        try:
            delivery = agents.send_input(agent.terminal_id, text, idempotency_key=key)
            return replace(delivery, confirmed=delivery.confirmed or not knows_keys)
        except ApiError as error:
            failure = judge_failure(error, knows_keys)
            if failure is SendFailure.UNCERTAIN:
                return Delivery(False, str(error))
            if isinstance(error, ApiRefused) and error.status_code == NEVER_READY:
                raise TurnFailed(
                    f"{agent} takes no input: {error.summary}{agent.ways_on}",
                    to_resume=agent.resume_anew,
                ) from error
            if failure is SendFailure.FINAL:
                raise
            retry = retry.after_failure()
            if failure is SendFailure.BUSY and _waits_for_person(watch, agents):
                retry = retry.counted_from(clock.monotonic())
            now = clock.monotonic()
            remedy = "check the server"
            if isinstance(error, ApiUnreachable):
                remedy = "check that the server is running (`cao server` starts one)"
            elif failure is SendFailure.BUSY:
                remedy = f"look at it with `{agent.attach}`"
            if retry.is_over(now):
                raise HandoffError(
                    f"{agent} could not be sent its message for {retry.seconds(now):.0f} s: "
                    f"{error.summary}\n  First: {remedy}\n  Then:  {agent.resume}",
                    to_resume=agent.resume,
                ) from error
            watch.reporter.on_delay(retry.seconds(now), f"{error.summary}; {remedy}")
        busy = failure is SendFailure.BUSY
        longest = LONGEST_BUSY_PAUSE_SECONDS if busy else LONGEST_PAUSE_SECONDS
        watch.pause(retry.next_try(now, longest) - now)


def _waits_for_person(watch: TurnWatch, agents: Agents) -> bool:
    agent = watch.agent
    try:
        status = agents.get_status(agent.terminal_id)
    except ApiError as error:
        if not is_transient(error):
            raise
        return False
    watch.reporter.on_status(status)
    if status is TerminalStatus.ERROR:
        raise TurnFailed(
            f"{agent} takes no input: it is in the error state{agent.ways_on}",
            to_resume=agent.resume_anew,
        )
    return status is TerminalStatus.WAITING_USER_ANSWER


UNCHANGED_SECONDS = 0.3
LONGEST_UNCHANGED_SECONDS = 2.0

REMEDIES = """\
  Look at it:                        {attach}
  Send it the prompt again:          {resume} --missing ask
  Take its last answer as its reply: {resume} --missing take"""
SKIP_REVIEW = """
  Count the review as approved:      {resume} --missing skip"""


@dataclass(frozen=True, slots=True)
class World:
    """What a handoff meets besides the server: time, signals, the file system."""

    clock: Clock = field(default_factory=SystemClock)
    mailbox: Mailbox = field(default_factory=QueueMailbox)
    watch: WatchFile = watch_file
    on_look: Callable[[], None] = lambda: None
    """Called at every look while something is waited for; what it raises ends the wait."""
    run: str = ""
    """How a person names the run; empty if there is none."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A prompt that is to be answered, and what watches over that."""

    watch: TurnWatch
    message: str
    envelope: Envelope
    save_sent: SaveSent


class Handoff:
    """Takes turns with agents, one at a time.

    Use it as a context manager, or call `close` when done: it may hold a status stream open.
    Everything but `stop` and `wake` is called from one thread, and `on_event` in that thread.
    """

    def __init__(
        self,
        agents: Agents,
        files: ResponseFiles,
        rules: HandoffRules,
        on_event: OnEvent = ignore,
        world: World | None = None,
    ) -> None:
        world = world or World()
        self._agents = agents
        self._files = files
        self.rules = rules
        """May be changed between two turns."""
        self._on_event = on_event
        self._clock = world.clock
        self._watch_file = world.watch
        self._run = world.run
        self._mailbox = world.mailbox
        self._on_look = world.on_look
        self._stopping = False
        self._features: frozenset[str] | None = None
        self._stream: StatusStream | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the status stream."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def stop(self) -> None:
        """Leave the present wait at once, and every later one, with `Stopped`.

        Any thread may call it, and a signal handler too.
        """
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Let the present wait look at once at what people ask for; any thread may call it."""
        self._mailbox.post(WakeSignal())

    def send_and_wait(
        self,
        terminal_id: str,
        role: str,
        message: str,
        envelope: Envelope | None = None,
        save_sent: SaveSent = save_nothing,
    ) -> Reply:
        """Send a prompt and return the reply; remind the agent if its file does not come.

        What becomes known about the prompt is given to `save_sent` before anything else is done.
        A prompt that was sent before is only waited for, and one whose reply was accepted before
        is answered from the archive.
        """
        self._check_stop()
        if envelope is None:
            envelope = Envelope(uuid.uuid4().hex, self._files.next_sequence(), self._clock.now())
        number = envelope.sequence
        if envelope.sent is not Sent.NO and (kept := self._files.archived(role, number)):
            archive, response = kept
            return Reply(response.text, archive, number, ReplySource.ARCHIVE)
        while self._mailbox.wait(0) is not None:
            pass  # what was signalled before says nothing about this turn
        if envelope.sent is not Sent.YES:
            before = None if envelope.sent is Sent.NO else envelope.since
            self._files.clear_stale_response(role, envelope.sequence, before)
        agent = TurnAgent(terminal_id, role, self._run, envelope.is_review)
        with self._watch(agent) as watch:
            turn = _Turn(watch, message, envelope, save_sent)
            certain = self._send(turn)
            for number in range(1, self.rules.max_reminders + 1):
                watch.if_missing = "it is reminded" if certain else "it is asked again"
                try:
                    return self._wait(watch, envelope.sequence)
                except NoResponseFile:
                    # Without a task in its hands an agent would answer the reminder alone.
                    if certain:
                        self._remind(turn, number)
                    else:
                        why = "it is unclear whether the prompt arrived, and no response came"
                        certain = self._ask_again(turn, why)
            watch.if_missing = STOPS
            return self._wait(watch, envelope.sequence)

    def wait_for_response_file(
        self, terminal_id: str, role: str, sequence: int | None = None
    ) -> Reply:
        """Wait for the reply to a prompt that has been sent, keep it in the archive, return it.

        Raise `HandoffError` if the terminal is in error, `NoResponseFile` if the agent came to
        rest without a file, `FolderGone` if the folder in which it works is, `HandoffTimeout` if it
        works for too long, `Stopped` after `stop`.
        """
        with self._watch(TurnAgent(terminal_id, role, self._run)) as watch:
            return self._wait(watch, sequence)

    def take_last_output(self, terminal_id: str, role: str, sequence: int) -> Reply:
        """Keep the agent's last output as its reply, and return it; raise if it is empty."""
        with self._watch(TurnAgent(terminal_id, role, self._run)) as watch:
            return self._take_output(watch, sequence, insist=True)

    def _wait(self, watch: TurnWatch, sequence: int | None) -> Reply:
        """Look and ask `wait.py`, until that says that the turn is over."""
        wait = Wait.begin(self._clock.monotonic(), self.rules, watch.old_error)
        action: Action = KeepWaiting(wait.began)
        awaited = False
        while isinstance(action, KeepWaiting):
            seen = watch.observe(action.by)
            # Of a server that does not answer at all, that is reported.
            if self._stream and seen.status is not None:
                news = self._stream.take_news(self.rules.poll_seconds)
                if news:
                    watch.reporter.report(*news)
            wait, action = advance(wait, seen, self.rules)
            if not isinstance(action, KeepWaiting):
                break
            if action.warning:
                watch.reporter.warn(action.warning)
            left = file_missing_in(wait, self.rules)
            if left is not None and not awaited:
                taken = "its last output is taken"
                consequence = watch.if_missing if self.rules.strict else taken
                until = self._clock.now() + left
                watch.reporter.report(EventKind.FILE_AWAITED, consequence, until=until)
            awaited = left is not None
        number = self._files.next_sequence() if sequence is None else sequence
        return self._finish(watch, action, number)

    def _check_stop(self) -> None:
        if self._stopping:
            raise Stopped("the handoff was stopped")

    def _listen(self, until: float) -> Signal | None:
        """Return the next signal, or None if none has come by a certain time."""
        self._check_stop()
        self._on_look()
        signal = self._mailbox.wait(until - self._clock.monotonic())
        self._check_stop()
        self._on_look()
        return signal

    @contextmanager
    def _watch(self, agent: TurnAgent) -> Iterator[TurnWatch]:
        """Watch a turn of an agent while the context lasts."""
        self._files.ensure_response_dir()
        unchanged = UNCHANGED_SECONDS
        if REPORTS_CLOSE:
            # That its closing is not reported is rare then.
            unchanged = min(max(self.rules.poll_seconds, unchanged), LONGEST_UNCHANGED_SECONDS)
        reporter = TurnReporter(agent, self._on_event, self._clock)
        watch = TurnWatch(
            agent, self._agents, self._files, self._listen, reporter, self._clock, unchanged
        )
        with self._watch_file(
            watch.path, lambda change: self._mailbox.post(FileSignal(watch.path, change))
        ):
            # What the server can do is found out once, and it is listened to if it has events.
            if self._features is None:
                self._features = watch.ask(self._agents.features)
                if Feature.EVENTS in self._features:
                    self._stream = StatusStream(self._agents, self._mailbox.post, self._clock)
                    self._stream.start()
            yield watch

    def _send(self, turn: _Turn) -> bool:
        """Send a prompt unless the agent has it; return whether it certainly has it now."""
        sent, watch, step = turn.envelope.sent, turn.watch, FirstStep.SEND
        if sent is not Sent.NO:
            status = watch.ask(lambda: self._agents.get_status(watch.agent.terminal_id))
            watch.old_error = status is TerminalStatus.ERROR
            responded = self._files.signature(watch.agent.role) is not None
            step = first_step(sent, status, responded, self._knows_keys)
        match step:
            case FirstStep.WAIT:
                watch.reporter.report(EventKind.RESUMED)
                return sent is Sent.YES
            case FirstStep.ASK_AGAIN:
                failed = watch.old_error or sent is Sent.FAILED
                unclear = "it is unclear whether the prompt arrived"
                return self._ask_again(turn, "its last turn failed" if failed else unclear)
        certain = self._deliver_prompt(turn, turn.message, turn.envelope.id)
        if certain or sent is Sent.NO:
            return certain
        return self._ask_again(turn, "it is unclear whether the prompt arrived before")

    def _ask_again(self, turn: _Turn, why: str) -> bool:
        """Send the whole prompt once more; return whether the agent certainly has it now."""
        turn.save_sent(Sent.FAILED)
        turn.watch.reporter.report(EventKind.ASKED_AGAIN, why)
        self._files.ensure_response_dir()
        self._files.clear_stale_response(turn.watch.agent.role, turn.envelope.sequence)
        key = f"{turn.envelope.id}-again-{uuid.uuid4().hex}"
        return self._deliver_prompt(turn, AGAIN + turn.message, key)

    def _deliver_prompt(self, turn: _Turn, message: str, key: str) -> bool:
        """Send a prompt, and ask for what became of it; return whether the agent has it."""
        result = self._deliver(turn.watch, message, key)
        if not result.confirmed and self._knows_keys:
            # By its key the server finds out more: what the agent says, what its input box holds.
            result = self._deliver(turn.watch, message, key)
        reporter = turn.watch.reporter
        if result.confirmed:
            turn.save_sent(Sent.YES)
            reporter.report(EventKind.DISPATCHED, result.detail)
        else:
            reporter.warn(f"it is unclear whether the prompt arrived: {result.detail}")
            reporter.report(EventKind.UNCONFIRMED, result.detail)
        return result.confirmed

    def _remind(self, turn: _Turn, number: int) -> None:
        text = turn.envelope.reminder or reminder_for(turn.watch.path)
        self._files.ensure_response_dir()
        # A key of its own each time: a resumed turn may have to remind in the same words again.
        self._deliver(turn.watch, text, f"{turn.envelope.id}-reminder-{uuid.uuid4().hex}")
        count = f"reminder {number} of {self.rules.max_reminders}"
        turn.watch.reporter.report(EventKind.REMINDED, count)

    def _deliver(self, watch: TurnWatch, message: str, key: str) -> Delivery:
        self._check_stop()
        return deliver(watch, self._agents, self._clock, message, key, self._knows_keys)

    @property
    def _knows_keys(self) -> bool:
        """A server that takes messages in the body also knows them by their key."""
        return Feature.INPUT_BODY in (self._features or ())

    def _finish(self, watch: TurnWatch, end: TurnEnd, sequence: int) -> Reply:
        """Return the reply that a turn ended with, or raise why there is none."""
        attach, resume = watch.agent.attach, watch.agent.resume
        match end:
            case Accept(text):
                archive = self._files.archive(watch.agent.role, sequence)
                return _accepted(watch, Reply(text, archive, sequence, ReplySource.FILE))
            case FallBackToOutput():
                return self._take_output(watch, sequence)
            case FileMissing(seconds):
                remedies = REMEDIES + (SKIP_REVIEW if watch.agent.is_review else "")
                raise NoResponseFile(
                    f"{watch.agent.role} has been at rest for {seconds:.0f} s without writing "
                    f"{self._files.shown(watch.path)}\n"
                    + remedies.format(attach=attach, resume=resume)
                )
            case FolderLost():
                raise FolderGone(self._files.temporary.root, watch.agent.role)
            case TimeOut(seconds):
                raise HandoffTimeout(
                    f"{watch.agent.role} did not finish within {seconds:g} s "
                    f"(RESPONSE_TIMEOUT)\n  Look at it:    {attach}\n  Go on waiting: {resume}",
                    to_resume=resume,
                )
            case GiveUp() if watch.error is not None:
                raise watch.error
            case Fail(reason):
                said = f" (“{watch.trouble}”)" if watch.trouble else ""
                again = f"\n  Send it the prompt again: {resume}"
                if how := self._how_it_ended(watch.agent.terminal_id):
                    said, again = f": {how}", ""
                raise TurnFailed(
                    f"{watch.agent.role}: {reason}{said}{watch.agent.ways_on}{again}",
                    to_resume=watch.agent.resume_anew,
                )
        raise AssertionError(end)

    def _how_it_ended(self, terminal_id: str) -> str:
        """Say how the program of an agent has ended; nothing if it runs, or nobody knows."""
        try:
            terminal = self._agents.get_terminal(terminal_id)
        except ApiError:
            return ""
        if terminal.get("alive") is not False:
            return ""
        code = terminal.get("exit_code")
        return "its program has ended" + ("" if code is None else f" with exit code {code}")

    def _take_output(self, watch: TurnWatch, sequence: int, *, insist: bool = False) -> Reply:
        text = watch.ask(lambda: self._agents.get_last_output(watch.agent.terminal_id))
        # A server can send half a character, which is no text.
        text = text.encode(errors="replace").decode()
        check_size(text, f"the last output of {watch.agent}")
        if insist and not text.strip():
            raise HandoffError(f"{watch.agent} has no last answer that could be taken")
        watch.reporter.warn("there is no response file; using the agent's last output instead")
        archive = self._files.archive_text(watch.agent.role, sequence, text)
        return _accepted(watch, Reply(text, archive, sequence, ReplySource.OUTPUT))


def _accepted(watch: TurnWatch, reply: Reply) -> Reply:
    watch.reporter.report(EventKind.ACCEPTED, str(reply.archive))
    return reply
