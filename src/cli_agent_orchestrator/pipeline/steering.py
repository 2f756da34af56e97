"""What an ask of a person changes in a run, and the event that reports it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core import codec
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
class Skip:
    """Count the review that is under way or due as approved: the one that is named, if one is."""

    role: str | None = None
    round: int | None = None
    cycle: int | None = None


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


WISHES: Mapping[str, type[Wish]] = {
    "pause": Pause,
    "resume": Unpause,
    "stop": Stop,
    "skip": Skip,
    "hint": Hint,
    "set": Set,
    "answered": Answered,
}
"""What is wished for, by what `do` says."""
EXPECTED = {
    "hint": f"a text that is not empty and has at most {LARGEST_HINT} characters, and if wanted a "
    "role",
    "skip": "the role, the round and the cycle of a review, or none of them",
    "set": f"a name and a value of at most {LARGEST_WORD} characters",
    "answered": f"a role and a text of at most {LARGEST_WORD} characters",
}


def _word_for(wish: Wish) -> str:
    return next(word for word, kind in WISHES.items() if isinstance(wish, kind))


def to_line(ask: Ask) -> str:
    """Return an ask as a line of JSON, without its end."""
    words = codec.plain(ask.wish)
    return json.dumps({"id": ask.id, "at": ask.at, "do": _word_for(ask.wish), **words})


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
    data = codec.object_of(line) if len(line) <= LARGEST_LINE else {}
    at, name = data.get("at"), data.get("id")
    is_time = isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < LARGEST_TIME
    if not is_time or not isinstance(name, str) or not re.fullmatch(ID_PATTERN, name):
        return None
    wish = read_wish(data)
    return None if wish is None else Ask(name, float(data["at"]), wish)


def read_wish(data: Mapping[str, Any]) -> Wish | None:
    """Return the wish that JSON data describes; None if it describes none."""
    kind = WISHES.get(str(data.get("do")))
    if kind is None:
        return None
    try:
        wish: Wish = codec.convert(kind, data)
    except ValueError:
        return None
    match wish:
        case Skip(role, number, cycle) if (role, number, cycle) != (None, None, None):
            is_whole = _is_text(role) and (number or 0) > 0 and (cycle or 0) > 0
            return wish if is_whole else None
        case Hint(role, text):
            is_good = _is_text(text, LARGEST_HINT) and (role is None or _is_text(role))
            return wish if is_good else None
        case Set(name, text) | Answered(name, text):
            return wish if _is_text(name) and _is_text(text) else None
    return wish


def _is_text(text: str | None, most: int = LARGEST_WORD) -> bool:
    """Is a text neither blank nor too long nor broken?"""
    if text is None or not text.strip() or len(text) > most:
        return False
    return not re.search(HALF_PATTERN, text)


def demand_wish(data: Mapping[str, Any]) -> Wish:
    """Return the wish that JSON data describes; raise what is wrong with it."""
    wish = read_wish(data)
    if wish is None:
        for name, value in data.items():
            if isinstance(value, str) and re.search(HALF_PATTERN, value):
                raise UsageError(f"the {name} is not UTF-8")
        known = f"one of {', '.join(WISHES)}"
        raise UsageError(f"expected {EXPECTED.get(str(data.get('do')), known)}")
    return wish


PAUSES_ALREADY = "the run pauses when the present turn has ended"
PAUSED_ALREADY = "the run is paused already"
NOT_PAUSED = "the run is not paused"
NO_REVIEW = "no review is under way or due"
TOO_OLD = "it was asked before the run was resumed"

Taken = (
    PauseAsked
    | Unpaused
    | StopAsked
    | HintTaken
    | SettingChanged
    | ReviewSkipped
    | QuestionAnswered
)


def grant(
    state: RunState, ask: Ask, at: float, since: float = 0.0, *, holding: bool = False
) -> tuple[RunState, Answer]:
    """Return the state after an ask, and the event that reports it.

    What was meant for a moment that is gone does not count any more: a pause, a stop, a skip that
    was not read `since` the run was taken up. `holding` says that nothing is under way: the run
    waits for its pause to be lifted.
    """
    try:
        after, event = _grant(state, ask, at, since, holding)
    except UsageError as why:
        return state, AskDeclined(at, _word_for(ask.wish), str(why), ask.id)
    return note_act(after, at, event.words), event


def _grant(
    state: RunState, ask: Ask, at: float, since: float, holding: bool
) -> tuple[RunState, Taken]:
    """Return what an ask changes; raise why it cannot."""
    match ask.wish:
        case Hint(role, text):
            return keep_hint(state, role, text), HintTaken(at, role or "", text, ask.id)
        case Set(wanted, text):
            name, value = read_change(wanted, text)
            settings = state.progress.settings
            before = settings.get(name, BY_NAME[name].default)
            progress = replace(state.progress, settings={**settings, name: value})
            changed = SettingChanged(at, name, value, before, ask.id)
            return replace(state, progress=progress), changed
        case Answered(role, text):
            return state, QuestionAnswered(at, role, text, ask.id)
        case _ if ask.at < since:
            raise UsageError(TOO_OLD)
        case Stop():
            return state, StopAsked(at, ask.id)
        case Pause():
            if state.progress.paused:
                raise UsageError(PAUSED_ALREADY if holding else PAUSES_ALREADY)
            return pause(state), PauseAsked(at, ask.id)
        case Unpause():
            if not state.progress.paused:
                raise UsageError(NOT_PAUSED)
            return unpause(state), Unpaused(at, ask.id)
        case Skip() as skip:
            return _skip(state, skip, ask.id, at)


def _skip(state: RunState, skip: Skip, ask: str, at: float) -> tuple[RunState, ReviewSkipped]:
    due = due_review(state)
    meant = (skip.role, skip.round, skip.cycle)
    if skip.role is not None and meant != (due and (due.role, due.round, due.cycle)):
        review = f"the review of round {skip.round}, cycle {skip.cycle} by {skip.role}"
        raise UsageError(f"{review} is over; nothing was skipped")
    if due is None:
        raise UsageError(NO_REVIEW)
    terminal_id = state.terminal_of(due.role)
    skipped = ReviewSkipped(at, due.role, due.round, due.cycle, ask, terminal_id)
    return skip_review(state, due), skipped
