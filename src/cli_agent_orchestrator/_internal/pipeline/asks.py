"""What people ask of a run under way, and the one form an ask has as a line of JSON.

    {"id": "5f0c…", "at": 1763200000.1, "do": "hint", "role": "programmer", "text": "…"}
    {"id": "90ab…", "at": 1763200003.5, "do": "set", "name": "max_rounds", "value": "12"}
    {"id": "c3d1…", "at": 1763200009.2, "do": "skip", "role": "review", "round": 1, "cycle": 2}

`pause`, `resume` and `stop` have nothing more, nor has the `skip` of whichever review is due.
Reading is strict: a line that is not exactly an ask is none at all, so that nobody is steered by
half of one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from cli_agent_orchestrator._internal.characters import HALVES
from cli_agent_orchestrator.errors import UsageError

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
