"""Takes a turn: sends the prompt, looks, asks `wait.py` what to do, and does it."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from .. import errors
from ..core.clock import LONGEST_PAUSE_SECONDS, Clock, Retry, SystemClock, is_transient
from ..core.models import Delivery, Feature, TerminalStatus
from ..core.watch import REPORTS_CLOSE, WatchFile, watch_file
from ..events import EventKind
from ..settings.config import HandoffRules
from .files import ResponseFiles
from .wait import (
    AGAIN,
    AT_WORK,
    End,
    Envelope,
    Reply,
    ReplySource,
    SaveSent,
    Sent,
    TurnEnd,
    Wait,
    advance,
    file_missing_in,
    first_step,
    reminder_for,
)
from .watch import (
    STOPS,
    Agents,
    FileSignal,
    Mailbox,
    OnEvent,
    Signal,
    StatusStream,
    TurnAgent,
    TurnWatch,
    WakeSignal,
)

# A busy agent may be free at any moment, and not every server says so.
LONGEST_BUSY_PAUSE_SECONDS = 2.0
STUCK_SECONDS = 30.0
"""How long an agent at rest may refuse for the same reason, with the same last rows."""
BUSY = 409
NEVER_READY = 422
"""The agent has to be signed in, which is not done in its terminal."""


def deliver(
    watch: TurnWatch, agents: Agents, clock: Clock, text: str, key: str, knows_keys: bool
) -> Delivery:
    """Return how a message was delivered; raise why it was not after five minutes in vain.

    An agent that does not work, and whose screen stays as it is, is given `STUCK_SECONDS`.

    `key` names it, and `knows_keys` if the server types a message only once and says whether the
    agent took it. A server without keys gets nothing again that may have arrived. The time does not
    count for which a terminal refuses because its agent waits for a person.
    """
    agent = watch.agent
    retry = Retry(clock.monotonic())
    reason, since = "", retry.since
    while True:
        try:
            delivery = agents.send_input(agent.terminal_id, text, idempotency_key=key)
            return replace(delivery, confirmed=delivery.confirmed or not knows_keys)
        except errors.ApiError as error:
            refused = error.status_code if isinstance(error, errors.ApiRefused) else 0
            if refused == NEVER_READY:
                raise agent.takes_no_input(error.summary) from error
            is_busy = refused == BUSY
            if not is_busy and not is_transient(error):
                raise
            never_arrived = isinstance(error, errors.ApiUnreachable) and not error.maybe_received
            if not is_busy and not never_arrived and not knows_keys:
                return Delivery(False, str(error))
            retry = retry.after_failure()
            status = _status_of(watch, agents) if is_busy else None
            now = clock.monotonic()
            if status is TerminalStatus.WAITING_USER_ANSWER:
                retry = retry._replace(since=now)
            if status in (None, *AT_WORK) or error.summary != reason:
                reason, since = error.summary, now
            remedy = "check the server"
            if isinstance(error, errors.ApiUnreachable):
                remedy = "check that the server is running (`cao server` starts one)"
            elif is_busy:
                remedy = f"look at it with `{agent.attach}`"
            if retry.is_over(now) or now - since >= STUCK_SECONDS:
                raise errors.HandoffError(
                    f"{agent} could not be sent its message for {retry.seconds(now):.0f} s: "
                    f"{error.summary}\n  First: {remedy}\n  Then:  {agent.resume}",
                    to_resume=agent.resume,
                ) from error
            watch.on_delay(retry.seconds(now), f"{error.summary}; {remedy}")
        longest = LONGEST_BUSY_PAUSE_SECONDS if is_busy else LONGEST_PAUSE_SECONDS
        watch.pause(retry.next_try(now, longest) - now)


def _status_of(watch: TurnWatch, agents: Agents) -> TerminalStatus | None:
    agent = watch.agent
    try:
        status = agents.get_status(agent.terminal_id)
    except errors.ApiError as error:
        if not is_transient(error):
            raise
        return None
    watch.on_status(status)
    if status is TerminalStatus.ERROR:
        raise agent.takes_no_input("it is in the error state")
    return status


UNCHANGED_SECONDS = 0.3
LONGEST_UNCHANGED_SECONDS = 2.0

REMEDIES = """\
  Look at it:                        {attach}
  Send it the prompt again:          {resume} --missing ask
  Take its last answer as its reply: {resume} --missing take"""
SKIP_REVIEW = """
  Count the review as approved:      {resume} --missing skip"""


class World(Struct, frozen=True):
    clock: Clock = field(default_factory=SystemClock)
    mailbox: Mailbox = field(default_factory=Mailbox)
    watch: WatchFile = watch_file
    on_look: Callable[[], None] = lambda: None
    """Called at every look while something is waited for; what it raises ends the wait."""
    run: str = ""


class _Turn(Struct, frozen=True):
    watch: TurnWatch
    message: str
    envelope: Envelope
    save_sent: SaveSent


class Handoff:
    """Takes turns with agents, one at a time; `close` ends its status stream.

    Everything but `stop` and `wake` is called from one thread, and `on_event` in that thread.
    """

    def __init__(
        self,
        agents: Agents,
        files: ResponseFiles,
        rules: HandoffRules,
        on_event: OnEvent,
        world: World,
    ) -> None:
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

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def stop(self) -> None:
        """End this wait and every later one with `Stopped`; signal handlers may call it, too."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Let the present wait look at once at what people ask for; any thread may call it."""
        self._mailbox.post(WakeSignal())

    def send_and_wait(
        self, terminal_id: str, role: str, message: str, envelope: Envelope, save_sent: SaveSent
    ) -> Reply:
        """Send a prompt and return the reply; remind the agent if its file does not come.

        What becomes known about the prompt is given to `save_sent` before anything else is done.
        A prompt that was sent before is only waited for, and one whose reply was accepted before
        is answered from the archive.
        """
        self._check_stop()
        number = envelope.sequence
        if envelope.sent is not Sent.NO and (kept := self._files.archived(role, number)):
            archive, response = kept
            return Reply(response.text, archive, number, "archive")
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
                except errors.NoResponseFile:
                    # Without a task in its hands an agent would answer the reminder alone.
                    if certain:
                        self._files.ensure_response_dir()
                        # A key of its own: a resumed turn may have to remind in the same words.
                        key = f"{envelope.id}-reminder-{uuid.uuid4().hex}"
                        self._deliver(watch, reminder_for(watch.path), key)
                        count = f"reminder {number} of {self.rules.max_reminders}"
                        watch.report(EventKind.REMINDED, count)
                    else:
                        why = "it is unclear whether the prompt arrived, and no response came"
                        certain = self._ask_again(turn, why)
            watch.if_missing = STOPS
            return self._wait(watch, envelope.sequence)

    def wait_for_response_file(self, terminal_id: str, role: str, sequence: int) -> Reply:
        """Wait for the reply to a prompt that has been sent, keep it in the archive, return it.

        Raise `HandoffError` if the terminal is in error, `NoResponseFile` if the agent came to
        rest without a file, `FolderGone` if the folder in which it works is, `HandoffTimeout` if it
        works for too long, `Stopped` after `stop`.
        """
        with self._watch(TurnAgent(terminal_id, role, self._run)) as watch:
            return self._wait(watch, sequence)

    def take_last_output(self, terminal_id: str, role: str, sequence: int) -> Reply:
        with self._watch(TurnAgent(terminal_id, role, self._run)) as watch:
            return self._take_output(watch, sequence, insist=True)

    def _wait(self, watch: TurnWatch, sequence: int) -> Reply:
        wait = Wait.begin(self._clock.monotonic(), self.rules, watch.old_error)
        by, awaited = wait.began, False
        while True:
            seen = watch.observe(by)
            # Of a server that does not answer at all, that is reported.
            if self._stream and seen.status is not None:
                news = self._stream.take_news(self.rules.poll_seconds)
                if news:
                    watch.report(*news)
            wait, action = advance(wait, seen, self.rules)
            if isinstance(action, TurnEnd):
                return self._finish(watch, action, sequence)
            by = action.by
            if action.warning:
                watch.warn(action.warning)
            left = file_missing_in(wait, self.rules)
            if left is not None and not awaited:
                then = watch.if_missing if self.rules.strict else "its last output is taken"
                watch.report(EventKind.FILE_AWAITED, then, until=self._clock.now() + left)
            awaited = left is not None

    def _check_stop(self) -> None:
        if self._stopping:
            raise errors.Stopped("the handoff was stopped")

    def _listen(self, until: float) -> Signal | None:
        self._check_stop()
        self._on_look()
        signal = self._mailbox.wait(until - self._clock.monotonic())
        self._check_stop()
        self._on_look()
        return signal

    @contextmanager
    def _watch(self, agent: TurnAgent) -> Iterator[TurnWatch]:
        self._files.ensure_response_dir()
        unchanged = UNCHANGED_SECONDS
        if REPORTS_CLOSE:
            # That its closing is not reported is rare then.
            unchanged = min(max(self.rules.poll_seconds, unchanged), LONGEST_UNCHANGED_SECONDS)
        watch = TurnWatch(
            agent,
            self._agents,
            self._files,
            self._listen,
            self._on_event,
            self._clock,
            unchanged,
            is_told=lambda: self._stream is not None and self._stream.is_open,
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
        sent, watch, step = turn.envelope.sent, turn.watch, "send"
        if sent is not Sent.NO:
            status = watch.ask(lambda: self._agents.get_status(watch.agent.terminal_id))
            watch.old_error = status is TerminalStatus.ERROR
            responded = self._files.signature(watch.agent.role) is not None
            step = first_step(sent, status, responded, self._knows_keys)
        match step:
            case "wait":
                watch.report(EventKind.RESUMED)
                return sent is Sent.YES
            case "ask_again":
                failed = watch.old_error or sent is Sent.FAILED
                unclear = "it is unclear whether the prompt arrived"
                return self._ask_again(turn, "its last turn failed" if failed else unclear)
        certain = self._deliver_prompt(turn, turn.message, turn.envelope.id)
        if certain or sent is Sent.NO:
            return certain
        return self._ask_again(turn, "it is unclear whether the prompt arrived before")

    def _ask_again(self, turn: _Turn, why: str) -> bool:
        turn.save_sent(Sent.FAILED)
        turn.watch.report(EventKind.ASKED_AGAIN, why)
        self._files.ensure_response_dir()
        self._files.clear_stale_response(turn.watch.agent.role, turn.envelope.sequence)
        key = f"{turn.envelope.id}-again-{uuid.uuid4().hex}"
        return self._deliver_prompt(turn, AGAIN + turn.message, key)

    def _deliver_prompt(self, turn: _Turn, message: str, key: str) -> bool:
        result = self._deliver(turn.watch, message, key)
        if not result.confirmed and self._knows_keys:
            # By its key the server finds out more: what the agent says, what its input box holds.
            result = self._deliver(turn.watch, message, key)
        if result.confirmed:
            turn.save_sent(Sent.YES)
            turn.watch.report(EventKind.DISPATCHED, result.detail)
        else:
            turn.watch.warn(f"it is unclear whether the prompt arrived: {result.detail}")
            turn.watch.report(EventKind.UNCONFIRMED, result.detail)
        return result.confirmed

    def _deliver(self, watch: TurnWatch, message: str, key: str) -> Delivery:
        self._check_stop()
        return deliver(watch, self._agents, self._clock, message, key, self._knows_keys)

    @property
    def _knows_keys(self) -> bool:
        """A server that takes messages in the body also knows them by their key."""
        return Feature.INPUT_BODY in (self._features or ())

    def _finish(self, watch: TurnWatch, over: TurnEnd, sequence: int) -> Reply:
        agent, resume = watch.agent, watch.agent.resume
        match over.end:
            case End.ACCEPTED:
                archive = self._files.archive(agent.role, sequence)
                return self._accept(watch, over.text, archive, sequence, "file")
            case End.WITHOUT_FILE:
                return self._take_output(watch, sequence)
            case End.FILE_MISSING:
                remedies = REMEDIES + (SKIP_REVIEW if agent.is_review else "")
                raise errors.NoResponseFile(
                    f"{agent.role} has been at rest for {over.seconds:.0f} s without writing "
                    f"{self._files.shown(watch.path)}\n"
                    + remedies.format(attach=agent.attach, resume=resume)
                )
            case End.FOLDER_LOST:
                raise errors.FolderGone(self._files.temporary.root, agent.role)
            case End.TIMEOUT:
                limit = f": its usage limit lasts until {watch.wakes}" if watch.wakes else ""
                raise errors.HandoffTimeout(
                    f"{agent.role} did not finish within {self.rules.response_timeout:g} s "
                    f"(RESPONSE_TIMEOUT){limit}\n"
                    f"  Look at it:    {agent.attach}\n  Go on waiting: {resume}",
                    to_resume=resume,
                )
            case End.NO_ANSWER:
                assert watch.error is not None, "there was no answer, and this is why"
                raise watch.error
        said = f" (“{watch.trouble}”)" if watch.trouble else ""
        again = f"\n  Send it the prompt again: {resume}"
        with suppress(errors.ApiError):
            terminal = self._agents.get_terminal(agent.terminal_id)
            if terminal.get("alive") is False:
                code = terminal.get("exit_code")
                how = "" if code is None else f" with exit code {code}"
                said, again = f": its program has ended{how}", ""
        raise errors.TurnFailed(
            f"{agent.role}: the terminal is in the error state{said}{agent.ways_on}{again}",
            to_resume=agent.resume_anew,
        )

    def _take_output(self, watch: TurnWatch, sequence: int, *, insist: bool = False) -> Reply:
        text = watch.ask(lambda: self._agents.get_last_output(watch.agent.terminal_id))
        # A server can send half a character, which is no text.
        text = text.encode(errors="replace").decode()
        if insist and not text.strip():
            raise errors.HandoffError(f"{watch.agent} has no last answer that could be taken")
        watch.warn("there is no response file; using the agent's last output instead")
        archive = self._files.archive_text(watch.agent.role, sequence, text)
        return self._accept(watch, text, archive, sequence, "output")

    def _accept(
        self, watch: TurnWatch, text: str, archive: Path, sequence: int, source: ReplySource
    ) -> Reply:
        watch.report(EventKind.ACCEPTED, str(archive))
        return Reply(text, archive, sequence, source)
