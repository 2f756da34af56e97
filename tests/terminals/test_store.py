"""What is stored is there after a crash, and belongs to one server at a time."""

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Delivery
from cli_agent_orchestrator.errors import FolderTaken, StoreError
from cli_agent_orchestrator.terminals.sending import BoxMemory
from cli_agent_orchestrator.terminals.store import Begun, TerminalRow, TerminalStore

STORED = ("terminals.sqlite3", "server.lock", "server.pid")
BEGUN = Begun("d", None, 7.0, 3)
ROW = TerminalRow("a1", "tester-1", "scripted", "cao-x", "tester", "/tmp", created_at=5.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TerminalStore]:
    with closing(TerminalStore(tmp_path)) as store:
        store.save(ROW)
        yield store


def test_terminals_are_found_again_and_only_by_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    ready = replace(ROW, ready=True)
    with closing(TerminalStore(folder)) as store:
        store.save(ROW)
        store.save(ready)
        for path in (folder, *(folder / name for name in STORED)):
            assert path.stat().st_mode & 0o077 == 0
    with closing(TerminalStore(folder)) as again:
        assert again.terminals() == [ready]
        again.remove(ROW.id)
        assert again.terminals() == []


def test_what_a_killed_server_wrote_is_there(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from cli_agent_orchestrator.terminals.store import Begun\n"
        "from cli_agent_orchestrator.terminals.store import TerminalStore, TerminalRow\n"
        "store = TerminalStore(Path(sys.argv[1]))\n"
        "store.save(TerminalRow('a1', 'n', 'p', 's', 'a', '/', created_at=1.0))\n"
        "store.begin_delivery('a1', 'key', Begun('digest', None, 7.0, 3))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9
    store = TerminalStore(tmp_path)
    assert [row.id for row in store.terminals()] == ["a1"]
    assert store.delivery("a1", "key") == Begun("digest", None, 7.0, 3)
    store.close()


def test_what_is_written_is_on_the_disk_before_it_counts(store: TerminalStore) -> None:
    full = 2
    assert store._db.execute("PRAGMA synchronous").fetchone() == (full,)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.usefixtures("store")
def test_a_second_server_on_the_same_folder_is_refused_and_told_who_holds_it(
    tmp_path: Path,
) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from cli_agent_orchestrator.terminals.store import TerminalStore\n"
        "TerminalStore(Path(sys.argv[1]))\n"
    )
    second = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert FolderTaken.__name__ in second.stderr
    assert f"process {os.getpid()}" in second.stderr
    assert str(tmp_path) in second.stderr


def test_of_a_full_disk_it_is_said_how_to_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_text(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(StoreError, match=r"No space left .*; make room there \(`cao clean "):
        TerminalStore(tmp_path)


def test_deliveries_and_what_is_known_of_a_box_are_remembered_until_the_terminal_goes(
    store: TerminalStore, tmp_path: Path
) -> None:
    assert store.delivery("a1", "k") is None
    store.begin_delivery("a1", "k", BEGUN)
    assert store.delivery("a1", "k") == BEGUN
    answer = Delivery(True, "UserPromptSubmit", 1, 2)
    store.end_delivery("a1", "k", answer)
    assert store.delivery("a1", "k") == replace(BEGUN, answer=answer)
    store.begin_delivery("a1", "other", BEGUN)
    store.forget_delivery("a1", "other")
    assert store.delivery("a1", "other") is None
    assert store.box("a1") is None
    for box in (BoxMemory(leftover=True), BoxMemory(False, "a draft", frozenset({"", "…"}), True)):
        store.save_box("a1", box)
    store.save(ROW)
    assert store.delivery("a1", "k") is not None
    assert store.box("a1") == box
    for damaged in (b"", b"\xff", b"[]", b"null"):
        with closing(sqlite3.connect(tmp_path / STORED[0])) as beside, beside:
            beside.execute("UPDATE boxes SET memory = ?", (damaged,))
        assert store.box("a1") is None
    store.remove("a1")
    store.save_box("a1", box)
    assert (store.delivery("a1", "k"), store.box("a1")) == (None, None)


def test_a_store_may_be_closed_by_another_thread(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        store = one.submit(TerminalStore, tmp_path).result()
        other.submit(store.close).result()
        one.submit(TerminalStore, tmp_path).result().close()


def _spoil_by_a_table_of_others(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE terminals (id TEXT)")


def _spoil_by_garbage(file: Path) -> None:
    file.write_bytes(b"no database at all, but long enough to be taken for one" * 100)


@pytest.mark.parametrize("spoil", [_spoil_by_garbage, Path.mkdir, _spoil_by_a_table_of_others])
def test_a_damaged_store_is_named_and_not_thrown_away(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    file = tmp_path / "terminals.sqlite3"
    spoil(file)
    with pytest.raises(StoreError, match=str(file)):
        TerminalStore(tmp_path)
    assert file.exists()
    # The folder is free again for whoever mends it.
    (file.rmdir if file.is_dir() else file.unlink)()
    TerminalStore(tmp_path).close()


def test_a_full_disk_is_said_in_words_and_the_store_works_again_later(store: TerminalStore) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"terminals\.sqlite3"):
            store.save(replace(ROW, name="x"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert store.terminals() == [ROW]
    store.save(replace(ROW, ready=True))


def test_no_signal_is_about_an_uncertain_message_once_another_one_comes(
    store: TerminalStore,
) -> None:
    taken = Delivery(True, "it took it")
    store.begin_delivery("a1", "confirmed", BEGUN)
    store.end_delivery("a1", "confirmed", taken)
    store.begin_delivery("a1", "uncertain", BEGUN)
    store.end_delivery("a1", "uncertain", Delivery(False, "no sign"))
    store.outdate("a1")
    assert store.delivery("a1", "confirmed") == replace(BEGUN, answer=taken)
    assert store.delivery("a1", "uncertain") == replace(
        BEGUN, answer=Delivery(False, "no sign"), heard=None
    )
