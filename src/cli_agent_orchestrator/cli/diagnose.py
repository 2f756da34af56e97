"""What `cao doctor` finds, and by which command programs are installed here."""

import os
import re
import shlex
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from ..client.find import find_server, name_server
from ..errors import UsageError, in_words
from ..notices.decide import TABLE, read_notice_settings
from ..notices.send import Desktop, UserCommand
from ..runs.deliver import DAY_SECONDS, Cleanup, known_runs, left_drafts, plan_cleanup
from ..settings.config import ServerConfig
from .clean import KEPT_DAYS

INSTALLERS = {
    # program that installs others: the words before the name of a package
    "apt-get": "sudo apt-get install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S",
    "zypper": "sudo zypper install",
    "apk": "sudo apk add",
    "brew": "brew install",
}
NOT_OTHERWISE: Mapping[str, str] = {}


class State(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"
    WRONG = "wrong"
    """It is there, and has to be put right."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at."""

    subject: str
    state: State
    detail: str
    advice: str = ""
    """What to know about it, one thing a line."""
    needed: bool = False
    """Is a run impossible without it?"""
    logged_out: bool = False
    """Is it an agent that says that nobody is logged in?"""
    mend: str = ""
    """The one command that mends it; empty if all is well, or if there is no such command."""


def install_command(
    package: str, environ: Mapping[str, str], otherwise: Mapping[str, str] = NOT_OTHERWISE
) -> str:
    """Return the command that installs a package on this machine; empty if none is known.

    `otherwise` says what it is called where it has another name.
    """
    for program, words in INSTALLERS.items():
        if shutil.which(program, path=environ.get("PATH")):
            return f"{words} {otherwise.get(program, package)}"
    return ""


CONNECT_SECONDS = 2.0
SOCKET_PATTERN = r"cao-[0-9a-f]{8}"
"""How our tmux servers are called."""
LIBNOTIFY = "libnotify"
LIBNOTIFY_ELSEWHERE = {"apt-get": "libnotify-bin", "zypper": "libnotify-tools"}
"""What the package with notify-send is called, by what installs it."""
MB = 1_000_000
ROOM_MB = 16
"""With less free a run may not get far."""


def port(environ: Mapping[str, str], default_port: int) -> Diagnosis:
    """Say whether the port of `cao server` is free, ours or somebody else's."""
    named = environ.get("CAO_PORT", "").strip()
    if named == "0":
        return Diagnosis("port", State.OK, "any that is free (CAO_PORT=0)")
    number = int(named) if named.isdecimal() else default_port
    host = environ.get("CAO_HOST", "").strip() or "127.0.0.1"
    try:
        socket.create_connection((host, number), CONNECT_SECONDS).close()
    except OSError:
        return Diagnosis("port", State.OK, f"{number}, free")
    try:
        own = find_server(environ)
    except UsageError:
        # What keeps it from being asked is said of the state folder.
        return Diagnosis("port", State.NOTE, f"{number}, taken; it is not known by whom")
    if own is not None and own.url.endswith(f":{number}"):
        return Diagnosis("port", State.OK, f"{number}, your server")
    return Diagnosis(
        "port",
        State.NOTE,
        f"{number}, another program listens there",
        "runs need no port of their own; a server of yours takes another one",
        mend="cao server --port 0",
    )


# Any: what a TOML file holds
def notices(
    user_file: Mapping[str, Any], config: ServerConfig, environ: Mapping[str, str]
) -> Diagnosis:
    """Say who is told of runs, and whether others may read by which addresses."""
    file = config.config_dir / "config.toml"
    try:
        settings = read_notice_settings(user_file.get(TABLE, {}))
    except UsageError as error:
        advice = f"correct {file}"
        return Diagnosis("notifications", State.WRONG, str(error), advice, needed=True)
    if not settings.channels:
        return Diagnosis(
            "notifications", State.OK, "the terminal alone; `cao notify` says how others"
        )
    told = ", ".join(settings.channels)
    if settings.has_secrets and file.stat().st_mode & 0o077:
        return Diagnosis(
            "notifications",
            State.NOTE,
            f"{told}; others may read {file}, which has their addresses",
            mend=f"chmod 600 {shlex.quote(str(file))}",
        )
    if settings.desktop and not Desktop(environ).is_possible:
        detail = f"{told}; there is no notify-send, so the desktop is not told"
        mend = install_command(LIBNOTIFY, environ, LIBNOTIFY_ELSEWHERE)
        advice = "" if mend else f"install it with your package manager ({LIBNOTIFY})"
        return Diagnosis("notifications", State.NOTE, detail, advice, mend=mend)
    if settings.command and not UserCommand(settings.command, environ).is_possible:
        detail = f"{told}; the program of command is not there, or cannot be run"
        return Diagnosis("notifications", State.NOTE, detail, f"correct {file}")
    return Diagnosis("notifications", State.OK, f"{told}; `cao notify test` tries them")


class Disk(Protocol):
    """What `os.statvfs` says of a disk."""

    @property
    def f_blocks(self) -> int: ...
    @property
    def f_bavail(self) -> int: ...
    @property
    def f_frsize(self) -> int: ...


StatVfs = Callable[[Path], Disk]


def room(folder: Path, statvfs: StatVfs) -> tuple[State, str]:
    """Say whether there is room for a run on the disk of a folder, and what it lacks."""
    try:
        disk = statvfs(folder)
    except OSError:
        return State.OK, ""
    free = disk.f_bavail * disk.f_frsize
    # Some file systems know no numbers.
    if free >= ROOM_MB * MB or not disk.f_blocks:
        return State.OK, ""
    if not free:
        return State.WRONG, "its disk is full"
    return State.NOTE, f"its disk has {free // MB} MB left; a run may need {ROOM_MB} MB"


def leftovers(state: Path, environ: Mapping[str, str]) -> Diagnosis:
    """Say what `cao clean` would remove."""
    try:
        runs = known_runs(state, environ)
        named = name_server(environ)
        before = time.time() - KEPT_DAYS * DAY_SECONDS
        plan = plan_cleanup(runs, before, named.url if named else "")
        drafts = left_drafts(state)
    except (OSError, UsageError) as error:
        return Diagnosis("leftovers", State.NOTE, f"not looked for: {in_words(error)}")
    found = leftover_words(plan, len(drafts))
    if not found:
        return Diagnosis("leftovers", State.OK, f"none of {_count(len(runs), 'run')}")
    advice = "`cao clean` shows it, and asks first"
    return Diagnosis("leftovers", State.NOTE, found, advice, mend="cao clean --yes")


def leftover_words(plan: Cleanup, drafts: int) -> str:
    """Say what can be removed; empty if nothing can."""
    parts = [
        f"agents of {_count(len(plan.agents), 'ended run')}" if plan.agents else "",
        f"records of {_count(len(plan.folders), 'old run')}" if plan.folders else "",
        f"{_count(drafts, 'record')} of runs that never began" if drafts else "",
    ]
    return ", ".join(filter(None, parts))


def sockets(config: ServerConfig, environ: Mapping[str, str]) -> Diagnosis:
    """Say which sockets are left of tmux servers of ours that have ended, but the present one's."""
    folder = Path(environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        names = []
    ours = [name for name in names if re.fullmatch(SOCKET_PATTERN, name)]
    stale = [name for name in ours if name != config.tmux_socket and _is_stale(folder / name)]
    if not stale:
        return Diagnosis("tmux sockets", State.OK, "none of servers that have ended")
    paths = shlex.join(str(folder / name) for name in stale)
    detail = f"{_count(len(stale), 'socket')} of tmux servers that have ended"
    return Diagnosis("tmux sockets", State.NOTE, detail, mend=f"rm {paths}")


def _is_stale(path: Path) -> bool:
    """Is it a socket at which nobody listens any more?"""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(CONNECT_SECONDS)
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
