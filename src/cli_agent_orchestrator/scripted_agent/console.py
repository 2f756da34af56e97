"""Talking with the person or program at the keyboard, while time goes by.

Everything that takes time goes through `pump`: it waits for the next thing to happen, deals with
keys, timers and signals of the system, and paints what has changed.
"""

import codecs
import os
import re
import select
import signal
import termios
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from itertools import islice
from types import TracebackType
from typing import NamedTuple

from ..core.clock import Clock
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


class Key(Enum):
    """A key that is not text."""

    ENTER = "Enter"
    BACKSPACE = "Backspace"
    CLEAR = "Ctrl-U"
    INTERRUPT = "Ctrl-C"
    END = "Ctrl-D"
    ESCAPE = "Esc"
    UP = "Up"
    DOWN = "Down"


class Typed(NamedTuple):
    """Text that came key by key."""

    text: str


class Pasted(NamedTuple):
    """Text that came as one paste."""

    text: str


Input = Key | Typed | Pasted

CONTROLS: dict[bytes, Input] = {
    b"\r": Key.ENTER,
    b"\n": Typed("\n"),
    b"\t": Typed("\t"),
    b"\x7f": Key.BACKSPACE,
    b"\x08": Key.BACKSPACE,
    b"\x15": Key.CLEAR,
    b"\x03": Key.INTERRUPT,
    b"\x04": Key.END,
    b"\x1b": Key.ESCAPE,
}
SEQUENCES: dict[bytes, Input] = {
    b"\x1b[A": Key.UP,
    b"\x1bOA": Key.UP,
    b"\x1b[B": Key.DOWN,
    b"\x1bOB": Key.DOWN,
}


class KeyReader:
    """Turns chunks of bytes into inputs."""

    def __init__(self) -> None:
        self._cut = b""
        self._paste: bytearray | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    @property
    def undecided(self) -> bool:
        """Is there an ESC that may be the key or the start of a sequence?"""
        return bool(self._cut)

    def decide(self) -> list[Input]:
        """Return what an undecided ESC was, now that nothing followed it."""
        was_key, self._cut = self._cut == b"\x1b", b""
        return [Key.ESCAPE] if was_key else []

    def feed(self, data: bytes) -> list[Input]:
        """Return the inputs that are complete with this chunk."""
        found: list[Input] = []
        while data:
            data = (
                self._read_keys(data, found)
                if self._paste is None
                else self._end_paste(data, found)
            )
        return found

    def _read_keys(self, data: bytes, found: list[Input]) -> bytes:
        """Read up to the start of a paste, and return what comes after it."""
        data, self._cut = self._cut + data, b""
        for token in re.finditer(TOKEN_PATTERN, data):
            piece = token[0]
            match token.lastgroup:
                case "text":
                    text = self._decoder.decode(piece, final=token.end() < len(data))
                    found.extend([Typed(text)] if text else [])
                case "cut":
                    self._cut = piece
                case "sequence" if piece == PASTE_START:
                    self._paste = bytearray()
                    return data[token.end() :]
                case _:
                    key = CONTROLS.get(piece) or SEQUENCES.get(piece)
                    found.extend([key] if key else [])
        return b""

    def _end_paste(self, data: bytes, found: list[Input]) -> bytes:
        """Collect a paste, and return what comes after its end."""
        assert self._paste is not None
        searched = max(0, len(self._paste) - len(PASTE_END) + 1)
        self._paste += data
        end = self._paste.find(PASTE_END, searched)
        if end < 0:
            return b""
        found.append(Pasted(self._paste[:end].decode("utf-8", "surrogateescape")))
        rest = bytes(self._paste[end + len(PASTE_END) :])
        self._paste = None
        return rest


class Part(NamedTuple):
    """A stretch of the box: typed text, or one folded paste."""

    text: str
    folded: bool = False


class Box(NamedTuple):
    """The unsent message."""

    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def shown(self) -> str:
        """Return what people see of it; a folded paste shows as `[pasted 12345 chars]`."""
        return "".join(
            f"[pasted {len(part.text)} chars]" if part.folded else part.text for part in self.parts
        )

    def typed(self, text: str) -> "Box":
        if self.parts and not self.parts[-1].folded:
            return Box((*self.parts[:-1], Part(self.parts[-1].text + text)))
        return Box((*self.parts, Part(text)))

    def pasted(self, text: str) -> "Box":
        if len(text) > FOLD_CHARS or "\n" in text or "\r" in text:
            return Box((*self.parts, Part(text, folded=True)))
        return self.typed(text) if text else self

    def backspaced(self) -> "Box":
        """Return the box without its last character, or without a folded paste at its end."""
        if not self.parts:
            return self
        last = self.parts[-1]
        shorter = "" if last.folded else last.text[:-1]
        return Box((*self.parts[:-1], Part(shorter)) if shorter else self.parts[:-1])


PROMPT = "scripted ❯ "
PLACEHOLDER = "Say what to do, or /exit"
SPINNER = "▖▘▝▗"
READY, OVER, FAILED, QUESTION = "▢ ", "▣ ", "▧ ", "▨ "
BANNER, MESSAGE, NOTE = "▒▒ ", "▌ ", "∙ "
LINE, CONTINUED = "│ ", "┆ "
MORE = "…"

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
TAB_COLUMNS = 4
LEAST_COLUMNS = 16


class Row(NamedTuple):
    """One row of the screen: its text, and the same text with colors."""

    text: str
    drawn: str


def styled(text: str) -> Row:
    """Return a row in the color of its mark."""
    style = YELLOW if text[:1] in SPINNER else STYLES.get(text[:2], STYLES.get(text[:3], ""))
    return Row(text, f"{style}{text}{RESET}" if style and text else text)


def prompt_row(shown: str, hint: str, columns: int) -> Row:
    """Return the input box: the end of the draft, or a dim hint."""
    room = columns - 1 - width_of(PROMPT)
    label = f"{BOLD}{PROMPT.rstrip()}{RESET} "
    if not shown:
        text = clip(hint, room)
        return Row(PROMPT + text, f"{label}{DIM}{text}{RESET}")
    text = clip_left(plain(shown[-columns:].replace("\n", "⏎").replace("\r", "⏎")), room)
    return Row(PROMPT + text, label + text)


def message_row(message: str, columns: int) -> str:
    """Return the head of a message that was taken, in one row."""
    first = next((line for line in message[:4000].splitlines() if line.strip()), "")
    head = plain(first[:columns]).strip()
    if len(head) == len(message.strip()):
        return clip(MESSAGE + head, columns - 1)
    length = f" [{len(message):,} chars]"
    return clip(MESSAGE + head, columns - 1 - len(length)) + length


def answer_rows(text: str, columns: int) -> Iterator[str]:
    """Yield what the agent says, row by row, behind its gutter."""
    room = max(columns, LEAST_COLUMNS) - 1 - len(LINE)
    for line in text.split("\n"):
        mark = LINE
        for piece in wrap(plain(line), room):
            yield (mark + piece).rstrip(" ")
            mark = CONTINUED


def dialog_rows(title: str, question: str, yes_marked: bool, columns: int) -> list[str]:
    """Return a question with two choices; its last row is a mark, as its first."""
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
    """Return one line without control characters, its tabs as spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(filter(_is_shown, text.expandtabs(TAB_COLUMNS)))


def width_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def clip(text: str, columns: int) -> str:
    """Return as much of the start of a text as fits."""
    if width_of(text) <= columns:
        return text
    return _head(text, columns - 1) + MORE if columns > 0 else ""


def clip_left(text: str, columns: int) -> str:
    """Return as much of the end of a text as fits."""
    if width_of(text) <= columns:
        return text
    return MORE + _head(text[::-1], columns - 1)[::-1] if columns > 0 else ""


def wrap(line: str, columns: int) -> Iterator[str]:
    """Yield the pieces of a line, cut where no blank is lost: not after one."""
    start = 0
    while len(line) - start > columns or width_of(line[start:]) > columns:
        piece = _head(line[start : start + columns], columns)
        kept = piece.rstrip(" ") or piece
        yield kept
        start += len(kept)
    yield line[start:]


def _head(text: str, columns: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _columns_of(character)
        if used > columns:
            return text[:index]
    return text


def _columns_of(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs")


class Painter:
    """Knows what is drawn at the bottom, and returns the bytes that change it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._live: tuple[Row, ...] = ()
        self._cursor = 0

    def paint(self, above: Sequence[str], live: Sequence[Row], cursor: int) -> str:
        """Return what puts rows above for good and draws the live ones below them.

        `cursor` is the column of the cursor in the last live row.
        """
        erase = ""
        if self._live:
            # A terminal that was made narrower has wrapped the rows.
            rows = [max(0, width_of(row.text) - 1) // self.columns + 1 for row in self._live[:-1]]
            up = sum(rows) + self._cursor // self.columns
            erase = (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
        lines = [styled(row).drawn for row in above] + [row.drawn for row in live]
        drawn = erase + "\r\n".join(lines if live else [*lines, ""])
        self._live, self._cursor = tuple(live), min(cursor, self.columns - 1)
        return f"{drawn}\x1b[{self._cursor + 1}G" if live else drawn


CHUNK_BYTES = 65536
MOST_BYTES_AT_ONCE = 1 << 20
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
NOTED_SIGNALS = (*ENDING_SIGNALS, signal.SIGWINCH, signal.SIGCHLD)
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Quit(Exception):
    """The program is to end."""

    def __init__(self, code: int, *, abrupt: bool = False) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.abrupt = abrupt
        """True for a crash: nothing is tidied up and nobody is told."""


class Seen(NamedTuple):
    """What came in."""

    data: bytes = b""
    resized: bool = False
    also: bool = False
    """Is the other file that was watched readable?"""


class Terminal:
    """A terminal in raw mode while it is entered; what was there before comes back."""

    def __init__(self, input_fd: int = 0, output_fd: int = 1) -> None:
        self._input = input_fd
        self._output = output_fd
        self._undo = ExitStack()
        self._wake, self._noted = -1, -1

    def __enter__(self) -> "Terminal":
        with ExitStack() as undo:
            self._go_raw(undo)
            self._note_signals(undo)
            self.write(PASTE_ON)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _go_raw(self, undo: ExitStack) -> None:
        before = termios.tcgetattr(self._input)
        undo.callback(termios.tcsetattr, self._input, termios.TCSADRAIN, before)
        undo.callback(self._stop_pastes)
        raw = termios.tcgetattr(self._input)
        raw[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
        raw[1] &= ~termios.OPOST
        raw[2] = raw[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        # What was typed before is input too, so nothing is flushed.
        termios.tcsetattr(self._input, termios.TCSADRAIN, raw)

    def _note_signals(self, undo: ExitStack) -> None:
        self._noted, self._wake = os.pipe()
        undo.callback(os.close, self._noted)
        undo.callback(os.close, self._wake)
        os.set_blocking(self._wake, False)
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(self._wake))
        for number in NOTED_SIGNALS:
            # The wake-up file notes the signal; the loop deals with it.
            undo.callback(signal.signal, number, signal.signal(number, lambda *_: None))

    def _stop_pastes(self) -> None:
        with suppress(Quit):
            self.write(PASTE_OFF)

    @property
    def columns(self) -> int:
        """Return the width; at least 1, whatever the device says."""
        return max(1, os.get_terminal_size(self._output).columns or 80)

    def wait(self, seconds: float | None, also: int | None = None) -> Seen:
        """Wait for input, a signal or another file; raise Quit when a signal ends the program."""
        watched = [self._input, self._noted] + ([] if also is None else [also])
        ready, _, _ = select.select(watched, [], [], seconds)
        signals = os.read(self._noted, CHUNK_BYTES) if self._noted in ready else b""
        for number in signals:
            if number in ENDING_SIGNALS:
                raise Quit(128 + number)
        data = self._read_all() if self._input in ready else b""
        return Seen(data, signal.SIGWINCH in signals, also in ready)

    def _read_all(self) -> bytes:
        """Read what is there: a large paste comes in thousands of small pieces."""
        pieces = [self._read()]
        size = len(pieces[0])
        while size < MOST_BYTES_AT_ONCE and select.select([self._input], [], [], 0)[0]:
            pieces.append(self._read())
            size += len(pieces[-1])
        return b"".join(pieces)

    def _read(self) -> bytes:
        try:
            data = os.read(self._input, CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            raise Quit(128 + signal.SIGHUP)
        return data

    def write(self, text: str) -> None:
        """Write all of a text; raise Quit if the terminal is gone."""
        data = memoryview(text.encode("utf-8", "replace"))
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            raise Quit(128 + signal.SIGHUP) from None


TICK_SECONDS = 0.1
ESCAPE_SECONDS = 0.03
"""How long an ESC waits for the rest of a sequence."""
ROWS_AT_ONCE = 2000
AGAIN_HINT = "Ctrl-C once more quits"

YES_WORDS, NO_WORDS = ("1", "y", "Y"), ("2", "n", "N")


class Interrupted(Exception):
    """A person has stopped the turn."""


class Question:
    """A question that is on the screen."""

    def __init__(self, title: str, text: str, yes_marked: bool) -> None:
        self.title = title
        self.text = text
        self.yes_marked = yes_marked
        self.answer: bool | None = None

    def press(self, key: Input) -> None:
        """Take a key; a paste is none, and is lost."""
        match key:
            case Key.UP | Key.DOWN:
                self.yes_marked = not self.yes_marked
            case Key.ENTER:
                self.answer = self.yes_marked
            case Key.ESCAPE | Key.INTERRUPT:
                self.answer = False
            case Typed(text) if text in YES_WORDS + NO_WORDS:
                self.answer = text in YES_WORDS


class Console:
    """The agent's face: an input box, a busy row, questions, and rows that stay."""

    def __init__(self, terminal: Terminal, signals: Signals, clock: Clock) -> None:
        self._terminal = terminal
        self._signals = signals
        self._clock = clock
        self._painter = Painter(terminal.columns)
        self._keys = KeyReader()
        self._box = Box()
        self._messages: deque[str] = deque()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._question: Question | None = None
        self._look = Look.NOTHING
        self._busy_since = 0.0
        self._may_stop = False
        self._stopped = False
        self._quitting = False
        self._shown: tuple[list[Row], int] = ([], 0)
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
        """Do something after some seconds, whatever is going on then."""
        self._timers.append((self._clock.monotonic() + seconds, action))

    def ask(self, question: Question) -> bool:
        """Put a question on the screen, and return how it is answered."""
        before, self._question = self._look, question
        self.show(Look.ASKING)
        while question.answer is None:
            self.pump(None)
        self._question = None
        self.show(before)
        return question.answer

    def begin_turn(self, rows: Iterable[str]) -> None:
        """Put rows on the screen for good and look busy from now on."""
        self._busy_since = self._clock.monotonic()
        self._may_stop, self._stopped = True, False
        self.show(Look.BUSY, rows)

    @property
    def columns(self) -> int:
        return self._painter.columns

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._busy_since

    def ignore_stops(self) -> None:
        """Be deaf to everyone who wants to stop this turn."""
        self._may_stop = False

    def end_turn(self, look: Look, rows: Iterable[str]) -> None:
        """Put rows on the screen for good and be at rest."""
        self._may_stop = False
        self.show(look, rows)

    def show(self, look: Look, rows: Iterable[str] = ()) -> None:
        """Put rows on the screen for good, and below them what belongs to a look."""
        self._look = look
        self.say(rows)

    def say(self, rows: Iterable[str]) -> None:
        """Put rows on the screen for good, many of them in portions."""
        rest = iter(rows)
        self._paint(list(islice(rest, ROWS_AT_ONCE)))
        while portion := list(islice(rest, ROWS_AT_ONCE)):
            self._paint(portion)

    def pump(self, until: float | None, also: int | None = None) -> bool:
        """Deal with the next thing that happens; return whether another file is readable."""
        seen = self._terminal.wait(self._seconds_to_wait(until), also)
        keys = self._keys.feed(seen.data)
        if self._keys.undecided and not seen.data:
            keys = self._keys.decide()
        for key in keys:
            self._press(key)
        if seen.resized:
            self._painter.columns = self._terminal.columns
        now = self._clock.monotonic()
        due = [action for at, action in self._timers if at <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for action in due:
            action()
        self._paint([])
        if self._stopped and self._may_stop:
            raise Interrupted
        return seen.also

    def _seconds_to_wait(self, until: float | None) -> float | None:
        now = self._clock.monotonic()
        ends = [due for due, _ in self._timers] + ([] if until is None else [until])
        if self._look is Look.BUSY:
            ends.append(self._busy_since + (self._frame() + 1) * TICK_SECONDS)
        if self._keys.undecided:
            ends.append(now + ESCAPE_SECONDS)
        return max(0.0, min(ends) - now) if ends else None

    def _press(self, key: Input) -> None:
        if self._question is not None and self._question.answer is None:
            self._question.press(key)
            return
        was_quitting, self._quitting = self._quitting, False
        match key:
            case Typed(text):
                self._box = self._box.typed(text)
            case Pasted(text):
                self._box = self._box.pasted(text)
            case Key.BACKSPACE:
                self._box = self._box.backspaced()
            case Key.CLEAR:
                self._box = Box()
            case Key.ENTER:
                message = self._box.text
                if message.strip() and self.takes_enter(message):
                    self._messages.append(message)
                    self._box = Box()
            case Key.INTERRUPT if self._box.parts:
                self._box = Box()
            case Key.INTERRUPT | Key.ESCAPE | Key.END:
                self._stop(key, was_quitting)

    def _stop(self, key: Key, was_quitting: bool) -> None:
        """Stop the turn, or end the program if there is none."""
        if self._look is Look.BUSY:
            self._stopped = key is not Key.END
        elif key is Key.INTERRUPT and not was_quitting:
            self._quitting = True
        elif key is not Key.ESCAPE and not self._box.parts:
            raise Quit(0)

    def _frame(self) -> int:
        return int(self.elapsed / TICK_SECONDS)

    def _paint(self, above: list[str]) -> None:
        rows, cursor = self._live_rows()
        announced = self._signals.announce(self._look, self._frame())
        if not above and not announced and self._shown == (rows, cursor):
            return
        self._shown = (rows, cursor)
        self._terminal.write(announced + self._painter.paint(above, rows, cursor))

    def _live_rows(self) -> tuple[list[Row], int]:
        """Return the rows at the bottom, and the column of the cursor in the last one."""
        if self._look is Look.NOTHING:
            return [], 0
        if self._look is Look.ASKING:
            asked = self._question
            rows = asked and dialog_rows(asked.title, asked.text, asked.yes_marked, self.columns)
            return [styled(clip(row, self.columns - 1)) for row in rows or ()], 0
        hint = AGAIN_HINT if self._quitting else PLACEHOLDER
        box = prompt_row(self._box.shown(), hint, self.columns)
        cursor = width_of(box.text if self._box.parts else PROMPT)
        if self._look is not Look.BUSY:
            return [box], cursor
        text = f"{SPINNER[self._frame() % 4]} working · {int(self.elapsed)}s"
        queued = f" · {len(self._messages)} waiting" if self._messages else ""
        return [styled(clip(f"{text}{queued} · esc stops", self.columns - 1)), box], cursor
