"""Commands that start at once: each is forked from a process that has imported all of `cao`.

A command is a process of its own, with its own environment, folder and streams. All that differs
from a new `cao` is that a third of a second is saved, which is most of what short ones take.
"""

import json
import os
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

    def run(
        self, words: Sequence[str], env: Mapping[str, str], folder: Path, stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        args = [sys.executable, "-m", "cli_agent_orchestrator", *words]
        sys.audit("subprocess.Popen", sys.executable, args, folder, env)
        wanted = {"words": list(words), "env": dict(env), "folder": str(folder)}
        with tempfile.TemporaryFile() as order, ThreadPoolExecutor(3) as pool:
            order.write(json.dumps(wanted).encode())
            order.seek(0)
            ends = [os.pipe() for _ in range(4)]
            (read_in, write_in), (read_out, write_out), (read_err, write_err), (told, tell) = ends
            given = [read_in, write_out, write_err, order.fileno(), tell]
            socket.send_fds(self._requests, [b"x"], given)
            for file in (read_in, write_out, write_err, tell):
                os.close(file)
            with os.fdopen(told, "r") as answers:
                pid = int(answers.readline())
                pool.submit(_write, os.fdopen(write_in, "wb"), stdin.encode())
                output = pool.submit(_read, os.fdopen(read_out, "rb"))
                errors = pool.submit(_read, os.fdopen(read_err, "rb"))
                try:
                    printed = output.result(PATIENCE), errors.result(PATIENCE)
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise
                return subprocess.CompletedProcess(args, int(answers.readline()), *printed)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


def _write(file: BinaryIO, data: bytes) -> None:
    with suppress(BrokenPipeError), file:
        file.write(data)


def _read(file: BinaryIO) -> str:
    with file:
        return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
