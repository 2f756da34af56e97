"""Who saved a run: a seal on the state file that only this user on this machine can make.

A state file may come with a cloned project, and would make a run do what somebody else wrote. The
key of the seal lies in the user's state folder; it is made when the first run is saved.
"""

import hmac
import logging
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from cli_agent_orchestrator._internal.plain_files import Folder

logger = logging.getLogger(__name__)

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
