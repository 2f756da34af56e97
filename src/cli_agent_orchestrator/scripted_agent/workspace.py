"""What the agent does in its working directory: commands that really run, files that change."""

import shlex
from pathlib import Path
from typing import IO

from cli_agent_orchestrator.scripted_agent.console import Console
from cli_agent_orchestrator.scripted_agent.script import Write
from cli_agent_orchestrator.scripted_agent.turn import PYTHON, Ran


class CannotWork(Exception):
    """A change that the script wants cannot be made."""


def command_text(argv: tuple[str, ...]) -> str:
    """Return a command as people write it."""
    return shlex.join("python3" if word == PYTHON else word for word in argv)


class Workspace:
    """The working directory of the agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def run(self, argv: tuple[str, ...], console: Console) -> Ran:
        """Run a command to its end, never through a shell; stopping the turn ends it too."""
        from cli_agent_orchestrator.scripted_agent.commands import run_command

        return run_command(argv, self._folder, console)

    def change(self, write: Write) -> None:
        """Make one change; one that has been made already is no error."""
        path = (self._folder / write.path).resolve()
        if not path.is_relative_to(self._folder):
            raise CannotWork(f"{write.path} leads out of the working directory")
        try:
            if write.content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(write.content, encoding="utf-8")
                return
            text = path.read_text(encoding="utf-8")
            made_already = write.old in write.new and write.new in text
            if write.old in text and not made_already:
                path.write_text(text.replace(write.old, write.new), encoding="utf-8")
            elif write.new not in text:
                raise CannotWork(f"{write.path} does not contain the text to replace")
        except (OSError, UnicodeDecodeError) as error:
            raise CannotWork(f"{write.path} cannot be changed: {error}") from error


class ResponseFile:
    """Writes an answer where the prompt wants it, as `cat > FILE` would, in one or more pieces."""

    def __init__(self, path: str, text: str, pieces: int, *, reopen: bool) -> None:
        self._path = Path(path)
        self._reopen = reopen
        self._file: IO[bytes] | None = None
        self._left = _split(f"{text}\n".encode("utf-8", "replace"), pieces)
        self._mode = "wb"

    def write_piece(self) -> bool:
        """Write the next piece, and return whether there are more."""
        if self._file is None:
            self._file = self._path.open(self._mode, buffering=0)
            self._mode = "ab"
        self._file.write(self._left.pop(0))
        if self._reopen or not self._left:
            self._file.close()
            self._file = None
        return bool(self._left)


def _split(data: bytes, pieces: int) -> list[bytes]:
    size = max(1, -(-len(data) // pieces))
    return [data[start : start + size] for start in range(0, len(data), size)]
