"""Which commands of a project's own file the user has allowed.

A project may have come from anybody, so what its `cao.toml` wants to be run is run only after the
user has seen it and said yes. That is remembered by folder and text: one word more in a command, or
the same file elsewhere, is another question.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.codec import convert, encode, parse
from ..core.files import Folder
from ..errors import ConfigError, NotAllowed, StateError
from .gates import gates_toml, read_gates
from .table import COMMANDS

TRUST_FILE = "trust.json"
VERSION = 1
MOST_ENTRIES = 1000
MOST_OF_FOLDER = 5
"""Yeses that are remembered for one folder: the last ones."""
SETUP_WORDS = "setup of a work tree: "


@dataclass(frozen=True, slots=True)
class Allowed:
    """Commands that may be run for a project in a folder."""

    folder: str
    commands: str
    """A line each."""
    at: float = 0.0
    """When the user said so, in unix time."""


def commands_text(commands: Mapping[str, str]) -> str:
    """Return the commands of a project's own file, by variable name, as they are remembered.

    >>> commands_text({"GATES": "tests=make test", "WORKTREE_SETUP": "npm ci"})
    'tests=make test\\nsetup of a work tree: npm ci'
    """
    gates, setup = (commands.get(name, "") for name in COMMANDS)
    return "\n".join(filter(None, (gates, setup and f"{SETUP_WORDS}{setup}")))


def command_lines(commands: str) -> Iterator[str]:
    """Yield the commands of a project's own file as it has them itself; what is no gate as it is.

    All that is set of a gate is shown: the user allows just that.
    """
    for line in commands.split("\n"):
        try:
            yield from [line] if line.startswith(SETUP_WORDS) else gates_toml(read_gates(line))
        except ConfigError:
            yield line


def check_consent(trust: "Trust", folder: Path, commands: str, file: str = "") -> None:
    """Raise `NotAllowed` unless the user has allowed the commands of a project's own file.

    The file is named if it is not the `cao.toml` of the folder.
    """
    if commands and not trust.allows(folder, commands):
        raise NotAllowed(folder, "\n".join(command_lines(commands)), file)


class Trust:
    """What the user has allowed; kept in the user's own state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = Folder(state_folder, private=True)

    def allows(self, folder: Path, commands: str) -> bool:
        """Has the user allowed just these commands in this folder?"""
        return any((one.folder, one.commands) == (str(folder), commands) for one in self.all())

    def allow(self, folder: Path, commands: str, at: float) -> None:
        """Remember that the user allows these commands, beside the last few of that folder.

        So what another branch of a project wants is not asked for again after each change of it.
        """
        entry = Allowed(str(folder), commands, at)
        others = [one for one in self.all() if replace(one, at=at) != entry]
        own = [one for one in others if one.folder == entry.folder]
        dropped = own[: max(len(own) + 1 - MOST_OF_FOLDER, 0)]
        kept = (one for one in others if one not in dropped)
        self._write((*kept, entry)[-MOST_ENTRIES:])

    def revoke(self, folder: Path) -> bool:
        """Forget what was allowed in a folder; say whether anything was."""
        before = self.all()
        left = tuple(one for one in before if one.folder != str(folder))
        if left == before:
            return False
        self._write(left)
        return True

    def all(self) -> tuple[Allowed, ...]:
        """List everything that is allowed, the oldest first; what cannot be read allows nothing."""
        try:
            data = parse(self._folder.read(TRUST_FILE))
        except (OSError, ValueError):
            return ()
        entries = data.get("allowed") if isinstance(data, dict) else None
        found = []
        for entry in entries if isinstance(entries, list) else []:
            with suppress(ValueError):
                found.append(convert(Allowed, entry))
        return tuple(found)

    def _write(self, entries: tuple[Allowed, ...]) -> None:
        data = encode({"version": VERSION, "allowed": entries}, indent=1)
        try:
            self._folder.replace(TRUST_FILE, data)
        except OSError as error:
            path = self._folder.path / TRUST_FILE
            raise StateError(f"{path} cannot be written: {error.strerror}") from error
