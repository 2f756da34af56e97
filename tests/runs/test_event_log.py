"""The log of a run's events: written, mended, read and followed."""

import os
import threading
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder, NotPlain
from cli_agent_orchestrator.events import RunEnded, RunEvent, Warned, to_line
from cli_agent_orchestrator.runs.event_log import (
    LARGEST_PIECE,
    EventLog,
    EventReader,
    Follower,
    read_events,
)
from cli_agent_orchestrator.runs.record import RunRecord, write_record
from cli_agent_orchestrator.settings.layout import EVENTS_FILE, run_folder

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = run_folder(tmp_path, RUN)
    folder.make()
    return folder


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


def test_there_may_be_none(folder: Folder) -> None:
    assert read_events(folder) == []


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


def test_a_line_that_is_too_long_hides_no_other(folder: Folder) -> None:
    write(folder, "a")
    with (folder.path / EVENTS_FILE).open("ab") as file:
        file.write(b"x" * (LARGEST_PIECE + 1))
    reader = EventReader(folder)
    assert len(list(reader.read())) == 1
    with (folder.path / EVENTS_FILE).open("ab") as file:
        file.write(b"\n" + to_line(Warned(NOON, "b", seq=2)).encode() + b"\n")
    assert [event.seq for event in reader.read()] == [2]


def test_an_event_that_did_not_fit_does_not_harm_the_next_one(folder: Folder) -> None:
    class Narrow(EventLog):
        """A disk that was full for a moment."""

        def fill_up(self) -> None:
            os.write(self._file.fileno(), b'{"seq": 2, "at"')
            self._torn = True

    log = Narrow(folder)
    log.append(Warned(NOON, "a"))
    log.fill_up()
    log.append(Warned(NOON, "b"))
    log.close()
    assert [text for _, text in texts(folder)] == ["a", "b"]


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


def test_whoever_follows_is_told_at_once_and_until_the_end(folder: Folder) -> None:
    with folder.locked():
        log = EventLog(folder)
        log.append(Warned(NOON, "before"))
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        log.append(Warned(NOON, "after"))
        assert reading.came.acquire(timeout=60)
        log.append(RunEnded(NOON, "PASS", 1, 0))
        # There is no record that says it goes on.
        assert reading.end() == [1, 2, 3]
        log.close()


def test_following_ends_when_the_process_is_gone(folder: Folder) -> None:
    with folder.locked():
        log = EventLog(folder)
        log.append(Warned(NOON, "a"))
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        log.close()
    assert reading.end() == [1]


def test_what_has_ended_is_told_and_no_more(folder: Folder) -> None:
    write(folder, "a", "b")
    assert [event.seq for event in Follower(folder, after=1)] == [2]


def test_the_end_before_a_resume_is_not_the_end(folder: Folder) -> None:
    with folder.locked():
        log = EventLog(folder)
        log.append(RunEnded(NOON, "RUNNING", 1, 3))
        write_record(folder, RunRecord(RUN, "/p", "/p/s.json", "do it", "do it", NOON))
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        log.append(Warned(NOON, "resumed"))
        assert reading.came.acquire(timeout=60)
        log.close()
    assert reading.end() == [1, 2]


def test_whoever_follows_can_be_stopped(folder: Folder) -> None:
    with folder.locked():
        write(folder, "a")
        reading = Reading(folder)
        assert reading.came.acquire(timeout=60)
        reading.follower.stop()
        assert reading.end() == [1]
