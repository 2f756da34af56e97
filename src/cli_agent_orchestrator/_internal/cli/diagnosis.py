"""What `cao doctor` finds, and by which command programs are installed here."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
