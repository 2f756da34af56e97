"""A run in a terminal: what has happened as lines, and below them a picture of what happens now.

Between two writes the cursor always stands at the beginning of the picture. So the picture is
erased by erasing all below the cursor, however the terminal has been resized since, and a signal
handler can do the same at any moment.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from ..client.client import ApiClient
from ..errors import OrchestratorError
from ..events import (
    AgentStarted,
    EventKind,
    HandoffEvent,
    RunEvent,
    RunOpened,
    ServerChosen,
    TurnBegan,
)
from ..notices.decide import NoticeSettings, Noticing, signal_of
from ..pipeline.steering import Wish
from .interrupts import ERASE_BLOCK, SHOW_CURSOR, Keyboard
from .narration import Line, Narration, Tone, beside_time
from .picture import Answer, Canvas, Keys, Picture, draw, fold, press

REFRESH_SECONDS = 1.0
STYLES = {
    Tone.PLAIN: "",
    Tone.QUIET: "dim",
    Tone.GOOD: "bold green",
    Tone.BAD: "bold red",
    Tone.ALERT: "yellow",
}
ERASE_BELOW = "\x1b[J"
ERASE_ROW = "\x1b[2K"
NEXT_ROW = f"\r\n{ERASE_ROW}"
"""Each row is erased before it is written: one that tmux had wrapped would else be joined with the
next when it becomes wider. To erase the whole screen first would flicker, and some terminals keep
what is erased so among the lines to scroll back to."""
HIDE_CURSOR = "\x1b[?25l"
CUT_LINES, WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
"""A row of the picture never becomes two, even if the terminal has just become narrower."""

Ask = Callable[[str, Wish], None]
"""Asks something of the run with an id; raises why it cannot be asked."""
Recall = Callable[[str], Iterable[RunEvent]]
"""Returns the events of the run with an id, as far as they are kept."""
Connect = Callable[[str | None], AbstractContextManager[ApiClient]]
"""Connects to the server with an address; to the user's own without one."""


Asked = tuple[str, Mapping[str, str], str | None]
"""A terminal whose agent asks, the choices it offers, and the fingerprint of its question."""
NOT_ASKED: Asked = ("", {}, None)


class LiveView:
    """Shows lines as they come, and below them the run as it is now."""

    def __init__(
        self,
        narration: Narration,
        console: Console | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        ask: Ask | None = None,
        recall: Recall | None = None,
        connect: Connect | None = None,
    ) -> None:
        """`ask` is what keys do; without it there are none.

        `recall` returns what a run did before it was resumed; by `connect` agents are answered.
        """
        self._refresh_seconds = refresh_seconds
        self._console = console or Console(highlight=False)
        self._narration = narration
        self._picture = Picture()
        self._ask = ask
        self._recall = recall
        self._connect = connect
        self._api: str | None = None
        self._asked = NOT_ASKED
        self.is_alone = False
        """Would a command of another terminal not find the run?"""
        self._way = NoticeSettings().terminal
        self._noticing = Noticing()
        self._keys = Keys()
        self._keyboard: Keyboard | None = None
        self._opened = ExitStack()
        self._since = time.time()
        self._writing = threading.Lock()
        # SimpleQueue, because its put may interrupt its get: a signal handler wakes the ticker.
        # True ends it.
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        # Any: what `signal.signal` returns
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGWINCH, lambda *_: self._wakes.put(False))
        self._write(HIDE_CURSOR)
        if self._ask is not None:
            self._keyboard = self._opened.enter_context(Keyboard(self._hear))
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        self._wakes.put(True)
        self._ticker.join()
        signal.signal(signal.SIGWINCH, self._before)
        with suppress(OSError):
            self._write(ERASE_BLOCK + SHOW_CURSOR)

    def notify_by(self, settings: NoticeSettings) -> None:
        self._way = settings.terminal
        self._noticing = Noticing(settings.events)

    def tell(self, event: RunEvent) -> None:
        line = self._narration.tell(event)
        if isinstance(event, RunOpened) and event.resumed and not self._picture.run:
            self._remember(event)
        if isinstance(event, ServerChosen):
            self._api = event.url if event.attach_prefix else None
        before, self._picture = self._picture, fold(self._picture, event)
        if self._picture.question is None:
            self._asked = NOT_ASKED
        self._ring(event)
        if line is None or _is_drawn(event, before):
            self._wakes.put(False)
            return
        self._show(line, f"{datetime.fromtimestamp(event.at):%H:%M:%S}  ")

    def _ring(self, event: RunEvent) -> None:
        """Signal what an event is worth; the process of the run warns if that cannot be told."""
        notice = None
        with suppress(Exception):
            notice = self._noticing.hear(event)
        # Of a run that is watched there may be old questions, which somebody has answered.
        if notice is not None and event.at >= self._since:
            with self._writing:  # between no two parts of another sequence
                self._write(signal_of(notice, self._way))

    def _remember(self, resumed: RunOpened) -> None:
        """Fold in what the run did before it was resumed; it is drawn, and not told again."""
        for event in self._recall(resumed.run) if self._recall is not None else ():
            if event.seq < resumed.seq:
                self._picture = fold(self._picture, event)

    def _now(self) -> Picture:
        """Return the picture with the choices of the open question, which are looked up once."""
        picture = self._picture
        agent = picture.agent(picture.present)
        if picture.question is None or agent is None or self._connect is None:
            return picture
        if agent.terminal_id != self._asked[0]:
            self._asked = (agent.terminal_id, {}, None)
            self._apart(self._find_choices, agent.terminal_id)
        return replace(picture, question=replace(picture.question, choices=self._asked[1]))

    def _apart(self, do: Callable[[ApiClient, str], None], word: str) -> None:
        """Ask something of the server in a thread of its own: it may take its time."""

        def attempt() -> None:
            try:
                assert self._connect is not None
                with self._connect(self._api) as client:
                    do(client, word)
            except (OrchestratorError, OSError) as error:
                with suppress(OSError):
                    self._show(Line(f"cao: {error}", Tone.ALERT))

        threading.Thread(target=attempt, name="answer", daemon=True).start()

    def _find_choices(self, client: ApiClient, terminal_id: str) -> None:
        question = client.get_question(terminal_id) or {}
        choices = {str(one["key"]): str(one["label"]) for one in question.get("choices") or ()}
        self._asked = (terminal_id, choices, question.get("fingerprint"))
        self._wakes.put(False)

    def _answer(self, client: ApiClient, key: str) -> None:
        terminal_id, _, fingerprint = self._asked
        client.answer_agent(terminal_id, key, fingerprint)

    def _hear(self, data: bytes) -> bool:
        """Do what was pressed; return whether more may belong to it."""
        self._keys, wishes = press(self._keys, data, self._now())
        for wish in wishes:
            if isinstance(wish, Answer):
                self._apart(self._answer, wish.key)
                continue
            try:
                # What the run says to it is among its events.
                if self._ask is not None:
                    self._ask(self._picture.run, wish)
            except (OrchestratorError, OSError) as error:
                self._show(Line(f"cao: {error}", Tone.ALERT))
        self._wakes.put(False)
        return self._keys.is_escaping

    def _tick(self) -> None:
        while True:
            is_over = False
            with suppress(Empty):
                is_over = self._wakes.get(timeout=self._refresh_seconds)
                # What has come meanwhile is drawn at once.
                while not is_over:
                    is_over = self._wakes.get_nowait()
            if is_over:
                return
            try:
                self._show()
            except OSError:
                # The terminal is gone; the run itself will notice.
                return

    def _show(self, line: Line | None = None, head: str = "") -> None:
        """Write a line, if there is one, behind its head, and the picture below, in one go."""
        with self._writing:
            self._take_size()
            width, height = self._console.size
            above = ""
            if line is not None:
                text = (beside_time(line.text, width), STYLES[line.tone])
                above = self._rendered(Text.assemble((head, "dim"), text))
            can_press = self._keyboard is not None and self._keyboard.is_on
            canvas = Canvas(width, height, time.time(), self.is_alone)
            rows = draw(self._now(), canvas, self._keys if can_press else None)
            block = self._rendered(*rows).removesuffix(NEXT_ROW)
            up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
            self._write(f"{ERASE_ROW}{above}{CUT_LINES}{block}{WRAP_LINES}{ERASE_BELOW}{up}\r")

    def _take_size(self) -> None:
        """Note how large the terminal is now; one that nobody has told its size says 0."""
        # LINES and COLUMNS, which would count more, may be those of another terminal.
        with suppress(OSError):
            size = os.get_terminal_size(self._console.file.fileno())
            if size.columns and size.lines:
                self._console.size = size

    def _write(self, text: str) -> None:
        encoding = self._console.encoding
        self._console.file.write(text.encode(encoding, "replace").decode(encoding))
        self._console.file.flush()

    def _rendered(self, *texts: Text) -> str:
        with self._console.capture() as capture:
            for text in texts:
                self._console.print(text)
        return capture.get().replace("\n", NEXT_ROW)


def _is_drawn(event: RunEvent, before: Picture) -> bool:
    """Does the picture tell of an event well enough, so that it needs no line?"""
    if isinstance(event, HandoffEvent) and event.kind is EventKind.DELAYED:
        # It counts the seconds of a delay that is known.
        return before.delay is not None and before.delay[1] == event.text
    counted = isinstance(event, HandoffEvent) and event.kind is EventKind.FILE_AWAITED
    return counted or isinstance(event, TurnBegan | AgentStarted)
