"""The script an agent obeys: its types, and how a TOML text becomes them.

The first rule whose conditions hold decides a turn; a rule without conditions holds always.
docs/scripted-agent.md says what each field does. A mistake is an error that names the place:

    demo.toml: rule 3: seconds is -1, expected a number of seconds from 0 to 1000000
"""

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple

from ..errors import ConfigError, UsageError

# Any: a value of the TOML file. What fits, and what to expect of one that does not.
Check = tuple[Callable[[Any], bool], str]

MOST_SECONDS = 1_000_000
DIALOGS = ("none", "pass", "person")


def _is_command(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(word, str) for word in value)


def _some(check: Check) -> Check:
    fits, expected = check
    return lambda value: bool(value) and all(map(fits, value)), f"{expected}, or a list of them"


FLAG: Check = (lambda value: isinstance(value, bool), "true or false")
SECONDS: Check = (
    lambda value: type(value) in (int, float) and 0 <= value <= MOST_SECONDS,
    f"a number of seconds from 0 to {MOST_SECONDS}",
)
COUNT: Check = (lambda value: type(value) is int and value >= 1, "a whole number of at least 1")
EXIT_CODE: Check = (
    lambda value: type(value) is int and 0 <= value <= 255,
    "an exit code from 0 to 255",
)
ANY_TEXT: Check = (lambda value: isinstance(value, str), "a text")
TEXT: Check = (lambda value: isinstance(value, str) and value != "", "a text that is not empty")
DIALOG: Check = (lambda value: value in DIALOGS, "one of " + ", ".join(DIALOGS))
COMMANDS: Check = (
    lambda value: isinstance(value, list) and all(map(_is_command, value)),
    'commands as argument lists: [["python3", "-m", "unittest"]]',
)
TABLE: Check = (lambda value: isinstance(value, dict), "a table")
TABLES: Check = (lambda value: isinstance(value, list), "a list of tables")

Flag = Annotated[bool, FLAG]
Seconds = Annotated[float, SECONDS]
Count = Annotated[int, COUNT]
ExitCode = Annotated[int | None, EXIT_CODE]
Text = Annotated[str, TEXT]
Counts = Annotated[Sequence[int], _some(COUNT)]


class Write(NamedTuple):
    path: Text
    content: Annotated[str | None, ANY_TEXT] = None
    old: Text = ""
    new: Annotated[str, ANY_TEXT] = ""


class Misbehavior(NamedTuple):
    hang: Flag = False
    crash: ExitCode = None
    ignore_file: Flag = False
    pieces: Count = 1
    reopen: Flag = False
    late_file: Annotated[float | None, SECONDS] = None
    flicker: Count = 0
    pause: Seconds = 0.2
    mislead: Flag = False
    error: Text = ""
    ask: Text = ""
    swallow_enter: Count = 0
    lines: Count = 0


class Rule(NamedTuple):
    """When a rule holds (an empty condition always does), and what to do in the turn."""

    role: Annotated[Sequence[str], _some(TEXT)] = ()
    turn: Counts = ()
    round: Counts = ()
    cycle: Counts = ()
    contains: Text = ""
    seconds: Seconds = 0.0
    run: Annotated[Sequence[Sequence[str]], COMMANDS] = ()
    write: Annotated[Sequence[Write], TABLES] = ()
    answer: Annotated[str | None, TEXT] = None
    misbehave: Annotated[Misbehavior, TABLE] = Misbehavior()


class Script(NamedTuple):
    name: str
    title: Flag = True
    events: Flag = True
    start_delay: Seconds = 0.0
    start_crash: ExitCode = None
    startup_dialog: Annotated[str, DIALOG] = "none"
    rule: Annotated[Sequence[Rule], TABLES] = ()


def parse_script(text: str, name: str) -> Script:
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    values = _read_table(table, name, Script)
    rules = enumerate(values.pop("rule", ()), start=1)
    read = [_read_rule(rule, f"{name}: rule {number}") for number, rule in rules]
    return Script(name, rule=read, **values)


def _read_rule(table: object, place: str) -> Rule:
    values = _read_table(table, place, Rule)
    writes = []
    for number, write in enumerate(values.pop("write", ()), start=1):
        here = f"{place}: write {number}"
        fields = _read_table(write, here, Write)
        if "path" not in fields:
            raise UsageError(f"{here}: path is missing")
        if ("content" in fields) == ("old" in fields):
            raise UsageError(f"{here}: expected either content, or old and new")
        writes.append(Write(**fields))
    bad = _read_table(values.pop("misbehave", {}), f"{place}: misbehave", Misbehavior)
    return Rule(write=tuple(writes), misbehave=Misbehavior(**bad), **values)


def _read_table(table: object, place: str, kind: type) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(place, table, "a table")
    fields = kind.__annotations__.items()
    known = {key: one.__metadata__[0] for key, one in fields if one is not str}
    values = {}
    for key, value in table.items():
        if key not in known:
            names = ", ".join(known)
            raise UsageError(f"{place}: there is no setting {key!r}; there are: {names}")
        fits, expected = known[key]
        may_be_several = key in ("role", "turn", "round", "cycle")
        one_of_several = may_be_several and not isinstance(value, list)
        values[key] = [value] if one_of_several else value
        if not fits(values[key]):
            raise ConfigError(f"{place}: {key}", value, expected)
    return values


TITLE_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Look = Literal["", "idle", "working", "blocked", "done"]


class Signals:
    def __init__(self, script: Script, event_file: str | None) -> None:
        self._script = script
        self._event_file = event_file if script.events else None
        self._title = ""

    def announce(self, look: Look, frame: int) -> str:
        title = {
            "working": f"{TITLE_SPINNER[frame % len(TITLE_SPINNER)]} scripted",
            "blocked": "[ ! ] Action Required",
        }.get(look, "scripted")
        if not (look and self._script.title) or title == self._title:
            return ""
        self._title = title
        return f"\x1b]2;{title}\x07"

    def tell(self, event: str, message: str | None = None) -> None:
        """Append an event to the event file, in one write; a hook that fails stops no agent."""
        if self._event_file is None:
            return
        fields = {"event": event} | ({} if message is None else {"message": message})
        with suppress(OSError):
            # Without waiting: a pipe without a reader would hold the agent for ever.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
            if event != "SessionEnd":  # a file that was taken away is not made again
                flags |= os.O_CREAT
            file = os.open(self._event_file, flags, 0o600)
            try:
                os.write(file, json.dumps(fields).encode() + b"\n")
            finally:
                os.close(file)
