"""The session record of an agent is the file that it writes to."""

import os
import subprocess
import sys
from pathlib import Path

from cli_agent_orchestrator.terminals.records import find_record, open_file, wait_for_record

PATTERN = r"/rollout-[^/]+\.jsonl$"


def test_a_record_that_is_only_read_is_that_of_another_session(tmp_path: Path) -> None:
    older, own = tmp_path / "rollout-1.jsonl", tmp_path / "rollout-2.jsonl"
    older.touch()
    with older.open():
        assert open_file(os.getpid(), PATTERN) is None
        with own.open("a"):
            os.utime(own, (1, 1))
            assert open_file(os.getpid(), PATTERN) == own


def test_what_does_not_match_is_not_a_record(tmp_path: Path) -> None:
    with (tmp_path / "log.jsonl").open("a"):
        assert open_file(os.getpid(), PATTERN) is None


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
        assert open_file(os.getpid(), PATTERN) == own
        child.communicate()


async def test_a_process_that_is_gone_has_no_record() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert open_file(gone.pid, PATTERN) is None


async def test_a_record_is_found_when_it_is_there(tmp_path: Path) -> None:
    own = tmp_path / "rollout-1.jsonl"
    with own.open("a"):
        assert await find_record(os.getpid(), PATTERN) == own
    assert await wait_for_record(own) == own
