"""A run in a terminal: what has happened as lines, and below them what happens now.

Between two writes the cursor always stands at the beginning of the block of what happens now. So
the block is erased by erasing all below the cursor, however the terminal has been resized since,
and a signal handler can do the same at any moment.
"""

import itertools
import os
import signal
import threading
import time
from contextlib import suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from cli_agent_orchestrator.cli.interrupts import ERASE_BLOCK, SHOW_CURSOR
from cli_agent_orchestrator.cli.narration import (
    UNFINISHED,
    Narration,
    Tone,
    agents_in_words,
    place,
)
from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.events import (
    AgentsStarting,
    AgentStarted,
    CheckBegan,
    CheckEnded,
    EventKind,
    HandoffEvent,
    RunBegan,
    RunEnded,
    RunEvent,
    TurnBegan,
    TurnEnded,
)
from cli_agent_orchestrator.models import Feature, OutputMode, TerminalStatus
from cli_agent_orchestrator.runs.view import Screens

REFRESH_SECONDS = 2.0
TICKS_BETWEEN_LOOKS = 2
SCREEN_LINES = 6
STYLES = {
    Tone.PLAIN: "",
    Tone.QUIET: "dim",
    Tone.GOOD: "bold green",
    Tone.BAD: "bold red",
    Tone.ALERT: "yellow",
}
BLOCK_WIDTH = 79
"""A terminal that becomes narrower makes two rows of a long one, and may push one out of reach."""
ERASE_BELOW = "\x1b[J"
NEXT_ROW = "\x1b[K\r\n"
"""What was there is written over, and the rest of each row erased. To erase the whole screen first
would flicker, and some terminals keep what is erased so among the lines to scroll back to."""
HIDE_CURSOR = "\x1b[?25l"
CUT_LINES, WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
"""A row of the block never becomes two, even if the terminal has just become narrower."""
UNSHAKEN = (EventKind.DELAYED, EventKind.STATUS)
"""Kinds of events that do not end a delay."""


class Wake(Enum):
    """Why the block is drawn again."""

    TIME = "time"
    RESIZED = "resized"
    OVER = "over"
    """It is not."""


class LiveView:
    """Shows lines as they come and the present turn below: role, status, time, last lines."""

    def __init__(
        self,
        base: Path,
        console: Console | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        report: str = "",
        unfinished: str = UNFINISHED,
    ) -> None:
        self._refresh_seconds = refresh_seconds
        self._console = console or Console(highlight=False)
        self._narration = Narration(base, report, unfinished)
        self._server: Screens | None = None
        self._starting: dict[str, str] = {}
        """Who is being started: the agents by role."""
        self._turn: TurnBegan | None = None
        self._check: CheckBegan | None = None
        self._status: TerminalStatus | None = None
        self._delay: HandoffEvent | None = None
        self._began = time.monotonic()
        self._screen: list[str] = []
        self._writing = threading.Lock()
        # SimpleQueue, because its put may interrupt its get: a signal handler wakes the ticker.
        self._wakes: SimpleQueue[Wake] = SimpleQueue()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        # Any: what `signal.signal` returns
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGWINCH, lambda *_: self._wakes.put(Wake.RESIZED))
        self._write(HIDE_CURSOR)
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._wakes.put(Wake.OVER)
        self._ticker.join()
        signal.signal(signal.SIGWINCH, self._before)
        with suppress(OSError):
            self._write(ERASE_BLOCK + SHOW_CURSOR)

    def connect(self, server: Screens, attach_prefix: str) -> None:
        self._narration.attach_prefix = attach_prefix
        if Feature.EVENTS in server.features():
            self._server = server

    def disconnect(self) -> None:
        self._server = None

    def tell(self, event: RunEvent) -> None:
        line = self._narration.tell(event)
        # The block counts the seconds of a delay that is known.
        known = isinstance(event, HandoffEvent) and _same_delay(event, self._delay)
        self._take_in(event)
        if line is None or known or isinstance(event, TurnBegan):
            self._show()
            return
        when = f"{datetime.fromtimestamp(event.at):%H:%M:%S}  "
        self._show(Text.assemble((when, "dim"), (printable(line.text), STYLES[line.tone])))

    def _take_in(self, event: RunEvent) -> None:
        match event:
            case AgentsStarting():
                self._starting = dict(event.providers)
                self._began = time.monotonic()
            case AgentStarted():
                self._starting = {
                    name: agent for name, agent in self._starting.items() if name != event.role
                }
            case RunBegan():
                self._starting = {}
            case TurnBegan():
                self._turn, self._status, self._delay, self._screen = event, None, None, []
                self._began = time.monotonic()
            case CheckBegan():
                self._check, self._began = event, time.monotonic()
            case TurnEnded() | CheckEnded() | RunEnded():
                self._turn, self._check, self._starting = None, None, {}
            case HandoffEvent():
                self._status = event.status or self._status
                if event.kind is EventKind.DELAYED:
                    self._delay = event
                elif event.kind not in UNSHAKEN:
                    self._delay = None

    def _tick(self) -> None:
        ticks = itertools.count()
        while (wake := self._next_wake()) is not Wake.OVER:
            if wake is Wake.TIME and next(ticks) % TICKS_BETWEEN_LOOKS == 0:
                self._look()
            try:
                self._show()
            except OSError:
                # The terminal is gone; the run itself will notice.
                return

    def _next_wake(self) -> "Wake":
        try:
            return self._wakes.get(timeout=self._refresh_seconds)
        except Empty:
            return Wake.TIME

    def _look(self) -> None:
        server, turn = self._server, self._turn
        if server is None or turn is None:
            return
        # Only a picture: whatever goes wrong, the run itself will notice.
        with suppress(OrchestratorError, RuntimeError):
            text = printable(server.get_output(turn.terminal_id, OutputMode.SCREEN))
            self._screen = [line.rstrip() for line in text.splitlines() if line.strip()]

    def _show(self, line: Text | None = None) -> None:
        """Write a line, if there is one, and the block below it, in one go."""
        with self._writing:
            # LINES and COLUMNS, which would count more, may be those of another terminal.
            with suppress(OSError):
                self._console.size = os.get_terminal_size(self._console.file.fileno())
            above = "" if line is None else self._rendered(line).replace("\n", NEXT_ROW)
            width, height = self._console.size
            rows = self._rows()[: max(height - 1, 1)]
            for row in rows:
                row.no_wrap = True
                row.truncate(max(min(width - 1, BLOCK_WIDTH), 1), overflow="ellipsis")
            block = NEXT_ROW.join(self._rendered(row).rstrip("\n") for row in rows)
            up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
            self._write(f"{above}{CUT_LINES}{block}{WRAP_LINES}{ERASE_BELOW}{up}\r")

    def _write(self, text: str) -> None:
        encoding = self._console.encoding
        self._console.file.write(text.encode(encoding, "replace").decode(encoding))
        self._console.file.flush()

    def _rendered(self, text: Text) -> str:
        with self._console.capture() as capture:
            self._console.print(text)
        return capture.get()

    def _rows(self) -> list[Text]:
        turn, since = self._turn, _clock_face(time.monotonic() - self._began)
        if self._check is not None:
            return [Text(f"▶ {place(self._check)}  {self._check.command}  {since}")]
        if turn is None:
            waited_for = ", ".join(agents_in_words(self._starting))
            return [Text(f"▶ starting {waited_for}  {since}")] if waited_for else []
        status = "sending" if self._status is None else self._status.replace("_", " ")
        head = Text.assemble(
            ("▶ ", "bold cyan"),
            (place(turn), "bold"),
            f"  {turn.provider}  ",
            (status, "yellow" if status.startswith("waiting") else "cyan"),
            f"  {since}",
        )
        rows = [head]
        if self._delay is not None:
            rows.append(_delay_row(self._delay))
        rows += [Text(f"  │ {line}", style="dim") for line in self._screen[-SCREEN_LINES:]]
        return rows


def _same_delay(event: HandoffEvent, delay: HandoffEvent | None) -> bool:
    return event.kind is EventKind.DELAYED and delay is not None and event.text == delay.text


def _delay_row(delay: HandoffEvent) -> Text:
    waited = _clock_face(time.time() - (delay.since or delay.at))
    why = " ".join(printable(delay.text).split())
    return Text(f"  ! not delivered for {waited}: {why}", style="yellow")


def _clock_face(seconds: float) -> str:
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    return f"{minutes}:{rest:02d}"
