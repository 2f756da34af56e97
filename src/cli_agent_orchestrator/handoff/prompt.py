"""The prompt of a turn, the reply to it, and what to do first when the turn is taken up.

    prompt was …   and the agent …                       then
    never sent                                           send it
    any other      is in error                           ask again: the turn has failed
    sent           has it                                wait
    maybe sent     has written its response              wait
                   can be asked about by the key         send it: it is typed only once
                   is at work                            wait
                   is at rest                            ask again
    sent, failed   has written its response, or works    wait: somebody made it go on
                   is at rest                            ask again

Asked again means: the whole prompt, under a key of its own, with a note that it may have been seen
before. An agent that may not have the task, or has not worked on it, is never just reminded.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path

from ..core.models import TerminalStatus

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


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when a turn is taken up."""

    sent: Sent
    status: TerminalStatus
    responded: bool
    """Is there a response file?"""
    knows_keys: bool
    """Does the server know messages by their key?"""


def first_step(seen: Situation) -> FirstStep:
    """Return what to do, by the table at the top of this module."""
    if seen.sent is Sent.NO:
        return FirstStep.SEND
    if seen.status is TerminalStatus.ERROR:
        return FirstStep.ASK_AGAIN
    if seen.sent is Sent.YES or seen.responded:
        return FirstStep.WAIT
    if seen.sent is Sent.MAYBE and seen.knows_keys:
        return FirstStep.SEND
    return FirstStep.WAIT if seen.status in AT_WORK else FirstStep.ASK_AGAIN


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
