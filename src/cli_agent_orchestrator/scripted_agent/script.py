"""The script an agent obeys: its types, and how a TOML text becomes them.

The first rule whose conditions hold decides a turn; a rule without conditions holds always. What a
script says wrongly is an error that names the place:

    demo.toml: rule 3: seconds is -1, expected a number of seconds from 0 to 1000000

Named tuples, because importing `dataclasses` would lengthen the start of the program by a fifth.
"""

import tomllib
from enum import StrEnum
from typing import NamedTuple

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.scripted_agent import checks
from cli_agent_orchestrator.scripted_agent.checks import Fields, Unfit


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
        title=top.read("title", checks.flag, True),
        events=top.read("events", checks.flag, True),
        stream_state=top.read("stream_state", checks.flag, False),
        start_delay=top.read("start_delay", checks.seconds, 0.0),
        start_crash=top.read("start_crash", checks.exit_code, None),
        startup_dialog=top.read("startup_dialog", _dialog, StartupDialog.NONE),
    )
    rules = top.read("rule", checks.tables, ())
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
            role=fields.read("role", checks.texts, ()),
            turn=fields.read("turn", checks.counts, ()),
            round=fields.read("round", checks.counts, ()),
            cycle=fields.read("cycle", checks.counts, ()),
            contains=fields.read("contains", checks.text, ""),
        ),
        seconds=fields.read("seconds", checks.seconds, 0.0),
        run=fields.read("run", checks.commands, ()),
        write=tuple(
            _read_write(write, f"{place}: write {n}")
            for n, write in enumerate(fields.read("write", checks.tables, ()), start=1)
        ),
        answer=fields.read("answer", checks.text, None),
        misbehave=_read_misbehavior(
            fields.read("misbehave", checks.anything, {}), f"{place}: misbehave"
        ),
    )
    fields.refuse_the_rest()
    return rule


def _read_write(table: object, place: str) -> Write:
    fields = Fields(table, place)
    write = Write(
        path=fields.read("path", checks.path_inside, ""),
        content=fields.read("content", checks.any_text, None),
        old=fields.read("old", checks.text, ""),
        new=fields.read("new", checks.any_text, ""),
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
        hang=fields.read("hang", checks.flag, False),
        hang_after_file=fields.read("hang_after_file", checks.flag, False),
        crash=fields.read("crash", checks.exit_code, None),
        crash_after_file=fields.read("crash_after_file", checks.exit_code, None),
        ignore_file=fields.read("ignore_file", checks.flag, False),
        pieces=fields.read("pieces", checks.count, 1),
        reopen=fields.read("reopen", checks.flag, False),
        late_file=fields.read("late_file", checks.seconds, None),
        flicker=fields.read("flicker", checks.count, 0),
        pause=fields.read("pause", checks.seconds, 0.2),
        mislead=fields.read("mislead", checks.flag, False),
        error=fields.read("error", checks.text, ""),
        ask=fields.read("ask", checks.text, ""),
        swallow_enter=fields.read("swallow_enter", checks.count, 0),
        lines=fields.read("lines", checks.count, 0),
    )
    fields.refuse_the_rest()
    return misbehavior


def _dialog(value: object) -> StartupDialog:
    try:
        return StartupDialog(checks.any_text(value))
    except ValueError:
        raise Unfit("one of " + ", ".join(StartupDialog)) from None
