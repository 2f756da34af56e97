"""Snapshots of real repositories."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError
from cli_agent_orchestrator.work.changes import Change
from tests.work.projects import (
    content,
    fingerprint,
    git,
    is_intact,
    make_repository,
    snapshots_of,
    write,
)


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
    assert snapshots.read(taken.tree, "a.txt", 100) == b"changed\n"
    assert snapshots.read(taken.tree, "a.txt", 3) == b"cha"
    assert snapshots.read(taken.tree, "out.log", 100) is None
    assert taken.left_out == ()
    assert is_intact(snapshots)
    assert fingerprint(project / ".git") == before


def test_all_snapshots_are_listed_by_anybody_who_opens_the_store(project: Path) -> None:
    assert snapshots_of(project).all() == ()
    snapshots = snapshots_of(project)
    first = snapshots.take(0, "start")
    again = snapshots.take(1, "programmer \n 'é'")
    write(project, {"a.txt": "2\n"})
    replaced = snapshots_of(project).take(0, "start again")
    assert snapshots_of(project).all() == (again, replaced)
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
    assert snapshots.changes(old.tree, new.tree) == (
        Change(".gitignore", ".gitignore", "M", "100644", "100755", 0, 0),
        Change("a.txt", "a.txt", "T", "100644", "120000", 1, 1),
        Change("binary", "binary", "M", "100644", "100644", -1, -1),
        Change("moved.txt", "long.txt", "R", "100644", "100644", 0, 0),
        Change("new\nline", "new\nline", "A", "000000", "100644", 2, 0),
        Change("src/b.py", "src/b.py", "D", "100644", "000000", 0, 1),
    )
    assert snapshots.changes(new.tree, new.tree) == ()
    patch = snapshots.diff(old.tree, new.tree, paths=["src/b.py"])
    assert b"-b\n" in patch
    assert b"a.txt" not in patch
    assert b"src/b.py" in snapshots.diff(old.tree, new.tree, stat=True)


def test_of_too_many_differences_the_rest_is_left_out(project: Path) -> None:
    snapshots = snapshots_of(project)
    taken = [snapshots.take(0, "start")]
    for number in (1, 2, 3):
        write(project, {"a.txt": "a line\n" * 1000 * number})
        taken.append(snapshots.take(number, "programmer"))
    trees = [(old.tree, new.tree) for old, new in pairwise(taken)]
    first, second, third = snapshots.diffs(trees, limit=10_000)
    assert first == snapshots.diffs(trees[:1])[0]
    assert second.endswith(b"\n(the rest is left out: it is too long)\n")
    assert third == b""


def test_a_snapshot_can_be_laid_out_and_laid_over(project: Path, tmp_path: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("a.txt")
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    write(project, {"a.txt": "2\n", "tests/new.py": "t\n", "src/b.py": "2\n"})
    (project / "link").unlink()
    new = snapshots.take(1, "programmer")
    checkout = tmp_path / "checkout"
    snapshots.lay_out(old.tree, checkout)
    assert sorted(path.name for path in checkout.iterdir()) == [
        ".gitignore", "a.txt", "link", "run.sh", "src",
    ]  # fmt: skip
    assert (checkout / "link").readlink() == Path("a.txt")
    assert (checkout / "run.sh").stat().st_mode & 0o111
    snapshots.lay_over(new.tree, checkout, ["tests", "src/b.py", "link", "nowhere/x"])
    assert (checkout / "tests/new.py").read_text() == "t\n"
    assert (checkout / "src/b.py").read_text() == "2\n"
    assert (checkout / "a.txt").read_text() == "a\n"
    assert not (checkout / "link").is_symlink()


@pytest.mark.parametrize("word", ["", "--output=/dev/null", f"{'a' * 40}^"])
def test_what_is_no_id_does_not_reach_git(project: Path, tmp_path: Path, word: str) -> None:
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    for ask in (
        lambda: snapshots.changes(taken.tree, word),
        lambda: snapshots.diff(word, taken.tree),
        lambda: snapshots.read(word, "a.txt", 9),
        lambda: snapshots.files(word),
        lambda: snapshots.lay_out(word, tmp_path / "checkout"),
        lambda: snapshots.restore(word),
    ):
        with pytest.raises(GitError, match="is not the id of a snapshot"):
            ask()


def test_laying_over_replaces_whatever_is_in_the_way(project: Path, tmp_path: Path) -> None:
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    checkout, outside = tmp_path / "checkout", tmp_path / "outside"
    write(outside, {"b.py": "mine\n"})
    checkout.mkdir()
    (checkout / "src").symlink_to(outside)
    write(checkout, {"a.txt/deep/file": "in the way\n"})
    snapshots.lay_over(taken.tree, checkout, ["src/b.py", "a.txt"])
    assert (checkout / "src/b.py").read_text() == "b\n"
    assert (checkout / "a.txt").read_text() == "a\n"
    assert (outside / "b.py").read_text() == "mine\n"


def test_restoring_brings_back_and_removes_but_leaves_ignored_files(project: Path) -> None:
    write(project, {"untracked.txt": "mine\n"})
    before = fingerprint(project)
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    write(project, {"a.txt": "2\n", "made/deep/new.txt": "new\n", "made.log": "ignored\n"})
    (project / "src/b.py").unlink()
    (project / "src").rmdir()
    (project / "untracked.txt").unlink()
    (project / ".gitignore").chmod(0o755)
    assert snapshots.restore(taken.tree, ["made"]) == ("made/deep/new.txt",)
    others = (".gitignore", "a.txt", "src/b.py", "untracked.txt")
    assert snapshots.restore(taken.tree) == others
    (project / "made.log").unlink()
    assert fingerprint(project) == before
    assert snapshots.restore(taken.tree) == ()


def test_a_work_folder_that_was_removed_is_restored(project: Path) -> None:
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    snapshots.keep_for_good()
    assert not (snapshots.path / "objects/info/alternates").exists()
    shutil.rmtree(project)
    with pytest.raises(GitError, match="not there any more"):
        snapshots.take(1, "programmer")
    assert set(snapshots.restore(taken.tree)) == {".gitignore", "a.txt", "src/b.py"}
    assert (project / "src/b.py").read_text() == "b\n"


def test_what_cannot_be_brought_back_costs_nothing_that_is_there(project: Path) -> None:
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    write(project, {"a.txt": "2\n", "made.txt": "mine\n"})
    # What the store borrows until it is kept for good
    lost = git(project, "rev-parse", "HEAD:a.txt")
    (project / ".git/objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(GitError):
        snapshots.restore(old.tree)
    assert (project / "made.txt").read_text() == "mine\n"
    assert (project / "a.txt").read_text() == "2\n"
