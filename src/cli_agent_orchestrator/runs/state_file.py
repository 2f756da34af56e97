"""Where a run comes from and where it is kept: the task text, and the saved state.

The state is saved in the run's own folder, and from there it is resumed. What is written to
STATE_FILE beside that is for scripts and other programs; of it only the name of the run is read.
A file that names no run of this user's was made by the shell script, another program or on another
machine: the run in it can be taken over.
"""

import logging
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import codec
from ..core.clock import Clock
from ..core.files import LARGEST_TEXT, Folder, folder_of, is_too_large, read_file
from ..core.text import on_a_line
from ..errors import PromptError, StateError
from ..pipeline.state import RunState, decode_state, encode_state, from_json, to_json
from ..pipeline.task import LARGEST_TASK, has_headings, read_front_matter
from ..settings.config import RunConfig
from ..settings.layout import STATE_NAME, TASK_FILE

logger = logging.getLogger(__name__)

BOM = b"\xef\xbb\xbf"
TASK_SUFFIX = ".md"
MOST_LOOKED_AT = 50
"""Files that are read to see whether they are tasks."""


class ExportedState:
    """The state file in the work folder."""

    def __init__(self, path: Path, wd: Path) -> None:
        """Take where the file is; in the work folder it is opened as everything there."""
        self.path = path
        self._folder = folder_of(path, wd)

    def check(self) -> None:
        probe = f".{self.path.name}.probe"
        try:
            self._folder.status(self.path.name)
            self._folder.replace(probe, b"")
            self._folder.remove(probe)
        except OSError as error:
            raise StateError(
                f"no state can be saved in {self.path}: {error.strerror}; "
                "mend that, or name another STATE_FILE"
            ) from error

    def save_state(self, state: RunState) -> None:
        """Write the state; raise OSError if that cannot be."""
        data = codec.encode(to_json(state), indent=2)
        self._folder.replace(self.path.name, data, lasting=False)

    def read(self) -> bytes | None:
        try:
            return self._folder.read(self.path.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror}") from error

    def named_run(self) -> str:
        """Return the id of the run that the file is about; empty if it names none."""
        content = self._content()
        run = content.get("run") if isinstance(content, dict) else ""
        return run if isinstance(run, str) else ""

    def load_state(self) -> RunState | None:
        """Return the state in the file; None if there is none.

        What is no state is left alone, and nothing overwrites it.
        """
        content = self._content()
        try:
            return None if content is None else from_json(content)
        except StateError as error:
            raise self._unusable(str(error)) from error

    # Any: JSON of any form
    def _content(self) -> Any:
        data = self.read()
        try:
            return None if data is None else codec.parse(data.removeprefix(BOM))
        except ValueError as error:
            raise self._unusable("it is no JSON") from error

    def _unusable(self, reason: str) -> StateError:
        return StateError(
            f"the state file {self.path} cannot be used: {reason}. It is left alone: remove it, or "
            "name another STATE_FILE"
        )


class StateFile:
    """The saved state of a run: replaced as a whole or not at all, and never lost."""

    def __init__(
        self,
        run: Folder,
        clock: Clock,
        export: ExportedState | None = None,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        self._run = run
        self._clock = clock
        self._export = export
        self._warn = warn
        self._is_export_broken = False

    def save_state(self, state: RunState) -> None:
        """Write the state; when that fails, what was saved before is still there."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        stamped = replace(state, updated_at=f"{now:%Y-%m-%dT%H:%M:%SZ}")
        try:
            self._run.replace(STATE_NAME, encode_state(stamped))
        except OSError as error:
            raise StateError(
                f"the state cannot be saved to {self._run.path}: {error.strerror}. What was saved "
                "before is unharmed; make room or give access, and resume"
            ) from error
        if self._export is not None and not self._is_export_broken:
            try:
                self._export.save_state(stamped)
            except OSError as error:
                self._is_export_broken = True
                self._warn(f"{self._export.path} is out of date from now on: {error.strerror}")


def load_state(run: Folder) -> RunState | None:
    """Return the saved state of the run in a folder; None if it ended before its first turn."""
    try:
        data = run.read(STATE_NAME)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{run.path / STATE_NAME} cannot be read: {error.strerror}") from error
    try:
        return decode_state(data)
    except StateError as error:
        raise StateError(f"{run.path / STATE_NAME} cannot be used: {error}") from error


def read_state_of(run: Folder) -> RunState | None:
    with suppress(StateError):
        return load_state(run)
    return None


def read_task_text(config: RunConfig) -> str:
    """Return the text of the task: of the file if one is named, else of the setting."""
    text = _task_text(config)
    if is_too_large(text):
        raise PromptError(f"the task takes more than {LARGEST_TEXT >> 20} MB; shorten it")
    return text


def read_task_settings(config: RunConfig) -> dict[str, str]:
    """Return the settings at the top of the task, by variable name.

    A task that cannot be read has none: whether it is needed at all turns out later.
    """
    try:
        text = read_task_text(config)
    except PromptError:
        return {}
    return read_front_matter(text, str(config.prompt_file or "PROMPT"))


def _task_text(config: RunConfig) -> str:
    if config.prompt_file is not None:
        return _read_task_file(config.prompt_file, config.wd)
    if not config.prompt:
        raise PromptError(_no_task(config.wd))
    try:
        config.prompt.encode()
    except UnicodeEncodeError:
        raise PromptError("PROMPT is not text in UTF-8") from None
    return config.prompt


def _no_task(project: Path) -> str:
    with suppress(OSError):
        if Folder(project).status(TASK_FILE) is not None:
            run = f"cao run {TASK_FILE}"
            if project != Path.cwd():
                run = f"cd {shlex.quote(str(project))} && {run}"
            return f"no task is named, but {TASK_FILE} is there: `{run}` starts it"
    return (
        f"there is no task: give its file (`cao run {TASK_FILE}` or CAO_PROMPT_FILE) or its text "
        '(`cao run "TEXT"`). `cao init` writes a template'
    )


def _instead(path: Path, project: Path) -> str:
    """Name the files beside one that is not there which may have been meant."""
    folder = folder_of(path, project)
    found: list[str] = []
    with suppress(OSError):
        pages = sorted(name for name in folder.names() if name.endswith(TASK_SUFFIX))
        found = [name for name in pages[:MOST_LOOKED_AT] if _looks_like_task(folder, name)]
    if not found:
        return "`cao init` writes a template"
    shown = map(on_a_line, found)
    return f"these in {folder.path} look like tasks: {', '.join(shown)}"


def _looks_like_task(folder: Folder, name: str) -> bool:
    try:
        text = folder.read(name, LARGEST_TASK).decode("utf-8-sig")
        return name == TASK_FILE or has_headings(text)
    except (OSError, UnicodeDecodeError, PromptError):
        return False


def _read_task_file(path: Path, project: Path) -> str:
    try:
        return read_file(path, project).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(
            f"the task file {path} is not text in UTF-8 (byte {error.start + 1}); save it as UTF-8"
        ) from error
    except FileNotFoundError:
        raise PromptError(f"the task file {path} is not there; {_instead(path, project)}") from None
    except OSError as error:
        if os.path.isdir(path):  # noqa: PTH112 - unlike `is_dir`, a name too long is no error
            raise PromptError(
                f"{path} is a folder, and the task is a file: `cao run {path / TASK_FILE}`, or "
                f"work in that folder with `cao run --wd {path} TASK`"
            ) from None
        raise PromptError(f"the task file {path} cannot be read: {error.strerror}") from error
