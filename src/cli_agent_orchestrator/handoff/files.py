"""The response files of a run: where an agent writes its reply, and where replies are kept.

`settings/layout.py` has the picture.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ..core.files import Folder
from ..errors import BadFolder, HandoffError, UnknownName
from ..settings.layout import (
    IGNORE_FILE,
    KEPT_PATTERN,
    kept_name,
    response_folder,
    temporary_folder,
)
from .wait import Signature


class Response(Struct, frozen=True):
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
        place = f"not UTF-8 at byte {error.start}"
        warnings.append(f"{place}; unreadable bytes were replaced by U+FFFD")
    if "\0" in text:
        warnings.append(f"{text.count(chr(0))} NUL bytes removed")
        text = text.replace("\0", "")
    return Response(text.replace("\r\n", "\n"), tuple(warnings))


def ensure_response_dir(working_directory: Path) -> Path:
    responses = response_folder(working_directory)
    try:
        responses.make()
        # So that git does not see any of it.
        with suppress(FileExistsError):
            temporary_folder(working_directory).create(IGNORE_FILE, b"*\n")
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise BadFolder(str(working_directory), reason) from error
    return responses.path


class ResponseFiles:
    def __init__(self, working_directory: Path, kept: Folder, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        root = working_directory.absolute()
        self.temporary = temporary_folder(root)
        self._responses = response_folder(root)
        self.kept = kept
        self.folder = self._responses.path

    def shown(self, path: Path) -> str:
        root = self.temporary.path.parent
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    @property
    def is_folder_gone(self) -> bool:
        return not os.path.lexists(self.temporary.root)

    def response_path_for(self, role: str) -> Path:
        if role not in self._names:
            raise UnknownName("role", role, self._names)
        return self.folder / self._names[role]

    def ensure_response_dir(self) -> Path:
        return ensure_response_dir(self.temporary.root)

    def clear_stale_response(
        self, role: str, sequence: int, before: float | None = None
    ) -> Path | None:
        """Move an old response to what is kept, marked as stale, and return where it went.

        With `before` (unix time) only a file that was last written earlier.
        """
        status = self._status(role)
        if status is None or (before is not None and status.st_mtime >= before):
            return None
        return self._keep(role, f"{sequence:03d}-{role}-stale", shown=False)

    def signature(self, role: str) -> Signature | None:
        status = self._status(role)
        if status is None:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def read(self, role: str) -> Response | None:
        return _read(self._responses, self.response_path_for(role).name)

    def archive(self, role: str, sequence: int) -> Path:
        return self._keep(role, f"{sequence:03d}-{role}", shown=True)

    def archive_text(self, role: str, sequence: int, text: str, *, shown: bool = True) -> Path:
        """Keep a text that did not come as a file, and return where.

        What prompts may refer to is `shown`: agents have a copy of it.
        """
        data = text.encode(errors="replace")
        with _explained(self.kept.path, "written"):
            name = self.kept.free_name(f"{sequence:03d}-{role}", ".md")
            self.kept.replace(name, data)
        if shown:
            with suppress(OSError):
                self._responses.replace(name, data, lasting=False)
        return self.kept.path / name

    def path_for_agents(self, kept: Path) -> Path:
        """Return where agents find the copy of what is kept: some read nothing but their folder."""
        return self.folder / kept.name

    def archived(self, role: str, sequence: int) -> tuple[Path, Response] | None:
        name = kept_name(sequence, role)
        response = _read(self.kept, name)
        return None if response is None else (self.kept.path / name, response)

    def next_sequence(self) -> int:
        with _explained(self.kept.path, "read"):
            names = self.kept.names()
        found = (re.fullmatch(KEPT_PATTERN, name) for name in names)
        return max((int(match[1]) for match in found if match), default=0) + 1

    def _keep(self, role: str, stem: str, *, shown: bool) -> Path:
        path = self.response_path_for(role)
        with _explained(path, f"moved to {self.kept.path}"):
            name = self.kept.free_name(stem, ".md")
            self.kept.replace(name, self._responses.read(path.name))
            if shown:
                self._responses.move(path.name, self._responses, name)
            else:
                self._responses.remove(path.name)
        return self.kept.path / name

    def _status(self, role: str) -> os.stat_result | None:
        path = self.response_path_for(role)
        with _explained(path, "read"):
            return self._responses.status(path.name)


@contextmanager
def _explained(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HandoffError(
            f"{path} cannot be {action}: {error.strerror}; fix that and resume"
        ) from error


def _read(folder: Folder, name: str) -> Response | None:
    with _explained(folder.path / name, "read"):
        try:
            data = folder.read(name)
        except FileNotFoundError:
            return None
    response = decode_response(data)
    return response if response.text.strip() else None
