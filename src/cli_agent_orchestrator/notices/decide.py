"""Which events of a run are worth a notice, and its text.

One thing gives one notice: a question that flickers on an agent's screen gives one, and so does
each cause for which a run does not converge. A run that is refused before it has an id gives none.
Secrets are masked.
"""

import re
from collections.abc import Collection
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from ..core.codec import Private
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
LONGEST_NAME = 60
FLICKER_SECONDS = 3.0
"""A question that returns within this time is the same one."""
PATH = r"(?<![\w.:/~-])~?(?:/[^\s/'\"`:;,)]+){2,}/?"
"""A path from the root or from home, of two names at least."""


class NoticeKind(StrEnum):
    NEEDS_YOU = "needs_you"
    PAUSED = "paused"
    RESUMED = "resumed"
    PASS = "pass"
    FAIL = "fail"
    STOPPED = "stopped"
    NOT_CONVERGING = "not_converging"

    @property
    def words(self) -> str:
        return self.upper() if self in ("pass", "fail") else self.replace("_", " ")


URGENT = frozenset({NoticeKind.NEEDS_YOU, NoticeKind.STOPPED, NoticeKind.NOT_CONVERGING})
"""Kinds after which the run waits for a person."""


class RunNotice(Struct, frozen=True):
    kind: NoticeKind
    title: str
    text: str
    run: str
    folder: str
    """The name of the project, without its place."""
    at: float

    @property
    def urgent(self) -> bool:
        return self.kind in URGENT


class Noticing:
    def __init__(self, kinds: Collection[NoticeKind] = frozenset(NoticeKind)) -> None:
        self._kinds = kinds
        self._open("", ())

    def _open(self, run: str, places: tuple[str, ...]) -> None:
        self._run = run
        self._places = places
        """The folders of the project, the first by its own name."""
        self._folder = _line(masked(PurePath(places[0]).name), LONGEST_NAME) if places else ""
        self._asked: tuple[str, str] | None = None
        """The terminal and the words of the last question in this turn."""
        self._left: float | None = None
        self._stalled = ""
        self._against = ""

    def hear(self, event: RunEvent) -> RunNotice | None:
        worth = self._worth(event)
        if worth is None or worth[0] not in self._kinds:
            return None
        kind, text = worth
        title = f"{self._folder or 'cao'}: {kind.words}"
        # Masked first: a part of a secret is not always known as one.
        text = masked(text)
        # The project by its name, and of other paths only the end.
        for place in sorted(self._places, key=len, reverse=True):
            if len(place) > 1:
                pattern = rf"(?<![\w./-]){re.escape(place)}(?![\w-]|\.\w)"
                text = re.sub(pattern, lambda _: self._folder, text)
        text = re.sub(PATH, lambda found: "…/" + PurePath(found[0]).name, text)
        return RunNotice(kind, title, _line(text), self._run, self._folder, event.at)

    def _worth(self, event: RunEvent) -> tuple[NoticeKind, str] | None:
        match event:
            case RunOpened():
                self._open(event.run, tuple(filter(None, (event.project, event.wd))))
            case TurnBegan():
                self._asked = self._left = None
            case HandoffEvent():
                return self._question(event)
            case TurnEnded(role=who, reason=why) | CheckEnded(gate=who, why=why):
                self._asked = self._left = None
                self._against = f"{who}: {why}" if why else ""
            case NotConverging(text=text) if text != self._stalled:
                self._stalled = text
                return NoticeKind.NOT_CONVERGING, text
            case Paused():
                return NoticeKind.PAUSED, "It waits until you let it go on: cao resume"
            case Unpaused():
                return NoticeKind.RESUMED, "It goes on."
            case RunEnded() if self._run:
                return self._end(event)
        return None

    def _question(self, event: HandoffEvent) -> tuple[NoticeKind, str] | None:
        """Note whether a question is on the screen; one that is new gives a notice."""
        waits = event.status is TerminalStatus.WAITING_USER_ANSWER
        if event.kind is EventKind.STATUS and not waits and self._left is None:
            self._left = event.at
        if event.kind is not EventKind.WAITING_FOR_PERSON:
            return None
        asked = (event.terminal_id, event.question)
        is_gone = self._left is not None and event.at - self._left >= FLICKER_SECONDS
        is_new = is_gone or asked != self._asked
        self._asked, self._left = asked, None
        asks = f" asks: {event.question}" if event.question else " asks you"
        return (NoticeKind.NEEDS_YOU, f"{event.role}{asks}") if is_new else None

    def _end(self, event: RunEnded) -> tuple[NoticeKind, str]:
        rounds = f"in round {event.round}"
        match event.final_status:
            case "PASS":
                kind, words = NoticeKind.PASS, [f"It passed {rounds}", event.proof]
            case "FAIL":
                kind, words = NoticeKind.FAIL, [f"It failed {rounds}", self._against]
            case _:
                stopped = f"It stopped {rounds}" if event.round else "It stopped"
                kind, words = NoticeKind.STOPPED, [stopped, event.reason]
        return kind, "; ".join(filter(None, words))


def example(kind: NoticeKind, at: float) -> RunNotice:
    text = f"This is a test of the notice {kind.words!r}."
    return RunNotice(kind, f"cao: {kind.words}", text, "", "cao", at)


def _line(text: str, most: int = MOST_CHARACTERS) -> str:
    return short_line("".join(char if char.isprintable() else " " for char in text), most)


TerminalWay = Literal["bell", "osc9", "osc777", "off"]
BELL = "\a"


def signal_of(notice: RunNotice, way: TerminalWay) -> str:
    """OSC 9: iTerm2, WezTerm, Ghostty, Windows Terminal; OSC 777: urxvt, foot, WezTerm."""
    match way:
        case "bell":
            return BELL
        case "osc9":
            return f"\x1b]9;{notice.title}: {notice.text}{BELL}"
        case "osc777":
            # A semicolon would end the title.
            title = notice.title.replace(";", ",")
            return f"\x1b]777;notify;{title};{notice.text}{BELL}"
    return ""


TABLE = "notify"
HIDDEN = "(not shown)"
KINDS = ", ".join(NoticeKind)
EXPECTED = {
    "events": f"a list of these: {KINDS}",
    "terminal": f"one of {', '.join(get_args(TerminalWay))}",
    "desktop": "true or false",
    "ntfy": "the address of a topic, such as https://ntfy.sh/my-topic",
    "ntfy_token": "an access token: ASCII characters without spaces",
    "webhook": "a web address, such as https://example.com/hook",
    "command": 'a list of texts, such as ["notify-me", "--quiet"]',
}
# of a header
TOKEN_PATTERN = r"[!-~]{1,1000}"


class NoticeSettings(Private, frozen=True):
    events: frozenset[NoticeKind] = frozenset(NoticeKind)
    terminal: TerminalWay = "bell"
    desktop: bool = False
    ntfy: str = ""
    ntfy_token: str = ""
    webhook: str = ""
    command: tuple[str, ...] = ()

    @property
    def channels(self) -> tuple[str, ...]:
        names = ("desktop", "ntfy", "webhook", "command")
        return tuple(name for name in names if getattr(self, name))

    @property
    def has_secrets(self) -> bool:
        """Should nobody else read the file?"""
        return bool(self.ntfy or self.webhook)


# Any: what a TOML file holds
def read_notice_settings(table: Any) -> NoticeSettings:
    if not isinstance(table, dict):
        raise ConfigError(TABLE, HIDDEN, f"a table [{TABLE}]")
    values = {}
    for key, value in table.items():
        if key not in EXPECTED:
            expected = f"one of {', '.join(EXPECTED)}{suggestion(key, EXPECTED)}"
            raise ConfigError(f"a key of [{TABLE}]", key, expected)
        values[key] = _read(key, value)
        if values[key] is None:
            shown = value if key in ("events", "terminal", "desktop") else HIDDEN
            raise ConfigError(f"{TABLE}.{key}", shown, EXPECTED[key])
    settings = NoticeSettings(**values)
    if settings.ntfy_token and not settings.ntfy:
        needed = f"{TABLE}.ntfy: {EXPECTED['ntfy']}"
        raise UsageError(f"{TABLE}.ntfy_token is of no use without {needed}")
    return settings


# Any: each key has its own type
def _read(key: str, value: Any) -> Any:
    match key, value:
        case "events", list():
            for word in value:
                if word not in list(NoticeKind):
                    meant = suggestion(word, NoticeKind) if isinstance(word, str) else ""
                    where = f"an event of {TABLE}.events"
                    raise ConfigError(where, word, f"one of {KINDS}{meant}")
            return frozenset(map(NoticeKind, value))
        case "terminal", str() if value in get_args(TerminalWay):
            return value
        case "ntfy", str() if is_address(value):
            topic = urlsplit(value)
            is_bare = not (topic.query or topic.fragment)
            return value if is_bare and re.fullmatch(r"/[-\w]{1,64}", topic.path) else None
        case "ntfy_token", str() if re.fullmatch(TOKEN_PATTERN, value):
            return value
        case ("desktop", bool()) | ("webhook", str()) if key == "desktop" or is_address(value):
            return value
        case "command", [str(program), *_] if all(
            isinstance(word, str) and "\0" not in word for word in value
        ):
            # It is not run in any project: a path from there would lead elsewhere.
            if not program or ("/" in program and program[0] not in "/~"):
                expected = f"{EXPECTED[key]}; the program by its name or its whole path"
                raise ConfigError(f"{TABLE}.{key}", HIDDEN, expected)
            return tuple(value)
    return None


def is_address(text: str) -> bool:
    if not re.fullmatch(r"[!-~]+", text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
