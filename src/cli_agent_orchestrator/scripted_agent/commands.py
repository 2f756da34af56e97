"""Runs the commands of a turn.

A module of its own, imported for the first command: `subprocess` would lengthen the start of every
agent by a tenth.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from cli_agent_orchestrator.scripted_agent.console import Console
from cli_agent_orchestrator.scripted_agent.turn import PYTHON, Ran

OUTPUT_LIMIT = 256 * 1024
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def run_command(argv: tuple[str, ...], folder: Path, console: Console) -> Ran:
    """Run a command to its end, never through a shell; stopping the turn ends it too."""
    words = [sys.executable if word == PYTHON else word for word in argv]
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
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
