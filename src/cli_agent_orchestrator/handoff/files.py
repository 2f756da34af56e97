"""The response files of a run: where an agent writes its reply, and where replies are kept.

`layout.py` has the picture. What lies in a working directory may come from anybody:
`plain_files.py` is how it is touched.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.files import LARGEST_TEXT, Folder, is_too_large
from ..errors import BadFolder, HandoffError, UnknownName
from ..settings.layout import (
    IGNORE_FILE,
    KEPT_PATTERN,
    archive_folder,
    kept_name,
    response_folder,
    temporary_folder,
)
from .wait import Signature


@dataclass(frozen=True, slots=True)
class Response:
    """The text of a response file, and what had to be repaired to read it."""

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
        warnings.append(
            f"not UTF-8 at byte {error.start}; unreadable bytes were replaced by U+FFFD"
        )
    if "\0" in text:
        warnings.append(f"{text.count(chr(0))} NUL bytes removed")
        text = text.replace("\0", "")
    return Response(text.replace("\r\n", "\n"), tuple(warnings))


def check_size(text: str, what: str) -> None:
    """Raise if a reply is larger than the state of a run can hold."""
    if is_too_large(text):
        raise HandoffError(
            f"{what} takes more than {LARGEST_TEXT >> 20} MB in a saved run; shorten it and resume"
        )


class ResponseFiles:
    """The response files of one run in one working directory."""

    def __init__(self, working_directory: Path, run: str, names: Mapping[str, str]) -> None:
        """Take where the agents work, what the archive is called, and the file of each role."""
        self._names = dict(names)
        root = working_directory.absolute()
        self.temporary = temporary_folder(root)
        """Where everything is that belongs to runs."""
        self._responses = response_folder(root)
        self.kept = archive_folder(root, run)
        """Where replies are kept, and the journal beside them."""
        self.folder = self._responses.path
        """Where agents write."""
        self.archive_folder = self.kept.path
        """The path of `kept`."""

    def shown(self, path: Path) -> str:
        """Return a path as people in the working directory write it."""
        root = self.temporary.path.parent
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    @property
    def is_folder_gone(self) -> bool:
        """Is the working directory not there any more?"""
        return not os.path.lexists(self.temporary.root)

    def response_path_for(self, role: str) -> Path:
        """Return the absolute path of the file a role writes its reply to."""
        if role not in self._names:
            raise UnknownName("role", role, self._names)
        return self.folder / self._names[role]

    def ensure_response_dir(self) -> Path:
        """Make the folder agents write to, with its parents, if it is not there."""
        try:
            self._responses.make()
            # So that git does not see any of it.
            with suppress(FileExistsError):
                self.temporary.create(IGNORE_FILE, b"*\n")
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
            raise BadFolder(str(self.temporary.root), reason) from error
        return self.folder

    def clear_stale_response(
        self, role: str, sequence: int | None = None, before: float | None = None
    ) -> Path | None:
        """Move a response that is already there to the archive, marked as stale.

        With `before` (unix time) only a file that was last written earlier. Return where it went,
        or None if there was none.
        """
        status = self._status(role)
        if status is None or (before is not None and status.st_mtime >= before):
            return None
        number = self.next_sequence() if sequence is None else sequence
        return self._move(role, f"{number:03d}-{role}-stale")

    def signature(self, role: str) -> Signature | None:
        """Return the present form of a role's response file, or None if there is none."""
        status = self._status(role)
        return None if status is None else _signature(status)

    def read(self, role: str) -> Response | None:
        """Return a role's response, or None if there is none, or only blank text."""
        path = self.response_path_for(role)
        response = _read(self._responses, path.name)
        if response is not None:
            check_size(response.text, str(path))
        return response

    def archive(self, role: str, sequence: int) -> Path:
        """Move a role's response to the archive and return where it went."""
        return self._move(role, f"{sequence:03d}-{role}")

    def archive_text(self, role: str, sequence: int, text: str) -> Path:
        """Keep a text that did not come as a file, and return where."""
        with _explained(self.archive_folder, "written"):
            name = self.kept.free_name(f"{sequence:03d}-{role}", ".md")
            self.kept.replace(name, text.encode(errors="replace"))
        return self.archive_folder / name

    def archived(self, role: str, sequence: int) -> tuple[Path, Response] | None:
        """Return the reply that was kept under a number, and where; None if there is none."""
        name = kept_name(sequence, role)
        response = _read(self.kept, name)
        return None if response is None else (self.archive_folder / name, response)

    def next_sequence(self) -> int:
        """Return the number after the highest one in the archive; the first is 1."""
        with _explained(self.archive_folder, "read"):
            names = self.kept.names()
        found = (re.fullmatch(KEPT_PATTERN, name) for name in names)
        return max((int(match[1]) for match in found if match), default=0) + 1

    def _move(self, role: str, stem: str) -> Path:
        path = self.response_path_for(role)
        with _explained(path, f"moved to {self.archive_folder}"):
            name = self.kept.free_name(stem, ".md")
            self._responses.move(path.name, self.kept, name)
        return self.archive_folder / name

    def _status(self, role: str) -> os.stat_result | None:
        path = self.response_path_for(role)
        with _explained(path, "read"):
            return self._responses.status(path.name)


def _signature(status: os.stat_result) -> Signature:
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def _explained(path: Path, deed: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HandoffError(
            f"{path} cannot be {deed}: {error.strerror}; fix that and resume"
        ) from error


def _read(folder: Folder, name: str) -> Response | None:
    with _explained(folder.path / name, "read"):
        try:
            data = folder.read(name)
        except FileNotFoundError:
            return None
    response = decode_response(data)
    return response if response.text.strip() else None
