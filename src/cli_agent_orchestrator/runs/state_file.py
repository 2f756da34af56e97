"""Where a run comes from and where it is kept: the task text and the state file."""

import hmac
import json
import logging
import os
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from ..core.clock import Clock
from ..core.files import LARGEST_FILE, LARGEST_TEXT, Folder, folder_of, is_too_large, read_file
from ..core.text import on_a_line
from ..errors import ConfigError, PromptError, StateError, UsageError
from ..pipeline.state import RunState
from ..pipeline.state_json import find_half_character, from_json, to_json
from ..pipeline.task import LARGEST_TASK, has_headings, read_front_matter
from ..settings.layout import TASK_FILE
from ..settings.run_config import RunConfig
from .record import RunRecord

logger = logging.getLogger(__name__)

TASK_SUFFIX = ".md"
MOST_LOOKED_AT = 50
"""Files that are read to see whether they are tasks."""
LARGEST_STATE = LARGEST_FILE
"""For what it holds see `LARGEST_TEXT`."""


class Seals(Protocol):
    """Tells what this user has saved on this machine from what came from elsewhere."""

    def make(self, path: Path, data: bytes) -> str: ...

    def fits(self, path: Path, data: bytes, seal: str) -> bool: ...


class StateFile:
    """The saved state of a run: replaced as a whole or not at all, and never lost."""

    def __init__(
        self, path: Path, clock: Clock, project: Path | None = None, seals: Seals | None = None
    ) -> None:
        """Take where the file is; in the `project` it is opened as everything there."""
        self.path = path
        self.own = False
        """Was what was loaded saved like that by this user on this machine?"""
        self._seals = seals
        self._project = project
        self._folder = folder_of(path, project or path.parent)
        self._clock = clock

    def at(self, path: Path) -> "StateFile":
        """Return a file for the same run in another place."""
        return StateFile(path, self._clock, self._project, self._seals)

    @property
    def is_there(self) -> bool:
        """Is something saved where it was? A link on the way is none of ours."""
        try:
            return self._folder.status(self.path.name) is not None
        except OSError:
            return False

    def check(self) -> None:
        """Find out before anything is started that a state could not be saved."""
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
        """Write the state; when that fails, what was saved before is still there."""
        stamped = replace(state, updated_at=f"{self._now():%Y-%m-%dT%H:%M:%SZ}")
        content = to_json(stamped)
        check_text(self.path, find_half_character(content), "nothing is saved")
        if self._seals is not None:
            content["seal"] = self._seals.make(self.path, _plain(content))
        data = json.dumps(content, indent=2).encode()
        if len(data) > LARGEST_STATE:
            raise StateError(
                f"the state would have {len(data)} bytes, more than the {LARGEST_STATE} that are "
                f"read again, and is not saved to {self.path}. What was saved before is unharmed"
            )
        try:
            self._folder.replace(self.path.name, data)
        except OSError as error:
            raise StateError(
                f"the state cannot be saved to {self.path}: {error.strerror}. What was saved "
                "before is unharmed; make room or give access, and resume"
            ) from error

    def load_state(self) -> RunState | None:
        """Return the saved state, or None if there is none.

        A file that cannot be understood is moved aside, so that nothing ever overwrites it; one
        whose name is not that of a JSON file may be anything, and is left alone.
        """
        try:
            data = self._folder.read(self.path.name, LARGEST_STATE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror}") from error
        try:
            content = json.loads(data.decode("utf-8-sig"))
            self.own = self._is_own(content)
            state, half = from_json(content), find_half_character(content)
        except (StateError, ValueError, RecursionError) as error:
            if self.path.suffix != ".json":
                raise ConfigError(
                    "STATE_FILE", str(self.path), f"the state of a run ({error}); it is left alone"
                ) from error
            aside = self.move_aside("unreadable")
            raise StateError(
                f"the state file {self.path} cannot be used: {error}. It was moved to {aside}; "
                "start again for a new run, or mend it and move it back"
            ) from error
        check_text(self.path, half, "mend it, or move it away")
        return state

    def move_aside(self, label: str) -> Path:
        """Rename the state file, for example to `state.json.unreadable-20250131-120000`."""
        stem = f"{self.path.name}.{label}-{self._now():%Y%m%d-%H%M%S}"
        try:
            name = self._folder.free_name(stem)
            self._folder.move(self.path.name, self._folder, name)
        except OSError as error:
            raise StateError(f"{self.path} cannot be moved aside: {error.strerror}") from error
        aside = self.path.with_name(name)
        logger.warning("state file %s moved to %s", self.path, aside)
        return aside

    def _is_own(self, content: object) -> bool:
        if self._seals is None or not isinstance(content, dict):
            return False
        seal = content.pop("seal", None)
        return isinstance(seal, str) and self._seals.fits(self.path, _plain(content), seal)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


def _plain(content: Mapping[str, Any]) -> bytes:
    """Return content in the one form that is sealed."""
    return json.dumps(content, sort_keys=True).encode()


def read_state(path: Path, wd: Path) -> RunState:
    """Return the saved state; unlike a run, leave a file alone that cannot be read."""
    try:
        data = folder_of(path, wd).read(path.name, LARGEST_STATE)
        content = json.loads(data.decode("utf-8-sig"))
        state, half = from_json(content), find_half_character(content)
    except FileNotFoundError:
        raise UsageError(f"there is no saved run in {path}; `cao run` makes one") from None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    except (StateError, ValueError, RecursionError) as error:
        raise StateError(f"{path} is not the state of a run: {error}") from error
    check_text(path, half, "mend it")
    return state


def read_state_of(record: RunRecord) -> RunState | None:
    """Return the saved state of a run; None if it cannot be read or is that of another one."""
    with suppress(StateError, UsageError):
        saved = read_state(Path(record.state_file), Path(record.wd))
        if saved.progress.archive == record.archive:
            return saved
    return None


def check_text(path: Path, half: str | None, advice: str) -> None:
    """Raise if half a character was found in a part of a state."""
    if half is not None:
        raise UsageError(
            f"{path}: {half!a} holds half a character (a surrogate), which is no text; {advice}"
        )


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
    """Say how a task is named; above all the one that lies there."""
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


KEY_FILE = "run.key"
KEY_BYTES = 32


class UserSeals:
    """Makes and checks the seals of one user."""

    def __init__(self, folder: Path) -> None:
        self._folder = Folder(folder)

    def make(self, path: Path, data: bytes) -> str:
        """Return the seal of what is saved at a path; empty if there can be no key."""
        try:
            key = self._key() or self._new_key()
        except OSError as error:
            logger.warning("saved runs cannot be sealed: %s", error)
            return ""
        return _seal(key, path, data) if key else ""

    def fits(self, path: Path, data: bytes, seal: str) -> bool:
        """Was this saved at that path by this user on this machine?"""
        try:
            key = self._key()
        except OSError as error:
            logger.warning("the seals of saved runs cannot be checked: %s", error)
            return False
        expected = _seal(key, path, data).encode()
        return bool(key) and hmac.compare_digest(expected, seal.encode("utf-8", "replace"))

    def _key(self) -> bytes:
        """Return the key; nothing if there is none, or something else in its place."""
        try:
            key = self._folder.read(KEY_FILE)
        except FileNotFoundError:
            return b""
        return key if len(key) == KEY_BYTES else b""

    def _new_key(self) -> bytes:
        """Make a key, unless another run makes one at this moment: then it is that."""
        folder = self._folder.path
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / f".{KEY_FILE}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            with suppress(FileExistsError):
                os.link(draft, folder / KEY_FILE)
        finally:
            draft.unlink()
        return self._key()


def _seal(key: bytes, path: Path, data: bytes) -> str:
    place = os.fsencode(path.absolute())
    return hmac.new(key, len(place).to_bytes(8, "big") + place + data, sha256).hexdigest()
