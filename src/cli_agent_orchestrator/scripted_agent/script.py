"""The script an agent obeys: its types, and how a TOML text becomes them.

The first rule whose conditions hold decides a turn; a rule without conditions holds always. What a
script says wrongly is an error that names the place:

    demo.toml: rule 3: seconds is -1, expected a number of seconds from 0 to 1000000

Named tuples, because importing `dataclasses` would lengthen the start of the program by a fifth.
"""

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from ..errors import ConfigError, UsageError


class Settings(NamedTuple):
    """How an agent starts, and by which signals it tells its state."""

    title: bool = True
    events: bool = True
    stream_state: bool = False
    start_delay: float = 0.0
    """Seconds until anything is drawn."""
    start_crash: int | None = None
    """End with this code instead of starting."""
    startup_dialog: str = "none"
    """The question before any work: `pass` (a server may answer it), `person` (only a person)."""


class Write(NamedTuple):
    """One change to a file below the working directory."""

    path: str
    content: str | None = None
    """The whole new content; None if `old` is to be replaced by `new`."""
    old: str = ""
    new: str = ""


class Misbehavior(NamedTuple):
    """What goes wrong in a turn."""

    hang: bool = False
    """Stay busy for ever, before the response file."""
    hang_after_file: bool = False
    crash: int | None = None
    """End with this code, before the response file."""
    crash_after_file: int | None = None
    ignore_file: bool = False
    """Do not write the response file."""
    pieces: int = 1
    """Write the response file in so many pieces."""
    reopen: bool = False
    """Close the response file after each piece."""
    late_file: float | None = None
    """Write the response file so many seconds after the turn is over."""
    flicker: int = 0
    """Look finished so often before being it."""
    pause: float = 0.2
    """Seconds between two pieces, and that a flicker lasts."""
    mislead: bool = False
    """Quote the marks of busy, finished, asking and failed agents."""
    error: str = ""
    """Fail with this message."""
    ask: str = ""
    """Ask a person for permission to do this."""
    swallow_enter: int = 0
    """Do not react to the first Enters."""
    lines: int = 0
    """Print so many lines first."""


class Rule(NamedTuple):
    """When a rule holds (an empty condition always does), and what to do in the turn."""

    role: Sequence[str] = ()
    """Roles or profiles."""
    turn: Sequence[int] = ()
    """How many messages this agent has taken, this one included."""
    round: Sequence[int] = ()
    cycle: Sequence[int] = ()
    contains: str = ""
    """Text that stands in the message."""
    seconds: float = 0.0
    run: Sequence[Sequence[str]] = ()
    """Commands, as argument lists."""
    write: Sequence[Write] = ()
    answer: str | None = None
    """None is the echo: what was received, in figures."""
    misbehave: Misbehavior = Misbehavior()


class Script(NamedTuple):
    """Everything an agent is told to do."""

    name: str
    settings: Settings = Settings()
    rules: Sequence[Rule] = ()


# Any: a value of the TOML file. What fits, and what to expect of one that does not.
Check = tuple[Callable[[Any], bool], str]
Checks = Mapping[str, Check]

MOST_SECONDS = 1_000_000
DIALOGS = ("none", "pass", "person")
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
TABLE: Check = (lambda value: isinstance(value, dict), "a table")
TABLES: Check = (lambda value: isinstance(value, list), "a list of tables")


def _is_path_inside(value: object) -> bool:
    return (
        isinstance(value, str)
        and value != ""
        and not value.startswith("/")
        and ".." not in value.split("/")
        and "\0" not in value
    )


def _is_command(value: object) -> bool:
    return (
        isinstance(value, list)
        and value != []
        and all(isinstance(word, str) and "\0" not in word for word in value)
    )


def _some(check: Check) -> Check:
    """Return the check of a list that is not empty."""
    fits, expected = check
    return lambda value: bool(value) and all(map(fits, value)), f"{expected}, or a list of them"


SETTINGS: Checks = {
    "title": FLAG,
    "events": FLAG,
    "stream_state": FLAG,
    "start_delay": SECONDS,
    "start_crash": EXIT_CODE,
    "startup_dialog": (lambda value: value in DIALOGS, "one of " + ", ".join(DIALOGS)),
    "rule": TABLES,
}
# Each may be one value or a list.
CONDITIONS: Checks = {
    "role": _some(TEXT),
    "turn": _some(COUNT),
    "round": _some(COUNT),
    "cycle": _some(COUNT),
}
RULE: Checks = {
    **CONDITIONS,
    "contains": TEXT,
    "seconds": SECONDS,
    "run": (
        lambda value: isinstance(value, list) and all(map(_is_command, value)),
        'commands as argument lists: [["python3", "-m", "unittest"]]',
    ),
    "write": TABLES,
    "answer": TEXT,
    "misbehave": TABLE,
}
WRITE: Checks = {
    "path": (_is_path_inside, "a path below the working directory"),
    "content": ANY_TEXT,
    "old": TEXT,
    "new": ANY_TEXT,
}
MISBEHAVIOR: Checks = {
    "hang": FLAG,
    "hang_after_file": FLAG,
    "crash": EXIT_CODE,
    "crash_after_file": EXIT_CODE,
    "ignore_file": FLAG,
    "pieces": COUNT,
    "reopen": FLAG,
    "late_file": SECONDS,
    "flicker": COUNT,
    "pause": SECONDS,
    "mislead": FLAG,
    "error": TEXT,
    "ask": TEXT,
    "swallow_enter": COUNT,
    "lines": COUNT,
}


def parse_script(text: str, name: str) -> Script:
    """Return the script in a TOML text, or raise a UsageError that names the place."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        # Besides its own error, the parser lets that of a number with too many digits through.
        raise UsageError(f"{name}: {error}") from None
    except RecursionError:
        raise UsageError(f"{name}: its tables and lists are nested too deeply") from None
    return read_script(table, name)


def read_script(table: object, name: str) -> Script:
    values = _read_table(table, name, SETTINGS)
    rules = enumerate(values.pop("rule", ()), start=1)
    return Script(
        name,
        Settings(**values),
        [_read_rule(rule, f"{name}: rule {number}") for number, rule in rules],
    )


def _read_rule(table: object, place: str) -> Rule:
    values = _read_table(table, place, RULE)
    writes = []
    for number, write in enumerate(values.pop("write", ()), start=1):
        here = f"{place}: write {number}"
        fields = _read_table(write, here, WRITE)
        if "path" not in fields:
            raise UsageError(f"{here}: path is missing")
        if ("content" in fields) == ("old" in fields):
            raise UsageError(f"{here}: expected either content, or old and new")
        writes.append(Write(**fields))
    bad = _read_table(values.pop("misbehave", {}), f"{place}: misbehave", MISBEHAVIOR)
    return Rule(write=tuple(writes), misbehave=Misbehavior(**bad), **values)


def _read_table(table: object, place: str, checks: Checks) -> dict[str, Any]:
    """Return the checked values of a table; a key without a check is an error."""
    if not isinstance(table, dict):
        raise ConfigError(place, table, "a table")
    values = {}
    for key, value in table.items():
        if key not in checks:
            known = ", ".join(checks)
            raise UsageError(f"{place}: there is no setting {key!r}; there are: {known}")
        fits, expected = checks[key]
        one_of_several = key in CONDITIONS and not isinstance(value, list)
        values[key] = [value] if one_of_several else value
        if not fits(values[key]):
            raise ConfigError(f"{place}: {key}", value, expected)
    return values


TITLE_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Event = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "StopFailure",
    "SessionEnd",
]
"""What happened, in the words that real agents use for their hooks."""

Look = Literal["", "idle", "working", "blocked", "done"]
"""What the agent shows of its state, in the words of the byte stream; empty is nothing yet."""


class Signals:
    """Speaks the signals that the settings leave on."""

    def __init__(self, settings: Settings, event_file: str | None) -> None:
        self._settings = settings
        self._event_file = event_file if settings.events else None
        self._title = ""
        self._look: Look = ""

    def announce(self, look: Look, frame: int) -> str:
        """Return the escape sequences that tell a look, empty if nothing has changed."""
        if not look:
            return ""
        told = ""
        title = {
            "working": f"{TITLE_SPINNER[frame % len(TITLE_SPINNER)]} scripted",
            "blocked": "[ ! ] Action Required",
        }.get(look, "scripted")
        if self._settings.title and title != self._title:
            self._title = title
            told += f"\x1b]2;{title}\x07"
        if self._settings.stream_state and look != self._look:
            self._look = look
            kind = ":kind=permission" if look == "blocked" else ""
            told += f"\x1b]7501;state={look}:app=scripted{kind}\x07"
        return told

    def tell(self, event: Event, message: str | None = None) -> None:
        """Append an event to the event file, in one write.

        A hook that fails does not stop an agent, so a file that cannot be written is no error.
        """
        if self._event_file is None:
            return
        fields = {"event": event} | ({} if message is None else {"message": message})
        with suppress(OSError):
            # Without waiting: a pipe that nobody reads would hold the agent for ever.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
            if event != "SessionEnd":  # a file that was taken away is not made again
                flags |= os.O_CREAT
            file = os.open(self._event_file, flags, 0o600)
            try:
                os.write(file, json.dumps(fields).encode() + b"\n")
            finally:
                os.close(file)
