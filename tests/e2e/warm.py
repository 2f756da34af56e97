"""Commands that start at once: each is forked from a process that has imported all of `cao`.

A command is a process of its own, with its own environment, folder and streams. All that differs
from a new `cao` is that half a second is saved: what it imports, and what becomes of that at the
end.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PROGRAM = Path(__file__).with_name("warm_cao.py")
PATIENCE = 120.0
READ_AT_START = ("PYTHON", "LC_", "LANG")
"""Python itself reads what is called so, when it starts."""
HANDED_DOWN = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A process that is started ignores those of them that its parent ignores."""


class Command:
    """A command under way, to be used as a `subprocess.Popen` is; its pipes are read ahead."""

    def __init__(self, args: list[str], answers: BinaryIO) -> None:
        self.args = args
        self.pid = int(answers.readline())
        self.returncode: int | None = None
        self.stdout: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        self._answers = answers

    def poll(self) -> int | None:
        """Return the exit code, None as long as there is none."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = PATIENCE) -> int:
        """Wait for the end, and return the exit code."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = PATIENCE) -> tuple[bytes, bytes]:
        """Read what is still to come, and wait for the end."""
        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(_read_and_close, file) for file in (self.stdout, self.stderr)]
            try:
                output, errors = (future.result(timeout) for future in reading)
            except TimeoutError:
                self.kill()
                raise
        self.wait(timeout)
        return output, errors


class WarmCao:
    """The process from which commands are forked."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._read = _read_at_start(env)
        self._requests, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM)],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
            )

    def close(self) -> None:
        self._requests.close()
        self._process.wait(PATIENCE)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Would a new process of this environment be like a forked one?"""
        return _read_at_start(env) == self._read

    def start(
        self, args: Sequence[str], env: Mapping[str, str], folder: Path, streams: Sequence[int]
    ) -> Command:
        """Start what `python ARGS` would start, with three open files as its streams."""
        words = [sys.executable, *args]
        sys.audit("subprocess.Popen", sys.executable, words, folder, env)
        ignored = [int(one) for one in HANDED_DOWN if signal.getsignal(one) is signal.SIG_IGN]
        wanted = {"args": args, "env": dict(env), "folder": str(folder), "ignored": ignored}
        told, tell = os.pipe()
        with tempfile.TemporaryFile() as order:
            order.write(json.dumps(wanted).encode())
            order.seek(0)
            socket.send_fds(self._requests, [b"x"], [*streams, order.fileno(), tell])
        os.close(tell)
        return Command(words, os.fdopen(told, "rb", buffering=0))

    def open(
        self, args: Sequence[str], env: Mapping[str, str], folder: Path, stdin: int
    ) -> Command:
        """Start it with pipes to read its output and its errors from."""
        (read_out, write_out), (read_err, write_err) = os.pipe(), os.pipe()
        command = self.start(args, env, folder, (stdin, write_out, write_err))
        os.close(write_out)
        os.close(write_err)
        command.stdout, command.stderr = os.fdopen(read_out, "rb"), os.fdopen(read_err, "rb")
        return command

    def run(
        self, args: Sequence[str], env: Mapping[str, str], folder: Path, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        with tempfile.TemporaryFile() as given:
            given.write(stdin.encode())
            given.seek(0)
            command = self.open(args, env, folder, given.fileno())
        printed = (_text(output) for output in command.communicate())
        return subprocess.CompletedProcess(command.args, command.wait(), *printed)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


def _text(printed: bytes) -> str:
    return printed.decode().replace("\r\n", "\n").replace("\r", "\n")


def _read_and_close(file: BinaryIO | None) -> bytes:
    if file is None or file.closed:
        return b""
    with file:
        return file.read()
