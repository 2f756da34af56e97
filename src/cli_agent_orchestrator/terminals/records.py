"""Finds the session record of an agent: the file it keeps open while it works.

Nothing names that file in advance. It appears with the first prompt, and some process of the
terminal has it open from then on, so that is where to look.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FIRST_LOOKS = (0.0, *(0.02,) * 25, *(0.1,) * 25)
"""Pauses between looks after a prompt: Codex opens its record within 30 ms, or later under load."""
LSOF_SECONDS = 5.0


async def find_record(pid: int, pattern: str) -> Path | None:
    """Return the file a process or its children have open whose path matches, if it comes soon."""
    for pause in FIRST_LOOKS:
        await asyncio.sleep(pause)
        found = await asyncio.to_thread(open_file, pid, pattern)
        if found is not None:
            return found
    return None


async def wait_for_record(path: Path) -> Path | None:
    """Return a file that an agent has named, if it is there soon."""
    for pause in FIRST_LOOKS:
        await asyncio.sleep(pause)
        if path.is_file():
            return path
    return None


def open_file(pid: int, pattern: str) -> Path | None:
    """Return the newest open file of a process and its children whose path matches."""
    paths = [path for path in _open_files(pid) if re.search(pattern, str(path))]
    return max(paths, key=lambda path: path.stat().st_mtime, default=None)


def _open_files(pid: int) -> Iterator[Path]:
    for process in _family(pid):
        if sys.platform == "linux":
            yield from _links(Path(f"/proc/{process}/fd"))
        else:
            yield from _ask_lsof(process)


def _links(folder: Path) -> Iterator[Path]:
    try:
        for link in folder.iterdir():
            target = link.readlink()
            if target.is_absolute() and target.is_file():
                yield target
    except OSError:
        return  # the process has just ended, or closed a file


def _family(pid: int) -> list[int]:
    """Return a process and all that it started."""
    family = [pid]
    if sys.platform == "linux":
        for member in family:
            family += _children(member)
        return family
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
    ).stdout
    parents = [tuple(map(int, line.split())) for line in listing.splitlines()]
    for member in family:
        family += [child for child, parent in parents if parent == member]
    return family


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, listing.read_text().split())
        except OSError:
            continue  # that thread has just ended
    return found


def _ask_lsof(pid: int) -> Iterator[Path]:
    try:
        listing = subprocess.run(
            ["lsof", "-Fn", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=LSOF_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in listing.splitlines():
        if line.startswith("n/") and Path(line[1:]).is_file():
            yield Path(line[1:])
