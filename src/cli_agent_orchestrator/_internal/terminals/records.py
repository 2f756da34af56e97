"""Finds the session records of an agent: the files it keeps open for writing.

Nothing names such a file in advance. It appears with the first prompt of a session, and some
process of the terminal writes to it from then on, so that is where to look. Records of other
sessions may be open as well, for reading. Processes and files come and go meanwhile: what has just
gone is passed over.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LSOF_SECONDS = 5.0
# flags:	02102001
FLAGS_PATTERN = r"(?m)^flags:\s*([0-7]+)$"


def open_files(pid: int, pattern: str) -> list[Path]:
    """Return the files that a process or its children write to and whose paths match."""
    return [path for path in _written_files(pid) if re.search(pattern, str(path))]


def _written_files(pid: int) -> Iterator[Path]:
    for process in _family(pid):
        if sys.platform == "linux":
            yield from _read_proc(Path(f"/proc/{process}"))
        else:
            yield from _ask_lsof(process)


def _read_proc(process: Path) -> Iterator[Path]:
    for number in _names(process / "fd"):
        with suppress(OSError):
            target = (process / "fd" / number).readlink()
            if not target.is_absolute() or not target.is_file():
                continue
            info = (process / "fdinfo" / number).read_text()
            if int(re.findall(FLAGS_PATTERN, info)[0], 8) & os.O_ACCMODE != os.O_RDONLY:
                yield target


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


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
    threads = Path(f"/proc/{pid}/task")
    for thread in _names(threads):
        with suppress(OSError):
            found += map(int, (threads / thread / "children").read_text().split())
    return found


def _ask_lsof(pid: int) -> Iterator[Path]:
    try:
        listing = subprocess.run(
            ["lsof", "-Fan", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=LSOF_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    access = ""
    for line in listing.splitlines():
        match line[:1]:
            case "f":
                access = ""
            case "a":
                access = line[1:]
            case "n" if access in ("w", "u") and Path(line[1:]).is_file():
                yield Path(line[1:])
