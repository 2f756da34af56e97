"""Going back to a snapshot, in real folders."""

import os
import shutil
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.clock import SystemClock
from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import GitError, RunError, RunLocked
from cli_agent_orchestrator.events import TurnBegan, Warned
from cli_agent_orchestrator.runs.moments import AFTER_LABEL, BEFORE_LABEL, find_moment
from cli_agent_orchestrator.runs.record import read_record, run_lock, write_record
from cli_agent_orchestrator.runs.restore import (
    BroughtBack,
    WayBack,
    changes_of_turn,
    opened_to_go_back,
    read_kept,
)
from cli_agent_orchestrator.settings.layout import temporary_folder
from cli_agent_orchestrator.work.folder import WorkFolder
from tests.runs.kept_runs import RUN, make_run, snapshots_in, worked_run
from tests.work.repositories import fingerprint, git, make_repository, write
from tests.work.test_odd_trees import somebody_else


def go_back(folder: Folder, word: str) -> tuple[WayBack, BroughtBack]:
    kept = read_kept(folder, os.environ)
    target = find_moment(kept.taken, word)
    with opened_to_go_back(kept, SystemClock()) as going:
        return going.plan(target), going.go(target)


def test_the_files_come_back_and_nothing_of_the_repository_changes(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    write(wd, {"out.log": "ignored\n"})
    git(wd, "add", "a.txt")
    before = fingerprint(wd / ".git")
    way, done = go_back(folder, "start")
    assert way.restored == ("a.txt", "gone.txt")
    assert way.removed == ("new.txt",)
    assert way.changed_since == ()
    assert done.paths == ("a.txt", "gone.txt", "new.txt")
    assert (wd / "a.txt").read_text() == "1\n"
    assert (wd / "gone.txt").read_text() == "g\n"
    assert (wd / "mine.txt").read_text() == "not committed\n"
    assert (wd / "out.log").exists()
    assert not (wd / "new.txt").exists()
    assert fingerprint(wd / ".git") == before


def test_pipes_and_sockets_that_were_made_since_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    (wd / "deep").mkdir()
    os.mkfifo(wd / "deep/pipe")
    os.mkfifo(wd / ".git/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        # Its path may be too long for a socket.
        monkeypatch.chdir(wd)
        listener.bind("talk")
    _, done = go_back(folder, "start")
    assert {(one.path, one.reason) for one in done.left_alone} == {
        ("deep/pipe", "a pipe"),
        ("talk", "a socket"),
    }
    assert (wd / "deep/pipe").is_fifo()


def test_our_state_folder_in_the_work_folder_is_left_alone(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    state = wd / ".local/state/cao"
    folder = worked_run(state, wd)
    write(state, {"token": "secret\n", "worktrees/k3f9/a.txt": "work\n"})
    (state / "worktrees/shut").mkdir(mode=0)
    os.mkfifo(state / "worktrees/k3f9/pipe")
    before = (folder.path / "run.json").read_bytes()
    way, done = go_back(folder, "start")
    assert (way.restored, way.removed) == (("a.txt", "gone.txt"), ("new.txt",))
    assert done.paths == ("a.txt", "gone.txt", "new.txt")
    assert done.left_alone == ()
    assert (state / "token").read_text() == "secret\n"
    assert (folder.path / "run.json").read_bytes() == before
    assert (state / "worktrees/shut").stat().st_mode & 0o777 == 0
    (state / "worktrees/shut").chmod(0o700)


def test_a_pipe_that_was_there_before_the_run_is_not_named(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    os.mkfifo(wd / "pipe")
    record = read_record(folder)
    assert record is not None
    write_record(folder, replace(record, started=(wd / "pipe").lstat().st_ctime + 1))
    _, done = go_back(folder, "start")
    assert done.left_alone == ()


def test_going_back_can_be_undone(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    write(wd, {"a.txt": "the user's\n", "later.txt": "l\n"})
    way, done = go_back(folder, "1")
    assert way.changed_since == ("a.txt", "later.txt")
    assert done.kept == 5
    assert (wd / "a.txt").read_text() == "2\n"
    assert not (wd / "later.txt").exists()
    labels = {one.sequence: one.label for one in read_kept(folder, os.environ).taken}
    assert (labels[5], labels[6]) == (BEFORE_LABEL, AFTER_LABEL)
    way, _ = go_back(folder, "5")
    assert way.changed_since == ()
    assert (wd / "a.txt").read_text() == "the user's\n"
    assert (wd / "later.txt").read_text() == "l\n"


def test_what_a_person_changed_is_still_said_after_going_back_and_forth(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    write(wd, {"a.txt": "the user's\n", "later.txt": "l\n"})
    _, done = go_back(folder, "1")
    go_back(folder, str(done.kept))
    write(wd, {"new.txt": "the user's\n"})
    way, _ = go_back(folder, "start")
    assert way.restored == ("a.txt", "gone.txt")
    assert way.changed_since == ("a.txt", "later.txt", "new.txt")
    write(wd, {"a.txt": "2\n"})
    way, _ = go_back(folder, "3")
    assert way.changed_since == ("a.txt",)


def test_a_turn_that_was_begun_keeps_its_number(tmp_path: Path) -> None:
    wd = make_repository(tmp_path / "project", {"a.txt": "1\n"})
    begun = TurnBegan(2.0, "tester", 1, 1, 7, "t", "codex")
    folder = make_run(tmp_path / "state", wd, events=(begun,))
    snapshots_in(folder, wd).take(0, "start")
    write(wd, {"a.txt": "2\n"})
    _, done = go_back(folder, "start")
    assert done.kept == 8


def test_a_run_that_goes_on_counts_on_from_there(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    _, done = go_back(folder, "1")
    work = WorkFolder(snapshots_in(folder, wd))
    sequence, remarks = work.begin(4, is_in_flight=True)
    assert (sequence, remarks) == (done.kept + 1, [])
    write(wd, {"a.txt": "4\n"})
    seen = work.look(4, "tester")
    assert [one.path for one in seen.changes] == ["a.txt"]
    work.put_back(5, "tester", seen)
    assert (wd / "a.txt").read_text() == "2\n"
    again = WorkFolder(snapshots_in(folder, wd))
    assert again.begin(4, is_in_flight=False) == (done.kept + 1, [])
    assert again.now is not None
    assert again.now.sequence == 5


def test_a_run_at_work_is_left_alone(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    with run_lock(temporary_folder(wd), SystemClock()), pytest.raises(RunLocked, match="process"):
        go_back(folder, "start")
    assert (wd / "a.txt").read_text() == "3\n"
    assert not (wd / ".tmp/run.owner").exists()


def test_a_folder_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    patch = read_kept(folder, os.environ)
    shutil.rmtree(wd)
    assert read_kept(folder, os.environ).taken == patch.taken
    with pytest.raises(RunError, match="is not there any more"):
        go_back(folder, "start")
    wd.mkdir()
    with pytest.raises(RunError, match="borrow from the repository"):
        go_back(folder, "start")


def test_a_folder_that_was_no_repository_can_be_filled_again(tmp_path: Path) -> None:
    wd = tmp_path / "plain"
    wd.mkdir()
    write(wd, {"a.txt": "1\n"})
    folder = make_run(tmp_path / "state", wd)
    snapshots_in(folder, wd).take(0, "start")
    shutil.rmtree(wd)
    wd.mkdir()
    go_back(folder, "start")
    assert (wd / "a.txt").read_text() == "1\n"


def test_nothing_is_brought_through_a_link_into_another_repository(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    other = make_repository(tmp_path / "other", {"a.txt": "another project's\n"})
    write(other, {"precious.txt": "not committed\n"})
    shutil.rmtree(wd)
    wd.symlink_to(other)
    with pytest.raises(RunError, match=r"was .*/project when the run began and is .*/other now"):
        go_back(folder, "start")
    assert (other / "a.txt").read_text() == "another project's\n"
    assert (other / "precious.txt").exists()


def test_nothing_is_brought_into_another_repository(tmp_path: Path) -> None:
    outer = make_repository(tmp_path / "outer", {"sub/a.txt": "1\n", "b.txt": "b\n"})
    folder = make_run(tmp_path / "state", outer / "sub")
    snapshots_in(folder, outer / "sub").take(0, "start")
    write(outer, {"sub/a.txt": "2\n", "b.txt": "not the run's\n"})
    way, _ = go_back(folder, "start")
    assert way.restored == ("sub/a.txt",)
    assert (outer / "b.txt").read_text() == "not the run's\n"
    shutil.rmtree(outer / ".git")
    with pytest.raises(RunError, match=r"was .*outer when the run began"):
        go_back(folder, "start")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    wd.chmod(0o500)
    try:
        with pytest.raises(RunError, match="cannot be written by you"):
            go_back(folder, "start")
    finally:
        wd.chmod(0o700)


def test_what_cannot_be_put_back_is_told_with_the_way_to_undo_it(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    # Ignored, so in no snapshot; it lies where a file was.
    (wd / "gone.txt").mkdir()
    write(wd, {"gone.txt/out.log": "ignored\n"})
    with pytest.raises(RunError, match=rf"(?s)move it away.*cao restore {RUN} 5") as caught:
        go_back(folder, "start")
    assert isinstance(caught.value.__cause__, GitError)
    assert (wd / "a.txt").read_text() == "1\n"
    assert (wd / "gone.txt/out.log").exists()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((), "not come to its first turn"),
        ((TurnBegan(2.0, "tester", 1, 1, 7, "t", "codex"),), "from before there were any"),
        ((Warned(2.0, "x"), Warned(2.0, "no git", "snapshots")), "no snapshots: no git"),
    ],
)
def test_a_run_without_snapshots_says_why(
    tmp_path: Path, events: tuple[TurnBegan | Warned, ...], why: str
) -> None:
    folder = make_run(tmp_path / "state", tmp_path, events=events)
    with pytest.raises(RunError, match=why):
        read_kept(folder, os.environ)


def test_what_one_turn_changed_is_known(tmp_path: Path) -> None:
    folder = worked_run(tmp_path / "state", tmp_path / "project")
    patch, changes = changes_of_turn(folder, 3, 10_000, os.environ)
    assert b"-2\n+3\n" in patch
    assert [(one.path, one.status) for one in changes] == [("a.txt", "M"), ("gone.txt", "D")]
    assert changes_of_turn(folder, 4, 10_000, os.environ) == (b"", ())
    short, _ = changes_of_turn(folder, 3, 40, os.environ)
    assert short.endswith(b"too long)\n")
    with pytest.raises(RunError, match="no snapshot of turn 2"):
        changes_of_turn(folder, 2, 10_000, os.environ)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_files_belong_to_whom_they_belonged(tmp_path: Path) -> None:
    wd = tmp_path / "project"
    folder = worked_run(tmp_path / "state", wd)
    os.chown(wd, 1234, 2345)
    os.chown(wd / "a.txt", 1235, 2346)
    go_back(folder, "start")
    replaced, again = (wd / "a.txt").stat(), (wd / "gone.txt").stat()
    assert (replaced.st_uid, replaced.st_gid) == (1235, 2346)
    # What was there before is not known: it belongs to whom its folder does.
    assert (again.st_uid, again.st_gid) == (1234, 2345)


def test_what_an_agent_has_made_unreadable_is_kept_and_comes_back() -> None:
    with tempfile.TemporaryDirectory() as parent:
        wd = make_repository(Path(parent, "project"), {"a.txt": "1\n"})
        write(wd, {"secret": "mine\n"})
        folder = make_run(Path(parent, "state"), wd)
        with somebody_else(Path(parent)):
            (wd / "secret").chmod(0)
            snapshots_in(folder, wd).take(0, "start")
            write(wd, {"a.txt": "2\n", "x/in/y": "y\n"})
            for name in ("a.txt", "x/in/y", "x/in", "x"):
                (wd / name).chmod(0)
            snapshots_in(folder, wd).take(1, "programmer")
            kept = read_kept(folder, os.environ)
            with opened_to_go_back(kept, SystemClock()) as going:
                assert going.made_readable == ("a.txt", "x", "x/in", "x/in/y")
                way, done = going.plan(kept.taken[0]), going.go(kept.taken[0])
            assert (way.restored, way.removed) == (("a.txt",), ("x/in/y",))
            assert [one.path for one in done.left_alone] == ["secret"]
            assert (wd / "secret").stat().st_mode & 0o777 == 0
            assert (wd / "a.txt").read_text() == "1\n"
            assert not (wd / "x").exists()
            _, _ = go_back(folder, str(done.kept))
            assert (wd / "a.txt").read_text() == "2\n"
            assert (wd / "x/in/y").read_text() == "y\n"
