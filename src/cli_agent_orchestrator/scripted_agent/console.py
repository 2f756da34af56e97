"""Talking with the person or program at the keyboard, while time goes by.

Everything that takes time goes through `pump`: it waits for the next thing to happen, deals with
keys, timers and signals of the system, and paints what has changed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator.scripted_agent import screen
from cli_agent_orchestrator.scripted_agent.keys import Box, Input, Key, KeyReader, Pasted, Typed
from cli_agent_orchestrator.scripted_agent.screen import Painter, Row
from cli_agent_orchestrator.scripted_agent.signals import Look, Signals
from cli_agent_orchestrator.scripted_agent.terminal import Quit, Terminal

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
        """Return the next message that is submitted."""
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
        """Return the seconds since the turn began."""
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
        self._run_timers()
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

    def _run_timers(self) -> None:
        now = self._clock.monotonic()
        due = [action for at, action in self._timers if at <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for action in due:
            action()

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
                self._submit()
            case Key.INTERRUPT if self._box.parts:
                self._box = Box()
            case Key.INTERRUPT | Key.ESCAPE | Key.END:
                self._stop(key, was_quitting)

    def _submit(self) -> None:
        message = self._box.text
        if message.strip() and self.takes_enter(message):
            self._messages.append(message)
            self._box = Box()

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
        match self._look:
            case Look.NOTHING:
                return [], 0
            case Look.ASKING:
                return self._question_rows(), 0
            case Look.BUSY:
                text = f"{screen.SPINNER[self._frame() % 4]} working · {int(self.elapsed)}s"
                queued = f" · {len(self._messages)} waiting" if self._messages else ""
                busy = screen.clip(f"{text}{queued} · esc stops", self.columns - 1)
                return [screen.styled(busy), *self._box_row()], self._box_end()
            case _:
                return self._box_row(), self._box_end()

    def _question_rows(self) -> list[Row]:
        asked = self._question
        if asked is None:
            return []
        rows = screen.dialog_rows(asked.title, asked.text, asked.yes_marked, self.columns)
        return [screen.styled(screen.clip(row, self.columns - 1)) for row in rows]

    def _box_row(self) -> list[Row]:
        hint = AGAIN_HINT if self._quitting else screen.PLACEHOLDER
        return [screen.prompt_row(self._box.shown(), hint, self.columns)]

    def _box_end(self) -> int:
        if not self._box.parts:
            return screen.width_of(screen.PROMPT)
        return screen.width_of(self._box_row()[0].text)
