"""Saved values as JSON: dataclasses, written and read by msgspec.

Reading is lenient: unknown fields are skipped, and a damaged field has its default. What cannot be
repaired is a ValueError. TOML comes from anybody, such as a cloned project: none keeps us busy for
hours.
"""

import json
import re
import tomllib
from collections.abc import Collection
from typing import Any, TypeVar

Value = TypeVar("Value")

MOST_REPAIRS = 100
HALF_CHARACTER = rb"\ud"
"""Of a file's name for example: no text to msgspec, but to us."""
# "Expected `int`, got `str` - at `$.open_notes[2].round`"; "… - at `key` in `$.terminals`"
PLACE_PATTERN = r"at (?:`key` in )?`\$(?P<path>[^`]*)`\Z"
# open_notes  2  round; "[...]" stands for any key of a table
STEP_PATTERN = r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])"


def encode(value: object, indent: int | None = None) -> bytes:
    """Return a value as JSON, in ASCII, on one line unless an indent is given."""
    return json.dumps(plain(value), indent=indent).encode()


# Any: JSON of any form
def plain(value: object) -> Any:
    """Return a value as JSON data: dictionaries, lists, texts and numbers."""
    import msgspec

    return msgspec.to_builtins(value)


def parse(data: bytes | str) -> Any:
    """Return JSON data; raise ValueError if it is none."""
    import msgspec

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
    """Return the value that a file holds, repaired."""
    import msgspec

    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError):
        return repaired(kind, parse(data), needed)


def convert(kind: type[Value], data: object) -> Value:
    """Return the value that JSON data describes; raise ValueError if any field is damaged."""
    import msgspec

    return msgspec.convert(data, kind)


def repaired(kind: type[Value], data: Any, needed: Collection[str] = ()) -> Value:
    """Return the value that JSON data describes, without the fields that are damaged.

    The data is changed. Of `needed` fields nothing is repaired.
    """
    import msgspec

    for _ in range(MOST_REPAIRS):
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            place = re.search(PLACE_PATTERN, str(error))
            steps = _steps(place["path"]) if place else []
            if not steps or steps[0] in needed:
                raise
            holder = data
            for step in steps[:-1]:
                holder = holder[step]
            del holder[steps[-1]]
    raise ValueError("it is damaged in too many places")


def _steps(path: str) -> list[str | int]:
    """Return the way to what is damaged; as far as the table in which it is."""
    steps: list[str | int] = []
    for name, index, anything in re.findall(STEP_PATTERN, path):
        if anything:
            break
        steps.append(name or int(index))
    return steps


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
    """Return a value as TOML has it; JSON writes the same, but for one character.

    >>> toml_value('say "a"'), toml_value(True)
    ('"say \\\\"a\\\\""', 'true')
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
