"""One run in a folder at a time.

The lock is the operating system's, so it ends with its owner however that ends. Who holds it stands
in a file beside it, for the message to whoever comes second.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import filelock

from cli_agent_orchestrator.clock import Clock
from cli_agent_orchestrator.errors import RunLocked, StateError

LOCK_FILE = "run.lock"
OWNER_FILE = "run.owner"


@contextmanager
def run_lock(folder: Path, clock: Clock) -> Iterator[None]:
    """Hold the lock of a folder that exists; raise `RunLocked` if another run has it."""
    lock = filelock.FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunLocked(
            f"another run works in {folder.parent}: {_owner(folder)}. Wait for it, stop it with "
            "Ctrl-C, or work in another folder"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise StateError(f"{folder / LOCK_FILE} cannot be locked: {error}") from error
    try:
        _sign(folder, clock)
        yield
    finally:
        with suppress(OSError):
            (folder / OWNER_FILE).unlink(missing_ok=True)
        lock.release()


def _sign(folder: Path, clock: Clock) -> None:
    path = folder / OWNER_FILE
    try:
        # Removed, not opened: what lies there could be a link.
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "since": clock.now()}, file)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error


def _owner(folder: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
        data = json.loads((folder / OWNER_FILE).read_text(encoding="utf-8"))
        since = datetime.fromtimestamp(data["since"])
        return f"process {int(data['pid'])}, since {since:%Y-%m-%d %H:%M:%S}"
    return "its process is not known"
