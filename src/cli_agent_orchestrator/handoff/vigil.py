"""One turn being watched: waits on the mailbox, looks, and tells what it sees."""

from collections.abc import Callable
from typing import TypeVar

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import ApiError
from cli_agent_orchestrator.handoff.lookout import Hint, Lookout, Subject, is_passing
from cli_agent_orchestrator.handoff.mailbox import Mailbox, Signal, WakeSignal
from cli_agent_orchestrator.handoff.progress import Narrator
from cli_agent_orchestrator.handoff.replies import Keep, keep_nothing
from cli_agent_orchestrator.handoff.wait import SILENCE_SECONDS, Observation, backoff

T = TypeVar("T")


class Stopped(Exception):
    """A turn was left because a stop was asked for; it can be taken up again."""


def heed_nothing() -> None:
    """Do nothing about what people ask for meanwhile."""


class Ears:
    """Listens to the mailbox until a stop is asked for."""

    def __init__(
        self, mailbox: Mailbox, clock: Clock, heed: Callable[[], None] = heed_nothing
    ) -> None:
        """`heed` is called at every look; what it raises ends the wait."""
        self.post = mailbox.post
        self._heed = heed
        self._mailbox = mailbox
        self._clock = clock
        self._stopping = False

    def stop(self) -> None:
        """Let every present and later `listen` raise `Stopped`."""
        self._stopping = True
        self._mailbox.post(WakeSignal())

    def wake(self) -> None:
        """Let a present `listen` heed what people ask for."""
        self._mailbox.post(WakeSignal())

    def listen(self, until: float) -> Signal | None:
        """Return the next signal, or None if none has come by a certain time."""
        self._attend()
        signal = self._mailbox.wait(until - self._clock.monotonic())
        self._attend()
        return signal

    def forget(self) -> None:
        """Drop every signal that has come so far."""
        while self._mailbox.wait(0) is not None:
            pass

    def check_stop(self) -> None:
        """Raise `Stopped` if a stop was asked for."""
        if self._stopping:
            raise Stopped("the handoff was stopped")

    def _attend(self) -> None:
        self.check_stop()
        self._heed()


class Vigil:
    """Watches over one turn."""

    def __init__(self, lookout: Lookout, narrator: Narrator, ears: Ears, clock: Clock) -> None:
        self.lookout = lookout
        self.narrator = narrator
        self.old_error = False
        """Was the terminal in error before the last prompt was sent?"""
        self.keep: Keep = keep_nothing
        """Saves what becomes known about the prompt."""
        self._ears = ears
        self._clock = clock

    @property
    def subject(self) -> Subject:
        return self.lookout.subject

    def __str__(self) -> str:
        return f"{self.subject.role} (terminal {self.subject.terminal_id})"

    def observe(self, by: float) -> Observation:
        """Return the next thing that is seen: after a signal, or by a certain time."""
        seen = self._observe(min(by, self.lookout.settles_at))
        self._tell(seen)
        return seen

    def pause(self, seconds: float) -> None:
        """Let time pass, but not beyond the next thing that happens to the terminal or its file."""
        until = self._clock.monotonic() + seconds
        while (signal := self._ears.listen(until)) is not None:
            if self.lookout.hear(signal) is not Hint.NOTHING or self._clock.monotonic() >= until:
                return

    def ask(self, question: Callable[[], T]) -> T:
        """Return the server's answer; ask again for up to five minutes if there is none."""
        since = self._clock.monotonic()
        failures = 0
        while True:
            try:
                return question()
            except ApiError as error:
                if not is_passing(error) or self._clock.monotonic() >= since + SILENCE_SECONDS:
                    raise
                self.narrator.silence(error)
            failures += 1
            self.pause(backoff(failures))

    def _observe(self, until: float) -> Observation:
        while True:
            signal = self._ears.listen(until)
            if signal is None:
                return self.lookout.look()
            heard = self.lookout.hear(signal)
            if isinstance(heard, Observation):
                return heard
            # The time too: signals that mean nothing must not keep us from looking.
            if heard is Hint.LOOK or self._clock.monotonic() >= until:
                return self.lookout.look()

    def _tell(self, seen: Observation) -> None:
        if seen.status is None:
            self.narrator.silence(self.lookout.error)
        else:
            self.narrator.status(seen.status)
        if seen.response is not None:
            self.narrator.file(self.lookout.path)
        for text in self.lookout.take_warnings():
            self.narrator.warn(f"{self.lookout.path}: {text}")
