"""Real files under a real watch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_agent_orchestrator.handoff.mailbox import Change, FileSignal, QueueMailbox
from cli_agent_orchestrator.handoff.watch import TELLS_OF_CLOSING, watch_file

LIMIT = 60

pytestmark = pytest.mark.skipif(not TELLS_OF_CLOSING, reason="this system tells only of touches")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "watched").mkdir()
    return tmp_path / "watched"


@pytest.fixture
def mailbox(folder: Path) -> Iterator[QueueMailbox]:
    mailbox = QueueMailbox()
    with watch_file(folder / "reply.md", mailbox.post):
        yield mailbox


def next_closed(mailbox: QueueMailbox) -> list[Change]:
    """Return all changes up to the next closing."""
    changes: list[Change] = []
    while Change.CLOSED not in changes:
        signal = mailbox.wait(LIMIT)
        assert isinstance(signal, FileSignal), f"nothing after {changes}"
        assert signal.path.name == "reply.md"
        changes.append(signal.change)
    return changes


def test_a_file_that_is_written_is_told_of_when_it_is_closed(
    folder: Path, mailbox: QueueMailbox
) -> None:
    with (folder / "reply.md").open("w") as file:
        file.write("first half")
        file.flush()
        signal = mailbox.wait(LIMIT)
        assert isinstance(signal, FileSignal)
        assert signal.change is Change.WRITING
        file.write("second half")
    assert next_closed(mailbox)[-1] is Change.CLOSED


def test_a_file_that_is_renamed_to_its_place_is_complete(
    folder: Path, mailbox: QueueMailbox
) -> None:
    (folder / "draft").write_text("text")
    (folder / "draft").rename(folder / "reply.md")
    assert next_closed(mailbox) == [Change.CLOSED]


def test_a_file_that_is_moved_in_from_elsewhere_is_complete(
    folder: Path, mailbox: QueueMailbox
) -> None:
    (folder.parent / "draft").write_text("text")
    (folder.parent / "draft").rename(folder / "reply.md")
    assert next_closed(mailbox) == [Change.CLOSED]


def test_other_files_are_nobodys_business(folder: Path, mailbox: QueueMailbox) -> None:
    (folder / "other.md").write_text("other")
    (folder / "reply.md").write_text("reply")
    assert next_closed(mailbox)[-1] is Change.CLOSED


def test_after_the_watch_nothing_is_told(folder: Path) -> None:
    mailbox = QueueMailbox()
    with watch_file(folder / "reply.md", mailbox.post):
        pass
    (folder / "reply.md").write_text("reply")
    assert mailbox.wait(0) is None


def test_a_folder_that_cannot_be_watched_is_no_disaster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox = QueueMailbox()
    with watch_file(tmp_path / "missing" / "reply.md", mailbox.post):
        assert mailbox.wait(0) is None
    assert "cannot be watched and will be polled" in caplog.text
