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


Path = tuple[str | int, ...]
"""The way to a value: `("roles", "tester", "sees", 2, "title")`."""

TOKEN_PATTERN = (
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|"
    r"#[^\n]*|"
    r"[\[\]{}=,.\n]|"
    r"[^\s\[\]{}=,.\"'#]+"
)
VALUE_ENDS = ("\n", ",", "]", "}", "")


def find_line(text: str, path: Path) -> int:
    """Return the number of the line on which a value stands, from 1."""
    lines = _Scan(text).lines
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)


class _Scan:
    """One walk through a text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._tokens = _tokens(text)
        self._at = 0
        self._table: Path = ()
        self._lengths: dict[Path, int] = {}
        while self._peek():
            self._statement()

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _statement(self) -> None:
        if self._peek() == "\n":
            self._take()
        elif self._peek() == "[":
            self._header()
        else:
            self._pair(self._table)

    def _header(self) -> None:
        _, line = self._take()
        many = self._peek() == "["
        if many:
            self._take()
        path = self._inside(self._key("]"))
        while self._peek() == "]":
            self._take()
        if many:
            number = self._lengths.get(path, 0)
            self._lengths[path] = number + 1
            self.lines.setdefault(path, line)
            path = (*path, number)
        self._table = path
        self.lines[path] = line

    def _inside(self, parts: Path) -> Path:
        """Return the way to a table: below a list of tables it is the last of them."""
        path: Path = ()
        for index, part in enumerate(parts):
            path = (*path, part)
            if path in self._lengths and index < len(parts) - 1:
                path = (*path, self._lengths[path] - 1)
        return path

    def _key(self, end: str) -> Path:
        parts: list[str] = []
        while self._peek() not in (end, ""):
            token, _ = self._take()
            if token != ".":
                parts.append(token.strip("\"'"))
        return tuple(parts)

    def _pair(self, table: Path) -> None:
        line = self._tokens[self._at][1]
        parts = self._key("=")
        for length in range(1, len(parts) + 1):
            self.lines.setdefault((*table, *parts[:length]), line)
        if self._peek():
            self._take()
        self._value((*table, *parts))

    def _value(self, path: Path) -> None:
        match self._peek():
            case "[":
                self._items(path)
            case "{":
                self._pairs(path)
            case _:
                while self._peek() not in VALUE_ENDS:
                    self._take()

    def _items(self, path: Path) -> None:
        self._take()
        number = 0
        while self._peek() not in ("]", ""):
            if self._peek() in ("\n", ","):
                self._take()
                continue
            self.lines[*path, number] = self._tokens[self._at][1]
            self._value((*path, number))
            number += 1
        if self._peek():
            self._take()

    def _pairs(self, path: Path) -> None:
        self._take()
        while self._peek() not in ("}", ""):
            if self._peek() in ("\n", ","):
                self._take()
                continue
            self._pair(path)
        if self._peek():
            self._take()


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return the tokens of a text without comments, each with the number of its line."""
    found = []
    line = 1
    for token in re.findall(TOKEN_PATTERN, text, re.DOTALL):
        if not token.startswith("#"):
            found.append((token, line))
        line += token.count("\n")
    return found
