"""Reading one table of a script key by key, and checking each value."""

from collections.abc import Callable
from typing import TypeVar

from cli_agent_orchestrator.errors import ConfigError, UsageError

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
