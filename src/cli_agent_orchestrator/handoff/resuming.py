"""How a turn is taken up: is its prompt to be sent, waited for, or asked again?

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

Asked again means: the whole prompt, under a key of its own, with a word that it may have been seen
before. An agent that may not have the task, or has not worked on it, is never just reminded.
"""

from dataclasses import dataclass
from enum import Enum, auto

from cli_agent_orchestrator.handoff.replies import Sent
from cli_agent_orchestrator.models import TerminalStatus

AT_WORK = (TerminalStatus.PROCESSING, TerminalStatus.WAITING_USER_ANSWER)
AGAIN = (
    "You may have had this message before. If so, go on where you stopped, or, if the work is "
    "done, just write the response file; do nothing twice.\n\n"
)


class Step(Enum):
    """What to do first."""

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


def first_step(seen: Situation) -> Step:
    """Return what to do, by the table at the top of this module."""
    if seen.sent is Sent.NO:
        return Step.SEND
    if seen.status is TerminalStatus.ERROR:
        return Step.ASK_AGAIN
    if seen.sent is Sent.YES or seen.responded:
        return Step.WAIT
    if seen.sent is Sent.MAYBE and seen.knows_keys:
        return Step.SEND
    return Step.WAIT if seen.status in AT_WORK else Step.ASK_AGAIN
