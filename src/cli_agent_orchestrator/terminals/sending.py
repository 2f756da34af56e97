"""Typing a message as a transaction: pasted, submitted, and confirmed by a positive sign.

A pure machine: `advance` gets what can be seen and returns what to do next. Its rules:

1. Nothing is typed while the agent works or asks. Text that a person left in the box is not ours to
   merge with or to remove; what an earlier message of ours left there, or the agent put back there,
   is cleared first.
2. What is not known is tried: a sign is typed, seen and taken back. Text that gives way to it, or
   stands in rows below it, is a part of the interface, and `known` from then on. Text beside it is
   a draft. A box that cannot be read (`blind`) is one if the sign changes little but its own row.
3. Enter is pressed only after the pasted text is seen in the box: a paste that is still being
   read swallows it. Text that came behind what the box held before is taken back. Before every
   Enter the box must hold no text of a person beside ours; while she types, ours waits.
4. Taken means: the agent's own signal after the Enter, a busy screen, or an input box that is
   empty again, or has another text, after it held ours.
5. Text that is seen to stay in the box is an Enter that got lost: it is pressed again, a few
   times, after longer and longer waits.
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
# The lines of frames, and a blank that guards a message
FRAME_PATTERN = r"[\u2500-\u259f\u2800]+"
# [Pasted text #1 +9 lines]        [4,000 chars]
FOLD_PATTERN = r"\[[^\]]*\d"
REDRAW_SECONDS = 2.0
"""How long the input box may be hidden, or show the previous message, while it is redrawn."""
BOX_SECONDS = 10.0
"""How long a pasted text may take to appear in the input box."""
CLEAR_SECONDS = 1.0
ENTER_SECONDS = (1.0, 1.0, 2.0, 3.0, 5.0)
"""After how long a text still in the box means a lost Enter. An agent may be slow at its start."""
PERSON_SECONDS = 1.3
"""Nothing is pasted or submitted so soon after a person's key, which may not be drawn yet."""
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
    touched_at: int = 0
    """The second in which an attached person last pressed a key, 0 if no person is attached."""


class BoxMemory(Struct, frozen=True):
    """What is known of an input box. It is saved: a server that is started anew goes on by it."""

    leftover: bool = False
    """May text in it come from a message of ours that was not confirmed?"""
    last_draft: str = ""
    """The last message as the box showed it when it was submitted: agents may put it back."""
    known: frozenset[str] = frozenset({""})
    """What was in the box, squeezed, and is no draft."""
    by_rest: bool = False
    """Is nothing known of the agent but its box, so that only rest tells the end of its work?"""


class Sending(Struct, frozen=True):
    phase: Phase = Phase.CHECKING
    since: float = -REDRAW_SECONDS
    presses: int = 0
    clears: int = 0
    asked_at: float | None = None
    message: str = ""
    box: BoxMemory = BoxMemory()
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
    touched_at: int = 0
    """When a person had last pressed a key as the last Enter was decided."""

    @property
    def entered_at(self) -> float:
        return self.before.now if self.before and self.presses else 0.0

    @property
    def has_typed(self) -> bool:
        return self.phase is not Phase.CHECKING or self.trials + self.clears > 0


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
MAY_BE_DRAFT = "what is typed appears beside a text that may be a draft"
UNSENT = "there is unsent text in its input box; send or clear it first"


def advance(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    decided, action = _decide(sending, look)
    left = look.touched_at + PERSON_SECONDS - look.now
    is_typing = look.touched_at and left > 0 and look.now < sending.since + BOX_SECONDS
    if is_typing and action in (Do.PASTE, Do.PRESS_ENTER):
        return sending, LookAgain(left)
    return decided, action


def _decide(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    since = look.now if sending.asked_at is None else sending.asked_at
    asks = look.status is TerminalStatus.WAITING_USER_ANSWER
    sending = replace(sending, asked_at=since if asks else None)
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
    is_empty = sending.blind if look.draft is None else squeeze(look.draft) in sending.box.known
    if is_empty and (is_known or sending.trials):
        box = replace(sending.box, leftover=True)
        return replace(sending, phase=Phase.PASTED, since=look.now, before=look, box=box), Do.PASTE
    if is_known and look.draft is not None:
        return _make_room(sending, look)
    if look.still < REST_SECONDS:
        if look.now >= sending.since + BOX_SECONDS:
            return sending, Refuse("its screen is not recognized, and changes all the time")
        return sending, LookAgain(max(REST_SECONDS - look.still, LOOK_SECONDS))
    if sending.box.leftover and not sending.clears:
        return replace(sending, clears=1), Do.CLEAR
    return _probe(sending, look)


def _make_room(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    assert look.draft is not None
    first = sending.before or look
    left = sending.since + REDRAW_SECONDS - look.now
    if left > 0:
        return replace(sending, before=first), LookAgain(min(left, LOOK_SECONDS))
    ours = sending.box.leftover or look.draft == sending.box.last_draft
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
        return _wait_for_trial(sending, look, "it takes no input: a typed sign did not appear")
    sending = seen
    above, _, rest = new.partition(PROBE)
    row = (above.rpartition("\n")[2] if sending.blind else above) + rest.partition("\n")[0]
    text, refusal = squeeze(row), ""
    as_ever = sending.fresh and (sending.blind or text == squeeze(old))
    if not (as_ever or text in sending.box.known) and (not sending.blind or re.search(r"\w", text)):
        refusal = MAY_BE_DRAFT if sending.blind else UNSENT
    rows = zip_longest(old.split("\n"), new.split("\n"), fillvalue="")
    if sending.blind and sum(then.rstrip() != now.rstrip() for then, now in rows) > MOST_CHANGED:
        refusal = "what is typed changes its screen as a search or a list does"
    found = {text} if sending.blind else {squeeze(old), squeeze(above + rest)}
    if not refusal:
        sending = _learn(sending, found)
    return replace(sending, phase=Phase.ERASED, since=look.now, refusal=refusal), Do.ERASE


def _learn(sending: Sending, found: set[str]) -> Sending:
    return replace(sending, box=replace(sending.box, known=sending.box.known | found))


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
    return _wait_for_trial(sending, look, "a typed sign could not be taken back")


def _wait_for_trial(sending: Sending, look: AgentLook, reason: str) -> tuple[Sending, Action]:
    sending, action = _wait(sending, look, PROBE_SECONDS if look.alive else 0, Refuse(reason))
    leftover = sending.box.leftover or (sending.blind and isinstance(action, Refuse))
    return replace(sending, box=replace(sending.box, leftover=leftover)), action


def _submit(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    if not look.alive:
        return _give_up(sending, "its program ended while the message was being typed")
    if _is_asked(sending, look):
        return _give_up(sending, "a question came up before the message was submitted")
    reason = "the pasted text did not appear in the input box"
    absent = _wait(sending, look, BOX_SECONDS, Delivery(False, reason, sending.presses))
    if sending.asked_at is not None:
        return absent
    # A change that is seen may not be reported yet.
    is_still = min(look.still, look.now - sending.since) >= CLEAR_SECONDS
    if look.draft is None:
        before = squeeze(sending.before.screen) if sending.before else ""
        now, tail = squeeze(look.screen), squeeze(sending.message)[-END_LENGTH:]
        drawn = now != before and (tail in now or is_still)
        return _press(sending, look) if sending.blind and drawn else absent
    text, last = squeeze(look.draft), squeeze(sending.box.last_draft)
    is_more = text.startswith(last) and text != last and text not in squeeze(sending.message)
    if last and is_more:
        # Claude Code 2.1.105 puts a message back when its turn was over in no time: the box is
        # emptied and all begins anew; nothing has been submitted.
        if sending.clears == MAX_CLEARS:
            return _give_up(sending, "older text in its input box could not be cleared")
        again = replace(sending, phase=Phase.CHECKING, since=look.now)
        return replace(again, clears=sending.clears + 1), Do.CLEAR
    if text in sending.box.known:
        return absent
    ours, beside = compare(look.draft, sending.message)
    if _is_touched(sending, look) and squeeze(sending.message) not in text:
        # Beside the mark of a folded message may be what a person has typed.
        unfolded = squeeze(re.sub(r"\[[^\]]*\d[^\]]*\]", "", look.draft))
        beside = beside or ("" if unfolded in squeeze(sending.message) else unfolded)
    rows = look.draft.split("\n")
    below = {squeeze("".join(rows[row:])) for row in range(1, len(rows))}
    if beside in below and look.now - sending.since <= CLEAR_SECONDS:
        # Whole rows that come below a message as it appears are a part of the interface.
        sending = _learn(sending, {beside})
    if beside not in sending.box.known:
        return _wait_for_person(sending, look)
    # Text without any of ours may be a mark in its place, or what a person has typed.
    return (
        _press(sending, look) if ours or (is_still and not _is_touched(sending, look)) else absent
    )


def _is_touched(sending: Sending, look: AgentLook) -> bool:
    """May a person have pressed a key since the present phase began?"""
    return bool(look.touched_at) and look.touched_at + 1 > sending.since


def compare(draft: str, message: str) -> tuple[bool | None, str]:
    """Return whether a box holds our message, and what it holds besides, squeezed.

    It may show only a part of a long message, or a mark in its place. None means so little that a
    person may have typed it.
    """
    text, ours = squeeze(draft), squeeze(message)
    if ours and ours in text:
        return True, text.replace(ours, "", 1)
    beside = ""
    if len(ours) > END_LENGTH:
        above, head, _ = text.partition(ours[:END_LENGTH])
        _, tail, below = text.rpartition(ours[-END_LENGTH:])
        # [Mend the basket and the till, it is… Pasted +9 lines]
        above = above.removesuffix("[")
        beside = (above if head and above not in ours else "") + (below if tail else "")
    shared = [end in text for end in (ours[:END_LENGTH], ours[-END_LENGTH:])]
    shared += [end in ours for end in (text[:END_LENGTH], text[-END_LENGTH:])]
    if re.search(FOLD_PATTERN, draft) or (any(shared) and len(text) >= min(len(ours), END_LENGTH)):
        return True, beside
    return None if any(shared) else False, beside


def _wait_for_person(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    # What is in the box is not ours alone, and not ours to clear.
    sending = replace(sending, box=replace(sending.box, leftover=False))
    reason = "a person typed into the input box beside the message; Enter was not pressed"
    return _wait(sending, look, BOX_SECONDS, Delivery(False, reason, sending.presses))


def _press(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    before = sending.before if sending.presses else look
    box = replace(sending.box, last_draft=look.draft or "")
    pressed = replace(sending, phase=Phase.ENTERED, since=look.now, before=before, box=box)
    pressed = replace(pressed, presses=sending.presses + 1, touched_at=look.touched_at)
    return pressed, Do.PRESS_ENTER


def _confirm(sending: Sending, look: AgentLook) -> tuple[Sending, Action]:
    waited = look.now - sending.since
    if sign := _sign_of(sending, look, waited):
        return _taken(sending, look, sign)
    if not look.alive:
        return _give_up(sending, "its program ended right after the message was submitted")
    if look.draft is None:
        # A second Enter may be one too many where nobody sees what it is for.
        lost = Delivery(False, "no sign that the agent took the message", sending.presses)
        return _wait(sending, look, BOX_SECONDS if sending.blind else CONFIRM_SECONDS, lost)
    if waited < ENTER_SECONDS[sending.presses - 1]:
        return sending, LookAgain(_pause(sending, look))
    text, ours = squeeze(look.draft), squeeze(sending.message)
    then = squeeze(sending.before.draft or "") if sending.before else text
    is_drawn_on = text in ours and len(text) >= len(then)
    if text not in (then, ours) and not is_drawn_on:
        is_other = compare(look.draft, sending.message)[0] is False and then not in text
        is_other = is_other and not _is_touched(sending, look)
        if is_other and look.still >= QUESTION_SECONDS:
            return _taken(sending, look, "the input box has another text")
        return _wait_for_person(sending, look)
    if sending.presses == len(ENTER_SECONDS):
        why = f"Enter was pressed {sending.presses} times and the text is still in the input box"
        return _give_up(sending, why)
    return _press(sending, look)


def _taken(sending: Sending, look: AgentLook, sign: str) -> tuple[Sending, Action]:
    unknown = sending.blind and look.status is TerminalStatus.UNKNOWN
    box = replace(sending.box, leftover=False, by_rest=sending.box.by_rest or unknown)
    return replace(sending, box=box), Delivery(True, sign, sending.presses)


def _sign_of(sending: Sending, look: AgentLook, waited: float) -> str | None:
    if look.taken:
        return look.taken
    if look.status is TerminalStatus.PROCESSING:
        return "the agent is working"
    if _is_asked(sending, look):
        return "the agent asks a question"
    if look.draft is not None:
        return "the input box is empty again" if squeeze(look.draft) in sending.box.known else None
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
