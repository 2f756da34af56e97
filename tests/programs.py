"""Programs that tests write, to be started by others, and `cao` where somebody types."""

import os
import pty
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

CAO = (sys.executable, "-m", "cli_agent_orchestrator")


def in_a_terminal(words: list[str], answer: str) -> tuple[str, int]:
    """Type an answer to `cao` and return what it prints, and its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*CAO, *words], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    output, _ = process.communicate(timeout=60)
    os.close(ours)
    return output, process.returncode


@contextmanager
def attached(
    socket: str, session: str, environ: Mapping[str, str]
) -> Iterator[Callable[[str], object]]:
    """Yield what types letters as a person does whose terminal is attached to a session of tmux."""
    ours, theirs = os.openpty()
    words = ["tmux", "-L", socket, "attach", "-f", "ignore-size", "-t", f"={session}:"]
    env = {**environ, "TERM": "xterm-256color"}
    client = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    drain = threading.Thread(target=_drain, args=(ours,))
    drain.start()
    try:
        yield lambda letters: os.write(ours, letters.encode())
    finally:
        client.terminate()
        client.wait()
        drain.join()
        os.close(ours)


def _drain(terminal: int) -> None:
    with suppress(OSError):  # the other side is closed
        while os.read(terminal, 65536):
            pass


def python_program(text: str, *options: str) -> str:
    """Return what a file that can be run is to hold, wherever the interpreter is.

    The first line of a script can name no path with a space in it: a shell reads what Python takes
    for a string.
    """
    start = shlex.join([sys.executable, *options])
    return f"#!/bin/sh\n'''exec' {start} \"$0\" \"$@\"\n' '''\n{text}"
