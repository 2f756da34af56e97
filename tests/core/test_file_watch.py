"""Real files under a real watch."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from cli_agent_orchestrator.core.models import FileChange
from cli_agent_orchestrator.core.watch import REPORTS_CLOSE, FolderWatch, Waker, watch_file

LIMIT = 60

pytestmark = pytest.mark.skipif(not REPORTS_CLOSE, reason="this system reports only touches")

Changes = SimpleQueue[FileChange]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "watched").mkdir()
    return tmp_path / "watched"


@pytest.fixture
def changes(folder: Path) -> Iterator[Changes]:
    changes: Changes = SimpleQueue()
    with watch_file(folder / "reply.md", changes.put):
        yield changes


def next_closed(changes: Changes) -> list[FileChange]:
    """Return all changes up to the next closing."""
    seen: list[FileChange] = []
    while FileChange.CLOSED not in seen:
        seen.append(changes.get(timeout=LIMIT))
    return seen


def test_a_file_that_is_written_is_reported_when_it_is_closed(
    folder: Path, changes: Changes
) -> None:
    with (folder / "reply.md").open("w") as file:
        file.write("first half")
        file.flush()
        assert changes.get(timeout=LIMIT) is FileChange.WRITING
        file.write("second half")
    assert next_closed(changes)[-1] is FileChange.CLOSED


def test_a_file_that_is_moved_to_its_place_is_complete_and_others_are_nobodys_business(
    folder: Path, changes: Changes
) -> None:
    (folder / "draft").write_text("first")
    (folder / "other.md").write_text("other")
    (folder / "draft").rename(folder / "reply.md")
    # A change of the other file would have come before this one.
    assert next_closed(changes) == [FileChange.CLOSED]
    (folder.parent / "draft").write_text("from elsewhere")
    (folder.parent / "draft").rename(folder / "reply.md")
    assert next_closed(changes) == [FileChange.CLOSED]


def test_a_link_or_pipe_in_its_place_is_reported(folder: Path, changes: Changes) -> None:
    (folder / "reply.md").symlink_to(__file__)
    assert changes.get(timeout=LIMIT) is FileChange.TOUCHED
    (folder / "reply.md").unlink()
    os.mkfifo(folder / "reply.md")
    assert changes.get(timeout=LIMIT) is FileChange.TOUCHED


def test_a_folder_that_cannot_be_watched_is_no_disaster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes: Changes = SimpleQueue()
    with watch_file(tmp_path / "missing" / "reply.md", changes.put):
        assert changes.empty()
    assert "cannot be watched and will be polled" in caplog.text


def test_a_change_wakes_who_waits_and_who_was_woken_before_does_not_wait(folder: Path) -> None:
    waker = Waker()
    waker.wake()
    waker.wait(LIMIT)
    waker.wait(-1.0)
    woken = threading.Event()

    def wait() -> None:
        waker.wait(LIMIT)
        woken.set()

    thread = threading.Thread(target=wait)
    with watch_file(folder / "reply.md", waker.wake):
        thread.start()
        (folder / "reply.md").write_text("reply")
        assert woken.wait(LIMIT / 2)
    thread.join()


def test_folders_are_watched_until_they_are_not_wanted(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    seen: SimpleQueue[Path] = SimpleQueue()
    FolderWatch(lambda _, path: seen.put(path)).close()  # it was never begun
    watch = FolderWatch(lambda _, path: seen.put(path))
    try:
        watch.watch([one, two, tmp_path / "missing"])
        (one / "a").write_text("x", encoding="utf-8")
        assert seen.get(timeout=LIMIT) == one / "a"
        watch.watch([two])
        while not seen.empty():
            seen.get()
        (one / "b").write_text("x", encoding="utf-8")
        (tmp_path / "draft").write_text("x", encoding="utf-8")
        (tmp_path / "draft").rename(two / "c")
        assert seen.get(timeout=LIMIT) == two / "c"
        (two / "c").unlink()
        two.rmdir()
        watch.watch([one])
        (one / "d").mkdir()
        while seen.get(timeout=LIMIT) != one / "d":
            pass
    finally:
        watch.close()
