"""What is logged during a run stays one line each, whatever it quotes."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import StateError
from cli_agent_orchestrator.runs.log import LogFile, OneLine, logging_to

log = logging.getLogger("tests.run_log")


def fail(text: str) -> None:
    raise ValueError(text)


def lines(folder: Path) -> list[str]:
    return (folder / "run.log").read_bytes().decode().split("\n")


def test_a_record_is_one_line_without_control_characters(tmp_path: Path) -> None:
    with logging_to(Folder(tmp_path)):
        log.warning("it said %s", "größer → 漢字\r\nb\tc\x1b]0;title\x07\0\x7f\x85\u2028\u2029")
    written = r"größer → 漢字\r\nb\tc\x1b]0;title\x07\x00\x7f\x85\u2028\u2029"
    (line, rest) = lines(tmp_path)
    assert line.endswith(f"WARNING tests.run_log it said {written}")
    assert rest == ""
    # Not logged: what pytest captures of a test has to be text.
    record = logging.makeLogRecord({"msg": "not utf-8: \udcff"})
    assert OneLine().format(record) == r"not utf-8: \udcff"


def test_so_is_one_with_a_traceback_and_what_the_watch_says_of_its_threads_is_left_out(
    tmp_path: Path,
) -> None:
    with logging_to(Folder(tmp_path)):
        logging.getLogger("watchdog.inotify").error("called when the thread is inactive")
        logging.getLogger("watchdogs").error("seen")
        try:
            fail("one\ntwo")
        except ValueError:
            log.exception("failed")
    (first, line, rest) = lines(tmp_path)
    assert first.endswith("ERROR watchdogs seen")
    assert line.endswith(r"ValueError: one\ntwo")
    assert "Traceback" in line
    assert rest == ""


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with logging_to(Folder(tmp_path)):
            log.warning(text)
        log.warning("not meant for it")
    assert [line[-3:] for line in lines(tmp_path)] == ["one", "two", ""]


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.log").symlink_to(tmp_path / "victim")
    with (
        pytest.raises(StateError, match=r"run\.log cannot be written: it is a symbolic link"),
        logging_to(Folder(tmp_path)),
    ):
        pass
    assert not (tmp_path / "victim").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_no_reason_to_say_anything(capsys: pytest.CaptureFixture[str]) -> None:
    # Closing it fails like every flush.
    with suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:
        record = logging.makeLogRecord({"name": "cao", "msg": "text", "levelno": logging.WARNING})
        LogFile(full).handle(record)
    assert capsys.readouterr() == ("", "")
