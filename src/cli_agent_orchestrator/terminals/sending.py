"""Typing a message as a transaction: pasted, submitted, and confirmed by a positive sign.

A pure machine: `advance` gets what can be seen and returns what to do next. Its rules:

1. Nothing is typed while the agent works or asks. Text that a person left in the box is not ours to
   merge with or to remove; what an earlier message of ours left there, or the agent put back there,
   is cleared first.
2. What is not known is tried: a sign is typed, seen and taken back. Text that gives way to it, or
   stands in rows below it, is a part of the interface, and `known` from then on. Text beside it is
   a draft. A box that cannot be read is one if the sign changes little but its own row; then
   only the screen can tell what becomes of the message (`blind`).
3. Enter is pressed only after the pasted text is seen in the box: a paste that is still being
   read swallows it. Text that came behind what the box held before is taken back. Before every
   Enter the box must hold no text of a person beside ours.
4. Taken means: the agent's own signal after the Enter, a busy screen, or an input box that is
   empty again, or has another text, after it held ours.
5. Text that stays in the box is an Enter that got lost: it is pressed again, a few times, after
   longer and longer waits.
6. What was not confirmed is never called sent.
7. A question counts when it stays: half a frame may look like one.
"""

import re
from enum import Enum, auto
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from ..core.models import Delivery, TerminalStatus
from ..providers.screen import may_ask
from .tracker import REST_SECONDS

PROBE = "¬"
"""What is typed to try a box: no agent has it as a key, and it is narrow in every font."""
PROBE_SECONDS = 4.0
MAX_TRIALS = 2
MOST_CHANGED = 3
"""How many rows one sign in an input box may change: its own, and hints. A search changes more."""
END_LENGTH = 16
"""So many characters tell the begin or the end of a message."""
MOST_SHOWN = 20_000
"""A box shows at most so many characters of the begin or the end of a message."""
# The lines of frames
FRAME_PATTERN = r"[\u2500-\u259f]+"
# [Pasted text #1 +9 lines]        [4,000 chars]
FOLD_PATTERN = r"\[[^\]]*\d"
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
    PROBED = auto()
    ERASED = auto()
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
    screen: str = ""
    still: float = 0.0
    """For how long the screen has not changed."""


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
    known: frozenset[str] = frozenset({""})
    """What was in the box, squeezed, and is no draft."""
    fresh: bool = False
    """Has nobody been able to type yet?"""
    trials: int = 0
    """How often the box was tried; before anything is typed that means: with success."""
    blind: bool = False
    """Can the box not be read, although it takes input?"""
    refusal: str = ""
    """Why nothing will be typed once the sign is taken back."""
    before: AgentLook | None = None
    """How it was when the present phase began; of the last one, at the first Enter."""


class Do(Enum):
    PROBE = auto()
    ERASE = auto()
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
}
UNSENT = "there is unsent text in its input box; send or clear it first"
MAY_BE_DRAFT = "what is typed appears beside a text that may be a draft"


def advance(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if look.status is not TerminalStatus.WAITING_USER_ANSWER:
        sending = replace(sending, asked_at=None)
    elif sending.asked_at is None:
        sending = replace(sending, asked_at=look.now)
    match sending.phase:
        case Phase.CHECKING:
            return _check(sending, look)
        case Phase.PROBED:
            return _see_probe(sending, look)
        case Phase.ERASED:
            return _see_it_gone(sending, look)
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
    is_known = look.status is not TerminalStatus.UNKNOWN
    is_empty = sending.blind if look.draft is None else squeeze(look.draft) in sending.known
    if is_empty and (is_known or sending.trials):
        return replace(sending, phase=Phase.PASTED, since=look.now, before=look), Do.PASTE
    if is_known and look.draft is not None:
        return _make_room(sending, look)
    if look.still < REST_SECONDS:
        if look.now >= sending.since + BOX_SECONDS:
            return sending, Refuse("its screen is not recognized, and changes all the time")
        return sending, LookAgain(max(REST_SECONDS - look.still, LOOK_SECONDS))
    if sending.own_leftover and not sending.clears:
        return replace(sending, clears=1), Do.CLEAR
    return _probe(sending, look)


def _make_room(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    assert look.draft is not None
    first = sending.before or look
    left = sending.since + REDRAW_SECONDS - look.now
    if left > 0:
        return replace(sending, before=first), LookAgain(min(left, LOOK_SECONDS))
    ours = sending.own_leftover or look.draft == sending.last_draft
    if (ours or not squeeze(look.draft).strip(PROBE)) and sending.clears < MAX_CLEARS:
        return replace(sending, clears=sending.clears + 1), Do.CLEAR
    # Never between the letters of a person who types.
    return _probe(sending, look) if first.draft == look.draft else (sending, Refuse(UNSENT))


def _probe(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if look.draft is None and may_ask(look.screen):
        return sending, Refuse("it seems to ask a question that a person has to answer")
    if sending.trials == MAX_TRIALS:
        return sending, Refuse(UNSENT)
    probed = replace(sending, phase=Phase.PROBED, since=look.now, before=look)
    return replace(probed, trials=sending.trials + 1, blind=look.draft is None), Do.PROBE


def squeeze(text: str) -> str:
    """Return a text without blanks and frames; of one that no screen could show, its ends."""
    if len(text) > 2 * MOST_SHOWN:
        text = text[:MOST_SHOWN] + text[-MOST_SHOWN:]
    text = "".join(text.split())
    return text if text.isascii() else re.sub(FRAME_PATTERN, "", text)


def _see_probe(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    seen = replace(sending, blind=sending.blind or look.draft is None)
    old, new = _texts(seen, look)
    if new.count(PROBE) != old.count(PROBE) + 1:
        refuse = Refuse("it takes no input: a sign that was typed did not appear")
        return _wait(sending, look, PROBE_SECONDS if look.alive else 0, refuse)
    sending = seen
    above, _, rest = new.partition(PROBE)
    row = (above.rpartition("\n")[2] if sending.blind else above) + rest.partition("\n")[0]
    text, refusal = squeeze(row), ""
    as_ever = text in sending.known or (sending.fresh and (sending.blind or text == squeeze(old)))
    if not as_ever and (not sending.blind or re.search(r"\w", text)):
        refusal = MAY_BE_DRAFT if sending.blind else UNSENT
    rows = zip_longest(old.split("\n"), new.split("\n"), fillvalue="")
    if sending.blind and sum(then.rstrip() != now.rstrip() for then, now in rows) > MOST_CHANGED:
        refusal = "what is typed changes its screen as a search or a list does"
    found = {text} if sending.blind else {squeeze(old), squeeze(above + rest)}
    known = sending.known if refusal else sending.known | found
    erased = replace(sending, phase=Phase.ERASED, since=look.now, known=known, refusal=refusal)
    return erased, Do.ERASE


def _texts(sending: Sending, look: AgentLook) -> tuple[str, str]:
    """Return what shows the sign: the box before and now, or the screen if that cannot be read."""
    before = sending.before or look
    if sending.blind:
        return before.screen, look.screen
    return before.draft or "", look.draft or ""


def _see_it_gone(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    old, new = _texts(sending, look)
    if new.count(PROBE) <= old.count(PROBE) and (sending.blind or look.draft is not None):
        sending = replace(sending, phase=Phase.CHECKING, since=look.now, before=None)
        return (sending, Refuse(sending.refusal)) if sending.refusal else _check(sending, look)
    refuse = Refuse("a sign that was typed to try its input box could not be taken back")
    return _wait(sending, look, PROBE_SECONDS if look.alive else 0, refuse)


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
    reason = "the pasted text did not appear in the input box"
    if sending.asked_at is None:
        if look.draft is None and sending.blind:
            before = squeeze(sending.before.screen) if sending.before else ""
            now, tail = squeeze(look.screen), squeeze(sending.message)[-END_LENGTH:]
            if now != before and (tail in now or look.still >= CLEAR_SECONDS):
                return _press(sending, look)
        elif look.draft is not None and squeeze(look.draft) not in sending.known:
            sending = _learn_rows(sending, look)
            if beside(look.draft, sending.message) not in sending.known:
                reason = PERSON_TYPED
            elif shows_ours(look.draft, sending.message) or look.still >= QUESTION_SECONDS:
                return _press(sending, look)
    return _wait(sending, look, BOX_SECONDS, Delivery(False, reason, sending.presses))


PERSON_TYPED = "a person typed into the input box beside the message; Enter was not pressed"


def beside(draft: str, message: str) -> str:
    """Return what a box holds beside our message, squeezed, as far as that can be told.

    It may show only a part of a long message, or a mark in its place.
    """
    held, ours = squeeze(draft), squeeze(message)
    if ours and ours in held:
        return held.replace(ours, "", 1)
    if len(ours) <= END_LENGTH:
        return ""
    above, head, _ = held.partition(ours[:END_LENGTH])
    _, tail, below = held.rpartition(ours[-END_LENGTH:])
    # [Mend the basket and the till, it is… Pasted +9 lines]
    above = above.removesuffix("[")
    return (above if head and above not in ours else "") + (below if tail else "")


def shows_ours(draft: str, message: str) -> bool:
    """Is a part of our message in the box, or the mark of a folded paste?"""
    held, ours = squeeze(draft), squeeze(message)
    ends = (ours[:END_LENGTH], ours[-END_LENGTH:])
    return held in ours or any(end in held for end in ends) or bool(re.search(FOLD_PATTERN, draft))


def _learn_rows(sending: Sending, look: AgentLook) -> Sending:
    """Take whole rows that come below a message as it appears for a part of the interface."""
    text = beside(look.draft or "", sending.message)
    rows = (look.draft or "").split("\n")
    alone = any(squeeze("".join(rows[row:])) == text for row in range(1, len(rows)))
    if text in sending.known or not alone or look.now - sending.since > CLEAR_SECONDS:
        return sending
    return replace(sending, known=sending.known | {text})


def is_ours_still(sending: Sending, look: AgentLook) -> bool | None:
    """Is our text alone in the box, as at the first Enter? None if it may be a part of it."""
    if look.draft is None or sending.before is None:
        return True
    now, then = squeeze(look.draft), squeeze(sending.before.draft or "")
    ours = squeeze(sending.message)
    # As before, or more of it is drawn.
    if now in (then, ours) or (now in ours and len(now) >= len(then)):
        return True
    shared = now[:END_LENGTH] in ours or now[-END_LENGTH:] in ours
    return None if shared or ours in now or then in now else False


def is_merged(draft: str, sending: Sending) -> bool:
    """Does a draft hold the message before this one as well?

    Claude Code 2.1.105 puts a message back into the box when its turn was over in no time.
    """
    before = sending.last_draft
    if not before or draft == before or not draft.startswith(before):
        return False
    return squeeze(draft) != squeeze(sending.message)


def _press(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    before = sending.before if sending.presses else look
    pressed = replace(sending, phase=Phase.ENTERED, since=look.now, before=before)
    return replace(pressed, presses=sending.presses + 1), Do.PRESS_ENTER


def _confirm(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    waited = look.now - sending.since
    if sign := _sign_of(sending, look, waited):
        return sending, Delivery(True, sign, sending.presses)
    if not look.alive:
        return _give_up(sending, "its program ended right after the message was submitted")
    if look.draft is None and not sending.blind:
        lost = Delivery(False, "no sign that the agent took the message", sending.presses)
        return _wait(sending, look, CONFIRM_SECONDS, lost)
    if waited < ENTER_SECONDS[sending.presses - 1]:
        return sending, LookAgain(_pause(sending, look))
    ours = is_ours_still(sending, look)
    if ours is False and look.still >= QUESTION_SECONDS:
        return sending, Delivery(True, "the input box has another text", sending.presses)
    if not ours:
        return _wait(sending, look, BOX_SECONDS, Delivery(False, PERSON_TYPED, sending.presses))
    if sending.presses == len(ENTER_SECONDS):
        return _give_up(
            sending,
            f"Enter was pressed {sending.presses} times and the text is still in the input box",
        )
    return _press(sending, look)


def _sign_of(sending: Sending, look: AgentLook, waited: float) -> str | None:
    if look.taken:
        return look.taken
    if look.status is TerminalStatus.PROCESSING:
        return "the agent is working"
    if _is_asked(sending, look):
        return "the agent asks a question"
    if look.draft is not None:
        return "the input box is empty again" if squeeze(look.draft) in sending.known else None
    if not sending.blind or sending.before is None or waited < QUESTION_SECONDS:
        return None
    changed = squeeze(look.screen) != squeeze(sending.before.screen)
    return "its screen changed after the Enter; nothing else is known of it" if changed else None


def _give_up(sending: Sending, reason: str) -> tuple[Sending, Action]:
    return sending, Delivery(False, reason, sending.presses)


def _wait(sending: Sending, look: AgentLook, seconds: float, end: Action) -> tuple[Sending, Action]:
    left = sending.since + seconds - look.now
    return sending, LookAgain(min(left, _pause(sending, look))) if left > 0 else end


def _pause(sending: Sending, look: AgentLook) -> float:
    """Return when to look again: most agents take a few milliseconds, some take long."""
    return min(max(look.now - sending.since, FIRST_LOOK_SECONDS), LOOK_SECONDS)
