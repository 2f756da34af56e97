"""A process that has imported all of `cao` and does nothing but become one, over and over.

It is started with a socket as its standard input. Each byte that comes is a command, and brings
open files with it: the streams of the command, what it is to be (JSON), and where to tell what
became of it.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import cli_agent_orchestrator

FILES = 5
MAIN = Path(cli_agent_orchestrator.__file__).with_name("__main__.py")
MODULE = ["-m", "cli_agent_orchestrator"]


def import_all() -> None:
    """Import all that a command might."""
    package = cli_agent_orchestrator
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


class Commands:
    """The commands under way, each with the file where to tell how it ended."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}
        signal.signal(signal.SIGCHLD, self._tell_who_ended)

    def serve(self, requests: socket.socket) -> list[int]:
        """Start a process for each command; return its files in that of a command."""
        while True:
            byte, files, _, _ = socket.recv_fds(requests, 1, FILES)
            if not byte:
                os._exit(0)
            *given, told = files
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            command = os.fork()
            if command == 0:
                for file in (requests.detach(), told, *self._told.values()):
                    os.close(file)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
                return given
            self._told[command] = told
            _tell(told, command)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            for file in given:
                os.close(file)

    def _tell_who_ended(self, *_: object) -> None:
        while self._told:
            command, status = os.waitpid(-1, os.WNOHANG)
            if command == 0:
                return
            told = self._told.pop(command)
            _tell(told, os.waitstatus_to_exitcode(status))
            os.close(told)


def _tell(told: int, number: int) -> None:
    # Nobody may want to know it any more.
    with suppress(BrokenPipeError):
        os.write(told, f"{number}\n".encode())


def become(files: list[int]) -> list[str]:
    """Take on what a process is started with, and return what Python was to be told."""
    *streams, wanted = files
    with os.fdopen(wanted) as file:
        command = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["env"])
    time.tzset()
    for number in command["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    args: list[str] = command["args"]
    return args


class End:
    """The end of a command: what Python takes apart there piece by piece goes with the process."""

    def __init__(self) -> None:
        self.code: object = None
        # The first to be registered is the last to be called, after all threads have ended.
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.code is None or isinstance(self.code, int):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code or 0)


def run(args: list[str]) -> None:
    """Do what `python ARGS` does."""
    if args[:2] == MODULE:
        from cli_agent_orchestrator.cli.main import main

        sys.argv[:] = [str(MAIN), *args[2:]]
        main()
    else:
        sys.argv[:] = args
        runpy.run_path(args[0], run_name="__main__")


if __name__ == "__main__":
    end = End()
    import_all()
    args = become(Commands().serve(socket.socket(fileno=os.dup(0))))
    try:
        run(args)
    except SystemExit as left:
        end.code = left.code
        raise
