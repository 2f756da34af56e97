"""Snapshots of real repositories."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.workspace.snapshots import Change
from tests.workspace.repositories import content, fingerprint, make_repository, snapshots_of, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "project", {"a.txt": "a\n", "src/b.py": "b\n", ".gitignore": "*.log\n"}
    )


def test_a_snapshot_has_tracked_and_new_files_but_no_ignored_ones(project: Path) -> None:
    write(project, {"new.txt": "new\n", "out.log": "log\n", "a.txt": "changed\n"})
    before = fingerprint(project / ".git")
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    assert set(content(snapshots, taken)) == {"a.txt", "src/b.py", ".gitignore", "new.txt"}
    assert snapshots.read(taken.commit, "a.txt", 100) == b"changed\n"
    assert snapshots.read(taken.commit, "a.txt", 3) == b"cha"
    assert snapshots.read(taken.commit, "out.log", 100) is None
    assert taken.left_out == ()
    assert snapshots.is_intact()
    assert fingerprint(project / ".git") == before


def test_all_snapshots_are_listed_by_anybody_who_opens_the_store(project: Path) -> None:
    assert snapshots_of(project).all() == ()
    snapshots = snapshots_of(project)
    first = snapshots.take(0, "start")
    again = snapshots.take(1, "programmer \n 'é'")
    write(project, {"a.txt": "2\n"})
    replaced = snapshots_of(project).take(0, "start again")
    assert snapshots_of(project).all() == (replaced, again)
    assert first.tree == again.tree != replaced.tree
    assert snapshots.take(2, "").tree == replaced.tree


def test_changes_are_told_by_path_and_kind(project: Path) -> None:
    write(project, {"long.txt": "".join(f"{i}\n" for i in range(50)), "binary": "\0"})
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    (project / "long.txt").rename(project / "moved.txt")
    (project / "src/b.py").unlink()
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to("src")
    (project / ".gitignore").chmod(0o755)
    write(project, {"new\nline": "1\n2\n", "binary": "\0\1"})
    new = snapshots.take(1, "programmer")
    assert snapshots.changes(old.commit, new.commit) == (
        Change(".gitignore", ".gitignore", "M", "100644", "100755", 0, 0),
        Change("a.txt", "a.txt", "T", "100644", "120000", 1, 1),
        Change("binary", "binary", "M", "100644", "100644", -1, -1),
        Change("moved.txt", "long.txt", "R", "100644", "100644", 0, 0),
        Change("new\nline", "new\nline", "A", "000000", "100644", 2, 0),
        Change("src/b.py", "src/b.py", "D", "100644", "000000", 0, 1),
    )
    assert snapshots.changes(new.commit, new.commit) == ()
    patch = snapshots.diff(old.commit, new.commit, paths=["src/b.py"])
    assert b"-b\n" in patch
    assert b"a.txt" not in patch
    assert b"src/b.py" in snapshots.diff(old.commit, new.commit, stat=True)
