"""One run in a folder at a time.

The lock is the operating system's, so it ends with its owner however that ends. It is on the work
folder itself, in which agents may remove what they like. Who holds it stands in a file, for the
message to whoever comes second.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime

from cli_agent_orchestrator._internal.clock import Clock
from cli_agent_orchestrator._internal.layout import OWNER_FILE
from cli_agent_orchestrator._internal.plain_files import Folder
from cli_agent_orchestrator.errors import RunLocked, StateError

LARGEST_OWNER = 1000


def nobody() -> str:
    """Name no run: it is not known which."""
    return ""


@contextmanager
def run_lock(folder: Folder, clock: Clock, at_work: Callable[[], str] = nobody) -> Iterator[None]:
    """Hold the lock of a work folder; raise `RunLocked` if another run has it.

    `folder` is the one in it for the files of runs; `at_work` returns the id of the run that works
    there, if it is known.
    """
    with keeping_runs_out(folder, at_work):
        _sign(folder, clock)
        try:
            yield
        finally:
            with suppress(OSError):
                folder.remove(OWNER_FILE)


@contextmanager
def keeping_runs_out(folder: Folder, at_work: Callable[[], str] = nobody) -> Iterator[None]:
    """Hold the lock of a work folder without leaving a trace in it."""
    with ExitStack() as held:
        try:
            held.enter_context(Folder(folder.root).locked())
        except BlockingIOError:
            raise RunLocked(_words(folder, at_work())) from None
        except OSError as error:
            raise StateError(f"{folder.root} cannot be locked: {error.strerror}") from error
        yield


def _words(folder: Folder, run: str) -> str:
    """Say who works in a folder, and what can be done about it."""
    named, typed = (f"{run}, ", f" {run}") if run else ("", "")
    return (
        f"another run works in {folder.root}: {named}{_owner(folder)}. Follow it with "
        f"`cao watch{typed}`, end it with `cao stop{typed}`, or work in another folder"
    )


def _sign(folder: Folder, clock: Clock) -> None:
    note = {"pid": os.getpid(), "since": clock.now()}
    try:
        folder.replace(OWNER_FILE, json.dumps(note).encode())
    except OSError as error:
        path = folder.path / OWNER_FILE
        raise StateError(f"{path} cannot be written: {error.strerror}") from error


def _owner(folder: Folder) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
        data = json.loads(folder.read(OWNER_FILE, LARGEST_OWNER))
        since = datetime.fromtimestamp(data["since"])
        return f"process {int(data['pid'])}, since {since:%Y-%m-%d %H:%M:%S}"
    return "its process is not known"
