"""A run in a terminal: what has happened as lines, and below them a picture of what happens now.

Between two writes the cursor is always at the beginning of the picture. So the picture is erased by
erasing all below the cursor, however the terminal was resized since, and a signal handler can do
the same at any moment.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import datetime
from functools import partial
from operator import methodcaller
from queue import Empty, SimpleQueue
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from .. import events
from ..client.client import ApiClient
from ..errors import OrchestratorError
from ..notices.decide import NoticeSettings, Noticing, signal_of
from ..pipeline.requests import Request
from .interrupts import ERASE_BLOCK, SHOW_CURSOR, Keyboard
from .narration import Line, Narration, Tone, beside_time
from .picture import Canvas, Keys, OpenQuestion, Picture, draw, press

REFRESH_SECONDS = 1.0
ERASE_BELOW = "\x1b[J"
ERASE_ROW = "\x1b[2K"
NEXT_ROW = f"\r\n{ERASE_ROW}"
"""Each row is erased before it is written: one that tmux had wrapped would else be joined with the
next when it becomes wider. To erase the whole screen first would flicker, and some terminals keep
what is erased so among the lines to scroll back to."""
HIDE_CURSOR = "\x1b[?25l"
CUT_LINES, WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
"""A row of the picture never becomes two, even if the terminal has just become narrower."""

Ask = Callable[[str, Request], None]
Recall = Callable[[str], Iterable[events.RunEvent]]
Connect = Callable[[str | None], AbstractContextManager[ApiClient]]
"""Connects to the server with an address; to the user's own without one."""


class LiveView:
    def __init__(
        self,
        narration: Narration,
        console: Console | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        ask: Ask | None = None,
        recall: Recall | None = None,
        connect: Connect | None = None,
        notices: NoticeSettings | None = None,
    ) -> None:
        """Without `ask` no key does anything; `connect` is how agents are answered.

        Without `recall` no other terminal finds the run, and no command for one is shown.
        """
        notices = notices or NoticeSettings()
        self._refresh_seconds = refresh_seconds
        self._console = console or Console(highlight=False)
        self._narration = narration
        self._picture = Picture()
        self._ask = ask
        self._recall = recall
        self._connect = connect
        self._api: str | None = None
        self._way = notices.terminal
        self._noticing = Noticing(notices.events)
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

    def tell(self, event: events.RunEvent) -> None:
        line = self._narration.tell(event)
        if isinstance(event, events.RunOpened) and event.resumed and not self._picture.id:
            # What the run did before it was resumed is drawn, and not printed again.
            for earlier in self._recall(event.run) if self._recall is not None else ():
                if earlier.seq < event.seq:
                    self._picture.add(earlier)
        if isinstance(event, events.ServerChosen):
            self._api = event.url if event.attach_prefix else None
        with self._writing:  # while it is not being drawn
            before = self._picture.now
            asked, delay = (before.question, before.delay) if before else (None, None)
            self._picture.add(event)
            now = self._picture.now
        if now and now.question and now.question is not asked and self._connect is not None:
            self._apart(partial(self._find_choices, now.turn.terminal_id, now.question))
        notice = None
        with suppress(Exception):  # the process of the run warns if there can be none
            notice = self._noticing.hear(event)
        # A run that is watched may have old questions, which were answered.
        if notice is not None and event.at >= self._since:
            with self._writing:  # between no two parts of another sequence
                self._write(signal_of(notice, self._way))
        if line is None or _is_drawn(event, delay[1] if delay else None):
            self._wakes.put(False)
            return
        self._show(line, f"{datetime.fromtimestamp(event.at):%H:%M:%S}  ")

    def _apart(self, do: Callable[[ApiClient], object]) -> None:
        """Ask the server something in a thread of its own: it may take its time."""

        def attempt() -> None:
            try:
                assert self._connect is not None
                with self._connect(self._api) as client:
                    do(client)
            except (OrchestratorError, OSError) as error:
                with suppress(OSError):
                    self._show(Line(f"cao: {error}", Tone.ALERT))

        threading.Thread(target=attempt, name="answer", daemon=True).start()

    def _find_choices(self, terminal_id: str, question: OpenQuestion, client: ApiClient) -> None:
        found = client.get_question(terminal_id) or {}
        # First, so that no key is pressed without it.
        question.fingerprint = found.get("fingerprint")
        question.choices = {
            str(one["key"]): str(one["label"]) for one in found.get("choices") or ()
        }
        self._wakes.put(False)

    def _hear(self, data: bytes) -> bool:
        """Do what was pressed; return whether that may be the beginning of a key."""
        with self._writing:
            self._keys, requests = press(self._keys, data, self._picture)
            now = self._picture.now
        for request in requests:
            if isinstance(request, str):
                if now and now.question:
                    answer = (now.turn.terminal_id, request, now.question.fingerprint)
                    self._apart(methodcaller("answer_agent", *answer))
                continue
            try:
                # The run's reply is among its events.
                if self._ask is not None:
                    self._ask(self._picture.id, request)
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
            # LINES and COLUMNS, which would count more, may be those of another terminal.
            with suppress(OSError):
                size = os.get_terminal_size(self._console.file.fileno())
                if size.columns and size.lines:  # 0: it does not know its size
                    self._console.size = size
            width, height = self._console.size
            above = ""
            if line is not None:
                text = (beside_time(line.text, width), line.tone.value)
                above = self._rendered(Text.assemble((head, "dim"), text))
            can_press = self._keyboard is not None and self._keyboard.is_on
            canvas = Canvas(width, height, time.time(), is_alone=self._recall is None)
            rows = draw(self._picture, canvas, self._keys if can_press else None)
            block = self._rendered(*rows).removesuffix(NEXT_ROW)
            up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
            # In the background the cursor is the shell's.
            above = f"{HIDE_CURSOR}{above}" if can_press else above
            self._write(f"{ERASE_ROW}{above}{CUT_LINES}{block}{WRAP_LINES}{ERASE_BELOW}{up}\r")

    def _write(self, text: str) -> None:
        encoding = self._console.encoding
        self._console.file.write(text.encode(encoding, "replace").decode(encoding))
        self._console.file.flush()

    def _rendered(self, *texts: Text) -> str:
        with self._console.capture() as capture:
            for text in texts:
                self._console.print(text)
        return capture.get().replace("\n", NEXT_ROW)


def _is_drawn(event: events.RunEvent, delay: str | None) -> bool:
    """Does the picture show an event well enough, so that it needs no line?

    It counts the seconds of a delay that is known, and those until a file has to come.
    """
    if isinstance(event, events.HandoffEvent):
        is_known = event.kind is events.EventKind.DELAYED and event.text == delay
        return is_known or event.kind is events.EventKind.FILE_AWAITED
    return isinstance(event, events.TurnBegan | events.AgentStarted)
