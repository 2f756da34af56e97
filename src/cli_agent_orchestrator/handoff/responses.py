"""The response files of a run: where an agent writes its reply, and where replies are kept.

    WD/.tmp/.gitignore                         so that a run never dirties a repository
    WD/.tmp/agent-responses/<file of a role>   written by the agent
    WD/.tmp/<run>/NNN-<role>.md                a reply that was accepted
    WD/.tmp/<run>/NNN-<role>-stale.md          a file that lay there before the prompt was sent

What lies in a working directory may come from anybody. A response that is not a regular file is
refused, and no link is followed out of the working directory.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator.errors import BadFolder, HandoffError, UnknownName, UsageError
from cli_agent_orchestrator.handoff.sighting import Signature

RESPONSE_FOLDER = "agent-responses"
LARGEST_RESPONSE = 64 * 1024 * 1024

# 20250131-120000
RUN_PATTERN = r"[0-9A-Za-z][0-9A-Za-z._-]*"
# 007-analyst.md
ARCHIVE_PATTERN = r"(\d{3,})-.*"


@dataclass(frozen=True, slots=True)
class Response:
    """The text of a response file, and what had to be mended to read it."""

    text: str
    warnings: tuple[str, ...] = ()


def decode_response(data: bytes) -> Response:
    r"""Return the text of a response: UTF-8, line ends as `\n`, without BOM and NUL bytes.

    Bytes that are not UTF-8 are replaced by U+FFFD, so that a reply is never lost to its encoding.
    """
    warnings = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", errors="replace")
        warnings.append(f"not UTF-8 at byte {error.start}; what could not be read is now U+FFFD")
    if "\0" in text:
        warnings.append(f"{text.count(chr(0))} NUL bytes left out")
        text = text.replace("\0", "")
    return Response(text.replace("\r\n", "\n"), tuple(warnings))


class ResponseFiles:
    """The response files of one run in one working directory."""

    def __init__(self, working_directory: Path, run: str, names: Mapping[str, str]) -> None:
        """Take where the agents work, what the archive is called, and the file of each role."""
        if not re.fullmatch(RUN_PATTERN, run) or run == RESPONSE_FOLDER:
            raise UsageError(f"{run!r} cannot name the archive folder of a run")
        self._names = dict(names)
        self._root = working_directory.absolute()
        self._temporary = self._root / ".tmp"
        self.folder = self._temporary / RESPONSE_FOLDER
        """Where agents write."""
        self.archive_folder = self._temporary / run
        """Where replies are kept."""

    def response_path_for(self, role: str) -> Path:
        """Return the absolute path of the file a role writes its reply to."""
        if role not in self._names:
            raise UnknownName("role", role, self._names)
        return self.folder / self._names[role]

    def ensure_response_dir(self) -> Path:
        """Make the folder agents write to, with its parents, if it is not there."""
        self._make(self.folder)
        return self.folder

    def clear_stale_response(
        self, role: str, sequence: int | None = None, before: float | None = None
    ) -> Path | None:
        """Move a response that is already there to the archive, marked as stale.

        With `before` (unix time) only a file that was last written earlier. Return where it went,
        or None if there was none.
        """
        path = self.response_path_for(role)
        status = self._status(path)
        if status is None or (before is not None and status.st_mtime >= before):
            return None
        number = self.next_sequence() if sequence is None else sequence
        return self._move(path, f"{number:03d}-{role}-stale")

    def signature(self, role: str) -> Signature | None:
        """Return the present form of a role's response file, or None if there is none."""
        status = self._status(self.response_path_for(role))
        return None if status is None else _signature(status)

    def read(self, role: str) -> Response | None:
        """Return a role's response, or None if there is none, or only blank text."""
        path = self.response_path_for(role)
        if self._status(path) is None:
            return None
        return _read(path)

    def archive(self, role: str, sequence: int) -> Path:
        """Move a role's response to the archive and return where it went."""
        return self._move(self.response_path_for(role), f"{sequence:03d}-{role}")

    def archive_text(self, role: str, sequence: int, text: str) -> Path:
        """Keep a reply that did not come as a file, and return where."""
        target = self._free_path(f"{sequence:03d}-{role}")
        draft = target.with_name(f".{target.name}.draft")
        draft.unlink(missing_ok=True)
        with draft.open("x", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return draft.rename(target)

    def archived(self, role: str, sequence: int) -> tuple[Path, Response] | None:
        """Return the reply that was kept under a number, and where; None if there is none."""
        path = self.archive_folder / f"{sequence:03d}-{role}.md"
        self._check_inside(path.parent)
        response = _read(path) if self._status(path) else None
        return None if response is None else (path, response)

    def next_sequence(self) -> int:
        """Return the number after the highest one in the archive; the first is 1."""
        numbers = [0]
        with suppress(FileNotFoundError):
            for path in self.archive_folder.iterdir():
                if match := re.fullmatch(ARCHIVE_PATTERN, path.name):
                    numbers.append(int(match[1]))
        return max(numbers) + 1

    def _move(self, path: Path, stem: str) -> Path:
        return path.rename(self._free_path(stem))

    def _free_path(self, stem: str) -> Path:
        """Return a path in the archive that does not exist yet."""
        self._make(self.archive_folder)
        path = self.archive_folder / f"{stem}.md"
        copy = 2
        while _lstat(path) is not None:
            path = self.archive_folder / f"{stem}-{copy}.md"
            copy += 1
        return path

    def _make(self, folder: Path) -> None:
        """Make a folder below `.tmp`, and `.tmp` such that git does not see it."""
        self._check_inside(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (
                suppress(FileExistsError),
                (self._temporary / ".gitignore").open("x", encoding="utf-8") as file,
            ):
                file.write("*\n")
        except OSError as error:
            raise BadFolder(str(self._root), f"cannot be written: {error}") from error

    def _status(self, path: Path) -> os.stat_result | None:
        self._check_inside(path.parent)
        status = _lstat(path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise HandoffError(
                f"{path} is {_kind(status.st_mode)}, not a regular file; remove it and resume"
            )
        return status

    def _check_inside(self, folder: Path) -> None:
        target = folder.resolve()
        if not target.is_relative_to(self._root.resolve()):
            raise HandoffError(
                f"{folder} leads out of the working directory, to {target}; remove the link"
            )


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _signature(status: os.stat_result) -> Signature:
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe or a device"


def _read(path: Path) -> Response | None:
    """Read a regular file; whatever takes its place meanwhile is not followed nor waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HandoffError(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_RESPONSE + 1)
    if len(data) > LARGEST_RESPONSE:
        raise HandoffError(f"{path} has more than {LARGEST_RESPONSE} bytes; shorten it and resume")
    response = decode_response(data)
    return response if response.text.strip() else None
