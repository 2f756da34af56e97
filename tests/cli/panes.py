"""Programs in windows of tmux servers of their own."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 60.0
LOOK_SECONDS = 0.05
OUTER = ("TMUX", "LINES", "COLUMNS")
"""What an outer terminal has left there says nothing about this one."""


class Pane:
    """A program in the only window of a tmux server; the path of the folder has to be short."""

    def __init__(
        self,
        folder: Path,
        *command: str,
        name: str = "s",
        width: int = 100,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = name
        self.env = {
            **{name: value for name, value in env.items() if name not in OUTER},
            "TMUX_TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
            # Not the user's own: it may be one that lets nobody in.
            "SHELL": "/bin/sh",
        }
        size = ("-x", str(width), "-y", "30")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", name, *size, *command)

    def tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self.name, *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def show(self, what: str) -> str:
        return self.tmux("display-message", "-p", what).strip()

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self, joined: bool = False) -> list[str]:
        """Return all that is on the screen and above it; lines that were wrapped may be joined."""
        text = self.tmux("capture-pane", "-p", "-S", "-", *(["-J"] if joined else []))
        return [line.rstrip() for line in text.rstrip().splitlines()]

    def until_shown(self, pattern: str) -> None:
        self.until(lambda lines: any(re.search(pattern, line) for line in lines))

    def until(self, is_so: Callable[[list[str]], object], joined: bool = False) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so(lines := self.lines(joined)):
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        self.tmux("kill-server")
