"""A prompt on its way and the reply that comes back."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


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


Keep = Callable[[Sent], None]
"""Takes what has become known about a prompt, and saves it."""


def keep_nothing(sent: Sent) -> None:
    """Take it, and save nothing."""


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


class Source(StrEnum):
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
    source: Source


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
