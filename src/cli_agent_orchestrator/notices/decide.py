"""Which events of a run are worth a notice, and what it says.

    noted, notice = decide(noted, event)

Pure. One thing gives one notice: a question that flickers on an agent's screen is told once, and
so is each cause for which a run does not converge. A run that is refused before it has an id gives
none: whoever started it is told there and then. What looks like a secret is masked.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from ..core.models import TerminalStatus
from ..core.secrets import masked
from ..core.text import short_line
from ..errors import ConfigError, UsageError, suggestion
from ..events import (
    CheckEnded,
    EventKind,
    HandoffEvent,
    NotConverging,
    Paused,
    RunEnded,
    RunEvent,
    RunOpened,
    TurnBegan,
    TurnEnded,
    Unpaused,
)

MOST_CHARACTERS = 200
"""Of the text of a notice."""
LONGEST_NAME = 60
"""Characters of a project's name in a title."""
FLICKER_SECONDS = 3.0
"""A question that comes back within this time had only left the screen."""
PATH = r"(?<![\w.:/~-])~?(?:/[^\s/'\"`:;,)]+){2,}/?"
"""A path from the root or from home, of two names at least."""


class NoticeKind(StrEnum):
    """What a notice is about, by the word that the user's configuration has for it."""

    NEEDS_YOU = "needs_you"
    """An agent asks something."""
    PAUSED = "paused"
    RESUMED = "resumed"
    PASS = "pass"
    FAIL = "fail"
    STOPPED = "stopped"
    """It ended without a verdict."""
    NOT_CONVERGING = "not_converging"


URGENT = frozenset({NoticeKind.NEEDS_YOU, NoticeKind.STOPPED, NoticeKind.NOT_CONVERGING})
"""Kinds after which nothing good happens until somebody looks."""
TITLES = {
    NoticeKind.NEEDS_YOU: "needs you",
    NoticeKind.PAUSED: "paused",
    NoticeKind.RESUMED: "resumed",
    NoticeKind.PASS: "PASS",
    NoticeKind.FAIL: "FAIL",
    NoticeKind.STOPPED: "stopped",
    NoticeKind.NOT_CONVERGING: "does not converge",
}


@dataclass(frozen=True, slots=True)
class RunNotice:
    """What a person is told."""

    kind: NoticeKind
    title: str
    """The project and what there is to tell, in a few words."""
    text: str
    """More of it, on one line."""
    run: str
    """The id; empty if the run has none."""
    folder: str
    """The name of the project; where it lies is nobody's business."""
    at: float
    """Unix time."""

    @property
    def urgent(self) -> bool:
        return self.kind in URGENT


@dataclass(frozen=True, slots=True)
class Noted:
    """What is remembered of a run."""

    run: str = ""
    places: tuple[str, ...] = ()
    """The folders of the project, the first by its own name."""
    asked: tuple[str, str] | None = None
    """The terminal and the words of the question that was told last in this turn."""
    left: float | None = None
    """Since when it is not on the screen any more; None if it is."""
    circling: str = ""
    """Why the run does not converge, as it was told last."""
    against: str = ""
    """What was said last against the work, on a line."""

    @property
    def folder(self) -> str:
        return _line(masked(PurePath(self.places[0]).name), LONGEST_NAME) if self.places else ""


def decide(noted: Noted, event: RunEvent) -> tuple[Noted, RunNotice | None]:
    """Return what is remembered after an event, and the notice that it is worth."""
    match event:
        case RunOpened():
            places = tuple(place for place in (event.project, event.wd) if place)
            return Noted(event.run, places), None
        case TurnBegan():
            return replace(noted, asked=None, left=None), None
        case HandoffEvent():
            return _hear(noted, event)
        case TurnEnded() | CheckEnded():
            return _judge(noted, event), None
        case NotConverging():
            news = event.text != noted.circling
            after = replace(noted, circling=event.text)
            return after, _notice(after, NoticeKind.NOT_CONVERGING, event, event.text, news=news)
        case Paused():
            text = "It waits until you let it go on: cao resume"
            return noted, _notice(noted, NoticeKind.PAUSED, event, text)
        case Unpaused():
            return noted, _notice(noted, NoticeKind.RESUMED, event, "It goes on.")
        case RunEnded():
            return noted, _end(noted, event)
    return noted, None


class Noticing:
    """Hears the events of a run, and says which of them are worth a notice."""

    def __init__(self, kinds: Collection[NoticeKind] = frozenset(NoticeKind)) -> None:
        """`kinds` are those that the user wants."""
        self._kinds = kinds
        self._noted = Noted()

    def hear(self, event: RunEvent) -> RunNotice | None:
        """Return the notice that an event is worth, if the user wants such."""
        self._noted, notice = decide(self._noted, event)
        return notice if notice is not None and notice.kind in self._kinds else None


def example(kind: NoticeKind, at: float) -> RunNotice:
    """Return a notice with which channels can be tried."""
    text = f"This is a test of the notice {TITLES[kind]!r}."
    return RunNotice(kind, f"cao: {TITLES[kind]}", text, "", "cao", at)


def _hear(noted: Noted, event: HandoffEvent) -> tuple[Noted, RunNotice | None]:
    """Remember whether a question is on the screen, and tell one that is new."""
    if event.kind is EventKind.STATUS and event.status is not TerminalStatus.WAITING_USER_ANSWER:
        return replace(noted, left=event.at if noted.left is None else noted.left), None
    if event.kind is not EventKind.WAITING_FOR_PERSON:
        return noted, None
    asked = (event.terminal_id, event.question)
    is_gone = noted.left is not None and event.at - noted.left >= FLICKER_SECONDS
    after = replace(noted, asked=asked, left=None)
    asks = f"{event.role} asks: {event.question}" if event.question else f"{event.role} asks you"
    news = is_gone or asked != noted.asked
    return after, _notice(after, NoticeKind.NEEDS_YOU, event, asks, news=news)


def _judge(noted: Noted, event: TurnEnded | CheckEnded) -> Noted:
    """Remember what was said against the work; what passes has nothing against it."""
    if isinstance(event, TurnEnded):
        who, why = event.role, event.reason
    else:
        who, why = event.gate, event.why
    return replace(noted, asked=None, left=None, against=f"{who}: {why}" if why else "")


def _end(noted: Noted, event: RunEnded) -> RunNotice | None:
    rounds = f"round {event.round}"
    if not noted.run:
        return None
    match event.final_status:
        case "PASS":
            kind, words = NoticeKind.PASS, [f"It passed in {rounds}", event.proof]
        case "FAIL":
            kind, words = NoticeKind.FAIL, [f"It failed in {rounds}", noted.against]
        case _:
            stopped = f"It stopped in {rounds}" if event.round else "It stopped"
            kind, words = NoticeKind.STOPPED, [stopped, event.reason]
    return _notice(noted, kind, event, "; ".join(filter(None, words)))


def _notice(
    noted: Noted, kind: NoticeKind, event: RunEvent, text: str, *, news: bool = True
) -> RunNotice | None:
    if not news:
        return None
    name = noted.folder
    title = f"{name or 'cao'}: {TITLES[kind]}"
    # Masked first: a part of a secret is not always known as one.
    line = _line(_without_paths(masked(text), noted))
    return RunNotice(kind, title, line, noted.run, name, event.at)


def _without_paths(text: str, noted: Noted) -> str:
    """Return a text in which the project goes by its name, and of other paths only the end is."""
    for place in sorted(noted.places, key=len, reverse=True):
        if len(place) > 1:
            pattern = rf"(?<![\w./-]){re.escape(place)}(?![\w-]|\.\w)"
            text = re.sub(pattern, lambda _: noted.folder, text)
    return re.sub(PATH, lambda found: "…/" + PurePath(found[0]).name, text)


def _line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text from anybody on one line, with nothing in it that a terminal would obey."""
    return short_line("".join(char if char.isprintable() else " " for char in text), most)


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
            # A plain word is shown; an address may stand there, too.
            is_plain = re.fullmatch(NAME_PATTERN, key) and masked(key) == key
            raise ConfigError(f"a key of [{TABLE}]", key if is_plain else _shown(key), expected)
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


BELL = "\a"


def signal_of(notice: RunNotice, way: TerminalWay) -> str:
    """Return what is written to a terminal; nothing else of it is moved or changed.

    OSC 9 is known to iTerm2, WezTerm, Ghostty and Windows Terminal; OSC 777 to urxvt, foot and
    WezTerm.
    """
    match way:
        case TerminalWay.BELL:
            return BELL
        case TerminalWay.OSC9:
            return f"\x1b]9;{notice.title}: {notice.text}{BELL}"
        case TerminalWay.OSC777:
            # A semicolon would end the title.
            title = notice.title.replace(";", ",")
            return f"\x1b]777;notify;{title};{notice.text}{BELL}"
    return ""
