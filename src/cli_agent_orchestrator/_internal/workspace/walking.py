"""Walks over folders that anybody may have made, however many of them lie in each other."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

Fault = Callable[[Path, OSError], None]
"""Is told of a folder that cannot be read, and why."""


def overlook(folder: Path, error: OSError) -> None:
    """Make nothing of a folder that cannot be read."""


def walk(top: Path, on_fault: Fault = overlook) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder from the top down, with the names of the folders in it and of all else.

    No link is followed, not even the top. What is taken from the names of folders is not entered.
    A path that is longer than the system bears cannot be read.
    """
    waiting = [top]
    while waiting:
        place = waiting.pop()
        folders: list[str] = []
        others: list[str] = []
        try:
            if not stat.S_ISDIR(place.lstat().st_mode):
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        except OSError as error:
            on_fault(place, error)
            continue
        folders.sort()
        yield place, folders, sorted(others)
        waiting += [place / name for name in reversed(folders)]


def make_writable(top: Path) -> None:
    """Let the folders below one be changed by their owner, as far as that goes."""
    for place, folders, _ in walk(top):
        for name in folders:
            with suppress(OSError):
                (place / name).chmod(stat.S_IRWXU)
