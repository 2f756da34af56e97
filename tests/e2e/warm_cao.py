"""A process that has imported all of `cao` and does nothing but become one, over and over.

It is started with a socket as its standard input. Each byte that comes is a command, and brings
open files with it: the streams of the command, what it is to be (JSON), and where to tell what
became of it.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import time
from pathlib import Path

import cli_agent_orchestrator

FILES = 5
MAIN = Path(cli_agent_orchestrator.__file__).with_name("__main__.py")


def import_all() -> None:
    """Import all that a command might."""
    package = cli_agent_orchestrator
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve(requests: socket.socket) -> None:
    """Start a process for each command; return in that of a command, or when no more will come."""
    while True:
        byte, files, _, _ = socket.recv_fds(requests, 1, FILES)
        if not byte:
            sys.exit()
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            *streams, wanted, told = files
            command = os.fork()
            if command == 0:
                os.close(told)
                become(wanted, streams)
                return
            for file in (*streams, wanted):
                os.close(file)
            os.write(told, f"{command}\n".encode())
            _, status = os.waitpid(command, 0)
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os._exit(0)
        for file in files:
            os.close(file)


def become(wanted: int, streams: list[int]) -> None:
    """Take on what a process is started with."""
    with os.fdopen(wanted) as file:
        command = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["env"])
    time.tzset()
    sys.argv[:] = [str(MAIN), *command["words"]]


if __name__ == "__main__":
    import_all()
    # Nobody waits for those who wait for a command.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(socket.socket(fileno=os.dup(0)))
    from cli_agent_orchestrator._internal.cli.main import main

    main()
