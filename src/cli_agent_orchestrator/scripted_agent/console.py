"""Talks with the person or program at the keyboard while time passes.

Everything that takes time goes through `pump`: it waits for the next thing to happen, deals with
keys, timers and signals of the system, and paints what has changed.
"""

import codecs
import os
import re
import select
import signal
import termios
import tty
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from typing import NamedTuple

from ..core.clock import Clock
from ..core.text import CONTROLS, HALVES, columns_of
from .script import Look, Signals

PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"
FOLD_CHARS = 200
"""A paste longer than this, or of several lines, is shown by its length alone."""

# ESC[A, a sequence that is cut off at the end, a control character, or text
TOKEN_PATTERN = (
    rb"(?P<sequence>\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]))"
    rb"|(?P<cut>\x1b(?:\[[0-?]*[ -/]*|O)?\Z)"
    rb"|(?P<control>[\x00-\x1f\x7f])"
    rb"|(?P<text>[^\x00-\x1f\x7f]+)"
)


class Input(NamedTuple):
    """A key, or text: `typed` key by key, or `pasted`."""

    key: str
    text: str = ""


KEYS = {
    b"\r": Input("enter"),
    b"\n": Input("typed", "\n"),
    b"\t": Input("typed", "\t"),
    b"\x7f": Input("backspace"),
    b"\x08": Input("backspace"),
    b"\x15": Input("clear"),
    b"\x03": Input("ctrl-c"),
    b"\x04": Input("ctrl-d"),
    b"\x1b": Input("escape"),
    b"\x1b[A": Input("arrow"),
    b"\x1bOA": Input("arrow"),
    b"\x1b[B": Input("arrow"),
    b"\x1bOB": Input("arrow"),
}


class KeyReader:
    def __init__(self) -> None:
        self._cut = b""
        self._paste: bytearray | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    @property
    def undecided(self) -> bool:
        return bool(self._cut)

    def decide(self) -> list[Input]:
        was_key, self._cut = self._cut == b"\x1b", b""
        return [KEYS[b"\x1b"]] if was_key else []

    def feed(self, data: bytes) -> list[Input]:
        found: list[Input] = []
        while data:
            if self._paste is None:
                data = self._read_keys(data, found)
                continue
            searched = max(0, len(self._paste) - len(PASTE_END) + 1)
            self._paste += data
            end = self._paste.find(PASTE_END, searched)
            if end < 0:
                break
            found.append(Input("pasted", self._paste[:end].decode("utf-8", "surrogateescape")))
            data, self._paste = bytes(self._paste[end + len(PASTE_END) :]), None
        return found

    def _read_keys(self, data: bytes, found: list[Input]) -> bytes:
        data, self._cut = self._cut + data, b""
        for token in re.finditer(TOKEN_PATTERN, data):
            piece = token[0]
            if token.lastgroup == "text":
                if text := self._decoder.decode(piece, final=token.end() < len(data)):
                    found.append(Input("typed", text))
            elif token.lastgroup == "cut":
                self._cut = piece
            elif piece == PASTE_START:
                self._paste = bytearray()
                return data[token.end() :]
            elif key := KEYS.get(piece):
                found.append(key)
        return b""


PROMPT = "scripted ❯ "
PLACEHOLDER = "Say what to do, or /exit"
SPINNER = "▖▘▝▗"
READY, OVER, FAILED, QUESTION = "▢ ", "▣ ", "▧ ", "▨ "
BANNER, MESSAGE, NOTE = "▒▒ ", "▌ ", "∙ "
LINE, CONTINUED = "│ ", "┆ "

RESET, BOLD, DIM, RED, GREEN, YELLOW, CYAN = (
    f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33", "36")
)
STYLES = {
    READY: DIM,
    OVER: GREEN,
    FAILED: RED,
    QUESTION: YELLOW,
    BANNER: BOLD,
    MESSAGE: CYAN,
    NOTE: DIM,
}
# ESC[31m
COLOR_PATTERN = r"\x1b\[\d+m"
LEAST_COLUMNS = 16


def styled(text: str) -> str:
    style = YELLOW if text[:1] in SPINNER else STYLES.get(text[:2], STYLES.get(text[:3], ""))
    return f"{style}{text}{RESET}" if style and text else text


def prompt_row(shown: str, columns: int) -> str:
    room = columns - 1 - columns_of(PROMPT)
    label = f"{BOLD}{PROMPT.rstrip()}{RESET} "
    if not shown:
        return f"{label}{DIM}{clip(PLACEHOLDER, room)}{RESET}"
    end = plain(shown[-columns:].replace("\n", "⏎").replace("\r", "⏎"))
    return label + clip(end[::-1], room)[::-1]


def message_row(message: str, columns: int) -> str:
    first = next((line for line in message[:4000].splitlines() if line.strip()), "")
    head = plain(first[:columns]).strip()
    if len(head) == len(message.strip()):
        return clip(MESSAGE + head, columns - 1)
    length = f" [{len(message):,} chars]"
    return clip(MESSAGE + head, columns - 1 - len(length)) + length


def answer_rows(text: str, columns: int) -> Iterator[str]:
    room = max(columns, LEAST_COLUMNS) - 1 - len(LINE)
    for line in text.split("\n"):
        mark = LINE
        for piece in wrap(plain(line), room):
            yield (mark + piece).rstrip(" ")
            mark = CONTINUED


def dialog_rows(title: str, question: str, yes_marked: bool, columns: int) -> list[str]:
    yes, no = ("▸ ", "  ") if yes_marked else ("  ", "▸ ")
    asked = list(wrap(plain(question.replace("\n", " ")), max(columns, LEAST_COLUMNS) - 3))
    return [
        QUESTION + title,
        *("  " + piece for piece in asked[:10]),
        f"  {yes}1. Yes",
        f"  {no}2. No",
        QUESTION + "1 yes · 2 no · Enter takes the marked one",
    ]


def plain(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return re.sub(f"[{CONTROLS}\n{HALVES}]", "", text.expandtabs(4))


def clip(text: str, columns: int) -> str:
    if columns_of(text) <= columns:
        return text
    return _head(text, columns - 1) + "…" if columns > 0 else ""


def wrap(line: str, columns: int) -> Iterator[str]:
    start = 0
    while len(line) - start > columns or columns_of(line[start:]) > columns:
        piece = _head(line[start : start + columns], columns)
        kept = piece.rstrip(" ") or piece
        yield kept
        start += len(kept)
    yield line[start:]


def _head(text: str, columns: int) -> str:
    ends = list(accumulate(map(columns_of, text)))
    return text[: bisect_right(ends, columns)]


def erasing(rows: Sequence[str], cursor: int, columns: int) -> str:
    """Return what erases the drawn rows, which a terminal that was made narrower has wrapped."""
    if not rows:
        return ""
    widths = [columns_of(re.sub(COLOR_PATTERN, "", row)) for row in rows[:-1]]
    up = sum(max(0, width - 1) // columns + 1 for width in widths) + cursor // columns
    return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"


CHUNK_BYTES = 65536
MOST_BYTES_AT_ONCE = 1 << 20
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
KEYBOARD, SCREEN = 0, 1


class Quit(Exception):
    def __init__(self, code: int, *, abrupt: bool = False) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.abrupt = abrupt
        """Is it a crash, which tidies and reports nothing?"""


class Terminal:
    def __init__(self) -> None:
        self._noted = -1

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Make it raw and note signals meanwhile; restore both in the end."""
        with ExitStack() as undo:
            before = termios.tcgetattr(KEYBOARD)
            undo.callback(termios.tcsetattr, KEYBOARD, termios.TCSADRAIN, before)
            undo.callback(self._stop_pastes)
            # What was typed before is input too, so nothing is flushed.
            tty.setraw(KEYBOARD, termios.TCSADRAIN)
            self._noted, wake = os.pipe()
            undo.callback(os.close, self._noted)
            undo.callback(os.close, wake)
            os.set_blocking(wake, False)
            undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(wake))
            for number in (*ENDING_SIGNALS, signal.SIGWINCH, signal.SIGCHLD):
                # The wake-up file notes the signal; the loop deals with it.
                undo.callback(signal.signal, number, signal.signal(number, lambda *_: None))
            self.write("\x1b[?2004h")
            yield

    def _stop_pastes(self) -> None:
        with suppress(Quit):
            self.write("\x1b[?2004l")

    @property
    def columns(self) -> int:
        try:
            return os.get_terminal_size(SCREEN).columns or 80
        except OSError:
            raise Quit(128 + signal.SIGHUP) from None

    def wait(self, seconds: float | None, also: int | None = None) -> tuple[bytes, bool]:
        """Return the input, and whether another file is readable; an ending signal is Quit."""
        watched = [KEYBOARD, self._noted] + ([] if also is None else [also])
        ready, _, _ = select.select(watched, [], [], seconds)
        for number in os.read(self._noted, CHUNK_BYTES) if self._noted in ready else b"":
            if number in ENDING_SIGNALS:
                raise Quit(128 + number)
        data = bytearray()
        more = KEYBOARD in ready
        # A large paste comes in thousands of small pieces.
        while more and len(data) < MOST_BYTES_AT_ONCE:
            piece = b""
            with suppress(OSError):
                piece = os.read(KEYBOARD, CHUNK_BYTES)
            if not piece:
                raise Quit(128 + signal.SIGHUP)
            data += piece
            more = bool(select.select([KEYBOARD], [], [], 0)[0])
        return bytes(data), also in ready

    def write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data:
                data = data[os.write(SCREEN, data) :]
        except OSError:
            raise Quit(128 + signal.SIGHUP) from None


TICK_SECONDS = 0.1
ESCAPE_SECONDS = 0.03
YES_WORDS, NO_WORDS = ("1", "y", "Y"), ("2", "n", "N")


class Interrupted(Exception):
    """A person has stopped the turn."""


class Console:
    def __init__(self, terminal: Terminal, signals: Signals, clock: Clock) -> None:
        self._terminal = terminal
        self._signals = signals
        self._clock = clock
        self.columns = terminal.columns
        self._keys = KeyReader()
        self._draft: list[tuple[str, str]] = []
        self._messages: deque[str] = deque()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._question = ("", "")
        self._yes_marked = False
        self._answer: bool | None = None
        self._look: Look = ""
        self._busy_since = 0.0
        self._may_stop = False
        self._stopped = False
        self._live: tuple[list[str], int] = ([], 0)
        self.takes_enter: Callable[[str], bool] = bool
        """Asked with the message when Enter is pressed; False swallows the key."""

    def next_message(self) -> str:
        while not self._messages:
            self.pump(None)
        return self._messages.popleft()

    def pause(self, seconds: float) -> None:
        """Let time go by; raise Interrupted when a person stops a turn that can be stopped."""
        end = self._clock.monotonic() + seconds
        while self._clock.monotonic() < end:
            self.pump(end)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append((self._clock.monotonic() + seconds, action))

    def ask(self, title: str, text: str, yes_marked: bool = True) -> bool:
        before = self._look
        self._question, self._yes_marked, self._answer = (title, text), yes_marked, None
        self.show("blocked")
        while self._answer is None:
            self.pump(None)
        self.show(before)
        return self._answer

    def begin_turn(self, rows: Iterable[str]) -> None:
        self._busy_since = self._clock.monotonic()
        self._may_stop, self._stopped = True, False
        self.show("working", rows)

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._busy_since

    def ignore_stops(self) -> None:
        self._may_stop = False

    def end_turn(self, look: Look, rows: Iterable[str]) -> None:
        self.ignore_stops()
        self.show(look, rows)

    def show(self, look: Look, rows: Iterable[str] = ()) -> None:
        self._look = look
        self.say(rows)

    def say(self, rows: Iterable[str]) -> None:
        self._paint(list(rows))

    def pump(self, until: float | None, also: int | None = None) -> bool:
        """Deal with the next thing that happens; return whether another file is readable."""
        now = self._clock.monotonic()
        ends = [due for due, _ in self._timers] + ([] if until is None else [until])
        if self._look == "working":
            ends.append(self._busy_since + (self._frame + 1) * TICK_SECONDS)
        if self._keys.undecided:
            ends.append(now + ESCAPE_SECONDS)
        data, readable = self._terminal.wait(max(0.0, min(ends) - now) if ends else None, also)
        undecided = self._keys.undecided and not data
        for key in self._keys.decide() if undecided else self._keys.feed(data):
            self._press(key)
        self.columns = self._terminal.columns
        now = self._clock.monotonic()
        due = [action for at, action in self._timers if at <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for action in due:
            action()
        self._paint([])
        if self._stopped and self._may_stop:
            raise Interrupted
        return readable

    def _press(self, pressed: Input) -> None:
        key, text = pressed
        if self._look == "blocked" and self._answer is None:
            self._press_at_question(key, text)
            return
        match key:
            case "pasted" if len(text) > FOLD_CHARS or "\n" in text or "\r" in text:
                self._draft.append((text, f"[pasted {len(text)} chars]"))
            case "typed" | "pasted" if text:
                self._draft.append((text, text))
            case "backspace" if self._draft:
                # A folded paste goes as a whole.
                text, shown = self._draft.pop()
                if text == shown and len(text) > 1:
                    self._draft.append((text[:-1], text[:-1]))
            case "enter":
                message = "".join(text for text, _ in self._draft)
                if message.strip() and self.takes_enter(message):
                    self._messages.append(message)
                    self._draft = []
            case "clear" | "ctrl-c" if self._draft:
                self._draft = []
            case "ctrl-c" | "escape" | "ctrl-d" if self._look == "working":
                self._stopped = key != "ctrl-d"
            case "ctrl-d" if not self._draft:
                raise Quit(0)

    def _press_at_question(self, key: str, text: str) -> None:
        """Take a key; a paste is none, and is lost."""
        if key == "arrow":
            self._yes_marked = not self._yes_marked
        elif key == "enter":
            self._answer = self._yes_marked
        elif key in ("escape", "ctrl-c"):
            self._answer = False
        elif key == "typed" and text in YES_WORDS + NO_WORDS:
            self._answer = text in YES_WORDS

    @property
    def _frame(self) -> int:
        return int(self.elapsed / TICK_SECONDS)

    def _paint(self, above: list[str]) -> None:
        announced = self._signals.announce(self._look, self._frame)
        live, cursor = self._live_rows()
        column = min(cursor, self.columns - 1)
        if not above and not announced and self._live == (live, column):
            return
        erase = erasing(*self._live, self.columns)
        self._live = live, column
        lines = [*map(styled, above), *live]
        drawn = "\r\n".join(lines if live else [*lines, ""])
        place = f"\x1b[{column + 1}G" if live else ""
        self._terminal.write(announced + erase + drawn + place)

    def _live_rows(self) -> tuple[list[str], int]:
        if not self._look:
            return [], 0
        room = self.columns - 1
        if self._look == "blocked":
            asked = dialog_rows(*self._question, self._yes_marked, self.columns)
            return [styled(clip(row, room)) for row in asked], 0
        shown = "".join(shown for _, shown in self._draft)
        box = prompt_row(shown, self.columns)
        cursor = columns_of(re.sub(COLOR_PATTERN, "", box) if shown else PROMPT)
        if self._look != "working":
            return [box], cursor
        text = f"{SPINNER[self._frame % 4]} working · {int(self.elapsed)}s"
        queued = f" · {len(self._messages)} waiting" if self._messages else ""
        return [styled(clip(f"{text}{queued} · esc stops", room)), box], cursor
