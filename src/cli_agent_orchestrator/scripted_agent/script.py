"""The script an agent obeys: its types, and how a TOML text becomes them.

The first rule whose conditions hold decides a turn; a rule without conditions holds always. What a
script says wrongly is an error that names the place:

    demo.toml: rule 3: seconds is -1, expected a number of seconds from 0 to 1000000

Named tuples, because importing `dataclasses` would lengthen the start of the program by a fifth.
"""

import json
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, StrEnum
from typing import NamedTuple, TypeVar

from ..errors import ConfigError, UsageError

Value = TypeVar("Value")
Default = TypeVar("Default")

MOST_SECONDS = 1_000_000
COMMANDS_EXPECTED = 'commands as argument lists: [["python3", "-m", "unittest"]]'


class Fields:
    """One table of a script, read key by key; what nobody asked for is an error."""

    def __init__(self, table: object, place: str) -> None:
        if not isinstance(table, dict):
            raise ConfigError(place, table, "a table")
        self._left = dict(table)
        self._place = place
        self._known: list[str] = []

    def read(self, key: str, check: Callable[[object], Value], default: Default) -> Value | Default:
        """Return the checked value of a key, or the default if it is not there."""
        self._known.append(key)
        if key not in self._left:
            return default
        value = self._left.pop(key)
        try:
            return check(value)
        except Unfit as unfit:
            raise ConfigError(f"{self._place}: {key}", value, str(unfit)) from None

    def refuse_the_rest(self) -> None:
        """Raise a UsageError if there are keys that nobody has read."""
        for key in self._left:
            known = ", ".join(self._known)
            raise UsageError(f"{self._place}: there is no setting {key!r}; there are: {known}")


class Unfit(Exception):
    """A value is not what was expected; the text says what was."""


def anything(value: object) -> object:
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit("a number of seconds")
    if not 0 <= value <= MOST_SECONDS:
        raise Unfit(f"a number of seconds from 0 to {MOST_SECONDS}")
    return float(value)


def _whole(value: object, least: int, most: float, expected: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Unfit(expected)
    return value


def count(value: object) -> int:
    return _whole(value, 1, float("inf"), "a whole number of at least 1")


def exit_code(value: object) -> int:
    return _whole(value, 0, 255, "an exit code from 0 to 255")


def any_text(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit("a text")
    return value


def text(value: object) -> str:
    own = any_text(value)
    if not own:
        raise Unfit("a text that is not empty")
    return own


def path_inside(value: object) -> str:
    path = text(value)
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Unfit("a path below the working directory")
    return path


def texts(value: object) -> tuple[str, ...]:
    return tuple(text(item) for item in _listed(value))


def counts(value: object) -> tuple[int, ...]:
    return tuple(count(item) for item in _listed(value))


def _listed(value: object) -> list[object]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise Unfit("at least one value")
    return items


def commands(value: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list):
        raise Unfit(COMMANDS_EXPECTED)
    return tuple(_command(item) for item in value)


def _command(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise Unfit(COMMANDS_EXPECTED)
    if not all(isinstance(word, str) and "\0" not in word for word in value):
        raise Unfit(COMMANDS_EXPECTED)
    return tuple(value)


def tables(value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise Unfit("a list of tables")
    return tuple(value)


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
    """Return the script in an already parsed table."""
    top = Fields(table, name)
    settings = Settings(
        title=top.read("title", flag, True),
        events=top.read("events", flag, True),
        stream_state=top.read("stream_state", flag, False),
        start_delay=top.read("start_delay", seconds, 0.0),
        start_crash=top.read("start_crash", exit_code, None),
        startup_dialog=top.read("startup_dialog", _dialog, StartupDialog.NONE),
    )
    rules = top.read("rule", tables, ())
    top.refuse_the_rest()
    return Script(
        name,
        settings,
        tuple(_read_rule(rule, f"{name}: rule {n}") for n, rule in enumerate(rules, start=1)),
    )


def _read_rule(table: object, place: str) -> Rule:
    fields = Fields(table, place)
    rule = Rule(
        conditions=Conditions(
            role=fields.read("role", texts, ()),
            turn=fields.read("turn", counts, ()),
            round=fields.read("round", counts, ()),
            cycle=fields.read("cycle", counts, ()),
            contains=fields.read("contains", text, ""),
        ),
        seconds=fields.read("seconds", seconds, 0.0),
        run=fields.read("run", commands, ()),
        write=tuple(
            _read_write(write, f"{place}: write {n}")
            for n, write in enumerate(fields.read("write", tables, ()), start=1)
        ),
        answer=fields.read("answer", text, None),
        misbehave=_read_misbehavior(fields.read("misbehave", anything, {}), f"{place}: misbehave"),
    )
    fields.refuse_the_rest()
    return rule


def _read_write(table: object, place: str) -> Write:
    fields = Fields(table, place)
    write = Write(
        path=fields.read("path", path_inside, ""),
        content=fields.read("content", any_text, None),
        old=fields.read("old", text, ""),
        new=fields.read("new", any_text, ""),
    )
    fields.refuse_the_rest()
    if not write.path:
        raise UsageError(f"{place}: path is missing")
    if (write.content is None) == (not write.old):
        raise UsageError(f"{place}: expected either content, or old and new")
    return write


def _read_misbehavior(table: object, place: str) -> Misbehavior:
    fields = Fields(table, place)
    misbehavior = Misbehavior(
        hang=fields.read("hang", flag, False),
        hang_after_file=fields.read("hang_after_file", flag, False),
        crash=fields.read("crash", exit_code, None),
        crash_after_file=fields.read("crash_after_file", exit_code, None),
        ignore_file=fields.read("ignore_file", flag, False),
        pieces=fields.read("pieces", count, 1),
        reopen=fields.read("reopen", flag, False),
        late_file=fields.read("late_file", seconds, None),
        flicker=fields.read("flicker", count, 0),
        pause=fields.read("pause", seconds, 0.2),
        mislead=fields.read("mislead", flag, False),
        error=fields.read("error", text, ""),
        ask=fields.read("ask", text, ""),
        swallow_enter=fields.read("swallow_enter", count, 0),
        lines=fields.read("lines", count, 0),
    )
    fields.refuse_the_rest()
    return misbehavior


def _dialog(value: object) -> StartupDialog:
    try:
        return StartupDialog(any_text(value))
    except ValueError:
        raise Unfit("one of " + ", ".join(StartupDialog)) from None


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
        return self._title_change(look, frame) + self._stream_change(look)

    def _title_change(self, look: Look, frame: int) -> str:
        if not self._settings.title or look is Look.NOTHING:
            return ""
        title = {
            Look.BUSY: f"{TITLE_SPINNER[frame % len(TITLE_SPINNER)]} scripted",
            Look.ASKING: "[ ! ] Action Required",
        }.get(look, "scripted")
        if title == self._title:
            return ""
        self._title = title
        return f"\x1b]2;{title}\x07"

    def _stream_change(self, look: Look) -> str:
        if not self._settings.stream_state or look in (Look.NOTHING, self._look):
            return ""
        self._look = look
        kind = ":kind=permission" if look is Look.ASKING else ""
        return f"\x1b]7501;state={look.value}:app=scripted{kind}\x07"

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
