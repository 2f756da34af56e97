"""What a user may request of a run, as values and as lines of its control file."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Struct

from ..core import codec
from ..core.text import HALVES
from ..errors import UsageError

LARGEST_HINT = 8 * 1024
"""Characters of a hint: it becomes a part of a prompt."""
LARGEST_WORD = 200
LARGEST_TIME = 1e12

# neither blank nor broken
TEXT_PATTERN = rf"\A(?=(?s:.)*\S)[^{HALVES}]*\Z"

Word = Annotated[str, Meta(max_length=LARGEST_WORD, pattern=TEXT_PATTERN)]
Number = Annotated[int, Meta(ge=1)]


class Pause(Struct, frozen=True, tag_field="do", tag="pause"):
    """Wait after the present turn."""


class Unpause(Struct, frozen=True, tag_field="do", tag="resume"):
    """Go on after a pause."""


class Stop(Struct, frozen=True, tag_field="do", tag="stop"):
    """End the run and its agents, without a verdict."""


class Skip(Struct, frozen=True, tag_field="do", tag="skip"):
    """Count the review that is under way or due as approved: the one that is named, if one is."""

    role: Word | None = None
    round: Number | None = None
    cycle: Number | None = None

    def __post_init__(self) -> None:
        if len({self.role is None, self.round is None, self.cycle is None}) > 1:
            raise ValueError("a part of the name of a review is missing")


class Hint(Struct, frozen=True, tag_field="do", tag="hint"):
    """Tell an agent something with its next prompt."""

    role: Word | None
    text: Annotated[str, Meta(max_length=LARGEST_HINT, pattern=TEXT_PATTERN)]


class Set(Struct, frozen=True, tag_field="do", tag="set"):
    name: Word
    value: Word


class Answered(Struct, frozen=True, tag_field="do", tag="answered"):
    role: Word
    text: Word
    """The words of the choice, else the key that was pressed."""


Request = Pause | Unpause | Stop | Skip | Hint | Set | Answered


class SentRequest(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"\A[0-9a-zA-Z-]{1,64}\Z")]
    at: Annotated[float, Meta(ge=0, lt=LARGEST_TIME)]
    request: Request


EXPECTED = {
    "hint": f"a text in UTF-8 that is not empty and has at most {LARGEST_HINT} characters, and if "
    "wanted a role",
    "skip": "the role, the round and the cycle of a review, or none of them",
    "set": f"a name and a value of at most {LARGEST_WORD} characters",
    "answered": f"a role and a text of at most {LARGEST_WORD} characters",
}


def to_line(ask: SentRequest) -> str:
    return json.dumps({"id": ask.id, "at": ask.at, **codec.plain(ask.request)})


def read_lines(data: bytes, start: int) -> list[tuple[SentRequest, int]]:
    """Return each request in whole lines of a control file, and where it ends, in bytes.

    `start` is where they begin in it. What is no request is passed over.
    """
    found: list[tuple[SentRequest, int]] = []
    for line in re.findall(rb"[^\n]*\n", data):
        start += len(line)
        if (ask := read_line(line)) is not None:
            found.append((ask, start))
    return found


def read_line(line: str | bytes) -> SentRequest | None:
    data = codec.object_of(line)
    try:
        return codec.convert(SentRequest, {**data, "request": data})
    except ValueError:
        return None


def demand_request(data: Mapping[str, Any]) -> Request:
    try:
        request: Request = msgspec.convert(data, Request)
    except ValueError:
        known = f"one of {', '.join(kind.__struct_config__.tag for kind in get_args(Request))}"
        raise UsageError(f"expected {EXPECTED.get(str(data.get('do')), known)}") from None
    return request
