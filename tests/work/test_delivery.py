"""A branch comes into the user's checkout, in whatever state that is: nothing of theirs is lost."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import GitError, RunError
from cli_agent_orchestrator.work.changes import LeftOut
from cli_agent_orchestrator.work.delivery import MergeResult, apply, discard
from cli_agent_orchestrator.work.worktree import OWN_REPOSITORY, Worktree
from tests.work.projects import (
    AUTHOR,
    Project,
    contents,
    git,
    make_hostile,
    make_project,
    with_other_git,
    write,
)

BRANCH = "cao/r1"
FILES = {
    "touched.txt": "1\n2\n3\n4\n5\n",
    "gone.txt": "gone\n",
    "mine.txt": "mine\n",
    "folder/inner.txt": "inner\n",
    ".gitignore": "*.log\n",
}
WORK = {"touched.txt": "1\n2\n3\n4\nwork\n", "new.txt": "new\n", "deep/er/new.txt": "deep\n"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", FILES)


def worked(project: Project, files: dict[str, str] | None = None) -> Worktree:
    """Let a run change files and commit them."""
    worktree, _ = project.tree(project.folder.parent / "state/worktrees/r1")
    write(worktree.folder, WORK if files is None else files)
    if files is None:
        (worktree.folder / "gone.txt").unlink()
        (worktree.folder / "link").symlink_to("touched.txt")
        write(worktree.folder, {"run.sh": "#!/bin/sh\n"})
        (worktree.folder / "run.sh").chmod(0o755)
    return replace(worktree, tip=worktree.commit("work\n", AUTHOR).id)


def moved_on(project: Project) -> None:
    """Let the user commit something else meanwhile."""
    project.commit({"other.txt": "other\n"}, "meanwhile")


def delivered(
    project: Project, onto: str = "main", environ: Mapping[str, str] = os.environ
) -> MergeResult:
    tree = Worktree(project.repository(), project.folder, environ, branch=BRANCH, onto=onto)
    return apply(tree, AUTHOR)


def refused(project: Project, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return why nothing was applied, and the files that are in the way."""
    with pytest.raises(RunError, match="nothing was applied: ") as caught:
        delivered(project, environ=environ)
    return str(caught.value).split("\n  ")


def arrived(project: Project) -> None:
    """Check that all of the work is there."""
    for name, text in WORK.items():
        assert (project.folder / name).read_text() == text
    assert not (project.folder / "gone.txt").exists()
    assert (project.folder / "link").is_symlink()
    assert os.access(project.folder / "run.sh", os.X_OK)
    assert project.git("merge-base", "--is-ancestor", BRANCH, "main") == ""


@dataclass(frozen=True)
class State:
    """What the user has done, and what must come of it."""

    do: Callable[[Project], object]
    in_the_way: tuple[str, ...] = ()
    reason: str = ""


def change_all_elsewhere(project: Project) -> None:
    """Change, stage, remove, add and ignore what the work has nothing to do with."""
    project.write({"mine.txt": "staged\n"})
    project.git("add", "mine.txt")
    project.git("rm", "-q", "folder/inner.txt")
    project.write({"mine.txt": "changed\n", "deep/own.txt": "own\n", "x.log": "log\n"})
    (project.folder / "touched.txt").touch()
    (project.folder / "new.txt").mkdir()


def hide(project: Project) -> None:
    project.git("update-index", "--assume-unchanged", "touched.txt")
    project.write({"touched.txt": "hidden\n"})


def link_in_place_of_a_folder(project: Project) -> None:
    (project.folder / "elsewhere").mkdir()
    (project.folder / "deep").symlink_to("elsewhere")


def begin_merge(project: Project) -> None:
    project.git("switch", "-q", "-c", "side", "HEAD")
    project.commit({"mine.txt": "side\n"})
    project.git("switch", "-q", "main")
    project.commit({"mine.txt": "main\n"})
    project.git("merge", "side", fails=True)


def pop_with_conflict(project: Project) -> None:
    """Leave a conflict though nothing is under way, as a stash does."""
    # Not where the work has changed it.
    project.write({"touched.txt": "stashed\n2\n3\n4\n5\n"})
    project.git("stash", "-q")
    project.commit({"touched.txt": "committed\n2\n3\n4\n5\n"})
    project.git("stash", "pop", fails=True)


STATES = {
    "clean": State(lambda p: None),
    "changes elsewhere": State(change_all_elsewhere),
    "a change in a touched file": State(
        lambda p: p.write({"touched.txt": "x\n"}), ("touched.txt",)
    ),
    "a touched file is gone": State(
        lambda p: (p.folder / "touched.txt").unlink(), ("touched.txt",)
    ),
    "a change that git is told not to see": State(hide, ("touched.txt",)),
    "an untracked file in the way": State(lambda p: p.write({"new.txt": "own\n"}), ("new.txt",)),
    "a link in the place of a folder": State(link_in_place_of_a_folder, ("deep",)),
    "an ignored file in the way": State(
        lambda p: p.write({".git/info/exclude": "new.txt\n", "new.txt": "own\n"}), ("new.txt",)
    ),
    "an ignored folder in the way": State(
        lambda p: p.write({".git/info/exclude": "*\n", "new.txt/own": "own\n"}), ("new.txt",)
    ),
    "another branch": State(
        lambda p: p.git("switch", "-q", "-c", "other"), reason="git switch main"
    ),
    "no branch": State(lambda p: p.git("checkout", "-q", "--detach"), reason="no branch"),
    "a conflict that a stash has left": State(pop_with_conflict, reason="unmerged"),
    "in the middle of a merge": State(begin_merge, reason="a merge is under way"),
    "a branch that cannot be moved": State(
        lambda p: p.write({".git/refs/heads/main.lock": ""}), reason="main.lock"
    ),
}


# The checkout is moved by a fast-forward in any case; a merge is tried in some states, too.
MERGED = ("clean", "changes elsewhere", "a change in a touched file")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "meanwhile"), [*((name, False) for name in STATES), *((name, True) for name in MERGED)]
)
def test_in_every_state_of_the_checkout_nothing_is_lost(
    project: Project, name: str, meanwhile: bool
) -> None:
    state = STATES[name]
    worked(project)
    if meanwhile:
        moved_on(project)
    state.do(project)
    before = project.state()
    was = project.git("rev-parse", "HEAD")
    was_staged = project.git("diff", "--cached", "--raw", "--no-abbrev")
    mine = contents(project.folder)
    if state.in_the_way or state.reason:
        reason, *files = refused(project)
        assert tuple(files) == state.in_the_way
        assert state.reason in reason
        assert project.state() == before
        return
    result = delivered(project)
    assert result == MergeResult(
        "merged" if meanwhile else "fast-forwarded",
        project.git("rev-parse", "HEAD"),
    )
    arrived(project)
    assert project.git("rev-parse", "ORIG_HEAD") == was
    after = contents(project.folder)
    work = {*WORK, "gone.txt", "link", "run.sh"}
    assert {name: data for name, data in after.items() if name not in work} == {
        name: data for name, data in mine.items() if name not in work
    }
    staged = project.git("diff", "--cached", "--raw", "--no-abbrev")
    assert staged == was_staged
    assert project.state()["config"] == before["config"]
    assert project.git("log", "-1", "--format=%an|%B") == (
        "Ada|Merge branch 'cao/r1'\n" if meanwhile else "Ada|work\n"
    )
    assert len(project.git("log", "-1", "--format=%P").split()) == (2 if meanwhile else 1)


def test_a_conflict_is_named_and_nothing_is_touched(project: Project) -> None:
    worked(project, {"touched.txt": "work\n", "folder/inner.txt": "work\n", "new\nline": "work\n"})
    project.commit({"touched.txt": "user\n", "folder/inner.txt": "user\n", "new\nline": "user\n"})
    project.write({"mine.txt": "changed\n"})
    before = project.state()
    reason, *files = refused(project)
    assert files == ["folder/inner.txt", "new\N{REPLACEMENT CHARACTER}line", "touched.txt"]
    assert "git merge cao/r1" in reason
    assert project.state() == before


def test_what_is_there_already_is_not_brought_again(project: Project) -> None:
    worked(project)
    first = delivered(project)
    assert first.kind == "fast-forwarded"
    moved_on(project)
    before = project.state()
    assert delivered(project) == MergeResult("already there", project.git("rev-parse", "HEAD"))
    assert project.state() == before


def test_a_folder_that_becomes_a_file_takes_nothing_unknown_with_it(project: Project) -> None:
    worktree = worked(project, {})
    shutil.rmtree(worktree.folder / "folder")
    write(worktree.folder, {"folder": "a file now\n"})
    worktree.commit("work\n", AUTHOR)
    project.write({"folder/made.log": "log\n"})
    before = project.state()
    assert refused(project)[1:] == ["folder"]
    assert project.state() == before
    (project.folder / "folder/made.log").unlink()
    assert delivered(project).kind == "fast-forwarded"
    assert (project.folder / "folder").read_text() == "a file now\n"


def test_settings_of_the_repository_do_not_change_the_way(project: Project) -> None:
    for key, value in {
        "merge.ff": "false",
        "merge.autoStash": "true",
        "pull.twohead": "ours",
        "merge.log": "true",
        "merge.verifySignatures": "true",
        "branch.main.mergeOptions": "--squash",
    }.items():
        project.git("config", key, value)
    worked(project)
    moved_on(project)
    project.write({"mine.txt": "changed\n"})
    assert delivered(project).kind == "merged"
    arrived(project)
    assert (project.folder / "mine.txt").read_text() == "changed\n"


@pytest.mark.parametrize("meanwhile", [False, True])
def test_nothing_of_a_hostile_repository_runs(
    project: Project, tmp_path: Path, meanwhile: bool
) -> None:
    project.commit({".gitattributes": "*.txt filter=evil diff=evil merge=evil\n"})
    worktree = worked(project)
    if meanwhile:
        moved_on(project)
    make_hostile(project, tmp_path / "marks")
    os.utime(project.folder / "touched.txt", (1, 1))
    result = delivered(project)
    assert list((tmp_path / "marks").iterdir()) == []
    assert result.kind == ("merged" if meanwhile else "fast-forwarded")
    assert len(result.remarks) == 1
    assert result.remarks[0].startswith("arrived as stored, not through the filter evil: ")
    assert discarded(worktree) == ""
    assert list((tmp_path / "marks").iterdir()) == []


def test_a_merge_driver_does_not_run_and_leaves_the_conflict_to_people(
    project: Project, tmp_path: Path
) -> None:
    project.commit({".gitattributes": "*.txt merge=evil\n"})
    worked(project)
    project.commit({"touched.txt": "0\n2\n3\n4\n5\n"})
    make_hostile(project, tmp_path / "marks")
    assert refused(project)[1:] == ["touched.txt"]
    assert list((tmp_path / "marks").iterdir()) == []


def test_users_of_large_files_are_told(project: Project) -> None:
    project.commit({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    project.git("config", "filter.lfs.clean", "git-lfs clean -- %f")
    project.git("config", "filter.lfs.required", "true")
    worktree, _ = project.tree(project.folder.parent / "r1")
    write(worktree.folder, {"x.bin": "large\n"})
    commit = worktree.commit("work\n", AUTHOR)
    assert commit.remarks == ("stored as they are, not through the filter lfs: x.bin",)
    [remark] = delivered(project).remarks
    assert remark.startswith("arrived as stored, not through the filter lfs (git lfs pull ")
    assert remark.endswith(": x.bin")


def test_an_old_git_brings_forward_and_does_not_merge(project: Project, tmp_path: Path) -> None:
    worked(project)
    moved_on(project)
    before = project.state()
    environ = with_other_git(tmp_path / "bin", "*merge-tree*) exit 129;;")
    [reason] = refused(project, environ=environ)
    assert reason.endswith("needs a merge: git merge cao/r1")
    assert project.state() == before
    project.git("reset", "-q", "--keep", "HEAD~")
    assert delivered(project, environ=environ).kind == "fast-forwarded"


def test_histories_without_a_common_commit_are_not_merged(project: Project) -> None:
    project.git("checkout", "-q", "--orphan", BRANCH)
    project.git("commit", "-q", "-m", "another root")
    project.git("switch", "-q", "main")
    moved_on(project)
    before = project.state()
    with pytest.raises(GitError, match="unrelated histories"):
        delivered(project)
    assert project.state() == before


# --- removing ---


def discarded(worktree: Worktree) -> str:
    return discard(worktree, worktree.branch_tip(), ())


def test_work_that_is_kept_can_be_discarded(project: Project) -> None:
    before = project.state()
    worktree = worked(project)
    write(worktree.folder, {"new.txt": "more\n", "made.log": "ignored\n"})
    write(worktree.folder, {"cache.log/x/y.log": "y"})
    (worktree.folder / "cache.log/x").chmod(0o500)
    (worktree.folder / "mine.txt").unlink()
    (worktree.folder / "other").symlink_to("new.txt")
    assert discarded(worktree) == ""
    assert not worktree.folder.exists()
    assert project.git("worktree", "list").count("\n") == 0
    assert project.git("branch", "--list", "cao/*") == ""
    assert project.state() == before
    assert discarded(worktree) == "", "a second time does no harm"


def commit(worktree: Worktree, tmp_path: Path) -> None:
    write(worktree.folder, {"new.txt": "more\n"})
    worktree.commit("more\n", AUTHOR)


def nest(worktree: Worktree, tmp_path: Path) -> None:
    make_project(worktree.folder / "nested")


def lock(worktree: Worktree, tmp_path: Path) -> None:
    git(worktree.repository.top, "worktree", "lock", str(worktree.folder))


def check_out(worktree: Worktree, tmp_path: Path) -> None:
    git(worktree.repository.top, "worktree", "add", "-q", "-f", str(tmp_path / "mine"), BRANCH)


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        (commit, "commits that no snapshot has"),
        (nest, "no snapshot has as they are: nested"),
        (lock, "git worktree unlock"),
        (check_out, "is checked out in"),
    ],
)
def test_what_no_snapshot_has_and_what_is_in_use_is_not_discarded(
    project: Project, tmp_path: Path, do: Callable[[Worktree, Path], None], reason: str
) -> None:
    worktree = worked(project)
    tip = worktree.branch_tip()
    do(worktree, tmp_path)
    left_out = [LeftOut("nested", OWN_REPOSITORY), LeftOut("elsewhere", OWN_REPOSITORY)]
    assert reason in discard(worktree, tip, left_out)
    assert not worktree.faults()
    assert (worktree.folder / "touched.txt").exists()


def test_a_broken_work_tree_can_be_discarded(project: Project, tmp_path: Path) -> None:
    worktree = worked(project)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/x").write_text("x")
    shutil.rmtree(worktree.folder)
    worktree.folder.symlink_to(tmp_path / "precious")
    assert discarded(worktree) == ""
    assert (tmp_path / "precious/x").exists()
    assert not worktree.folder.is_symlink()
    assert project.git("worktree", "list").count("\n") == 0


def test_a_full_disk_leaves_the_checkout_as_it_was(small_disk: Path) -> None:
    texts = {f"f{number}.txt": f"{number}" * 200_000 for number in range(3)}
    project = make_project(small_disk / "project", {**FILES, **texts})
    changed = {name: text.replace(text[0], "x") for name, text in texts.items()}
    worked(project, {**changed, "g1.txt": "y" * 300_000, "g2.txt": "z" * 300_000})
    filler = small_disk / "filler"
    space = os.statvfs(small_disk)
    filler.write_bytes(bytes(space.f_bavail * space.f_frsize - 400_000))
    before = project.state()
    assert "unable to write file" in "".join(refused(project))
    assert project.state() == before
    filler.unlink()
    assert delivered(project).kind == "fast-forwarded"
    assert (project.folder / "g2.txt").stat().st_size == 300_000
