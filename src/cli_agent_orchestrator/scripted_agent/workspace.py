"""What the agent does in its working directory: commands that really run, files that change."""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from cli_agent_orchestrator.scripted_agent.console import Console
from cli_agent_orchestrator.scripted_agent.script import Write
from cli_agent_orchestrator.scripted_agent.turn import Ran

PYTHON = "{python}"
"""Stands for the interpreter that runs the agent, in the first word of a command."""
OUTPUT_LIMIT = 256 * 1024
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class CannotWork(Exception):
    """A change that the script wants cannot be made."""


def command_text(argv: tuple[str, ...]) -> str:
    """Return a command as people write it."""
    return shlex.join("python3" if word == PYTHON else word for word in argv)


class Workspace:
    """The working directory of the agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def run(self, argv: tuple[str, ...], console: Console) -> Ran:
        """Run a command to its end, never through a shell; stopping the turn ends it too."""
        words = [sys.executable if word == PYTHON else word for word in argv]
        try:
            process = subprocess.Popen(
                words,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return Ran(code, f"{argv[0]}: {error.strerror}")
        try:
            output = _read_to_end(process, console)
        finally:
            _close(process)
        code = process.returncode
        return Ran(code if code >= 0 else 128 - code, output)

    def change(self, write: Write) -> None:
        """Make one change; one that has been made already is no error."""
        path = (self._folder / write.path).resolve()
        if not path.is_relative_to(self._folder):
            raise CannotWork(f"{write.path} leads out of the working directory")
        try:
            if write.content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(write.content, encoding="utf-8")
                return
            text = path.read_text(encoding="utf-8")
            made_already = write.old in write.new and write.new in text
            if write.old in text and not made_already:
                path.write_text(text.replace(write.old, write.new), encoding="utf-8")
            elif write.new not in text:
                raise CannotWork(f"{write.path} has not the text that is to be replaced")
        except (OSError, UnicodeDecodeError) as error:
            raise CannotWork(f"{write.path} cannot be changed: {error}") from error


def _read_to_end(process: subprocess.Popen[bytes], console: Console) -> str:
    """Collect the output until the command has ended, whoever else holds its pipe."""
    assert process.stdout is not None
    pipe: int | None = process.stdout.fileno()
    output = bytearray()
    while True:
        ended = process.poll() is not None
        readable = console.pump(0.0 if ended else None, also=pipe)
        if readable and pipe is not None:
            data = os.read(pipe, 65536)
            output += data
            if len(output) > 2 * OUTPUT_LIMIT:
                del output[: -OUTPUT_LIMIT - 1]
            pipe = pipe if data else None
        elif ended:
            return _tail(bytes(output))


def _tail(output: bytes) -> str:
    text = output[-OUTPUT_LIMIT:].decode("utf-8", "replace")
    return text if len(output) <= OUTPUT_LIMIT else f"[only the end is shown]\n{text}"


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe of a command, and end one that was stopped with all it has started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


class ResponseFile:
    """Writes an answer where the prompt wants it, as `cat > FILE` would, in one or more pieces."""

    def __init__(self, path: str, text: str, pieces: int, *, reopen: bool) -> None:
        self._path = Path(path)
        self._reopen = reopen
        self._file: IO[bytes] | None = None
        self._left = _split(f"{text}\n".encode("utf-8", "replace"), pieces)
        self._mode = "wb"

    def write_piece(self) -> bool:
        """Write the next piece, and return whether there are more."""
        if self._file is None:
            self._file = self._path.open(self._mode, buffering=0)
            self._mode = "ab"
        self._file.write(self._left.pop(0))
        if self._reopen or not self._left:
            self._file.close()
            self._file = None
        return bool(self._left)


def _split(data: bytes, pieces: int) -> list[bytes]:
    size = max(1, -(-len(data) // pieces))
    return [data[start : start + size] for start in range(0, len(data), size)]
