"""The session record of an agent is the file that it writes to."""

import os
import subprocess
import sys
from pathlib import Path

from cli_agent_orchestrator.terminals.signals import open_files

PATTERN = r"/rollout-[^/]+\.jsonl$"


def test_a_record_that_is_only_read_is_that_of_another_session(tmp_path: Path) -> None:
    older, own = tmp_path / "rollout-1.jsonl", tmp_path / "rollout-2.jsonl"
    older.touch()
    with older.open():
        assert open_files(os.getpid(), PATTERN) == []
        with own.open("a"):
            os.utime(own, (1, 1))
            assert open_files(os.getpid(), PATTERN) == [own]


def test_what_does_not_match_is_not_a_record(tmp_path: Path) -> None:
    with (tmp_path / "log.jsonl").open("a"):
        assert open_files(os.getpid(), PATTERN) == []


def test_the_record_may_be_written_by_a_child(tmp_path: Path) -> None:
    own = tmp_path / "rollout-1.jsonl"
    waits = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with (
        own.open("a") as file,
        subprocess.Popen(
            waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file.fileno()]
        ) as child,
    ):
        assert child.stdout is not None
        child.stdout.readline()
        file.close()
        assert open_files(os.getpid(), PATTERN) == [own]
        child.communicate()


def test_a_process_that_is_gone_has_no_record() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert open_files(gone.pid, PATTERN) == []


def test_all_records_that_are_written_to_are_found(tmp_path: Path) -> None:
    older, newer = tmp_path / "rollout-1.jsonl", tmp_path / "rollout-2.jsonl"
    with older.open("a"), newer.open("a"):
        assert sorted(open_files(os.getpid(), PATTERN)) == [older, newer]
