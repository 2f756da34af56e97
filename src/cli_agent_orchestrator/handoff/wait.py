"""What to do first when a turn is taken up, and when is it over?

    prompt was …   and the agent …                       then
    never sent                                           send it
    any other      is in error                           ask again: the turn has failed
    sent           has it                                wait
    maybe sent     has written its response              wait
                   can be asked about by the key         send it: it is typed only once
                   is at work                            wait
                   is at rest                            ask again
    sent, failed   has written its response, or works    wait: a person made it continue
                   is at rest                            ask again

Asked again means: the whole prompt, under a key of its own, with a note that it may have been seen
before. An agent that may not have the task, or has not worked on it, is never just reminded.

A wait begins when the prompt has been sent. It is fed observations, each with the time, the
status of the terminal and the text of the response file if that is complete, and answers each
with what to do. The first rule that fits decides:

1.  No answer from the server: ask again, a little later each time; after five minutes without an
    answer give up. `retry.py` has the schedule.
2.  At rest or in `error` without a response, and the folder in which the agent works is gone: end.
    An agent cannot go on there.
3.  `error`: fail at once. But an error that was there before the prompt was sent is the last
    turn's, until the agent is seen in another status or `idle_grace` seconds have passed.
4.  At rest (`idle` or `completed`) and the response is there: accept it, whatever else holds.
5.  At rest without a response, and the agent has not been seen at work since the prompt was sent:
    the status may be the last turn's, so the idle grace does not count yet. This guard falls when
    the agent is seen at work, or after `idle_grace` seconds with a warning; the grace begins then.
6.  At rest without a response for `idle_grace` seconds on end: the file is missing if the handoff
    is strict, else the agent's last output has to do. Any other status in between starts the
    grace again.
7.  Not at rest when `response_timeout` has passed: time out.
8.  Otherwise look again, after `poll_seconds` at the latest.

"At work" is every status but `idle`, `completed` and `error`. `unknown` is among them: the
specification releases the guard on any other status, and a server that has a word of its own for
a busy agent is read as `unknown` too. A guard released too early costs little, for the grace
still counts only uninterrupted rest. Nothing is ever accepted in `unknown`, and it times out.

A stretch of time belongs to the observation it begins with. A stretch that begins with
`waiting_user_answer` does not count towards `response_timeout`: a person may take as long as a
person takes. A stretch that begins with no answer does not count towards the grace: nobody saw
whether the agent was at rest.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from math import inf
from pathlib import Path

from ..core.clock import Retry
from ..core.models import FileChange, TerminalStatus
from ..settings.config import HandoffRules

# Looking without any pause would only burn two processors: ours and the server's.
SHORTEST_PAUSE_SECONDS = 0.02
RESTS_SECONDS = 1.0
"""A file may come a little after its agent; a longer rest without it is worth reporting."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen at one moment."""

    time: float
    status: TerminalStatus | None
    """None if the server gave no answer."""
    response: str | None
    """The text of the response file, if it is there, complete and not blank."""
    folder_gone: bool = False
    """Is the folder in which the agent works not there any more?"""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a wait remembers from one observation to the next."""

    began: float
    deadline: float
    """When `response_timeout` will have passed, moved on by the time a person was waited for."""
    seen_at: float
    """The time of the last observation."""
    started: bool = False
    """Has the agent been seen at work since the prompt was sent?"""
    released: bool = False
    """Has the startup guard been released although the agent was not seen at work?"""
    idle_since: float | None = None
    old_error: bool = False
    """Was the terminal in error before the prompt was sent, and in no other status since?"""
    asking: bool = False
    """Did the agent wait for a person when its status was last known?"""
    silence: Retry | None = None
    """The last requests, if they had no answer."""

    @classmethod
    def begin(cls, now: float, rules: HandoffRules, old_error: bool = False) -> "Wait":
        """Return the wait for a prompt that has just been sent, perhaps to a failed agent."""
        deadline = now + rules.response_timeout
        return cls(began=now, deadline=deadline, seen_at=now, old_error=old_error)


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    """Look again when something happens, and at the latest at a certain time."""

    by: float
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Accept:
    """The turn is over; this is the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class FallBackToOutput:
    """The turn is over without a file; the agent's last output is the reply."""


@dataclass(frozen=True, slots=True)
class FileMissing:
    """The agent came to rest without writing its file."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """The turn cannot end well."""

    reason: str


@dataclass(frozen=True, slots=True)
class FolderLost:
    """The folder in which the agent works is gone."""


@dataclass(frozen=True, slots=True)
class TimeOut:
    """The turn took too long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The server has not answered for too long."""

    seconds: float


TurnEnd = Accept | FallBackToOutput | FileMissing | FolderLost | Fail | TimeOut | GiveUp
Action = KeepWaiting | TurnEnd


def advance(wait: Wait, seen: Observation, rules: HandoffRules) -> tuple[Wait, Action]:
    """Return what the wait remembers after an observation, and what to do."""
    wait = _pass_time(wait, seen)
    if seen.status is None:
        return _without_answer(wait, seen.time)
    wait = replace(wait, silence=None)
    is_still = seen.status.at_rest or seen.status is TerminalStatus.ERROR
    if seen.folder_gone and is_still and seen.response is None:
        return wait, FolderLost()
    if seen.status is TerminalStatus.ERROR:
        return _in_error(wait, seen.time, rules)
    wait = replace(wait, old_error=False)
    if not seen.status.at_rest:
        return _at_work(wait, seen.time, rules)
    if seen.response is not None:
        return wait, Accept(seen.response)
    if not wait.started and not wait.released:
        return _guarded(wait, seen.time, rules)
    return _at_rest(wait, seen.time, rules)


def file_missing_in(wait: Wait, rules: HandoffRules) -> float | None:
    """Return in how many seconds the file counts as missing; None if the agent hardly rests."""
    if wait.idle_since is None or wait.silence is not None:
        return None
    rested = wait.seen_at - wait.idle_since
    return rules.idle_grace - rested if rested >= RESTS_SECONDS else None


def _pass_time(wait: Wait, seen: Observation) -> Wait:
    """Take out of the two clocks what does not count."""
    passed = seen.time - wait.seen_at
    asking = wait.asking
    if seen.status is not None:
        asking = seen.status is TerminalStatus.WAITING_USER_ANSWER
    deadline = wait.deadline + passed if wait.asking else wait.deadline
    idle_since = wait.idle_since
    if idle_since is not None and wait.silence is not None:
        idle_since += passed
    return replace(wait, seen_at=seen.time, asking=asking, deadline=deadline, idle_since=idle_since)


def _without_answer(wait: Wait, now: float) -> tuple[Wait, Action]:
    silence = (wait.silence or Retry(now)).after_failure()
    wait = replace(wait, silence=silence)
    if silence.is_over(now):
        return wait, GiveUp(silence.seconds(now))
    return wait, KeepWaiting(silence.next_try(now))


def _in_error(wait: Wait, now: float, rules: HandoffRules) -> tuple[Wait, Action]:
    release = wait.began + rules.idle_grace
    if wait.old_error and now < release:
        return wait, KeepWaiting(min(_next_poll(now, rules), release))
    return wait, Fail("the terminal is in the error state")


def _at_work(wait: Wait, now: float, rules: HandoffRules) -> tuple[Wait, Action]:
    wait = replace(wait, started=True, idle_since=None)
    if wait.asking:
        return wait, KeepWaiting(_next_poll(now, rules))
    if now >= wait.deadline:
        return wait, TimeOut(rules.response_timeout)
    return wait, KeepWaiting(min(_next_poll(now, rules), wait.deadline))


def _guarded(wait: Wait, now: float, rules: HandoffRules) -> tuple[Wait, Action]:
    release = wait.began + rules.idle_grace
    if now < release:
        return wait, KeepWaiting(min(_next_poll(now, rules), release))
    warning = (
        f"the agent was not seen at work within {rules.idle_grace:g} s of the prompt; "
        "treating it as idle from now on"
    )
    wait = replace(wait, released=True, idle_since=now)
    return wait, KeepWaiting(min(_next_poll(now, rules), now + rules.idle_grace), warning)


def _at_rest(wait: Wait, now: float, rules: HandoffRules) -> tuple[Wait, Action]:
    since = now if wait.idle_since is None else wait.idle_since
    wait = replace(wait, idle_since=since)
    if now >= since + rules.idle_grace:
        return wait, FileMissing(now - since) if rules.strict else FallBackToOutput()
    return wait, KeepWaiting(min(_next_poll(now, rules), since + rules.idle_grace))


def _next_poll(now: float, rules: HandoffRules) -> float:
    return now + max(rules.poll_seconds, SHORTEST_PAUSE_SECONDS)


WRITER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells two forms of a file apart without reading it."""

    inode: int
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class FileState:
    """What is known about the file at one path."""

    unchanged_seconds: float
    """How long a file must stay unchanged if nobody reports its closing."""
    signature: Signature | None = None
    since: float = 0.0
    """When the file was first seen in this form."""
    closed: bool = False
    """Was it closed in this form?"""
    writing: bool = False
    """Has a writer been noticed that has not closed it?"""
    closing: bool = False
    """Was it closed after it was last looked at?"""

    def on_event(self, change: FileChange) -> "FileState":
        """Return what is known after the file watch has reported a change."""
        if change is FileChange.TOUCHED:
            return self
        closed = change is FileChange.CLOSED
        return replace(self, closing=closed, writing=not closed)

    def on_look(self, signature: Signature | None, now: float) -> "FileState":
        """Return what is known after a look at the file; None if it is not there."""
        if signature is None:
            return replace(self, signature=None, closing=False)
        if signature == self.signature:
            return replace(self, closed=self.closed or self.closing, closing=False)
        return replace(self, signature=signature, since=now, closed=self.closing, closing=False)

    @property
    def complete_at(self) -> float:
        """When the file counts as complete if nothing more happens to it."""
        if self.signature is None:
            return inf
        if self.closed:
            return self.since
        return self.since + (WRITER_SECONDS if self.writing else self.unchanged_seconds)


AT_WORK = (TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER)
AGAIN = (
    "You may have had this message before. If so, go on where you stopped, or, if the work is "
    "done, just write the response file; do nothing twice.\n\n"
)


class Sent(StrEnum):
    """What is known about the prompt of a turn that may have been begun before."""

    NO = "no"
    """It was never sent."""
    MAYBE = "maybe"
    """Nobody knows: the run ended while it was sent, or its delivery was not confirmed."""
    YES = "yes"
    """The agent has it; the reply may be there already."""
    FAILED = "failed"
    """The agent had it, and its turn failed."""


SaveSent = Callable[[Sent], None]
"""Saves what has become known about a prompt, before anything else is done."""


def save_nothing(sent: Sent) -> None:
    """Save nothing, for a turn that is not to outlive its process."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One prompt on its way; with the same values it can be taken up again after a crash."""

    id: str
    """The idempotency key of the prompt."""
    sequence: int
    """The number its reply gets in the archive."""
    since: float = 0.0
    """Unix time from before the first attempt; an older response file is not its reply."""
    sent: Sent = Sent.NO
    reminder: str = ""
    """What to say if the file does not come; empty for the usual words."""
    is_review: bool = False
    """Only a review can be skipped if its reply does not come."""


class ReplySource(StrEnum):
    """Where a reply came from."""

    FILE = "file"
    OUTPUT = "output"
    """The agent's last output, for want of a file."""
    ARCHIVE = "archive"
    """It had been accepted before."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered."""

    text: str
    archive: Path
    """Where it is kept."""
    sequence: int
    source: ReplySource


class FirstStep(Enum):
    """What to do first when a turn is taken up."""

    SEND = auto()
    """Send the prompt under its own key."""
    WAIT = auto()
    ASK_AGAIN = auto()


def first_step(sent: Sent, status: TerminalStatus, responded: bool, knows_keys: bool) -> FirstStep:
    """Return what to do, by the table at the top of this module.

    `responded` if there is a response file, `knows_keys` if the server knows messages by their key.
    """
    if sent is Sent.NO:
        return FirstStep.SEND
    if status is TerminalStatus.ERROR:
        return FirstStep.ASK_AGAIN
    if sent is Sent.YES or responded:
        return FirstStep.WAIT
    if sent is Sent.MAYBE and knows_keys:
        return FirstStep.SEND
    return FirstStep.WAIT if status in AT_WORK else FirstStep.ASK_AGAIN


def reminder_for(path: Path) -> str:
    """Return the usual words for an agent that has not written its response file."""
    return (
        "Your reply to the task above has not arrived: its response file is not there.\n\n"
        "RESPONSE FILE INSTRUCTION\n"
        "Do not start the task again. Write your complete final response to it with this "
        "command, then stop:\n"
        f"cat > {shlex.quote(str(path))} <<'CAO_RESPONSE_END'\n"
        "<your complete final response>\n"
        "CAO_RESPONSE_END\n"
    )
