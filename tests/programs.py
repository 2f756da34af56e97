"""Programs that tests write, to be started by others, and `cao` where somebody types."""

import os
import pty
import shlex
import subprocess
import sys

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


def python_program(text: str, *options: str) -> str:
    """Return what a file that can be run is to hold, wherever the interpreter is.

    The first line of a script can name no path with a space in it: a shell reads what Python takes
    for a string.
    """
    start = shlex.join([sys.executable, *options])
    return f"#!/bin/sh\n'''exec' {start} \"$0\" \"$@\"\n' '''\n{text}"
