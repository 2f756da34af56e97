"""Draws into panes from outside, by their terminal devices: what tmux sees is the same."""

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from cli_agent_orchestrator.core.models import TerminalStatus

MARKS = {TerminalStatus.IDLE: "▢ ready", TerminalStatus.COMPLETED: "▣ turn {number} over · 0.1s"}


def frame(status: TerminalStatus, number: int) -> bytes:
    """Return the bytes that make a screen look like the scripted agent at rest."""
    return f"\x1b[H\x1b[J{MARKS[status].format(number=number)}\r\nscripted ❯ ".encode()


class Canvas:
    """The terminal devices of some panes, by their ids."""

    def __init__(self, devices: Mapping[str, str]) -> None:
        self._files = {
            name: os.open(device, os.O_WRONLY | os.O_NOCTTY) for name, device in devices.items()
        }

    def draw(self, name: str, picture: bytes) -> float:
        """Write to a pane, and return the monotonic time at which that began."""
        now = time.monotonic()
        os.write(self._files[name], picture)
        return now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            os.close(file)
