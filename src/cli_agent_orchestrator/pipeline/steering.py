"""What an ask of a person changes in a run, and the event that reports it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from ..core.text import HALVES
from ..errors import UsageError
from ..events import (
    Answer,
    AskDeclined,
    HintTaken,
    PauseAsked,
    QuestionAnswered,
    ReviewSkipped,
    SettingChanged,
    StopAsked,
    Unpaused,
)
from ..settings.table import BY_NAME
from ..settings.values import read_change
from .machine import due_review, pause, skip_review, unpause
from .state import RunState, keep_hint, note_act

LARGEST_LINE = 64 * 1024
"""Bytes of an ask; a longer line is none."""
LARGEST_HINT = 8 * 1024
"""Characters of a hint: it becomes a part of a prompt."""
LARGEST_WORD = 200
"""Characters of a name or a value."""
LARGEST_TIME = 1e12

ID_PATTERN = r"[0-9a-zA-Z-]{1,64}"
HALF_PATTERN = f"[{HALVES}]"


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait after the present turn."""


@dataclass(frozen=True, slots=True)
class Unpause:
    """Go on after a pause."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run and its agents, without a verdict."""


@dataclass(frozen=True, slots=True)
class MeantReview:
    """The review that somebody looked at when they asked for something."""

    role: str
    round: int
    cycle: int

    @property
    def words(self) -> str:
        return f"the review of round {self.round}, cycle {self.cycle} by {self.role}"


@dataclass(frozen=True, slots=True)
class Skip:
    """Count the review that is under way or due as approved."""

    review: MeantReview | None = None
    """This one and no other; None for whichever it is."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Tell an agent something with its next prompt."""

    role: str | None
    """Whom; None for whoever is next."""
    text: str


@dataclass(frozen=True, slots=True)
class Set:
    """Go on by another value of a setting."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Answered:
    """Know that a question of an agent was answered; the key for that went to its terminal."""

    role: str
    """Who asked."""
    text: str
    """The words of the choice, else the key that was pressed."""


Wish = Pause | Unpause | Stop | Skip | Hint | Set | Answered


@dataclass(frozen=True, slots=True)
class Ask:
    """A wish of a person, and how it is known."""

    id: str
    at: float
    """Unix time."""
    wish: Wish


@dataclass(frozen=True, slots=True)
class Heard:
    """What a run has read of its control file."""

    ask: Ask | None
    """None for what is no ask."""
    upto: int
    """Where it ends in the file, in bytes."""


SIMPLE: Mapping[str, type[Pause] | type[Unpause] | type[Stop]] = {
    "pause": Pause,
    "resume": Unpause,
    "stop": Stop,
}
"""What `do` may be if nothing more is to be said."""
DO: Mapping[type[Wish], str] = {
    **{kind: word for word, kind in SIMPLE.items()},
    Skip: "skip",
    Hint: "hint",
    Set: "set",
    Answered: "answered",
}
"""What `do` is."""


EXPECTED = {
    "hint": f"a text that is not empty and has at most {LARGEST_HINT} characters, and if wanted a "
    "role",
    "skip": "the role, the round and the cycle of a review, or none of them",
    "set": f"a name and a value of at most {LARGEST_WORD} characters",
    "answered": f"a role and a text of at most {LARGEST_WORD} characters",
}


def to_line(ask: Ask) -> str:
    """Return an ask as a line of JSON, without its end."""
    data: dict[str, object] = {"id": ask.id, "at": ask.at, "do": DO[type(ask.wish)]}
    match ask.wish:
        case Skip(MeantReview(role, number, cycle)):
            data |= {"role": role, "round": number, "cycle": cycle}
        case Hint(role, text) | Answered(role, text):
            data |= {"role": role, "text": text}
        case Set(name, value):
            data |= {"name": name, "value": value}
    return json.dumps(data)


def read_asks(data: bytes, start: int) -> list[Heard]:
    """Return what whole lines of a control file hold; `start` is where they begin in it.

    Lines in a row that are no asks count as one. What comes after the last end of a line is left
    for later, unless it is longer than any ask.
    """
    found: list[Heard] = []
    whole = data.rfind(b"\n") + 1
    if len(data) - whole > LARGEST_LINE:
        whole = len(data)
    for line in re.findall(rb"[^\n]*\n|[^\n]+", data[:whole]):
        start += len(line)
        ask = read_ask(line)
        if ask is None and found and found[-1].ask is None:
            found.pop()
        found.append(Heard(ask, start))
    return found


def read_ask(line: str | bytes) -> Ask | None:
    """Return the ask on a line; None if it holds none."""
    if len(line) > LARGEST_LINE:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not _is_named(data):
        return None
    wish = read_wish(data)
    return None if wish is None else Ask(data["id"], float(data["at"]), wish)


def read_wish(data: Mapping[str, Any]) -> Wish | None:
    """Return the wish that JSON data describes; None if it describes none."""
    do = data.get("do")
    match do:
        case "skip":
            return _read_skip(data)
        case "hint":
            role, text = data.get("role"), _read_text(data.get("text"), LARGEST_HINT)
            named = None if role is None else _read_text(role, LARGEST_WORD)
            return Hint(named, text) if text and (role is None or named) else None
        case "set":
            name = _read_text(data.get("name"), LARGEST_WORD)
            value = _read_text(data.get("value"), LARGEST_WORD)
            return Set(name, value) if name and value else None
        case "answered":
            named = _read_text(data.get("role"), LARGEST_WORD)
            text = _read_text(data.get("text"), LARGEST_WORD)
            return Answered(named, text) if named and text else None
    return SIMPLE[do]() if isinstance(do, str) and do in SIMPLE else None


# Any: JSON
def _read_skip(data: Mapping[str, Any]) -> Skip | None:
    role, number, cycle = (data.get(name) for name in ("role", "round", "cycle"))
    if (role, number, cycle) == (None, None, None):
        return Skip()
    named = _read_text(role, LARGEST_WORD)
    if not named or not _is_count(number) or not _is_count(cycle):
        return None
    return Skip(MeantReview(named, number, cycle))


def demand_wish(data: Mapping[str, Any]) -> Wish:
    """Return the wish that JSON data describes; raise what is wrong with it."""
    wish = read_wish(data)
    if wish is None:
        for name, value in data.items():
            if isinstance(value, str) and re.search(HALF_PATTERN, value):
                raise UsageError(f"the {name} is not UTF-8")
        known = f"one of {', '.join(DO.values())}"
        raise UsageError(f"expected {EXPECTED.get(str(data.get('do')), known)}")
    return wish


def _is_named(data: Mapping[str, Any]) -> bool:
    at, name = data.get("at"), data.get("id")
    is_time = isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < LARGEST_TIME
    return is_time and isinstance(name, str) and bool(re.fullmatch(ID_PATTERN, name))


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _read_text(value: object, most: int) -> str:
    """Return a text that is neither blank nor too long; empty if it is none."""
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        return ""
    return "" if re.search(HALF_PATTERN, value) else value


PAUSES_ALREADY = "the run pauses when the present turn has ended"
PAUSED_ALREADY = "the run is paused already"
NOT_PAUSED = "the run is not paused"
NO_REVIEW = "no review is under way or due"
REVIEW_OVER = "{} is over; nothing was skipped"
TOO_OLD = "it was asked before the run was resumed"

Granted = tuple[RunState, Answer]


def grant(
    state: RunState, ask: Ask, at: float, since: float = 0.0, *, holding: bool = False
) -> Granted:
    """Return the state after an ask, and the event that reports it.

    What was meant for a moment that is gone does not count any more: a pause, a stop, a skip that
    nobody heeded `since` the run was taken up. `holding` says that nothing is under way: the run
    waits for its pause to be lifted.
    """
    match ask.wish:
        case Hint(role, text):
            kept = keep_hint(state, role, text)
            if isinstance(kept, str):
                return _decline(state, ask, at, kept)
            taken = HintTaken(at, role or "", text, ask.id)
            return note_act(kept, at, taken.words), taken
        case Set() as change:
            return _set(state, ask, change, at)
        case Answered(role, text):
            answered = QuestionAnswered(at, role, text, ask.id)
            return note_act(state, at, answered.words), answered
        case _ if ask.at < since:
            return _decline(state, ask, at, TOO_OLD)
        case Skip(meant):
            return _skip(state, ask, meant, at)
        case Stop():
            stopped = StopAsked(at, ask.id)
            return note_act(state, at, stopped.words), stopped
        case Pause():
            return _pause(state, ask, at, holding)
        case Unpause():
            if not state.progress.paused:
                return _decline(state, ask, at, NOT_PAUSED)
            lifted = Unpaused(at, ask.id)
            return note_act(unpause(state), at, lifted.words), lifted


def _decline(state: RunState, ask: Ask, at: float, why: str) -> Granted:
    return state, AskDeclined(at, DO[type(ask.wish)], why, ask.id)


def _pause(state: RunState, ask: Ask, at: float, holding: bool) -> Granted:
    if state.progress.paused:
        return _decline(state, ask, at, PAUSED_ALREADY if holding else PAUSES_ALREADY)
    asked = PauseAsked(at, ask.id)
    return note_act(pause(state), at, asked.words), asked


def _set(state: RunState, ask: Ask, change: Set, at: float) -> Granted:
    try:
        name, value = read_change(change.name, change.value)
    except UsageError as error:
        return _decline(state, ask, at, str(error))
    settings = state.progress.settings
    changed = SettingChanged(at, name, value, settings.get(name, BY_NAME[name].default), ask.id)
    progress = replace(state.progress, settings={**settings, name: value})
    return note_act(replace(state, progress=progress), at, changed.words), changed


def _skip(state: RunState, ask: Ask, meant: MeantReview | None, at: float) -> Granted:
    review = due_review(state)
    due = review and MeantReview(review.role, review.round, review.cycle)
    if meant is not None and meant != due:
        return _decline(state, ask, at, REVIEW_OVER.format(meant.words))
    if review is None:
        return _decline(state, ask, at, NO_REVIEW)
    terminal_id = state.terminal_of(review.role)
    skipped = ReviewSkipped(at, review.role, review.round, review.cycle, ask.id, terminal_id)
    return note_act(skip_review(state, review), at, skipped.words), skipped
