"""The script an agent obeys: its types, and how a TOML text becomes them.

The first rule whose conditions hold decides a turn; a rule without conditions holds always. What a
script says wrongly is an error that names the place:

    demo.toml: rule 3: seconds is -1, expected a number of seconds from 0 to 1000000

Named tuples, because importing `dataclasses` would lengthen the start of the program by a fifth.
"""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from ..errors import ConfigError, UsageError

MOST_SECONDS = 1_000_000
COMMANDS_EXPECTED = 'commands as argument lists: [["python3", "-m", "unittest"]]'


class StartupDialog(StrEnum):
    """The question an agent asks before it can be given work."""

    NONE = "none"
    PASS = "pass"
    """One that a server may answer by itself."""
    PERSON = "person"
    """One that only a person may answer."""


class Settings(NamedTuple):
    """How an agent starts, and by which signals it tells its state."""

    title: bool = True
    events: bool = True
    stream_state: bool = False
    start_delay: float = 0.0
    """Seconds until anything is drawn."""
    start_crash: int | None = None
    """End with this code instead of starting."""
    startup_dialog: StartupDialog = StartupDialog.NONE


class Conditions(NamedTuple):
    """When a rule holds; an empty condition always does."""

    role: tuple[str, ...] = ()
    """Roles or profiles."""
    turn: tuple[int, ...] = ()
    """How many messages this agent has taken, this one included."""
    round: tuple[int, ...] = ()
    cycle: tuple[int, ...] = ()
    contains: str = ""
    """Text that stands in the message."""


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
    """What to do in a turn."""

    conditions: Conditions = Conditions()
    seconds: float = 0.0
    run: tuple[tuple[str, ...], ...] = ()
    """Commands, as argument lists."""
    write: tuple[Write, ...] = ()
    answer: str | None = None
    """None is the echo: what was received, in figures."""
    misbehave: Misbehavior = Misbehavior()


class Script(NamedTuple):
    """Everything an agent is told to do."""

    name: str
    settings: Settings = Settings()
    rules: tuple[Rule, ...] = ()


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
    values = _read_table(table, name, SETTINGS | {"rule": _tables})
    rules = values.pop("rule", ())
    return Script(
        name,
        Settings(**values),
        tuple(_read_rule(rule, f"{name}: rule {n}") for n, rule in enumerate(rules, start=1)),
    )


def _read_rule(table: object, place: str) -> Rule:
    values = _read_table(table, place, CONDITIONS | RULE)
    conditions = {key: values.pop(key) for key in CONDITIONS if key in values}
    writes = enumerate(values.pop("write", ()), start=1)
    misbehave = values.pop("misbehave", {})
    return Rule(
        Conditions(**conditions),
        write=tuple(_read_write(write, f"{place}: write {n}") for n, write in writes),
        misbehave=Misbehavior(**_read_table(misbehave, f"{place}: misbehave", MISBEHAVIOR)),
        **values,
    )


def _read_write(table: object, place: str) -> Write:
    values = _read_table(table, place, WRITE)
    if "path" not in values:
        raise UsageError(f"{place}: path is missing")
    write = Write(**values)
    if (write.content is None) == (not write.old):
        raise UsageError(f"{place}: expected either content, or old and new")
    return write


# Any: each check returns what its field holds
Checks = Mapping[str, Callable[[object], Any]]


class Unfit(Exception):
    """A value is not what was expected; the text says what was."""


def _read_table(table: object, place: str, checks: Checks) -> dict[str, Any]:
    """Return the checked values of a table; a key without a check is an error."""
    if not isinstance(table, dict):
        raise ConfigError(place, table, "a table")
    values = {}
    for key, value in table.items():
        if key not in checks:
            known = ", ".join(checks)
            raise UsageError(f"{place}: there is no setting {key!r}; there are: {known}")
        try:
            values[key] = checks[key](value)
        except Unfit as unfit:
            raise ConfigError(f"{place}: {key}", value, str(unfit)) from None
    return values


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def _seconds(value: object) -> float:
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= MOST_SECONDS
    ):
        return float(value)
    raise Unfit(f"a number of seconds from 0 to {MOST_SECONDS}")


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Unfit("a whole number of at least 1")
    return value


def _exit_code(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 255:
        raise Unfit("an exit code from 0 to 255")
    return value


def _any_text(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit("a text")
    return value


def _text(value: object) -> str:
    if not _any_text(value):
        raise Unfit("a text that is not empty")
    return str(value)


def _path_inside(value: object) -> str:
    path = _text(value)
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Unfit("a path below the working directory")
    return path


def _dialog(value: object) -> StartupDialog:
    if value not in list(StartupDialog):
        raise Unfit("one of " + ", ".join(StartupDialog))
    return StartupDialog(str(value))


def _each(check: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    """Return the check of one value or a list of them."""

    def read(value: object) -> tuple[Any, ...]:
        if value == []:
            raise Unfit("at least one value")
        return tuple(check(item) for item in (value if isinstance(value, list) else [value]))

    return read


def _commands(value: object) -> tuple[tuple[str, ...], ...]:
    for command in value if isinstance(value, list) else [None]:
        if not isinstance(command, list) or not command:
            raise Unfit(COMMANDS_EXPECTED)
        if not all(isinstance(word, str) and "\0" not in word for word in command):
            raise Unfit(COMMANDS_EXPECTED)
    return tuple(map(tuple, value)) if isinstance(value, list) else ()


def _tables(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Unfit("a list of tables")
    return value


SETTINGS: dict[str, Callable[[object], Any]] = {
    "title": _flag,
    "events": _flag,
    "stream_state": _flag,
    "start_delay": _seconds,
    "start_crash": _exit_code,
    "startup_dialog": _dialog,
}
CONDITIONS: dict[str, Callable[[object], Any]] = {
    "role": _each(_text),
    "turn": _each(_count),
    "round": _each(_count),
    "cycle": _each(_count),
    "contains": _text,
}
RULE: dict[str, Callable[[object], Any]] = {
    "seconds": _seconds,
    "run": _commands,
    "write": _tables,
    "answer": _text,
    "misbehave": lambda value: value,
}
WRITE: Checks = {"path": _path_inside, "content": _any_text, "old": _text, "new": _any_text}
MISBEHAVIOR: Checks = {
    "hang": _flag,
    "hang_after_file": _flag,
    "crash": _exit_code,
    "crash_after_file": _exit_code,
    "ignore_file": _flag,
    "pieces": _count,
    "reopen": _flag,
    "late_file": _seconds,
    "flicker": _count,
    "pause": _seconds,
    "mislead": _flag,
    "error": _text,
    "ask": _text,
    "swallow_enter": _count,
    "lines": _count,
}


TITLE_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Event(Enum):
    """What happened, in the words that real agents use for their hooks."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PERMISSION_REQUEST = "PermissionRequest"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    STOP = "Stop"
    STOP_FAILURE = "StopFailure"
    SESSION_END = "SessionEnd"


class Look(Enum):
    """What the agent shows of its state; the value is its word in the byte stream."""

    NOTHING = ""
    IDLE = "idle"
    BUSY = "working"
    ASKING = "blocked"
    DONE = "done"


class Signals:
    """Speaks the signals that the settings leave on."""

    def __init__(self, settings: Settings, event_file: str | None) -> None:
        self._settings = settings
        self._event_file = event_file if settings.events else None
        self._title = ""
        self._look = Look.NOTHING

    def announce(self, look: Look, frame: int) -> str:
        """Return the escape sequences that tell a look, empty if nothing has changed."""
        if look is Look.NOTHING:
            return ""
        told = ""
        title = {
            Look.BUSY: f"{TITLE_SPINNER[frame % len(TITLE_SPINNER)]} scripted",
            Look.ASKING: "[ ! ] Action Required",
        }.get(look, "scripted")
        if self._settings.title and title != self._title:
            self._title = title
            told += f"\x1b]2;{title}\x07"
        if self._settings.stream_state and look is not self._look:
            self._look = look
            kind = ":kind=permission" if look is Look.ASKING else ""
            told += f"\x1b]7501;state={look.value}:app=scripted{kind}\x07"
        return told

    def tell(self, event: Event, message: str | None = None) -> None:
        """Append an event to the event file, in one write.

        A hook that fails does not stop an agent, so a file that cannot be written is no error.
        """
        if self._event_file is None:
            return
        fields = {"event": event.value} | ({} if message is None else {"message": message})
        with suppress(OSError):
            # Without waiting: a pipe that nobody reads would hold the agent for ever.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
            if event is not Event.SESSION_END:  # a file that was taken away is not made again
                flags |= os.O_CREAT
            file = os.open(self._event_file, flags, 0o600)
            try:
                os.write(file, json.dumps(fields).encode() + b"\n")
            finally:
                os.close(file)
