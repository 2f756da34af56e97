"""Gates: commands of the user's that the orchestrator runs itself, and believes.

As text a gate is a line: the name and the command, a command alone, or a JSON object.

    tests=make test
    make test
    {"name": "e2e", "run": "npx playwright test", "clean": true, "setup": "npm ci"}

In a settings file each is a text or a table with these keys; docs/proof.md explains them.

A project may have come from anybody, so what its own file wants to be run is run only after the
user has seen it and agreed. That is remembered by folder and text: one word more in a command, or
the same file elsewhere, is another question.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from ..core.codec import convert, encode, object_of, parse, repaired, toml_value
from ..core.files import Folder
from ..errors import ConfigError, StateError, UsageError, suggestion
from ..events import PROOF
from .table import COMMANDS

NAME_PATTERN = r"[a-z][a-z0-9_-]{0,39}"
# tests=make test
NAMED_PATTERN = rf"({NAME_PATTERN})=(.*)"
USUAL_NAME = "tests"
MOST_GATES = 20
LONGEST_COMMAND = 10_000
MOST_SECONDS = 1e6
# reports/junit.xml
BELOW_PATTERN = r"\A(?:(?!\.{1,2}(?:/|\Z))[^/]+(?:/(?!\Z)|\Z))*\Z"
EXPECTED = "NAME=COMMAND, such as tests='make test'"


class When(StrEnum):
    BASE = "base"
    """Before the first turn; what fails there was not done by the run."""
    AFTER_PROGRAMMER = "after_programmer"
    AFTER_TESTER = "after_tester"
    """When the tester says PASS, or where a flow has a gate as its stage."""


class Gate(Struct, frozen=True):
    name: Annotated[str, Meta(pattern=rf"\A(?!{PROOF}\Z){NAME_PATTERN}\Z")]
    run: Annotated[str, Meta(min_length=1)]
    when: Annotated[tuple[When, ...], Meta(min_length=1)] = tuple(When)
    seconds: Annotated[float, Meta(ge=0, le=MOST_SECONDS)] = 0.0
    clean: bool = False
    setup: str = ""
    sandbox: bool = False
    allow_base_failures: bool = False
    junit: Annotated[str, Meta(pattern=BELOW_PATTERN)] = ""
    """A file with JUnit XML that it writes, in the folder in which it runs."""


USUAL = Gate("", "")
EXPECTED_OF = {
    "name": "a name of small letters, digits, - and _ (not proof)",
    "run": EXPECTED,
    "when": f"a list of: {', '.join(When)}",
    "seconds": "a number of seconds",
    "setup": "a text",
    "junit": "a file below the folder, without . or ..",
}


@lru_cache(maxsize=8)
def read_gates(text: str) -> tuple[Gate, ...]:
    gates = tuple(_read_line(line.strip()) for line in text.split("\n") if line.strip())
    names = [gate.name for gate in gates]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("GATES", text, f"another name for one of the gates called {name!r}")
    if len(gates) > MOST_GATES:
        raise ConfigError("GATES", f"{len(gates)} gates", f"at most {MOST_GATES}")
    return gates


def without_quotes(text: str) -> str:
    """Return gates as a shell hands them on, of what people write for one."""
    lines = []
    for line in text.split("\n"):
        words: list[str] = []
        if not line.lstrip().startswith("{"):
            with suppress(ValueError):
                words = shlex.split(line)
        lines.append(words[0] if len(words) == 1 else line)
    return "\n".join(lines)


def gates_toml(gates: tuple[Gate, ...]) -> Iterator[str]:
    """Yield gates as a settings file would have them, without what is usual: for people."""
    for gate in gates:
        unusual = _unusual(gate)
        if set(unusual) == {"name", "run"}:
            yield f"{gate.name} = {toml_value(gate.run)}"
            continue
        yield f"[gates.{gate.name}]"
        yield from (f"  {key} = {toml_value(unusual[key])}" for key in unusual if key != "name")


def gates_text(gates: tuple[Gate, ...]) -> str:
    """Return gates in the one form in which they are compared and saved."""
    lines = []
    for gate in gates:
        unusual = _unusual(gate)
        is_plain = set(unusual) == {"name", "run"}
        text = f"{gate.name}={gate.run}" if is_plain else json.dumps(unusual, ensure_ascii=False)
        lines.append(text)
    return "\n".join(lines)


def read_gates_table(table: Mapping[str, Any], where: str) -> str:
    found = []
    for name, value in table.items():
        place = f"gates.{name}{where}"
        data = {"run": value} if isinstance(value, str) else value
        if not isinstance(data, dict):
            raise ConfigError(place, value, "a command, or a table with `run`")
        found.append(_from_table({**data, "name": name}, place))
    return gates_text(tuple(found))


def _read_line(line: str) -> Gate:
    if line.startswith("{"):
        data = object_of(line)
        if not data:
            raise ConfigError("GATES", line, EXPECTED)
    else:
        named = re.fullmatch(NAMED_PATTERN, line)
        name, command = (named[1], named[2].strip()) if named else (USUAL_NAME, line)
        data = {"name": name, "run": command}
    return _from_table(data, "GATES")


def _from_table(table: Mapping[str, Any], where: str) -> Gate:
    types = {one.name: one.type for one in fields(Gate)}
    data = {"name": "", "run": "", **table}
    if isinstance(data["run"], str):
        data["run"] = data["run"].strip()
    for key, value in data.items():
        if key not in types:
            expected = f"one of {', '.join(types)}{suggestion(key, types)}"
            raise ConfigError(f"a key of {where}", key, expected)
        place = where if key == "run" else f"{key} of {where}"
        try:
            convert(types[key], value)
        except ValueError:
            raise ConfigError(place, value, EXPECTED_OF.get(key, "true or false")) from None
        # Nor one that a screen would show in another order than it is.
        if isinstance(value, str) and not (value.isprintable() and len(value) <= LONGEST_COMMAND):
            raise ConfigError(place, value, "a text of one line without control characters")
    return convert(Gate, data)


# Any: what a gate has, each of its own type
def _unusual(gate: Gate) -> dict[str, Any]:
    return {
        one.name: value
        for one in fields(Gate)
        if (value := getattr(gate, one.name)) != getattr(USUAL, one.name)
    }


TRUST_FILE = "trust.json"
VERSION = 1
MOST_ENTRIES = 1000
SETUP_WORDS = "setup of a work tree: "


class Allowed(Struct, frozen=True):
    folder: str
    commands: str
    at: float = 0.0


def commands_text(commands: Mapping[str, str]) -> str:
    gates, setup = (commands.get(name, "") for name in COMMANDS)
    return "\n".join(filter(None, (gates, setup and f"{SETUP_WORDS}{setup}")))


def command_lines(commands: str) -> Iterator[str]:
    """Yield the commands of a project's own file as it has them itself, with all that is set."""
    for line in commands.split("\n"):
        try:
            yield from [line] if line.startswith(SETUP_WORDS) else gates_toml(read_gates(line))
        except ConfigError:
            yield line


def check_consent(trust: "Trust", folder: Path, commands: str, file: str = "") -> None:
    """Raise an error unless the user has allowed the commands of a project's own file."""
    if not commands or trust.allows(folder, commands):
        return
    listed = "\n".join(f"  {line}" for line in command_lines(commands))
    how = "--trust" if file else "`cao trust` in that folder or with --trust"
    raise UsageError(
        f"{file or f'cao.toml in {folder}'} wants these commands to be run:\n{listed}\n"
        f"Look at them, and allow them with {how}; nothing was run"
    )


class Trust:
    """What the user has allowed; kept in the user's own state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = Folder(state_folder, private=True)

    def allows(self, folder: Path, commands: str) -> bool:
        return any((one.folder, one.commands) == (str(folder), commands) for one in self.all())

    def allow(self, folder: Path, commands: str, at: float) -> None:
        """Remember that the user allows these commands, beside those of other branches."""
        entry = Allowed(str(folder), commands, at)
        others = (one for one in self.all() if replace(one, at=at) != entry)
        self._write((*others, entry)[-MOST_ENTRIES:])

    def revoke(self, folder: Path) -> bool:
        before = self.all()
        left = tuple(one for one in before if one.folder != str(folder))
        if left == before:
            return False
        self._write(left)
        return True

    def all(self) -> tuple[Allowed, ...]:
        """List everything that is allowed, the oldest first; what cannot be read allows nothing."""
        try:
            data = parse(self._folder.read(TRUST_FILE))
            return repaired(tuple[Allowed, ...], data["allowed"])
        except (OSError, ValueError, LookupError, TypeError):
            return ()

    def _write(self, entries: tuple[Allowed, ...]) -> None:
        data = encode({"version": VERSION, "allowed": entries}, indent=1)
        try:
            self._folder.replace(TRUST_FILE, data)
        except OSError as error:
            path = self._folder.path / TRUST_FILE
            raise StateError(f"{path} cannot be written: {error.strerror}") from error
