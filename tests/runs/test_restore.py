"""Snapshots of a run, named by words, and going back to one in real folders."""

import os
import shutil
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import GitError, NotFound, RunError, RunLocked
from cli_agent_orchestrator.events import TurnBegan, Warned
from cli_agent_orchestrator.runs.record import keeping_runs_out
from cli_agent_orchestrator.runs.restore import (
    AFTER_LABEL,
    DISCARDED_LABEL,
    WayBack,
    changes_of_turn,
    find_moment,
    find_span,
    go_back,
    last_of_run,
    name_of,
    opened_to_go_back,
    plan_way_back,
    read_kept,
)
from cli_agent_orchestrator.work.folder import WorkFolder
from cli_agent_orchestrator.work.snapshots import Snapshot
from tests.runs.kept_runs import RUN, change_record, make_run, snapshots_in, worked_run
from tests.work.projects import fingerprint, git, make_repository, write


def snapshot(sequence: int, label: str) -> Snapshot:
    return Snapshot(f"t{sequence}", sequence, label, float(sequence))


START, FIRST, GATE, SECOND, AFTER = TAKEN = (
    snapshot(0, "start"),
    snapshot(1, "programmer"),
    snapshot(2, "tests"),
    snapshot(3, "programmer"),
    snapshot(4, AFTER_LABEL),
)


@pytest.mark.parametrize(
    ("word", "old", "new"),
    [
        ("", START, SECOND),
        ("start", START, SECOND),
        ("3", GATE, SECOND),
        ("programmer", GATE, SECOND),
        ("tests", FIRST, GATE),
        ("1..3", FIRST, SECOND),
        ("1..", FIRST, SECOND),
        ("..2", START, GATE),
        ("0", START, START),
    ],
)
def test_a_span_is_all_or_one_turn_or_between_two(word: str, old: Snapshot, new: Snapshot) -> None:
    assert find_span(TAKEN, word) == (old, new)


def test_what_a_person_kept_is_not_of_the_run() -> None:
    assert find_moment(TAKEN, "4") == AFTER
    assert last_of_run(TAKEN) == last_of_run((*TAKEN, snapshot(5, DISCARDED_LABEL))) == SECOND
    with pytest.raises(NotFound) as caught:
        find_moment(TAKEN, "analyst")
    assert caught.value.known == tuple(map(name_of, TAKEN))


def bring_back(folder: Folder, word: str, *, everything: bool = False) -> tuple[WayBack, int]:
    kept = read_kept(folder, os.environ)
    with opened_to_go_back(kept) as snapshots:
        target = find_moment(kept.taken, word)
        way = plan_way_back(kept, snapshots, target, everything=everything)
        return way, go_back(kept, snapshots, way)[0]


@pytest.fixture
def wd(tmp_path: Path) -> Path:
    return tmp_path / "project"


@pytest.fixture
def folder(tmp_path: Path, wd: Path) -> Folder:
    return worked_run(tmp_path / "state", wd)


def content(wd: Path) -> dict[str, str]:
    return {path.stem: path.read_text().strip() for path in wd.glob("[a-z]*")}


def test_the_files_come_back_and_nothing_of_the_repository_changes(
    folder: Folder, wd: Path
) -> None:
    write(wd, {"out.log": "ignored\n"})
    git(wd, "add", "a.txt")
    before = fingerprint(wd / ".git")
    way, _ = bring_back(folder, "start")
    assert (way.restored, way.removed) == (("a.txt", "gone.txt"), ("new.txt",))
    assert (way.yours, way.left_alone, way.head_moved) == ((), (), "")
    assert content(wd) == {"a": "1", "gone": "g", "mine": "not committed", "out": "ignored"}
    assert fingerprint(wd / ".git") == before
    # HEAD may have moved since: that is said.
    git(wd, "checkout", "-q", "-b", "other")
    git(wd, "commit", "-q", "-m", "mine", "mine.txt")
    way, _ = bring_back(folder, "start", everything=True)
    assert "(main) and is" in way.head_moved
    assert way.head_moved.endswith("(other)")


def test_what_a_person_changed_since_stays_and_is_named(folder: Folder, wd: Path) -> None:
    write(wd, {"a.txt": "the user's\n", "later.txt": "l\n"})
    way, number = bring_back(folder, "start")
    assert way.yours == ("a.txt", "later.txt")
    assert (way.restored, way.removed) == (("gone.txt",), ("new.txt",))
    assert (wd / "a.txt").read_text() == "the user's\n"
    way, _ = bring_back(folder, str(number), everything=True)
    assert not (wd / "gone.txt").exists()
    assert (wd / "new.txt").exists()
    way, _ = bring_back(folder, "start")
    assert way.yours == ("a.txt", "later.txt"), "going back and forth does not make it the run's"


def test_files_that_go_through_a_filter_are_left_alone(tmp_path: Path, wd: Path) -> None:
    files = {".gitattributes": "*.bin filter=lfs\n", "x.bin": "pointer\n", "a.txt": "1\n"}
    make_repository(wd, files)
    folder = make_run(tmp_path / "state", wd)
    snapshots_in(folder, wd).take(0, "start")
    write(wd, {"x.bin": "content\n", "a.txt": "2\n"})
    snapshots_in(folder, wd).take(1, "programmer")
    way, _ = bring_back(folder, "start")
    assert way.restored == ("a.txt",)
    assert [one.path for one in way.left_alone] == ["x.bin"]
    assert (wd / "x.bin").read_text() == "content\n"


def test_a_private_file_stays_private(tmp_path: Path, wd: Path) -> None:
    make_repository(wd, {"a.txt": "1\n"})
    modes = {".env": 0o600, "removed.env": 0o600, "run.sh": 0o700, "removed.sh": 0o700}
    for name, mode in modes.items():
        write(wd, {name: "1\n"})
        (wd / name).chmod(mode)
    folder = make_run(tmp_path / "state", wd)
    snapshots_in(folder, wd).take(0, "start")
    for name in modes:
        (wd / name).unlink()
        if not name.startswith("removed"):
            write(wd, {name: "2\n"})
    snapshots_in(folder, wd).take(1, "programmer")
    bring_back(folder, "start")
    assert {name: (wd / name).stat().st_mode & 0o777 for name in modes} == modes


def test_a_run_that_goes_on_counts_on_from_there(folder: Folder, wd: Path) -> None:
    _, number = bring_back(folder, "1")
    work = WorkFolder(snapshots_in(folder, wd))
    assert work.begin(4, is_in_flight=True) == (number + 1, [])
    write(wd, {"a.txt": "4\n"})
    seen = work.look(4, "tester")
    assert [one.path for one in seen.changes] == ["a.txt"]
    work.put_back(5, "tester", seen)
    assert (wd / "a.txt").read_text() == "2\n"


def test_a_turn_that_was_begun_keeps_its_number(tmp_path: Path, wd: Path) -> None:
    make_repository(wd, {"a.txt": "1\n"})
    begun = TurnBegan(2.0, "tester", 1, 1, 7, "t", "codex")
    folder = make_run(tmp_path / "state", wd, events=(begun,))
    snapshots_in(folder, wd).take(0, "start")
    write(wd, {"a.txt": "2\n"})
    assert bring_back(folder, "start", everything=True)[1] == 8


def test_nothing_is_brought_back_where_it_does_not_belong(
    folder: Folder, wd: Path, tmp_path: Path
) -> None:
    with keeping_runs_out(wd), pytest.raises(RunLocked):
        bring_back(folder, "start")
    change_record(folder, top=str(wd.parent))
    with pytest.raises(RunError, match="into another one"):
        bring_back(folder, "start")
    change_record(folder, top=str(wd))
    assert (wd / "a.txt").read_text() == "3\n"
    taken = read_kept(folder, os.environ).taken
    shutil.rmtree(wd)
    with pytest.raises(RunError, match="is not there any more"):
        bring_back(folder, "start")
    assert read_kept(folder, os.environ).taken == taken
    other = make_repository(tmp_path / "other", {"a.txt": "another project's\n"})
    wd.symlink_to(other)
    with pytest.raises(RunError, match="into another one"):
        bring_back(folder, "start")
    assert (other / "a.txt").read_text() == "another project's\n"


def test_what_cannot_be_put_back_is_told_with_the_way_to_undo_it(folder: Folder, wd: Path) -> None:
    # Ignored, so in no snapshot; it lies where a file was.
    write(wd, {"gone.txt/out.log": "ignored\n"})
    with pytest.raises(RunError, match=rf"cao undo {RUN} --to 5") as caught:
        bring_back(folder, "start")
    assert isinstance(caught.value.__cause__, GitError)
    assert (wd / "a.txt").read_text() == "1\n"
    assert (wd / "gone.txt/out.log").exists()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((), "not come to its first turn"),
        ((TurnBegan(2.0, "tester", 1, 1, 7, "t", "codex"),), "from before there were any"),
        ((Warned(2.0, "x"), Warned(2.0, "no git", "snapshots")), "no git"),
    ],
)
def test_a_run_without_snapshots_says_why(
    tmp_path: Path, events: tuple[TurnBegan | Warned, ...], why: str
) -> None:
    folder = make_run(tmp_path / "state", tmp_path, events=events)
    with pytest.raises(RunError, match=why):
        read_kept(folder, os.environ)


def test_what_one_turn_changed_is_known(folder: Folder) -> None:
    patch, changes = changes_of_turn(folder, 3, 10_000, os.environ)
    assert b"-2\n+3\n" in patch
    assert [(one.path, one.status) for one in changes] == [("a.txt", "M"), ("gone.txt", "D")]
    assert changes_of_turn(folder, 4, 10_000, os.environ) == (b"", ())
    short, _ = changes_of_turn(folder, 3, 40, os.environ)
    assert short.endswith(b"too long)\n")
    with pytest.raises(RunError, match="no snapshot of turn 2"):
        changes_of_turn(folder, 2, 10_000, os.environ)
