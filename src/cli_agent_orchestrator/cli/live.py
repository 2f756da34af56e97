"""A run in a terminal: what has happened as lines, and below them what happens now."""

import itertools
import threading
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cli_agent_orchestrator.cli.narration import Narration, Tone, place
from cli_agent_orchestrator.cli.printable import printable
from cli_agent_orchestrator.cli.progress import Screens
from cli_agent_orchestrator.errors import OrchestratorError
from cli_agent_orchestrator.handoff.dispatch import EVENTS_FEATURE
from cli_agent_orchestrator.handoff.progress import HandoffEvent
from cli_agent_orchestrator.models import OutputMode, TerminalStatus
from cli_agent_orchestrator.pipeline.events import RunEnded, RunEvent, TurnBegan, TurnEnded

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


class LiveView:
    """Shows lines as they come and the present turn below: role, status, time, last lines."""

    def __init__(
        self, base: Path, console: Console | None = None, refresh_seconds: float = REFRESH_SECONDS
    ) -> None:
        self._refresh_seconds = refresh_seconds
        self._console = console or Console(highlight=False)
        self._narration = Narration(base)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stderr=False
        )
        self._server: Screens | None = None
        self._turn: TurnBegan | None = None
        self._status: TerminalStatus | None = None
        self._began = time.monotonic()
        self._screen: list[str] = []
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._live.start()
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticker.join()
        self._live.stop()

    def connect(self, server: Screens, attach_prefix: str) -> None:
        self._narration.attach_prefix = attach_prefix
        if EVENTS_FEATURE in server.features():
            self._server = server

    def disconnect(self) -> None:
        self._server = None

    def tell(self, event: RunEvent) -> None:
        match event:
            case TurnBegan():
                self._turn, self._status, self._screen = event, None, []
                self._began = time.monotonic()
            case TurnEnded() | RunEnded():
                self._turn = None
            case HandoffEvent() if event.status is not None:
                self._status = event.status
        line = self._narration.tell(event)
        if line is not None and not isinstance(event, TurnBegan):
            when = f"{datetime.fromtimestamp(event.at):%H:%M:%S}  "
            self._console.print(
                Text.assemble((when, "dim"), (printable(line.text), STYLES[line.tone]))
            )
        self._show()

    def _tick(self) -> None:
        for tick in itertools.count():
            if self._over.wait(self._refresh_seconds):
                return
            if tick % TICKS_BETWEEN_LOOKS == 0:
                self._look()
            self._show()

    def _look(self) -> None:
        server, turn = self._server, self._turn
        if server is None or turn is None:
            return
        # Only a picture: whatever goes wrong, the run itself will notice.
        with suppress(OrchestratorError, RuntimeError):
            text = printable(server.get_output(turn.terminal_id, OutputMode.SCREEN))
            self._screen = [line.rstrip() for line in text.splitlines() if line.strip()]

    def _show(self) -> None:
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        turn = self._turn
        if turn is None:
            return Group()
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        status = "sending" if self._status is None else self._status.replace("_", " ")
        head = Text.assemble(
            ("▶ ", "bold cyan"),
            (place(turn.turn), "bold"),
            f"  {turn.provider}  ",
            (status, "yellow" if status.startswith("waiting") else "cyan"),
            f"  {minutes}:{seconds:02d}",
            no_wrap=True,
            overflow="ellipsis",
        )
        lines = [
            Text(f"  │ {line}", style="dim", no_wrap=True, overflow="ellipsis")
            for line in self._screen[-SCREEN_LINES:]
        ]
        return Group(head, *lines)
