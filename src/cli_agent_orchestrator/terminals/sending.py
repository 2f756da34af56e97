"""Typing a message as a transaction: pasted, submitted, and confirmed by a positive sign.

A pure machine: `advance` gets what can be seen and returns what to do next. Its rules:

1. Nothing is typed unless the agent is at rest (or failed, but alive) and its input box is in
   sight. Text that a person left in the box is not ours to merge with or to remove; what an
   earlier message of ours left there, or the agent put back there, is cleared first.
2. Enter is pressed only after the pasted text is seen in the box: a paste that is still being
   read swallows it. Text that came behind what the box held before is taken back.
3. Taken means: the agent's own signal after the Enter, a busy screen, or an input box that is
   empty again after it held our text.
4. Text that stays in the box is an Enter that got lost: it is pressed again, a few times, after
   longer and longer waits.
5. What was not confirmed is never called sent.
6. A question counts when it stays: half a frame may look like one.
"""

from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from ..core.models import Delivery, TerminalStatus

REDRAW_SECONDS = 2.0
"""How long the input box may be hidden, or show the previous message, while it is redrawn."""
BOX_SECONDS = 10.0
"""How long a pasted text may take to appear in the input box."""
CLEAR_SECONDS = 1.0
ENTER_SECONDS = (1.0, 1.0, 2.0, 3.0, 5.0)
"""After how long a text that is still in the box means a lost Enter: the first, the second …

An agent that is slow at its start takes none for a while.
"""
QUESTION_SECONDS = 0.3
"""How long a question must be in sight to count."""
CONFIRM_SECONDS = 6.0
"""How long to wait for a sign when the box cannot be seen after the Enter."""
FIRST_LOOK_SECONDS = 0.005
LOOK_SECONDS = 0.05
"""The shortest and the longest time between two looks."""
MAX_CLEARS = 3


class Phase(Enum):
    CHECKING = auto()
    PASTED = auto()
    ENTERED = auto()


class AgentLook(Struct, frozen=True):
    now: float
    status: TerminalStatus
    draft: str | None
    """The text in the input box; None if no box is in sight."""
    taken: str | None = None
    """The agent's own signal that it took the message, since the first Enter."""
    alive: bool = True


class Sending(Struct, frozen=True):
    phase: Phase = Phase.CHECKING
    since: float = -REDRAW_SECONDS
    presses: int = 0
    clears: int = 0
    own_leftover: bool = False
    """May text in the box come from an earlier message of ours that was not confirmed?"""
    asked_at: float | None = None
    message: str = ""
    last_draft: str = ""
    """The previous message as the box showed it when it was submitted."""


class Do(Enum):
    CLEAR = auto()
    PASTE = auto()
    PRESS_ENTER = auto()


class LookAgain(Struct, frozen=True):
    """Look at the next change, after `within` seconds at the latest."""

    within: float


class Refuse(Struct, frozen=True):
    """Nothing was typed."""

    reason: str


Action = Do | LookAgain | Refuse | Delivery
"""A delivery is the end: the message was typed."""

REFUSALS = {
    TerminalStatus.PROCESSING: "the agent is working; send again when it is at rest",
    TerminalStatus.WAITING_USER_ANSWER: "the agent asks a question that a person has to answer",
    TerminalStatus.UNKNOWN: "its screen is not recognized, so it is not safe to type",
}


def advance(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if look.status is not TerminalStatus.WAITING_USER_ANSWER:
        sending = replace(sending, asked_at=None)
    elif sending.asked_at is None:
        sending = replace(sending, asked_at=look.now)
    match sending.phase:
        case Phase.CHECKING:
            return _check(sending, look)
        case Phase.PASTED:
            return _submit(sending, look)
        case Phase.ENTERED:
            return _confirm(sending, look)


def _is_asked(sending: Sending, look: AgentLook) -> bool:
    return sending.asked_at is not None and look.now - sending.asked_at >= QUESTION_SECONDS


def _check(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if not look.alive:
        return sending, Refuse("its program has ended")
    if sending.asked_at is not None and not _is_asked(sending, look):
        return sending, LookAgain(LOOK_SECONDS)
    if look.status in REFUSALS:
        return sending, Refuse(REFUSALS[look.status])
    if look.draft == "":
        return replace(sending, phase=Phase.PASTED, since=look.now), Do.PASTE
    left = sending.since + REDRAW_SECONDS - look.now
    if left > 0:
        return sending, LookAgain(min(left, LOOK_SECONDS))
    if look.draft is None:
        return sending, Refuse("its input box is not in sight")
    if not (sending.own_leftover or look.draft == sending.last_draft):
        return sending, Refuse("there is unsent text in its input box; send or clear it first")
    if sending.clears == MAX_CLEARS:
        return sending, Refuse("unsent text in its input box could not be cleared")
    return replace(sending, clears=sending.clears + 1), Do.CLEAR


def _submit(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if not look.alive:
        return _give_up(sending, "its program ended while the message was being typed")
    if _is_asked(sending, look):
        return _give_up(sending, "a question came up before the message was submitted")
    if look.draft and is_merged(look.draft, sending):
        # The box is emptied and all begins anew; nothing has been submitted.
        if sending.clears == MAX_CLEARS:
            return _give_up(sending, "older text in its input box could not be cleared")
        again = replace(sending, phase=Phase.CHECKING, since=look.now, own_leftover=True)
        return replace(again, clears=sending.clears + 1), Do.CLEAR
    if look.draft and sending.asked_at is None:
        return _press(sending, look)
    left = sending.since + BOX_SECONDS - look.now
    if left <= 0:
        return _give_up(sending, "the pasted text did not appear in the input box")
    return sending, LookAgain(min(left, _pause(sending, look)))


def is_merged(draft: str, sending: Sending) -> bool:
    """Does a draft hold the message before this one as well?

    Claude Code 2.1.105 puts a message back into the box when its turn was over in no time.
    """
    before = sending.last_draft
    if not before or draft == before or not draft.startswith(before):
        return False
    return "".join(draft.split()) != "".join(sending.message.split())


def _press(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    pressed = replace(sending, phase=Phase.ENTERED, since=look.now, presses=sending.presses + 1)
    return pressed, Do.PRESS_ENTER


def _confirm(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    sign = look.taken
    if not sign and look.status is TerminalStatus.PROCESSING:
        sign = "the agent is working"
    elif not sign and _is_asked(sending, look):
        sign = "the agent asks a question"
    elif not sign and look.draft == "":
        sign = "the input box is empty again"
    if sign:
        return sending, Delivery(True, sign, sending.presses)
    if not look.alive:
        return _give_up(sending, "its program ended right after the message was submitted")
    waited = look.now - sending.since
    if look.draft is None:
        if waited >= CONFIRM_SECONDS:
            return _give_up(sending, "no sign that the agent took the message")
        return sending, LookAgain(_pause(sending, look))
    if waited < ENTER_SECONDS[sending.presses - 1]:
        return sending, LookAgain(_pause(sending, look))
    if sending.presses == len(ENTER_SECONDS):
        return _give_up(
            sending,
            f"Enter was pressed {sending.presses} times and the text is still in the input box",
        )
    return _press(sending, look)


def _give_up(sending: Sending, reason: str) -> tuple[Sending, Action]:
    return sending, Delivery(False, reason, sending.presses)


def _pause(sending: Sending, look: AgentLook) -> float:
    """Return when to look again: most agents take a few milliseconds, some take long."""
    return min(max(look.now - sending.since, FIRST_LOOK_SECONDS), LOOK_SECONDS)
