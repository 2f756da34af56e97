"""Files that are held back, on real repositories: in no work tree, no commit and no snapshot."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import GitError, UsageError
from cli_agent_orchestrator.work.held_back import (
    MOST_BYTES,
    HeldBack,
    find,
    in_their_place,
    is_held,
)
from cli_agent_orchestrator.work.worktree import Worktree
from tests.work.projects import AUTHOR, Project, contents, make_project, write, write_empty

HELD = ("tests/acceptance", "scenario.md")
FILES = {
    "a.txt": "a\n",
    "tests/test_a.py": "a\n",
    "tests/acceptance/test_x.py": "x\n",
    "tests/acceptance/deep/data": "data\n",
    "scenario.md": "scenario\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", FILES)


@pytest.fixture
def worktree(project: Project, tmp_path: Path) -> Worktree:
    return project.tree(tmp_path / "state/worktrees/r1", held_back=HELD)[0]


def files_of(folder: Path) -> set[str]:
    return {name for name in contents(folder) if name != ".git"}


@pytest.mark.parametrize("path", ["scenario.md", "tests/acceptance/", "tests/acceptance/x"])
def test_what_is_below_a_path_is_held_and_nothing_that_begins_like_it(path: str) -> None:
    assert is_held(path, HELD)
    assert not is_held(f"a/{path}", HELD)
    assert not is_held("tests/acceptance.py", HELD)


def test_a_work_tree_does_not_have_them_and_git_does_not_miss_them(
    project: Project, worktree: Worktree
) -> None:
    assert files_of(worktree.folder) == {"a.txt", "tests/test_a.py"}
    assert project.git("status", "--porcelain", folder=worktree.folder) == ""
    # What agents do to take back their own changes.
    write(worktree.folder, {"a.txt": "changed\n"})
    project.git("checkout", "-q", ".", folder=worktree.folder)
    project.git("reset", "-q", "--hard", folder=worktree.folder)
    assert files_of(worktree.folder) == {"a.txt", "tests/test_a.py"}
    assert worktree.uncommitted() == ()


def test_they_are_not_copied_with_what_is_ignored(project: Project, tmp_path: Path) -> None:
    project.commit({".worktreeinclude": "*.env\n", ".gitignore": "*.env\n"})
    project.write({"x.env": "x\n", "tests/acceptance/y.env": "y\n"})
    made, _ = project.tree(tmp_path / "tree", held_back=HELD)
    assert made.included == ("x.env",)


def in_the_work_tree(project: Project, folder: Path) -> None:
    write(folder, {"tests/acceptance/test_x.py": "mine\n", "tests/acceptance/new.py": "mine\n"})


def in_a_commit(project: Project, folder: Path) -> None:
    in_the_work_tree(project, folder)
    project.git("update-index", "--no-skip-worktree", "scenario.md", folder=folder)
    project.git("add", "-A", "-f", folder=folder)
    project.git("commit", "-q", "-m", "mine", folder=folder)


def a_file_for_their_folder(project: Project, folder: Path) -> None:
    shutil.rmtree(folder / "tests")
    write(folder, {"tests": "mine\n"})


@pytest.mark.parametrize("act", [in_the_work_tree, in_a_commit, a_file_for_their_folder])
def test_a_commit_has_there_what_the_base_has(
    project: Project, worktree: Worktree, act: Callable[[Project, Path], None]
) -> None:
    act(project, worktree.folder)
    write(worktree.folder, {"new.txt": "new\n"})
    done = worktree.commit("work\n", AUTHOR)
    assert project.git("diff", "--name-status", worktree.tip, done.id, "--", *HELD) == ""
    assert project.git("show", f"{done.id}:new.txt") == "new"
    after = replace(worktree, tip=done.id)
    assert not after.faults()
    assert not any(is_held(path, HELD) for path in after.uncommitted())


@pytest.mark.parametrize("lost", [".git", "."])
def test_a_work_tree_is_mended_without_them(
    project: Project, worktree: Worktree, lost: str
) -> None:
    if lost == ".":
        shutil.rmtree(worktree.folder)
    else:
        (worktree.folder / lost).unlink()
    assert worktree.repair()
    assert files_of(worktree.folder) == {"a.txt", "tests/test_a.py"}
    assert project.git("status", "--porcelain", folder=worktree.folder) == ""


def test_no_snapshot_has_them_and_none_tells_of_them(worktree: Worktree, tmp_path: Path) -> None:
    snapshots = worktree.snapshots(tmp_path / "store")
    start = snapshots.take(0, "start")
    assert snapshots.files(start.tree) == ["a.txt", "tests/test_a.py"]
    write(worktree.folder, {"tests/acceptance/test_x.py": "mine\n", "a.txt": "new\n"})
    after = snapshots.take(1, "programmer")
    assert [one.path for one in snapshots.changes(start.tree, after.tree)] == ["a.txt"]
    assert b"mine" not in snapshots.diff(start.tree, after.tree)
    assert snapshots.restore(start.tree) == ("a.txt",)
    assert (worktree.folder / "tests/acceptance/test_x.py").read_text() == "mine\n"


class TestKeeping:
    def test_they_are_taken_as_they_are_and_laid_over_all_others(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.write({"scenario.md": "not committed\n", "tests/acceptance/new.sh": "#!/bin/sh\n"})
        (project.folder / "tests/acceptance/new.sh").chmod(0o755)
        (project.folder / "tests/acceptance/link").symlink_to("../test_a.py")
        held = HeldBack(Folder(tmp_path, ("run", "held_back"), private=True), HELD)
        held.take(project.folder)
        shutil.rmtree(project.folder)
        checkout = tmp_path / "checkout"
        write(checkout, {"tests": "a file\n", "scenario.md": "mine\n", "a.txt": "a\n"})
        held.lay_over(checkout)
        assert files_of(checkout) == {
            "a.txt", "scenario.md", "tests/acceptance/deep/data", "tests/acceptance/link",
            "tests/acceptance/new.sh", "tests/acceptance/test_x.py",
        }  # fmt: skip
        assert (checkout / "scenario.md").read_text() == "not committed\n"
        assert os.access(checkout / "tests/acceptance/new.sh", os.X_OK)
        assert str((checkout / "tests/acceptance/link").readlink()) == "../test_a.py"

    def test_without_them_there_is_no_checkout(self, tmp_path: Path) -> None:
        (tmp_path / "checkout").mkdir()
        held = HeldBack(Folder(tmp_path, ("gone",)), HELD)
        with pytest.raises(GitError, match="are gone from"):
            held.lay_over(tmp_path / "checkout")

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("missing", "there is no file missing in"),
            ("empty", "there is no file empty in"),
            ("a.txt/x", "a.txt is a regular file, not a folder"),
            ("link", "link is no regular file"),
            ("pipes", "pipes/pipe is no regular file"),
            ("behind/x", "is a symbolic link, not a folder"),
            ("other", "other/.git/HEAD belongs to a repository of its own"),
        ],
    )
    def test_what_cannot_be_held_back_is_named(
        self, project: Project, path: str, said: str
    ) -> None:
        folder = project.folder
        (folder / "empty/inside").mkdir(parents=True)
        (folder / "link").symlink_to("a.txt")
        (folder / "behind").symlink_to("tests")
        (folder / "pipes").mkdir()
        os.mkfifo(folder / "pipes/pipe")
        write(folder, {"other/.git/HEAD": "x"})
        with pytest.raises(UsageError, match="held_back: ") as caught:
            find(folder, (path,))
        assert said in str(caught.value)

    def test_too_many_files_are_refused(self, project: Project) -> None:
        assert len(find(project.folder, HELD, most_files=3)) == 3
        with pytest.raises(UsageError, match="there are 3 files"):
            find(project.folder, HELD, most_files=2)

        write_empty(project.folder / "large", MOST_BYTES)
        assert find(project.folder, ("large",)) == ("large",)
        with pytest.raises(UsageError, match=r"there are 2 files \(256 MB\)"):
            find(project.folder, ("large", "scenario.md"))

    def test_a_file_that_is_named_twice_is_taken_once(self, project: Project) -> None:
        found = find(project.folder, ("tests/test_a.py", "tests", "tests/acceptance"))
        assert len(found) == len(set(found)) == 3


def test_what_lies_in_their_place_is_noticed(worktree: Worktree) -> None:
    assert in_their_place(worktree.folder, HELD) == ()
    write(worktree.folder, {"tests/acceptance/y/z": "z\n", "scenario.md": "mine\n"})
    assert in_their_place(worktree.folder, HELD) == ("tests/acceptance/y/z", "scenario.md")
    shutil.rmtree(worktree.folder / "tests")
    (worktree.folder / "tests").symlink_to("/")
    assert in_their_place(worktree.folder, HELD) == ("scenario.md",)
