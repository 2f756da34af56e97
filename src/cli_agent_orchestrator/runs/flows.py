"""Where flows come from: the package, the user's config folder, the project, or a file.

A name means, in this order: a flow of the package, `flows/NAME.toml` in the user's config folder,
`.cao/flows/NAME.toml` in the project. So a project cannot replace a flow that the user knows. A
text with a slash or the ending `.toml` is the path of a file.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ..core.files import Folder, folder_of
from ..errors import FlowError, UnknownName, UsageError
from ..pipeline.flow import Flow, FlowSource
from ..pipeline.flow_file import NAME_PATTERN, PACKAGED, packaged_flow, read_flow

SUFFIX = ".toml"
PROMPT_SUFFIX = ".md"
PROJECT_FOLDER = (".cao", "flows")
LARGEST_FLOW = 1024 * 1024


class FoundFlow(Struct, frozen=True):
    name: str
    where: str
    """The package, or the path of its file."""
    flow: Flow | None
    fault: str = ""


class Flows(Struct, frozen=True):
    project: Path
    config_folder: Path
    profiles: tuple[str, ...] | None = None
    """Known profiles of agents; None if only the server knows them."""

    def find(self, named: str) -> Flow:
        if is_path(named):
            path = Path(named).expanduser().absolute()
            return self._read(folder_of(path, self.project), path.stem)
        if named in PACKAGED:
            return packaged_flow(named)
        for folder in self._folders():
            if re.fullmatch(NAME_PATTERN, named) and f"{named}{SUFFIX}" in _names(folder):
                return self._read(folder, named)
        raise UnknownName("flow", named, (found.name for found in self.all()))

    def all(self) -> Iterable[FoundFlow]:
        for name in PACKAGED:
            yield FoundFlow(name, "in the package", packaged_flow(name))
        seen = set(PACKAGED)
        for folder in self._folders():
            for file in sorted(_names(folder)):
                name = file.removesuffix(SUFFIX)
                if file == name:
                    continue
                where = str(folder.path / file)
                if name in seen:
                    fault = "another flow has this name; it can be named as a file"
                    yield FoundFlow(name, where, None, fault)
                    continue
                seen.add(name)
                try:
                    yield FoundFlow(name, where, self._read(folder, name))
                except UsageError as error:
                    yield FoundFlow(name, where, None, str(error))

    def _folders(self) -> tuple[Folder, Folder]:
        return Folder(self.config_folder, ("flows",)), Folder(self.project, PROJECT_FOLDER)

    def _read(self, folder: Folder, name: str) -> Flow:
        """Return the flow of a file, with the prompts in the folder of its name beside it."""
        path = folder.path / f"{name}{SUFFIX}"
        if not re.fullmatch(NAME_PATTERN, name):
            raise FlowError(
                str(path), "its name", f"a flow cannot be named {name!r}", "a plain name"
            )
        text = _text(folder, path.name)
        prompts = folder.below(name)
        templates = {
            file.removesuffix(PROMPT_SUFFIX): _text(prompts, file)
            for file in _names(prompts)
            if file.endswith(PROMPT_SUFFIX)
        }
        return read_flow(FlowSource(text, templates), name, str(path), self.profiles)


def is_path(named: str) -> bool:
    return os.sep in named or named.endswith(SUFFIX)


def _names(folder: Folder) -> list[str]:
    try:
        return folder.names()
    except OSError as error:
        raise UsageError(f"{folder.path} cannot be read: {error.strerror}") from error


def _text(folder: Folder, name: str) -> str:
    path = folder.path / name
    try:
        return folder.read(name, LARGEST_FLOW).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8 (byte {error.start + 1})") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
