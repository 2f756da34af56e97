"""Programs that tests write, to be started by others."""

import shlex
import sys


def python_program(text: str, *options: str) -> str:
    """Return what a file that can be run is to hold, wherever the interpreter is.

    The first line of a script can name no path with a space in it: a shell reads what Python takes
    for a string.
    """
    start = shlex.join([sys.executable, *options])
    return f"#!/bin/sh\n'''exec' {start} \"$0\" \"$@\"\n' '''\n{text}"
