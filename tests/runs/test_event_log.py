"""The log of a run's events: written, mended, read and followed."""

import os
import threading
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder, NotPlain
from cli_agent_orchestrator.events import RunEnded, RunEvent, Warned, to_line
from cli_agent_orchestrator.runs.record import (
    EventReader,
    RunRecord,
    read_events,
    write_record,
)
from cli_agent_orchestrator.runs.recorder import EventLog
from cli_agent_orchestrator.runs.service import Follower
from cli_agent_orchestrator.settings.layout import EVENTS_FILE, RECORD_FILE
from tests.runs.views import NOON, RUN


def write(folder: Folder, *texts: str) -> None:
    log = EventLog(folder)
    for text in texts:
        log.append(Warned(NOON, text))
    log.close()


def texts(folder: Folder, after: int = 0) -> list[tuple[int, str]]:
    found = read_events(folder, after)
    return [(event.seq, event.text) for event in found if isinstance(event, Warned)]


def test_events_are_numbered_and_the_numbers_go_on(folder: Folder) -> None:
    write(folder, "a", "b")
    write(folder, "c")
    assert texts(folder) == [(1, "a"), (2, "b"), (3, "c")]
    assert texts(folder, after=2) == [(3, "c")]


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_the_beginning_of_a_line_is_taken_away(folder: Folder, cut: int) -> None:
    write(folder, "a", "b")
    path = folder.path / EVENTS_FILE
    path.write_bytes(path.read_bytes()[:-cut])
    assert texts(folder) == [(1, "a")]
    write(folder, "c")
    assert texts(folder) == [(1, "a"), (2, "c")]
    assert path.read_bytes().count(b"\n") == 2


def test_numbers_of_events_that_only_a_later_version_knows_are_not_given_again(
    folder: Folder,
) -> None:
    (folder.path / EVENTS_FILE).write_text(
        '{"seq": 7, "type": "later"}\nrubbish\n[]\n{"seq": "x"}\n'
    )
    write(folder, "a")
    assert texts(folder) == [(8, "a")]


def test_a_log_is_never_written_through_a_link_or_into_a_pipe(
    folder: Folder, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    path = folder.path / EVENTS_FILE
    path.symlink_to(precious)
    with pytest.raises(NotPlain, match="symbolic link"):
        EventLog(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NotPlain, match="pipe"):
        EventLog(folder)
    with pytest.raises(NotPlain, match="pipe"):
        read_events(folder)
    assert precious.read_text() == "mine"


def test_a_reader_sees_whole_lines_only_and_each_once(folder: Folder) -> None:
    line = to_line(Warned(NOON, "a", seq=1)).encode()
    path = folder.path / EVENTS_FILE
    reader = EventReader(folder)
    assert list(reader.read()) == []
    path.write_bytes(line[:10])
    assert list(reader.read()) == []
    path.write_bytes(line + b"\n" + line[:4])
    assert len(list(reader.read())) == 1
    assert list(reader.read()) == []
    second = to_line(Warned(NOON, "b", seq=2)).encode()
    path.write_bytes(line + b"\n" + second[:4])
    assert list(reader.read()) == []
    path.write_bytes(line + b"\n" + second + b"\n")
    assert [event.seq for event in reader.read()] == [2]


class Reading:
    """Follows a run in a thread."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self.follower = Follower(folder, after)
        self.events: list[RunEvent] = []
        self.came = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        for event in self.follower:
            self.events.append(event)
            self.came.release()

    def end(self) -> list[int]:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return [event.seq for event in self.events]


def test_whoever_follows_is_told_at_once_and_until_the_last_end(folder: Folder) -> None:
    with folder.locked():
        log = EventLog(folder)
        log.append(RunEnded(NOON, "RUNNING", 1, 3))
        # It was resumed since.
        write_record(folder, RunRecord(RUN, "/p", started=NOON))
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        log.append(Warned(NOON, "resumed"))
        assert reading.came.acquire(timeout=60)
        (folder.path / RECORD_FILE).unlink()
        log.append(RunEnded(NOON, "PASS", 1, 0))
        assert reading.end() == [1, 2, 3]
        log.close()


def test_whoever_follows_can_be_stopped(folder: Folder) -> None:
    with folder.locked():
        write(folder, "a")
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        reading.follower.stop()
        assert reading.end() == [1]
