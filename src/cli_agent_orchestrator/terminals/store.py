"""Which terminals exist, and which messages were typed into them: SQLite in the state folder.

Every write is on disk before the method returns, so that a server killed at any moment finds its
terminals again and never types a message twice. Methods block: call them in a thread.
"""

import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import MsgspecError, Struct, convert
from msgspec.structs import astuple

from ..core import codec
from ..core.models import Delivery, TerminalFacts
from ..errors import FolderTaken, StoreError
from ..settings.layout import check_state_folder
from .sending import BoxMemory

SCHEMA = """
CREATE TABLE IF NOT EXISTS terminals (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    provider TEXT NOT NULL,
    session_name TEXT NOT NULL,
    agent_profile TEXT NOT NULL,
    working_directory TEXT NOT NULL,
    created_at REAL NOT NULL,
    ready INTEGER NOT NULL,
    permissions TEXT,
    step INTEGER,
    role TEXT,
    record INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS deliveries (
    terminal_id TEXT NOT NULL REFERENCES terminals (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    confirmed INTEGER,
    detail TEXT,
    enter_presses INTEGER,
    removed_characters INTEGER,
    begun_at REAL,
    heard INTEGER,
    PRIMARY KEY (terminal_id, key)
) STRICT;
CREATE TABLE IF NOT EXISTS boxes (
    terminal_id TEXT PRIMARY KEY REFERENCES terminals (id) ON DELETE CASCADE,
    memory BLOB NOT NULL
) STRICT;
"""

FULL = (errno.ENOSPC, errno.EDQUOT)
MAKE_ROOM = (
    "make room there (`cao clean --older-than 0 --yes` removes the records of all runs with a "
    "verdict)"
)


class TerminalRow(TerminalFacts, frozen=True, kw_only=True):
    """What is saved of a terminal; the fields are named as the table's columns."""

    created_at: float
    ready: bool = False
    """Was it ever ready for work? Others are swept after a crash."""
    step: bool = False
    """Does it end with a step? After a crash no caller waits for that."""
    record: bool = False


COLUMNS = TerminalRow.__struct_fields__
LISTED = ", ".join(COLUMNS)


class Begun(Struct, frozen=True):
    """A message that was about to be typed; `answer` is None if its end is not known."""

    digest: str
    answer: Delivery | None
    at: float = 0.0
    """Unix time: a later signal may be about it."""
    heard: int | None = None
    """How many messages the agent had reported as taken by then; None after another message."""


class TerminalStore:
    """The store of one server; the state folder is locked while it is open.

    Every method raises StoreError for a damaged file or a full disk.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "terminals.sqlite3"
        self._mutex = threading.Lock()
        owner = folder / "server.pid"
        with ExitStack() as undo, self._explained():
            try:
                check_state_folder(folder)
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                lock = os.open(folder / "server.lock", flags, mode=0o600)
                undo.callback(os.close, lock)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = None
                    with suppress(OSError, ValueError):
                        holder = int(owner.read_text())
                    raise FolderTaken(str(folder), holder) from None
                owner.unlink(missing_ok=True)
                undo.callback(owner.unlink, missing_ok=True)
                owner.touch(mode=0o600)
                owner.write_text(str(os.getpid()))
            except OSError as error:
                reason = f"the state folder {folder} cannot be used: {error.strerror}"
                room = f"{MAKE_ROOM}, or " if error.errno in FULL else ""
                raise StoreError(f"{reason}; {room}set CAO_STATE_DIR to another folder") from error
            self._db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            undo.callback(self._db.close)
            self._path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._db.executescript(SCHEMA)
            self._db.execute(f"SELECT {LISTED} FROM terminals LIMIT 0")
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._undo.close()

    def terminals(self) -> list[TerminalRow]:
        found = self._do(f"SELECT {LISTED} FROM terminals ORDER BY created_at")
        rows = [dict(zip(COLUMNS, values, strict=True)) for values in found]
        return convert(rows, list[TerminalRow], strict=False)

    def save(self, row: TerminalRow) -> None:
        # In place, for a row that is replaced takes its deliveries with it.
        changes = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
        places = ", ".join("?" * len(COLUMNS))
        self._do(
            f"INSERT INTO terminals ({LISTED}) VALUES ({places}) "
            f"ON CONFLICT (id) DO UPDATE SET {changes}",
            *astuple(row),
        )

    def remove(self, terminal_id: str) -> None:
        self._do("DELETE FROM terminals WHERE id = ?", terminal_id)

    def delivery(self, terminal_id: str, key: str) -> Begun | None:
        rows = self._do(
            "SELECT digest, begun_at, heard, confirmed, detail, enter_presses, removed_characters "
            "FROM deliveries WHERE terminal_id = ? AND key = ?",
            *(terminal_id, key),
        )
        for digest, at, heard, confirmed, *rest in rows:
            answer = Delivery(bool(confirmed), *rest) if confirmed is not None else None
            return Begun(digest, answer, at or 0.0, heard)
        return None

    def begin_delivery(self, terminal_id: str, key: str, begun: Begun) -> None:
        self._do(
            "INSERT INTO deliveries (terminal_id, key, digest, begun_at, heard) "
            "VALUES (?, ?, ?, ?, ?)",
            *(terminal_id, key, begun.digest, begun.at, begun.heard),
        )

    def outdate(self, terminal_id: str) -> None:
        """Let no later signal be about the messages before."""
        unsettled = "terminal_id = ? AND heard IS NOT NULL AND coalesce(confirmed, 0) = 0"
        self._do(f"UPDATE deliveries SET heard = NULL WHERE {unsettled}", terminal_id)

    def end_delivery(self, terminal_id: str, key: str, answer: Delivery) -> None:
        self._do(
            "UPDATE deliveries SET confirmed = ?, detail = ?, enter_presses = ?, "
            "removed_characters = ? WHERE terminal_id = ? AND key = ?",
            *(*astuple(answer), terminal_id, key),
        )

    def forget_delivery(self, terminal_id: str, key: str) -> None:
        """Forget a message of which nothing was typed, so that it can be sent again."""
        self._do("DELETE FROM deliveries WHERE terminal_id = ? AND key = ?", terminal_id, key)

    def box(self, terminal_id: str) -> BoxMemory | None:
        rows = self._do("SELECT memory FROM boxes WHERE terminal_id = ?", terminal_id)
        # What is damaged is learned anew.
        with suppress(MsgspecError):
            return codec.decode(BoxMemory, rows[0][0]) if rows else None
        return None

    def save_box(self, terminal_id: str, box: BoxMemory) -> None:
        """Save what is known of a box; of a terminal that is gone, nothing."""
        self._do(
            "INSERT INTO boxes SELECT id, ? FROM terminals WHERE id = ? ON CONFLICT (terminal_id) "
            "DO UPDATE SET memory = excluded.memory WHERE memory IS NOT excluded.memory",
            *(codec.encode(box), terminal_id),
        )

    def _do(self, statement: str, *values: object) -> list[Any]:  # whatever was stored
        with self._mutex, self._explained():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                reason = f"the store {self._path} cannot be used: the disk is full"
                raise StoreError(f"{reason}; {MAKE_ROOM}") from error
            raise StoreError(
                f"the store {self._path} cannot be used: {error}; if it is damaged, put back a "
                "copy, or move it away: agents that still run are ended then"
            ) from error
