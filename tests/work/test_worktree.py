"""A work tree of a run's own, on real repositories: made, committed, broken by others, mended."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import GitError, GitFailed
from cli_agent_orchestrator.work.changes import LeftOut
from cli_agent_orchestrator.work.git import user_identity
from cli_agent_orchestrator.work.snapshots import LARGEST_FILE
from cli_agent_orchestrator.work.worktree import PRIVATE, Worktree
from tests.work.projects import (
    AUTHOR,
    Project,
    contents,
    make_hostile,
    make_project,
    write,
    write_empty,
)

BRANCH = "cao/r1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state of the user"


def made(project: Project, state: Path, run: str = "r1") -> Worktree:
    return project.tree(state / "worktrees" / run, f"cao/{run}")[0]


def names(project: Project, commit: str) -> list[str]:
    return project.git("ls-tree", "-r", "--name-only", "-z", commit).rstrip("\0").split("\0")


def changed(project: Project, commit: str, since: str = "main") -> list[str]:
    return project.git("diff-tree", "-r", "--name-only", since, commit).split("\n")


def test_a_work_tree_has_the_files_of_a_commit_and_a_branch_of_its_own(
    project: Project, state: Path
) -> None:
    project.write({"a.txt": "changed\n", "new.txt": "new\n"})
    before = project.state()
    worktree = made(project, state)
    assert worktree.exists
    assert not worktree.faults()
    assert {name for name in contents(worktree.folder) if name != ".git"} == {
        "a.txt", "b.txt", "src/c.txt",
    }  # fmt: skip
    assert (worktree.folder / "a.txt").read_text() == "a\n"
    assert project.git("status", "--porcelain", "--branch", folder=worktree.folder) == "## cao/r1"
    assert project.git("rev-parse", BRANCH) == project.git("rev-parse", "main")
    assert project.state() == before
    assert "locked" not in project.git("worktree", "list", "--porcelain")


def test_the_folder_of_a_work_tree_may_have_any_name(project: Project, tmp_path: Path) -> None:
    worktree = made(project, tmp_path / "a b\tc", "name with spaces".replace(" ", "-"))
    other, _ = project.tree(tmp_path / "o o" / "x y", "cao/odd")
    assert not worktree.faults()
    assert not other.faults()
    assert other.name == "x-y"
    write(other.folder, {"new\nline": "1\n", 'quo"te': "2\n", "ümlaut": "3\n"})
    commit = other.commit("odd names\n", AUTHOR)
    assert {"new\nline", 'quo"te', "ümlaut"} <= set(names(project, commit.id))


def take_branch(project: Project, folder: Path) -> str:
    project.git("branch", BRANCH)
    return "exists already"


def take_folder(project: Project, folder: Path) -> str:
    write(folder, {"x": "mine"})
    return "already; move it away"


def lose_a_file(project: Project, folder: Path) -> str:
    blob = project.git("rev-parse", "HEAD:b.txt")
    (project.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    return blob


@pytest.mark.parametrize("act", [take_branch, take_folder, lose_a_file])
def test_one_that_cannot_be_made_leaves_all_as_it_was(
    project: Project, state: Path, act: Callable[[Project, Path], str]
) -> None:
    folder = state / "worktrees/r1"
    said = act(project, folder)
    before = (project.git("branch", "--list"), contents(folder), folder.exists())
    with pytest.raises(GitError, match=said):
        made(project, state)
    assert (project.git("branch", "--list"), contents(folder), folder.exists()) == before
    assert project.git("worktree", "list").count("\n") == 0


def test_several_runs_work_in_one_repository_at_once(project: Project, state: Path) -> None:
    def work(number: int) -> str:
        worktree = made(project, state, f"r{number}")
        write(worktree.folder, {f"{number}.txt": "1\n"})
        return worktree.commit(f"{number}\n", AUTHOR).id

    with ThreadPoolExecutor(4) as pool:
        commits = list(pool.map(work, range(4)))
    assert [project.git("rev-parse", f"cao/r{number}") for number in range(4)] == commits
    assert [names(project, commit)[0] for commit in commits] == [f"{n}.txt" for n in range(4)]


# --- files that no commit has ---


def test_files_that_the_list_names_are_copied(project: Project, state: Path) -> None:
    project.commit({".gitignore": ".env*\nnode_modules/\n*.log\n", "conf.json": "{}\n"})
    project.write(
        {
            ".worktreeinclude": "# secrets\n.env*\n!.env.production\n/local/\nconf.json\n*.key\n",
            ".env": "A=1\n",
            ".env.production": "B=1\n",
            "sub/.env.local": "C=1\n",
            "local/x": "x\n",
            "run.key": "k\n",
            "node_modules/m.js": "m\n",
            "build.log": "l\n",
            "conf.json": "{1}\n",
        }
    )
    (project.folder / ".env").chmod(0o600)
    (project.folder / "run.key").chmod(0o755)
    worktree = made(project, state)
    assert set(worktree.included) == {".env", "sub/.env.local", "local/x", "run.key"}
    there = contents(worktree.folder)
    assert there[".env"] == (0o600, b"A=1\n")
    assert there["run.key"] == (0o755, b"k\n")
    assert (worktree.folder / "conf.json").read_text() == "{}\n", "what is committed stays as it is"
    assert not {"build.log", "node_modules/m.js", ".env.production"} & set(there)


def test_links_are_not_copied_and_nothing_from_elsewhere(
    project: Project, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/key").write_text("secret")
    project.write(
        {".worktreeinclude": "*\n!.worktreeinclude\n../secret\n/etc/passwd\n", "x": "x\n"}
    )
    (project.folder / "link").symlink_to(tmp_path / "secret")
    (project.folder / "folder").symlink_to(tmp_path / "folder")
    os.mkfifo(project.folder / "pipe")
    worktree, remarks = project.tree(state / "worktrees/r1")
    assert worktree.included == ("x",)
    assert [remark.partition(":")[0] for remark in remarks] == [
        "folder was not copied", "link was not copied",
    ]  # fmt: skip
    assert "folder" not in contents(worktree.folder)


def test_a_list_that_is_a_link_is_not_followed(project: Project, state: Path) -> None:
    project.write({"patterns": "*\n", "x": "x\n"})
    (project.folder / ".worktreeinclude").symlink_to("patterns")
    worktree, (remark,) = project.tree(state / "worktrees/r1")
    assert worktree.included == ()
    assert remark.startswith(".worktreeinclude was not followed: it is a symbolic link")


# --- committing ---


def test_everything_is_committed_in_the_name_of_the_user(project: Project, state: Path) -> None:
    worktree = made(project, state)
    before = project.state()
    write(worktree.folder, {"a.txt": "2\n", "new/x.sh": "#!/bin/sh\n"})
    (worktree.folder / "new/x.sh").chmod(0o755)
    (worktree.folder / "b.txt").unlink()
    (worktree.folder / "link").symlink_to("/etc/passwd")
    shutil.rmtree(worktree.folder / "src")
    write(worktree.folder, {"src": "now a file\n"})
    identity = user_identity(worktree.repository, os.environ)
    commit = worktree.commit("Subject\n\nCao-Run: r1\n", identity)
    assert commit.left_out == ()
    assert commit.remarks == ()
    assert project.git("rev-parse", BRANCH) == commit.id
    assert project.git("show", "-s", "--format=%an %ae %cn|%B", commit.id) == (
        "Ada ada@example.org Ada|Subject\n\nCao-Run: r1\n"
    )
    assert project.git("diff-tree", "-r", "--raw", "--abbrev=4", "main", commit.id).split("\n") == [
        ":100644 100644 7898 0cfb M\ta.txt",
        ":100644 000000 6178 0000 D\tb.txt",
        ":000000 120000 0000 3594 A\tlink",
        ":000000 100755 0000 1a24 A\tnew/x.sh",
        ":000000 100644 0000 3f89 A\tsrc",
        ":100644 000000 f2ad 0000 D\tsrc/c.txt",
    ]
    assert project.git("status", "--porcelain", folder=worktree.folder) == ""
    assert project.state() == before
    assert list((state / "worktrees").iterdir()) == [worktree.folder], "nothing is left beside it"


def test_what_we_and_sandboxes_leave_behind_is_not_committed(project: Project, state: Path) -> None:
    project.commit({"sub/x": "x\n"})
    project.write({"sub/y": ""})
    repository = replace(project.repository(), prefix="sub")
    worktree, _ = Worktree(
        repository, state / "r1", os.environ, branch=BRANCH, tip=repository.head
    ).make()
    for start in ("", "sub/"):
        write(
            worktree.folder,
            {f"{start}.tmp/state.json": "{}", f"{start}.codex": "", f"{start}x.tmp/y": "y"},
        )
        (worktree.folder / f"{start}.claude/.cc-writes").mkdir(parents=True)
        write(worktree.folder, {f"{start}.claude/settings": "1"})
    commit = worktree.commit("one\n", AUTHOR)
    added = [".claude/settings", "sub/.claude/settings", "sub/x.tmp/y", "x.tmp/y"]
    assert changed(project, commit.id) == added
    assert worktree.uncommitted() == ()
    write(worktree.folder, {".codex": "now it says something"})
    assert worktree.uncommitted() == (".codex",)
    assert ".codex" in names(project, worktree.commit("two\n", AUTHOR).id)


def test_an_index_of_an_agent_hides_nothing(project: Project, state: Path) -> None:
    worktree = made(project, state)
    git = project.git
    git("update-index", "--assume-unchanged", "a.txt", folder=worktree.folder)
    git("update-index", "--skip-worktree", "b.txt", folder=worktree.folder)
    write(worktree.folder, {"a.txt": "x\n", "b.txt": "y\n", "half.txt": "z\n"})
    git("add", "-N", "half.txt", folder=worktree.folder)
    commit = worktree.commit("one\n", AUTHOR)
    assert changed(project, commit.id) == ["a.txt", "b.txt", "half.txt"]
    assert git("ls-files", "-v", folder=worktree.folder) == (
        "H a.txt\nH b.txt\nH half.txt\nH src/c.txt"
    )


def test_repositories_within_and_odd_files_are_left_out_and_named(
    project: Project, state: Path
) -> None:
    worktree = made(project, state)
    write_empty(worktree.folder / "large", LARGEST_FILE + 1)
    write(worktree.folder, {"ok": "ok", "empty-repo/x": "x"})
    make_project(worktree.folder / "nested")
    project.git("init", "-q", folder=worktree.folder / "empty-repo")
    project.git("init", "-q", folder=worktree.folder / "src")
    write(worktree.folder, {"src/c.txt": "2\n", "src/d.txt": "d\n"})
    (worktree.folder / "b.txt").unlink()
    os.mkfifo(worktree.folder / "b.txt")
    commit = worktree.commit("one\n", AUTHOR)
    left = {one.path: one.reason for one in commit.left_out}
    assert set(left) == {"large", "nested", "empty-repo", "b.txt"}
    assert left["nested"] == "a repository of its own"
    assert project.git("diff-tree", "-r", "--name-status", "main", commit.id) == (
        "A\tok\nM\tsrc/c.txt\nA\tsrc/d.txt"
    )


def test_submodules_are_empty_and_stay_at_their_commit(
    project: Project, state: Path, tmp_path: Path
) -> None:
    other = make_project(tmp_path / "other")
    project.git("submodule", "--quiet", "add", str(other.folder), "sub")
    project.git("commit", "-q", "-m", "submodule")
    worktree, remarks = project.tree(state / "r1")
    assert remarks == ("submodules are empty here: sub",)
    shutil.rmtree(worktree.folder / "sub")
    assert worktree.commit("one\n", AUTHOR).id == worktree.tip
    # An agent puts the very commit there, with a filter that git would run to compare files.
    project.git("clone", "-q", str(other.folder), "sub", folder=worktree.folder)
    evil = Project(worktree.folder / "sub")
    make_hostile(evil, tmp_path / "marks")
    write(evil.folder, {".git/info/attributes": "* filter=evil\n", "a.txt": "b\n"})
    write(worktree.folder, {"a.txt": "2\n"})
    commit = worktree.commit("one\n", AUTHOR)
    worktree.uncommitted()
    assert worktree.repair() == ()
    assert changed(project, commit.id) == ["a.txt"]
    assert list((tmp_path / "marks").iterdir()) == []


def test_nothing_of_a_hostile_repository_runs(
    project: Project, state: Path, tmp_path: Path
) -> None:
    attributes = "*.txt filter=evil diff=evil merge=evil\nsrc/* filter=other\nb.txt filter=linked\n"
    project.commit({".gitattributes": attributes, ".worktreeinclude": "x\n"})
    marks = tmp_path / "marks"
    make_hostile(project, marks)
    project.write({"x": "x"})
    worktree, remarks = project.tree(state / "r1")
    write(worktree.folder, {"a.txt": "2\n", "new.txt": "n\n", "src/d": "d\n"})
    commit = worktree.commit("one\n", AUTHOR)
    (worktree.folder / ".git").unlink()
    worktree.repair()
    shutil.rmtree(worktree.folder)
    worktree.repair()
    worktree.uncommitted()
    assert list(marks.iterdir()) == []
    assert len(remarks) == 3
    assert sorted(commit.remarks) == [
        "stored as they are, not through the filter evil: a.txt, new.txt",
        "stored as they are, not through the filter other: src/d",
    ]


def test_line_ends_are_as_the_project_wants_them(project: Project, state: Path) -> None:
    project.commit({".gitattributes": "*.bat text eol=crlf\n", "x.bat": "one\r\n"})
    worktree = made(project, state)
    assert (worktree.folder / "x.bat").read_bytes() == b"one\r\n"
    assert worktree.commit("nothing\n", AUTHOR).id == worktree.tip
    write(worktree.folder, {"x.bat": "two\r\n", "y": "crlf\r\n"})
    commit = worktree.commit("one\n", AUTHOR)
    assert project.git("cat-file", "blob", f"{commit.id}:x.bat") == "two"
    assert project.git("cat-file", "blob", f"{commit.id}:y") == "crlf\r"


def test_what_the_user_ignores_everywhere_is_ignored(
    project: Project, state: Path, tmp_path: Path
) -> None:
    write(
        tmp_path / "home",
        {".gitconfig": "[core]\nexcludesFile = ~/ignored\n", "ignored": "*.swp\n"},
    )
    environ = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    worktree = replace(made(project, state), environ=environ)
    write(worktree.folder, {"x.swp": "x", "y": "y"})
    commit = worktree.commit("one\n", AUTHOR)
    assert changed(project, commit.id) == ["y"]


# --- agents that commit ---


def test_commits_of_agents_stay_below_ours_and_are_told(project: Project, state: Path) -> None:
    project.commit({".gitignore": ".env\n"})
    project.write({".worktreeinclude": ".env\n", ".env": "A=1\n"})
    worktree = made(project, state)
    # An agent lets git see it; no commit of ours has it.
    write(worktree.folder, {".gitignore": "\n", ".env": "A=2\n"})
    first = worktree.commit("first\n", AUTHOR)
    assert first.left_out == (LeftOut(".env", PRIVATE),)
    assert ".env" not in names(project, first.id)
    worktree = replace(worktree, tip=first.id)
    write(worktree.folder, {"a.txt": "2\n"})
    project.git("add", "-f", ".env", "a.txt", folder=worktree.folder)
    project.git("commit", "-q", "-m", "mine", folder=worktree.folder)
    assert not worktree.faults()
    write(worktree.folder, {"b.txt": "3\n"})
    commit = worktree.commit("ours\n", AUTHOR)
    assert project.git("log", "--format=%s", f"main..{BRANCH}") == "ours\nmine\nfirst"
    assert commit.remarks == (
        "1 commits in cao/r1 were made by an agent; they stay",
        "an agent committed files that are yours alone: .env",
    )
    assert replace(worktree, tip=commit.id).commit("none\n", AUTHOR).remarks == ()


# --- broken by others ---

Harm = Callable[[Project, Worktree], object]


def switch_branch(project: Project, worktree: Worktree) -> None:
    project.git("switch", "-q", "-c", "own", folder=worktree.folder)
    project.git("commit", "-q", "--allow-empty", "-m", "own", folder=worktree.folder)


def rewrite_history(project: Project, worktree: Worktree) -> None:
    project.git("commit", "-q", "--amend", "-m", "rewritten", folder=worktree.folder)


def alias_branch(project: Project, worktree: Worktree) -> None:
    project.git("symbolic-ref", worktree.ref, "refs/heads/main")


def replace_by_repository(project: Project, worktree: Worktree) -> None:
    (worktree.folder / ".git").unlink()
    project.git("init", "-q", folder=worktree.folder)
    project.git("add", "-A", folder=worktree.folder)
    project.git("commit", "-q", "-m", "own", folder=worktree.folder)


def link_elsewhere(project: Project, worktree: Worktree) -> None:
    (worktree.folder / ".git").unlink()
    (worktree.folder / ".git").symlink_to(project.folder / ".git")


def delete_branch(project: Project, worktree: Worktree) -> None:
    project.git("update-ref", "-d", worktree.ref)


HARMS: dict[str, Harm] = {
    "its .git file is gone": lambda p, w: (w.folder / ".git").unlink(),
    "its .git file is a link": link_elsewhere,
    "its .git is a repository": replace_by_repository,
    "git forgot it": lambda p, w: shutil.rmtree(w.entry.path),
    "it has another common folder": lambda p, w: (w.entry.path / "commondir").write_text("/etc\n"),
    "another branch is there": switch_branch,
    "the history is another": rewrite_history,
    "the branch is gone": delete_branch,
    "the branch is another name of main": alias_branch,
    "it was not finished": lambda p, w: (w.entry.path / "locked").write_text("initializing"),
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_what_others_break_is_seen_and_mended(project: Project, state: Path, harm: Harm) -> None:
    worktree = made(project, state)
    write(worktree.folder, {"a.txt": "first\n"})
    worktree = replace(worktree, tip=worktree.commit("ours\n", AUTHOR).id)
    write(worktree.folder, {"b.txt": "second\n"})
    before = project.state()
    harm(project, worktree)
    files = {name: data for name, data in contents(worktree.folder).items() if name != ".git"}
    assert worktree.faults()
    with pytest.raises(GitError, match="is damaged"):
        worktree.commit("two\n", AUTHOR)
    assert len(worktree.repair()) >= 1
    assert not worktree.faults()
    assert worktree.repair() == ()
    beside = worktree.folder.parent / "r1.git/HEAD"
    assert beside.is_file() is (harm is replace_by_repository), "its own is moved, not removed"
    after = {name: data for name, data in contents(worktree.folder).items() if name != ".git"}
    assert after == files
    status = project.git("status", "--porcelain", "--branch", folder=worktree.folder)
    assert status == "## cao/r1\n M b.txt"
    commit = worktree.commit("two\n", AUTHOR)
    assert project.git("log", "--format=%s", f"main..{BRANCH}") == "two\nours"
    assert changed(project, commit.id, worktree.tip) == ["b.txt"]
    assert project.state() == before


@pytest.mark.parametrize("instead", ["a link", "a file"])
def test_a_lost_folder_comes_back_as_it_was_committed(
    project: Project, state: Path, tmp_path: Path, instead: str
) -> None:
    project.commit({".gitignore": ".env\n"})
    project.write({".worktreeinclude": ".env\n", ".env": "A=1\n"})
    worktree = made(project, state)
    write(worktree.folder, {"a.txt": "2\n"})
    worktree = replace(worktree, tip=worktree.commit("ours\n", AUTHOR).id)
    elsewhere = make_project(tmp_path / "elsewhere").folder
    shutil.rmtree(worktree.folder)
    if instead == "a link":
        worktree.folder.symlink_to(elsewhere)
    else:
        worktree.folder.write_text("x")
    assert not worktree.exists
    with pytest.raises(GitError, match="is gone"):
        worktree.uncommitted()
    assert worktree.repair() == (f"its folder {worktree.folder} is gone",)
    assert not worktree.faults()
    assert (worktree.folder / "a.txt").read_text() == "2\n"
    assert (worktree.folder / ".env").read_text() == "A=1\n"
    assert project.git("status", "--porcelain", folder=worktree.folder) == ""
    assert (elsewhere / "a.txt").read_text() == "a\n"


def test_a_work_tree_that_was_killed_while_it_was_made_is_completed(
    project: Project, state: Path
) -> None:
    head = project.repository().head
    folder = state / "worktrees/r1"
    project.git("worktree", "add", "-q", "--lock", "--no-checkout", "-b", BRANCH, str(folder))
    worktree = Worktree(project.repository(), folder, os.environ, branch=BRANCH, tip=head)
    assert worktree.repair() == ("it was not finished when it was made",)
    assert (folder / "src/c.txt").read_text() == "c\n"
    assert not worktree.faults()


def test_lost_commits_cannot_be_mended(project: Project, state: Path) -> None:
    worktree = replace(made(project, state), tip="1" * 40)
    with pytest.raises(GitError, match="are gone from the repository"):
        worktree.repair()


def test_a_lock_that_an_agent_left_is_no_obstacle(project: Project, state: Path) -> None:
    worktree = made(project, state)
    (worktree.entry.path / "index.lock").touch()
    write(worktree.folder, {"a.txt": "2\n"})
    assert worktree.commit("one\n", AUTHOR).id != worktree.tip


def test_a_branch_that_moves_meanwhile_is_not_written_over(project: Project, state: Path) -> None:
    worktree = made(project, state)
    (project.folder / ".git/refs/heads/cao/r1.lock").touch()
    write(worktree.folder, {"a.txt": "2\n"})
    with pytest.raises(GitFailed, match="update-ref"):
        worktree.commit("one\n", AUTHOR)
    assert project.git("rev-parse", BRANCH) == worktree.tip
