"""Values, and values as JSON: msgspec structs, written and read by msgspec.

Reading is lenient: unknown fields are skipped, and a damaged field has its default. What cannot be
repaired is a ValueError. TOML comes from anybody, such as a cloned project: none keeps us busy for
hours.
"""

import json
import re
import tomllib
from collections.abc import Collection
from itertools import takewhile
from typing import Any, TypeVar

import msgspec

Value = TypeVar("Value")


class Private(msgspec.Struct, frozen=True):
    """A value with text that must not reach a log: its repr shows the name of the class alone."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


MOST_REPAIRS = 100
HALF_CHARACTER = rb"\ud"
"""Of a file's name for example: no text to msgspec, but to us."""
# "Expected `int`, got `str` - at `$.open_notes[2].round`"; "… - at `key` in `$.terminals`"
PLACE_PATTERN = r"at (?:`key` in )?`\$(?P<path>[^`]*)`\Z"
# open_notes  2  round; "[...]" stands for any key of a table
STEP_PATTERN = r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])"


def encode(value: object, indent: int | None = None) -> bytes:
    return json.dumps(plain(value), indent=indent).encode()


# Any: JSON of any form
def plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def parse(data: bytes | str) -> Any:
    """Return JSON data; raise ValueError if it is none."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        text = data if isinstance(data, bytes) else data.encode(errors="replace")
        if HALF_CHARACTER not in text:
            raise
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def object_of(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object on a line that a program wrote; an empty one if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decode(kind: type[Value], data: bytes, needed: Collection[str] = ()) -> Value:
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError):
        return repaired(kind, parse(data), needed)


def convert(kind: type[Value], data: object) -> Value:
    return msgspec.convert(data, kind)


def repaired(kind: type[Value], data: Any, needed: Collection[str] = ()) -> Value:
    """Return what JSON data describes; damaged fields are removed from it, but no `needed` ones."""
    for _ in range(MOST_REPAIRS):
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            place = re.search(PLACE_PATTERN, str(error))
            found = re.findall(STEP_PATTERN, place["path"]) if place else []
            # The way to what is damaged; as far as the table in which it is.
            known = takewhile(lambda step: not step[2], found)
            steps = [name or int(index) for name, index, _ in known]
            if not steps or steps[0] in needed:
                raise
            holder = data
            for step in steps[:-1]:
                holder = holder[step]
            del holder[steps[-1]]
    raise ValueError("it is damaged in too many places")


MOST_DOTS = 200
"""On a line. The time that the parser takes for a key grows with the square of its parts."""


# Any: what a TOML file holds.
def read_toml(text: str) -> dict[str, Any]:
    """Return what a text holds; raise ValueError if it is no TOML for us."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"More than {MOST_DOTS} dots on a line (at line {number}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("Too many brackets in one another") from None


def toml_value(value: object) -> str:
    """Return a value as TOML has it; JSON writes the same, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
