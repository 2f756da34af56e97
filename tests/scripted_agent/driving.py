"""Driving the real scripted agent: in a real tmux, or on a bare pseudo-terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cli_agent_orchestrator.core.models import TerminalStatus
from cli_agent_orchestrator.providers import scripted
from cli_agent_orchestrator.providers.base import LaunchRequest, Permissions, Profile

Found = TypeVar("Found")

WAIT_SECONDS = 60.0
TMUX_SETTINGS = """\
set -g remain-on-exit on
set -g history-limit 300000
set -s escape-time 0
"""


def eventually(look: Callable[[], Found], what: str, screen: Callable[[], str] = str) -> Found:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"never happened: {what}\n{screen()}"
        select.select([], [], [], 0.01)
    return found


def launch_request(
    folder: Path, args: Sequence[str] = (), profile: str = "programmer"
) -> LaunchRequest:
    """Return what the server would ask the provider for."""
    persona, events = Profile(profile, "", ""), str(folder / "events.jsonl")
    allowed = Permissions.WORKSPACE
    return LaunchRequest(sys.executable, (), tuple(args), str(folder), persona, allowed, events)


def script_args(folder: Path, script: str | None) -> list[str]:
    """Write a script, and return the arguments that make an agent obey it."""
    if script is None:
        return []
    path = folder / "script.toml"
    path.write_text(script, encoding="utf-8")
    return ["--script", str(path)]


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


class TmuxAgent:
    """An agent in a tmux server of its own."""

    def __init__(self, folder: Path, script: str | None, profile: str = "programmer") -> None:
        self.folder = folder
        self._socket = f"cao-test-{uuid.uuid4().hex[:12]}"
        settings = folder / "tmux.conf"
        settings.write_text(TMUX_SETTINGS)
        argv = scripted.launch(launch_request(folder, script_args(folder, script), profile)).argv
        start = ["new-session", "-d", "-x", "120", "-y", "40", "-c", str(folder), "--", *argv]
        subprocess.run(["tmux", "-u", "-L", self._socket, "-f", str(settings), *start], check=True)
        self.pid = int(self._show("#{pane_pid}"))

    def close(self) -> None:
        path = self._show("#{socket_path}")
        self.tmux("kill-server")
        Path(path).unlink(missing_ok=True)

    def tmux(self, *words: str, data: bytes | None = None) -> str:
        command = ["tmux", "-u", "-L", self._socket, *words]
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        return done.stdout.decode()

    def _show(self, form: str) -> str:
        return self.tmux("display-message", "-p", form).strip()

    @property
    def exit_code(self) -> int | None:
        server, dead, code = self._show("#{pid}:#{pane_dead}:#{pane_dead_status}").split(":")
        if not code:
            # tmux 3.3a sometimes misses the end of a child until the next one.
            os.kill(int(server), signal.SIGCHLD)
        return int(code) if dead == "1" and code else None

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def scrollback(self) -> str:
        return self.tmux("capture-pane", "-p", "-J", "-S", "-", "-E", "-")

    def draft(self) -> str | None:
        return scripted.draft(self.tmux("capture-pane", "-p", "-e"))

    def status(self) -> TerminalStatus:
        """Return what the screen alone says."""
        return scripted.detect_status(self.screen())

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def paste(self, data: bytes) -> None:
        self.tmux("load-buffer", "-b", "message", "-", data=data)
        self.tmux("paste-buffer", "-p", "-r", "-d", "-b", "message")

    def send(self, message: str) -> None:
        """Paste a message and submit it, once the agent can take one."""
        self.wait_for_rest()
        self.paste(message.encode())
        eventually(self.draft, "the message is in the box")
        self.press("Enter")

    def wait_for(self, status: TerminalStatus) -> None:
        eventually(lambda: self.status() is status, f"{status}, by the screen", self.screen)

    def wait_for_rest(self) -> None:
        rest = (TerminalStatus.IDLE, TerminalStatus.COMPLETED, TerminalStatus.ERROR)
        eventually(lambda: self.status() in rest, "at rest", self.screen)

    def wait_for_event(self, name: str, times: int = 1) -> None:
        eventually(lambda: event_names(self.folder).count(name) >= times, f"event {name}")


class PtyAgent:
    """An agent on a pseudo-terminal, whose bytes are seen as they are."""

    def __init__(self, folder: Path, script: str | None, profile: str = "programmer") -> None:
        self.folder = folder
        self.master, own = pty.openpty()
        self.resize(120)
        argv = scripted.launch(launch_request(folder, script_args(folder, script), profile)).argv
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

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

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
