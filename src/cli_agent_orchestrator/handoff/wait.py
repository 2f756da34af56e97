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
    answer give up. `Retry` of `core/clock.py` has the schedule.
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
person takes. A stretch that begins with no answer does not count towards the grace: it is
unknown whether the agent was at rest.
"""

import shlex
from collections.abc import Callable
from enum import Enum, StrEnum, auto
from math import inf
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.clock import Retry
from ..core.models import FileChange, TerminalStatus
from ..settings.config import HandoffRules

# Looking without any pause would only burn two processors: ours and the server's.
SHORTEST_PAUSE_SECONDS = 0.02
RESTS_SECONDS = 1.0
"""A file may come a little after its agent; a longer rest without it is worth reporting."""


class Observation(Struct, frozen=True):
    time: float
    status: TerminalStatus | None
    """None if the server gave no answer."""
    response: str | None
    folder_gone: bool = False


class Wait(Struct, frozen=True):
    began: float
    deadline: float
    """When `response_timeout` will have passed, moved on by the time a person was waited for."""
    seen_at: float
    started: bool = False
    """Has the agent been seen at work since the prompt was sent?"""
    released: bool = False
    """Has the startup guard been released although the agent was not seen at work?"""
    idle_since: float | None = None
    old_error: bool = False
    """Was the terminal in error before the prompt was sent, and in no other status since?"""
    asking: bool = False
    silence: Retry | None = None
    """The last requests, if they had no answer."""

    @classmethod
    def begin(cls, now: float, rules: HandoffRules, old_error: bool = False) -> "Wait":
        deadline = now + rules.response_timeout
        return cls(began=now, deadline=deadline, seen_at=now, old_error=old_error)


class KeepWaiting(Struct, frozen=True):
    """Look again when something happens, and at the latest at a certain time."""

    by: float
    warning: str | None = None


class End(Enum):
    ACCEPTED = auto()
    WITHOUT_FILE = auto()
    """The agent's last output is the reply."""
    FILE_MISSING = auto()
    FOLDER_LOST = auto()
    ERROR = auto()
    TIMEOUT = auto()
    NO_ANSWER = auto()


class TurnEnd(Struct, frozen=True):
    end: End
    text: str = ""
    seconds: float = 0.0


Action = KeepWaiting | TurnEnd


def advance(wait: Wait, seen: Observation, rules: HandoffRules) -> tuple[Wait, Action]:
    now, status = seen.time, seen.status
    poll = now + max(rules.poll_seconds, SHORTEST_PAUSE_SECONDS)
    wait = _pass_time(wait, seen)
    if status is None:
        silence = (wait.silence or Retry(now)).after_failure()
        wait = replace(wait, silence=silence)
        if silence.is_over(now):
            return wait, TurnEnd(End.NO_ANSWER, seconds=silence.seconds(now))
        return wait, KeepWaiting(silence.next_try(now))
    wait = replace(wait, silence=None)
    is_error = status is TerminalStatus.ERROR
    if seen.folder_gone and seen.response is None and (status.at_rest or is_error):
        return wait, TurnEnd(End.FOLDER_LOST)
    release = wait.began + rules.idle_grace
    if is_error:
        if wait.old_error and now < release:
            return wait, KeepWaiting(min(poll, release))
        return wait, TurnEnd(End.ERROR)
    wait = replace(wait, old_error=False)
    if not status.at_rest:
        wait = replace(wait, started=True, idle_since=None)
        deadline = inf if wait.asking else wait.deadline
        return wait, TurnEnd(End.TIMEOUT) if now >= deadline else KeepWaiting(min(poll, deadline))
    if seen.response is not None:
        return wait, TurnEnd(End.ACCEPTED, seen.response)
    if not wait.started and not wait.released:
        if now < release:
            return wait, KeepWaiting(min(poll, release))
        warning = (
            f"the agent was not seen at work within {rules.idle_grace:g} s of the prompt; "
            "treating it as idle from now on"
        )
        wait = replace(wait, released=True, idle_since=now)
        return wait, KeepWaiting(min(poll, now + rules.idle_grace), warning)
    since = now if wait.idle_since is None else wait.idle_since
    wait = replace(wait, idle_since=since)
    if now < since + rules.idle_grace:
        return wait, KeepWaiting(min(poll, since + rules.idle_grace))
    end = End.FILE_MISSING if rules.strict else End.WITHOUT_FILE
    return wait, TurnEnd(end, seconds=now - since)


def file_missing_in(wait: Wait, rules: HandoffRules) -> float | None:
    """Return in how many seconds the file counts as missing; None if the agent hardly rests."""
    if wait.idle_since is None or wait.silence is not None:
        return None
    rested = wait.seen_at - wait.idle_since
    return rules.idle_grace - rested if rested >= RESTS_SECONDS else None


def _pass_time(wait: Wait, seen: Observation) -> Wait:
    passed = seen.time - wait.seen_at
    asking = wait.asking
    if seen.status is not None:
        asking = seen.status is TerminalStatus.WAITING_USER_ANSWER
    deadline = wait.deadline + passed if wait.asking else wait.deadline
    idle_since = wait.idle_since
    if idle_since is not None and wait.silence is not None:
        idle_since += passed
    return replace(wait, seen_at=seen.time, asking=asking, deadline=deadline, idle_since=idle_since)


WRITER_SECONDS = 10.0
Signature = tuple[int, int, int]
"""Inode, size and time of the last change of a file, in nanoseconds."""


class FileState(Struct, frozen=True):
    unchanged_seconds: float
    signature: Signature | None = None
    since: float = 0.0
    closed: bool = False
    writing: bool = False
    closing: bool = False

    def on_event(self, change: FileChange) -> "FileState":
        if change is FileChange.TOUCHED:
            return self
        closed = change is FileChange.CLOSED
        return replace(self, closing=closed, writing=not closed)

    def on_look(self, signature: Signature | None, now: float) -> "FileState":
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
    NO = "no"
    MAYBE = "maybe"
    """The run ended while it was sent, or its delivery was not confirmed."""
    YES = "yes"
    FAILED = "failed"


SaveSent = Callable[[Sent], None]
"""Saves what has become known about a prompt, before anything else is done."""


class Envelope(Struct, frozen=True):
    id: str
    sequence: int
    since: float = 0.0
    """Unix time from before the first attempt; an older response file is not its reply."""
    sent: Sent = Sent.NO
    is_review: bool = False
    """Only a review can be skipped if its reply does not come."""


ReplySource = Literal["file", "output", "archive"]
"""`output`: the agent's last one, for want of a file; `archive`: it had been accepted before."""


class Reply(Struct, frozen=True):
    text: str
    archive: Path
    sequence: int
    source: ReplySource


FirstStep = Literal["send", "wait", "ask_again"]
"""`send`: the prompt under its own key."""


def first_step(sent: Sent, status: TerminalStatus, responded: bool, knows_keys: bool) -> FirstStep:
    if sent is Sent.NO:
        return "send"
    if status is TerminalStatus.ERROR:
        return "ask_again"
    if sent is Sent.YES or responded:
        return "wait"
    if sent is Sent.MAYBE and knows_keys:
        return "send"
    return "wait" if status in AT_WORK else "ask_again"


def reminder_for(path: Path) -> str:
    return (
        "Your reply to the task above has not arrived: its response file is not there.\n\n"
        "RESPONSE FILE INSTRUCTION\n"
        "Do not start the task again. Write your complete final response to it with this "
        "command, then stop:\n"
        f"cat > {shlex.quote(str(path))} <<'CAO_RESPONSE_END'\n"
        "<your complete final response>\n"
        "CAO_RESPONSE_END\n"
    )
