"""Driving the real scripted agent on a pseudo-terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cli_agent_orchestrator.providers import scripted
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions

Found = TypeVar("Found")

WAIT_SECONDS = 60.0


def eventually(look: Callable[[], Found], what: str, screen: Callable[[], str] = str) -> Found:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"never happened: {what}\n{screen()}"
        select.select([], [], [], 0.01)
    return found


def launch_request(folder: Path, script: str | None, profile: str) -> LaunchRequest:
    """Return what the server would ask the provider for."""
    args = []
    if script is not None:
        path = folder / "script.toml"
        path.write_text(script, encoding="utf-8")
        args = ["--script", str(path)]
    allowed, events = Permissions.WORKSPACE, str(folder / "events.jsonl")
    return LaunchRequest(sys.executable, (), tuple(args), str(folder), profile, "", allowed, events)


def read_events(folder: Path) -> list[dict[str, Any]]:
    """Return the events told so far; a long line may be seen before all of it is written."""
    path = folder / "events.jsonl"
    lines = path.read_text().split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines[:-1]]


def event_names(folder: Path) -> list[str]:
    return [event["event"] for event in read_events(folder)]


def prompt_with_file(path: Path, text: str = "Do it.") -> str:
    """Return a prompt that wants its answer in a file."""
    return (
        f"ROUND: 2\nCYCLE: 1\n{text}\n\nRESPONSE FILE INSTRUCTION\nWrite it with this command:\n"
        f"cat > '{path}' <<'CAO_RESPONSE_END'\n<your complete final response>\nCAO_RESPONSE_END\n"
    )


class PtyAgent:
    """An agent on a pseudo-terminal, whose bytes are seen as they are."""

    def __init__(self, folder: Path, script: str | None, profile: str) -> None:
        self.folder = folder
        self.master, own = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        argv = scripted.launch(launch_request(folder, script, profile)).argv
        self.process = subprocess.Popen(
            argv, cwd=folder, stdin=own, stdout=own, stderr=own, start_new_session=True
        )
        os.close(own)
        self._bytes = b""

    @property
    def received(self) -> str:
        """Return all that the agent has drawn so far."""
        return self._bytes.decode("utf-8", "replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def type(self, data: bytes) -> None:
        """Write to the agent, and read what it draws meanwhile: both must not wait."""
        left = memoryview(data)
        while left:
            self._read()
            if select.select([], [self.master], [], 0)[1]:
                left = left[os.write(self.master, left[:2048]) :]

    def paste(self, text: str) -> None:
        self.type(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def send(self, message: str) -> None:
        self.paste(message)
        self.type(b"\r")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the agent has drawn a text so many times."""
        eventually(lambda: self._read().count(text) >= times, repr(text), lambda: self.received)

    def wait_for_event(self, name: str, times: int = 1) -> None:
        def look() -> bool:
            self._read()
            return event_names(self.folder).count(name) >= times

        eventually(look, f"event {name}")

    def wait_for_end(self) -> int:
        def ended() -> bool:
            self._read()
            return self.process.poll() is not None

        eventually(ended, "the program ends")
        self._read()
        return self.process.returncode

    def _read(self) -> str:
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while select.select([self.master], [], [], 0)[0]:
                if not (data := os.read(self.master, 65536)):
                    break
                self._bytes += data
        return self.received
