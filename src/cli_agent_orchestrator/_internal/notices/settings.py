"""The `[notify]` table of the user's own `config.toml`: who is told what, and on which way.

Addresses and tokens are secrets: whoever knows them can write to the user. No error shows one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from cli_agent_orchestrator._internal.masking import masked
from cli_agent_orchestrator._internal.notices.deciding import NoticeKind
from cli_agent_orchestrator.errors import ConfigError, UsageError, suggestion

TABLE = "notify"
HIDDEN = "(not shown)"
YES_OR_NO = ("yes", "no", "on", "off", "true", "false")
"""What people write for true and false in other files."""
CHANNELS = ("desktop", "ntfy", "webhook", "command")
ADDRESS = "a web address, such as https://example.com/hook"
TOPIC = "the address of a topic, such as https://ntfy.sh/my-topic"
WORDS = 'a list of texts, such as ["notify-me", "--quiet"]'
TOKEN_PATTERN = r"[!-~]{1,1000}"
"""What can stand in a header."""
NAME_PATTERN = r"[A-Za-z][A-Za-z_-]{0,39}"
"""A key that somebody has mistyped; topics and tokens have digits."""
TOPIC_PATTERN = r"/[-\w]{1,64}"


class TerminalWay(StrEnum):
    """How a notice is told in the terminal of `cao run` and `cao watch`."""

    BELL = "bell"
    OSC9 = "osc9"
    OSC777 = "osc777"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """Who is told what."""

    events: frozenset[NoticeKind] = frozenset(NoticeKind)
    """What is told at all."""
    terminal: TerminalWay = TerminalWay.BELL
    desktop: bool = False
    """By the desktop's own notifications?"""
    ntfy: str = field(default="", repr=False)
    """The address of a topic."""
    ntfy_token: str = field(default="", repr=False)
    webhook: str = field(default="", repr=False)
    """Where the notice is posted as JSON."""
    command: tuple[str, ...] = field(default=(), repr=False)
    """A program of the user's and its arguments; it gets the notice as JSON."""

    @property
    def channels(self) -> tuple[str, ...]:
        """What the user has chosen besides the terminal, by the names of the keys."""
        return tuple(name for name in CHANNELS if getattr(self, name))

    @property
    def has_secrets(self) -> bool:
        """Should nobody else read the file?"""
        return bool(self.ntfy or self.webhook)


# Any: what a TOML file holds
def read_notice_settings(table: Any) -> NoticeSettings:
    """Return the settings of the table; raise ConfigError for what is none."""
    if not isinstance(table, dict):
        raise ConfigError(TABLE, HIDDEN, f"a table [{TABLE}]")
    for key in table:
        if key not in READERS:
            expected = f"one of {', '.join(READERS)}{suggestion(key, READERS)}"
            raise ConfigError(f"a key of [{TABLE}]", _shown_name(key), expected)
    settings = NoticeSettings(**{key: READERS[key](table[key]) for key in table})
    if settings.ntfy_token and not settings.ntfy:
        raise UsageError(f"{TABLE}.ntfy_token is of no use without {TABLE}.ntfy: {TOPIC}")
    return settings


def _shown(value: object) -> object:
    """Return a value for an error: a word that is near to one of ours, and no other text.

    An address or a token may have been given to the wrong key.
    """
    known = [*NoticeKind, *TerminalWay, *READERS, *YES_OR_NO]
    is_known = isinstance(value, str) and (value in known or suggestion(value, known))
    return value if isinstance(value, int | float) or is_known else HIDDEN


def _shown_name(key: str) -> object:
    """Return a name for an error, if it is a plain word: an address may stand there, too."""
    is_plain = re.fullmatch(NAME_PATTERN, key) and masked(key) == key
    return key if is_plain else _shown(key)


def _events(value: object) -> frozenset[NoticeKind]:
    known = [str(kind) for kind in NoticeKind]
    if not isinstance(value, list):
        raise ConfigError(f"{TABLE}.events", _shown(value), f"a list of these: {', '.join(known)}")
    for word in value:
        if word not in known:
            meant = suggestion(word, known) if isinstance(word, str) else ""
            expected = f"one of {', '.join(known)}{meant}"
            raise ConfigError(f"an event of {TABLE}.events", _shown(word), expected)
    return frozenset(map(NoticeKind, value))


def _terminal(value: object) -> TerminalWay:
    known = [str(way) for way in TerminalWay]
    if value not in known:
        raise ConfigError(f"{TABLE}.terminal", _shown(value), f"one of {', '.join(known)}")
    return TerminalWay(str(value))


def _desktop(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{TABLE}.desktop", _shown(value), "true or false")
    return value


def _address(key: str, expected: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not is_address(value):
            raise ConfigError(f"{TABLE}.{key}", HIDDEN, expected)
        return value

    return read


def _topic(value: object) -> str:
    address = _address("ntfy", TOPIC)(value)
    parts = urlsplit(address)
    if not re.fullmatch(TOPIC_PATTERN, parts.path) or parts.query or parts.fragment:
        raise ConfigError(f"{TABLE}.ntfy", HIDDEN, TOPIC)
    return address


def _token(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(TOKEN_PATTERN, value):
        expected = "an access token: ASCII characters without spaces"
        raise ConfigError(f"{TABLE}.ntfy_token", HIDDEN, expected)
    return value


def _command(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ConfigError(f"{TABLE}.command", HIDDEN, WORDS)
    program = words[0]
    # It is not run in any project: a path from there would lead elsewhere.
    if not program or ("/" in program and program[0] not in "/~"):
        expected = f"{WORDS}; the program by its name or its whole path"
        raise ConfigError(f"{TABLE}.command", HIDDEN, expected)
    return tuple(words)


def is_address(text: str) -> bool:
    """Is it the address of something on the web, without spaces and control characters?"""
    if not re.fullmatch(r"[!-~]+", text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


READERS: Mapping[str, Callable[[object], Any]] = {
    "events": _events,
    "terminal": _terminal,
    "desktop": _desktop,
    "ntfy": _topic,
    "ntfy_token": _token,
    "webhook": _address("webhook", ADDRESS),
    "command": _command,
}
