"""Sends a prompt and waits for its reply: look, ask `wait.py`, act."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from cli_agent_orchestrator.clock import Clock, SystemClock
from cli_agent_orchestrator.config import HandoffRules
from cli_agent_orchestrator.errors import HandoffTimeout, NoResponseFile, TurnFailed
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.delivery import Handover, Letter, Messenger
from cli_agent_orchestrator.handoff.lookout import Lookout, Subject
from cli_agent_orchestrator.handoff.mailbox import Mailbox, QueueMailbox
from cli_agent_orchestrator.handoff.progress import Narrator, OnEvent, ignore
from cli_agent_orchestrator.handoff.replies import (
    Envelope,
    Keep,
    Reply,
    Sent,
    Source,
    keep_nothing,
    reminder_for,
)
from cli_agent_orchestrator.handoff.responses import ResponseFiles, check_size
from cli_agent_orchestrator.handoff.resuming import AGAIN, Situation, Step, first_step
from cli_agent_orchestrator.handoff.stream import StatusStream
from cli_agent_orchestrator.handoff.vigil import Ears, Vigil, heed_nothing
from cli_agent_orchestrator.handoff.wait import (
    Accept,
    Action,
    Fail,
    FallBackToOutput,
    GiveUp,
    Look,
    MissFile,
    TimeOut,
    Wait,
    advance,
)
from cli_agent_orchestrator.handoff.watch import TELLS_OF_CLOSING, Watch, watch_file
from cli_agent_orchestrator.models import Delivery, Feature, TerminalEvent, TerminalStatus

EVENTS_FEATURE = Feature.EVENTS
# A server that takes messages in the body also knows them by their key.
KEYS_FEATURE = Feature.INPUT_BODY

SETTLE_SECONDS = 0.3
LONGEST_SETTLE_SECONDS = 2.0


class Agents(Protocol):
    """What a handoff needs of the server."""

    def features(self) -> frozenset[str]: ...

    def send_input(
        self, terminal_id: str, message: str, *, idempotency_key: str | None = None
    ) -> Delivery: ...

    def get_status(self, terminal_id: str) -> TerminalStatus: ...

    def get_last_output(self, terminal_id: str) -> str: ...

    def events(
        self, after: str | None = None, opened: Callable[[], None] | None = None
    ) -> Iterator[TerminalEvent]: ...

    def close_events(self) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    """What a handoff meets besides the server: time, signals, the file system."""

    clock: Clock = field(default_factory=SystemClock)
    mailbox: Mailbox = field(default_factory=QueueMailbox)
    watch: Watch = watch_file
    heed: Callable[[], None] = heed_nothing
    """Called at every look while something is waited for; what it raises ends the wait."""


class Handoff:
    """Takes turns with agents, one at a time.

    Use it as a context manager, or call `close` when done: it may hold a status stream open.
    Everything but `stop` is called from one thread, and `on_event` is called in that thread.
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
        self._watch = world.watch
        self._ears = Ears(world.mailbox, world.clock, world.heed)
        self._vigil: Vigil | None = None
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
        self._ears.stop()

    def wake(self) -> None:
        """Let the present wait heed what people ask for; any thread may call it."""
        self._ears.wake()

    def send_and_wait(
        self,
        terminal_id: str,
        role: str,
        message: str,
        envelope: Envelope | None = None,
        keep: Keep = keep_nothing,
    ) -> Reply:
        """Send a prompt and return the reply; remind the agent if its file does not come.

        What becomes known about the prompt is given to `keep` before anything else is done.
        A prompt that was sent before is only waited for, and one whose reply was accepted before
        is answered from the archive.
        """
        self._ears.check_stop()
        if envelope is None:
            envelope = Envelope(uuid.uuid4().hex, self._files.next_sequence(), self._clock.now())
        if envelope.sent is not Sent.NO and (kept := self._kept_reply(role, envelope.sequence)):
            return kept
        self._ears.forget()
        self._clear_stale_response(role, envelope)
        with self._watch_over(Subject(terminal_id, role)) as vigil:
            vigil.keep = keep
            certain = self._send(vigil, message, envelope)
            for number in range(1, self.rules.max_reminders + 1):
                try:
                    return self.wait_for_response_file(terminal_id, role, envelope.sequence)
                except NoResponseFile:
                    # Without a task in its hands an agent would answer the reminder alone.
                    if certain:
                        self._remind(vigil, envelope, number)
                    else:
                        why = "nobody knows if the prompt arrived, and no response came"
                        certain = self._ask_again(vigil, message, envelope, why)
            return self.wait_for_response_file(terminal_id, role, envelope.sequence)

    def wait_for_response_file(
        self, terminal_id: str, role: str, sequence: int | None = None
    ) -> Reply:
        """Wait for the reply to a prompt that has been sent, keep it in the archive, return it.

        Raise `HandoffError` if the terminal is in error, `NoResponseFile` if the agent came to
        rest without a file, `HandoffTimeout` if it works for too long, `Stopped` after `stop`.
        """
        with self._watch_over(Subject(terminal_id, role)) as vigil:
            wait = Wait.begin(self._clock.monotonic(), self.rules, vigil.old_error)
            action: Action = Look(wait.began)
            while isinstance(action, Look):
                seen = vigil.observe(action.by)
                # Of a server that does not answer at all, that is told.
                if self._stream is not None and seen.status is not None:
                    self._stream.report(vigil.narrator, self.rules.poll_seconds)
                wait, action = advance(wait, seen, self.rules)
                if isinstance(action, Look) and action.warning:
                    vigil.narrator.warn(action.warning)
            number = self._files.next_sequence() if sequence is None else sequence
            return self._finish(vigil, action, number)

    @contextmanager
    def _watch_over(self, subject: Subject) -> Iterator[Vigil]:
        """Watch over a turn; inside of a watch over the same turn, go on with that."""
        if self._vigil is not None and self._vigil.subject == subject:
            yield self._vigil
            return
        self._files.ensure_response_dir()
        settle = _settle_seconds(self.rules)
        lookout = Lookout(subject, self._agents, self._files, self._clock, settle)
        narrator = Narrator(subject, self._on_event, self._clock)
        with self._watch(lookout.path, self._ears.post):
            self._vigil = Vigil(lookout, narrator, self._ears, self._clock)
            try:
                self._connect(self._vigil)
                yield self._vigil
            finally:
                self._vigil = None

    def _connect(self, vigil: Vigil) -> None:
        """Find out once what the server can do, and listen to it if it tells anything."""
        if self._features is not None:
            return
        self._features = vigil.ask(self._agents.features)
        if EVENTS_FEATURE in self._features:
            self._stream = StatusStream(self._agents, self._ears.post, self._clock)
            self._stream.start()

    def _clear_stale_response(self, role: str, envelope: Envelope) -> None:
        match envelope.sent:
            case Sent.NO:
                self._files.clear_stale_response(role, envelope.sequence)
            case Sent.MAYBE | Sent.FAILED:
                self._files.clear_stale_response(role, envelope.sequence, envelope.since)

    def _send(self, vigil: Vigil, message: str, envelope: Envelope) -> bool:
        """Send a prompt unless the agent has it; return whether it certainly has it now."""
        match self._first_step(vigil, envelope):
            case Step.WAIT:
                vigil.narrator.tell(EventKind.RESUMED)
                return envelope.sent is Sent.YES
            case Step.ASK_AGAIN:
                return self._ask_again(vigil, message, envelope, _why_again(vigil, envelope))
        certain = self._deliver_prompt(vigil, message, envelope.id)
        if certain or envelope.sent is Sent.NO:
            return certain
        why = "nobody knows if the prompt arrived before"
        return self._ask_again(vigil, message, envelope, why)

    def _first_step(self, vigil: Vigil, envelope: Envelope) -> Step:
        if envelope.sent is Sent.NO:
            return Step.SEND
        status = vigil.ask(lambda: self._agents.get_status(vigil.subject.terminal_id))
        vigil.old_error = status is TerminalStatus.ERROR
        responded = vigil.lookout.is_response_there()
        return first_step(Situation(envelope.sent, status, responded, self._knows_keys))

    def _ask_again(self, vigil: Vigil, message: str, envelope: Envelope, why: str) -> bool:
        """Send the whole prompt once more; return whether the agent certainly has it now."""
        vigil.keep(Sent.FAILED)
        vigil.narrator.tell(EventKind.ASKED_AGAIN, why)
        self._files.ensure_response_dir()
        self._files.clear_stale_response(vigil.subject.role, envelope.sequence)
        key = f"{envelope.id}-again-{uuid.uuid4().hex}"
        return self._deliver_prompt(vigil, AGAIN + message, key)

    def _deliver_prompt(self, vigil: Vigil, message: str, key: str) -> bool:
        """Send a prompt, and ask for what became of it; return whether the agent has it."""
        handover = self._deliver(vigil, message, key)
        if not handover.certain and self._knows_keys:
            # By its key the server finds out more: what the agent tells, what its box holds.
            handover = self._deliver(vigil, message, key)
        if handover.certain:
            vigil.keep(Sent.YES)
            vigil.narrator.tell(EventKind.DISPATCHED, handover.detail)
        else:
            vigil.narrator.warn(f"nobody knows if the prompt arrived: {handover.detail}")
            vigil.narrator.tell(EventKind.UNCONFIRMED, handover.detail)
        return handover.certain

    def _remind(self, vigil: Vigil, envelope: Envelope, number: int) -> None:
        text = envelope.reminder or reminder_for(vigil.lookout.path)
        self._files.ensure_response_dir()
        # A key of its own each time: a resumed turn may have to remind in the same words again.
        self._deliver(vigil, text, f"{envelope.id}-reminder-{uuid.uuid4().hex}")
        told = f"reminder {number} of {self.rules.max_reminders}"
        vigil.narrator.tell(EventKind.REMINDED, told)

    def _deliver(self, vigil: Vigil, message: str, key: str) -> Handover:
        self._ears.check_stop()
        messenger = Messenger(self._agents, self._clock, vigil.pause, vigil.narrator)
        letter = Letter(vigil.subject.terminal_id, message, key)
        return messenger.deliver(letter, self._knows_keys)

    @property
    def _knows_keys(self) -> bool:
        return KEYS_FEATURE in (self._features or ())

    def _finish(self, vigil: Vigil, action: Action, sequence: int) -> Reply:
        """Carry out the last action of a wait."""
        attach = f"look at it with `cao attach {vigil.subject.terminal_id}`"
        match action:
            case Accept(text):
                archive = self._files.archive(vigil.subject.role, sequence)
                return _accepted(vigil, Reply(text, archive, sequence, Source.FILE))
            case FallBackToOutput():
                return self._take_output(vigil, sequence)
            case MissFile(seconds):
                raise NoResponseFile(
                    f"{vigil} has been at rest for {seconds:.0f} s without writing "
                    f"{vigil.lookout.path}; {attach}, then resume"
                )
            case TimeOut(seconds):
                raise HandoffTimeout(
                    f"{vigil} has not finished within {seconds:g} s (RESPONSE_TIMEOUT); "
                    f"{attach}; resuming waits for it again"
                )
            case GiveUp() if vigil.lookout.error is not None:
                raise vigil.lookout.error
            case Fail(reason):
                raise TurnFailed(
                    f"{vigil}: {reason}; {attach}. `cao run` asks it again, "
                    "`cao run --replace-terminals` asks a new agent"
                )
        raise AssertionError(action)

    def _take_output(self, vigil: Vigil, sequence: int) -> Reply:
        text = vigil.ask(lambda: self._agents.get_last_output(vigil.subject.terminal_id))
        # A server can send half a character, which is no text.
        text = text.encode(errors="replace").decode()
        check_size(text, f"the last output of {vigil}")
        vigil.narrator.warn("there is no response file; the agent's last output is taken instead")
        archive = self._files.archive_text(vigil.subject.role, sequence, text)
        return _accepted(vigil, Reply(text, archive, sequence, Source.OUTPUT))

    def _kept_reply(self, role: str, sequence: int) -> Reply | None:
        kept = self._files.archived(role, sequence)
        return None if kept is None else Reply(kept[1].text, kept[0], sequence, Source.ARCHIVE)


def _why_again(vigil: Vigil, envelope: Envelope) -> str:
    if vigil.old_error or envelope.sent is Sent.FAILED:
        return "its turn has failed"
    return "nobody knows if the prompt arrived"


def _accepted(vigil: Vigil, reply: Reply) -> Reply:
    vigil.narrator.tell(EventKind.ACCEPTED, str(reply.archive))
    return reply


def _settle_seconds(rules: HandoffRules) -> float:
    """Return how long a file must stay the same if nobody told of its closing."""
    if not TELLS_OF_CLOSING:
        return SETTLE_SECONDS
    return min(max(rules.poll_seconds, SETTLE_SECONDS), LONGEST_SETTLE_SECONDS)
