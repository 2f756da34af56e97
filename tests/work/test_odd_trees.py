"""Snapshots of trees and repositories that are not as one would expect them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError
from cli_agent_orchestrator.work.changes import LeftOut
from cli_agent_orchestrator.work.git import find_repository
from cli_agent_orchestrator.work.snapshots import (
    NO_COMMIT,
    OWN_REPOSITORY,
    UNREADABLE,
    Snapshots,
)
from tests.work.projects import (
    content,
    fingerprint,
    git,
    is_intact,
    make_repository,
    snapshots_of,
    write,
)

FILES = {"a.txt": "a\n", "src/b.py": "b\n", ".gitignore": "*.log\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", FILES)


def check_round_trip(folder: Path, known: set[str]) -> None:
    """Take, change, take, restore: the user's side is as before, and so are the files."""
    write(folder, {"mine.txt": "mine\n"})
    repository = find_repository(folder, os.environ)
    git_dir = folder / ".git" if repository is None else repository.common_dir
    git_before, before = fingerprint(git_dir), fingerprint(folder)
    snapshots = snapshots_of(folder)
    old = snapshots.take(0, "start")
    assert set(content(snapshots, old)) == known | {"mine.txt"}
    write(folder, {"a.txt": "2\n", "new.txt": "new\n", "mine.txt": "2\n"})
    new = snapshots.take(1, "programmer")
    changed = [(change.status, change.path) for change in snapshots.changes(old.tree, new.tree)]
    assert changed == [("M", "a.txt"), ("M", "mine.txt"), ("A", "new.txt")]
    assert snapshots.restore(old.tree) == ("a.txt", "mine.txt", "new.txt")
    assert fingerprint(folder) == before
    assert fingerprint(git_dir) == git_before
    assert is_intact(snapshots)


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    write(tmp_path / "plain", FILES)
    check_round_trip(tmp_path / "plain", set(FILES))


def test_a_repository_with_long_ids_and_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "empty")
    write(tmp_path / "empty", FILES)
    check_round_trip(tmp_path / "empty", set(FILES))
    assert len(snapshots_of(tmp_path / "empty").all()[0].tree) == 64


def test_a_linked_work_tree_of_another_user(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    # Only root can give files away.
    for path in (tmp_path, *tmp_path.rglob("*")) if os.geteuid() == 0 else ():
        os.chown(path, 12345, 12345, follow_symlinks=False)
    check_round_trip(tmp_path / "tree", set(FILES))


def test_a_shallow_clone_of_an_odd_name_with_a_split_index_and_all_its_extras(
    project: Path, tmp_path: Path
) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "two")
    folder = tmp_path / '#"quo"te back\\slash é \udcff a:b'
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{project}", folder.name)
    git(folder, "config", "core.untrackedCache", "true")
    git(folder, "update-index", "--untracked-cache")
    git(folder, "update-index", "--fsmonitor-valid", "a.txt", check=False)
    git(folder, "update-index", "--split-index")
    # Told to trust it, git does not look at a file; we do.
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    git(folder, "status")
    assert list((folder / ".git").glob("sharedindex.*"))
    check_round_trip(folder, set(FILES))


def test_a_corrupt_index(project: Path) -> None:
    write(project, {"kept.log": "ignored, but tracked\n"})
    git(project, "add", "-f", "kept.log")
    git(project, "commit", "-q", "-m", "two")
    (project / ".git/index").write_bytes(b"DIRC nonsense")
    check_round_trip(project, {*FILES, "kept.log"})


def test_what_a_sparse_checkout_leaves_out_is_not_deleted(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "project", {**FILES, "far/c.txt": "c\n"})
    git(folder, "status")
    git(folder, "sparse-checkout", "set", "--cone", "--sparse-index", "src")
    assert not (folder / "far").exists()
    snapshots = snapshots_of(folder)
    old = snapshots.take(0, "start")
    assert "far/c.txt" in content(snapshots, old)
    write(folder, {"src/b.py": "2\n"})
    new = snapshots.take(1, "programmer")
    assert [one.path for one in snapshots.changes(old.tree, new.tree)] == ["src/b.py"]
    write(folder, {"far/c.txt": "written all the same\n"})
    newer = snapshots.take(2, "programmer")
    assert [one.path for one in snapshots.changes(new.tree, newer.tree)] == ["far/c.txt"]
    snapshots.restore(new.tree)
    assert (folder / "far/c.txt").read_text() == "c\n"
    snapshots.lay_out(old.tree, tmp_path / "checkout")
    assert (tmp_path / "checkout/far/c.txt").read_text() == "c\n"


def test_a_merge_that_is_not_ended(project: Path) -> None:
    git(project, "checkout", "-q", "-b", "side")
    write(project, {"a.txt": "side\n"})
    git(project, "rm", "-q", "src/b.py")
    git(project, "commit", "-q", "-a", "-m", "side")
    git(project, "checkout", "-q", "main")
    write(project, {"a.txt": "main\n", "src/b.py": "main\n"})
    git(project, "commit", "-q", "-a", "-m", "main")
    git(project, "merge", "-q", "side", check=False)
    assert "U" in git(project, "status", "--porcelain")
    merged = (project / "a.txt").read_bytes()
    assert merged.startswith(b"<<<<<<<")
    before = fingerprint(project / ".git")
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    assert snapshots.read(taken.tree, "a.txt", 1000) == merged
    assert set(content(snapshots, taken)) == set(FILES)
    assert fingerprint(project / ".git") == before


def test_a_work_folder_below_the_top(project: Path) -> None:
    write(project, {"sub [1]/c.txt": "c\n", "sub [1]/x.log": "ignored\n", "outside.txt": "o\n"})
    folder = project / "sub [1]"
    snapshots = snapshots_of(folder)
    old = snapshots.take(0, "start")
    assert set(content(snapshots, old)) == {*FILES, "sub [1]/c.txt"}
    write(folder, {"c.txt": "2\n", ".tmp/state.json": "{}\n"})
    write(project, {"a.txt": "2\n"})
    new = snapshots.take(1, "programmer")
    assert [one.path for one in snapshots.changes(old.tree, new.tree)] == ["sub [1]/c.txt"]
    assert b"a.txt" not in snapshots.diff(old.tree, new.tree)
    (folder / "c.txt").unlink()
    assert snapshots.restore(old.tree, ["a.txt"]) == ()
    assert snapshots.restore(old.tree) == ("sub [1]/c.txt",)
    assert (project / "a.txt").read_text() == "2\n"
    assert (project / "outside.txt").exists()
    assert (folder / ".tmp/state.json").exists()


def test_the_work_folder_itself_stays(project: Path) -> None:
    folder = project / "deep/er"
    folder.mkdir(parents=True)
    snapshots = snapshots_of(folder)
    old = snapshots.take(0, "start")
    write(folder, {"new/c.txt": "c\n"})
    assert snapshots.restore(old.tree) == ("deep/er/new/c.txt",)
    assert list(folder.iterdir()) == []


def test_bytes_are_kept_as_they_are(project: Path) -> None:
    git(project, "config", "core.autocrlf", "true")
    attributes = (
        "* text=auto eol=lf ident working-tree-encoding=UTF-16\n*.bin filter=lfs diff=lfs\n"
    )
    write(project, {".gitattributes": attributes, "crlf.txt": "1\r\n$Id$\r\n", "x.bin": "large\n"})
    git(project, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(project, "config", "filter.lfs.required", "true")
    before = fingerprint(project)
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    assert snapshots.read(taken.tree, "crlf.txt", 100) == b"1\r\n$Id$\r\n"
    assert snapshots.read(taken.tree, "x.bin", 100) == b"large\n"
    write(project, {"crlf.txt": "", "x.bin": ""})
    snapshots.restore(taken.tree)
    assert fingerprint(project) == before


@pytest.mark.parametrize(
    ("attributes", "setting"), [("*.txt text eol=crlf\n", ""), ("", "core.autocrlf=true")]
)
def test_line_ends_that_git_made_come_back(tmp_path: Path, attributes: str, setting: str) -> None:
    files = {"a.txt": "1\n2\n", "ignored.txt": "3\n", "x.bin": "stored\n"}
    make_repository(tmp_path / "origin", files)
    lfs = "*.bin filter=lfs -text\n"
    write(tmp_path / "origin", {".gitattributes": attributes + lfs, ".gitignore": "ignored*\n"})
    git(tmp_path / "origin", "add", "-A")
    git(tmp_path / "origin", "commit", "-q", "-m", "attributes")
    words = ("-c", setting) if setting else ()
    git(tmp_path, "clone", "-q", *words, "origin", "project")
    project = tmp_path / "project"
    assert (project / "a.txt").read_bytes() == b"1\r\n2\r\n"
    # Older than the index, so that git goes by its notes and reads none of them.
    for path in project.glob("*.txt"):
        os.utime(path, (1e9, 1e9))
    git(project, "update-index", "--refresh")
    before = fingerprint(project)
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    for name in ("a.txt", "ignored.txt"):
        assert snapshots.read(old.tree, name, 99) == (project / name).read_bytes()
    write(project, {"a.txt": "1\r\n3\r\n", "ignored.txt": ""})
    (change, *_) = snapshots.changes(old.tree, snapshots.take(1, "programmer").tree)
    assert (change.path, change.added, change.removed) == ("a.txt", 1, 1)
    assert snapshots.restore(old.tree) == ("a.txt", "ignored.txt")
    assert (project / "a.txt").read_bytes() == b"1\r\n2\r\n"
    assert fingerprint(project) == before


def test_a_large_file_that_is_elsewhere_is_not_copied(tmp_path: Path) -> None:
    make_repository(
        tmp_path / "project", {"x.bin": "a pointer\n", ".gitattributes": "*.bin -text\n"}
    )
    project = tmp_path / "project"
    write(project, {".gitattributes": "*.bin filter=lfs -text\n", "x.bin": "large\n" * 9})
    # As git-lfs leaves it: the index has the pointer, and the notes of what was laid out before.
    os.utime(project / "x.bin", (1e9, 1e9))
    pointer = git(project, "rev-parse", "HEAD:x.bin").strip()
    git(project, "-c", "filter.lfs.clean=printf 'a pointer\\n'", "add", "-A")
    assert git(project, "rev-parse", ":x.bin").strip() == pointer
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    assert snapshots.read(old.tree, "x.bin", 99) == b"a pointer\n"


ODD_NAMES = [
    "-rf", "--all", ":(glob)*", ":!a.txt", "*", "a\tb", '"quoted"', "back\\slash",
    " space ", "é", "not \udcff utf-8", "A.TXT", "a/.gitkeep", "[x]", "#", "!x", "x" * 250,
]  # fmt: skip


def test_files_with_any_name(project: Path, tmp_path: Path) -> None:
    write(project, dict.fromkeys(ODD_NAMES, "1\n"))
    before = fingerprint(project)
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    assert set(content(snapshots, old)) == {*FILES, *ODD_NAMES}
    for name in ODD_NAMES:
        assert snapshots.read(old.tree, name, 10) == b"1\n"
        (project / name).unlink()
    new = snapshots.take(1, "programmer")
    assert {one.path for one in snapshots.changes(old.tree, new.tree)} == set(ODD_NAMES)
    patch = snapshots.diff(old.tree, new.tree, paths=[":(glob)*"])
    assert patch.count(b"deleted file") == 1
    assert set(snapshots.restore(old.tree)) == set(ODD_NAMES)
    assert fingerprint(project) == before
    checkout = tmp_path / "checkout"
    snapshots.lay_out(new.tree, checkout)
    snapshots.lay_over(old.tree, checkout, ODD_NAMES)
    assert {name for name in ODD_NAMES if (checkout / name).is_file()} == set(ODD_NAMES)
    snapshots.lay_over(new.tree, checkout, ODD_NAMES)
    assert not [name for name in ODD_NAMES if (checkout / name).exists()]


def test_links_are_kept_as_links(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret": "secret\n"})
    for name, target in {
        "dangling": "./nowhere//x",
        "folder": "../outside",
        "loop": "loop",
        "absolute": str(tmp_path / "outside/secret"),
    }.items():
        (project / name).symlink_to(target)
    os.unlink(project / "dangling")  # noqa: PTH108
    os.symlink("./nowhere//x", project / "dangling")  # noqa: PTH211
    before = fingerprint(project)
    snapshots = snapshots_of(project)
    taken = snapshots.take(0, "start")
    assert snapshots.read(taken.tree, "dangling", 100) == b"./nowhere//x"
    assert "folder/secret" not in content(snapshots, taken)
    for name in ("dangling", "folder", "loop", "absolute"):
        (project / name).unlink()
    snapshots.restore(taken.tree)
    assert fingerprint(project) == before


@contextmanager
def somebody_else(folder: Path) -> Iterator[None]:
    """Be a user for whom permissions count, and to whom the folder belongs."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    os.setresuid(12345, 12345, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_what_cannot_be_read_is_left_out_and_left_alone() -> None:
    with tempfile.TemporaryDirectory() as parent:
        project = make_repository(Path(parent, "project"), {**FILES, "shut/c.txt": "c\n"})
        write(project, {"secret": "secret\n"})
        with somebody_else(Path(parent)):
            snapshots = snapshots_of(project)
            old = snapshots.take(0, "start")
            write(project, {"a.txt": "2\n", "new.txt": "new\n", "secret": "other\n"})
            (project / "a.txt").chmod(0)
            (project / "secret").chmod(0)
            (project / "shut").chmod(0)
            new = snapshots.take(1, "programmer")
            restored = snapshots.restore(old.tree)
            (project / "shut").chmod(0o755)
            (project / "secret").chmod(0o644)
        assert [one.path for one in new.left_out] == ["a.txt", "secret", "shut", "shut/c.txt"]
        assert {one.reason for one in new.left_out} == {UNREADABLE}
        assert [one.path for one in snapshots.changes(old.tree, new.tree)] == ["new.txt"]
        assert restored == ("new.txt",)
        assert (project / "secret").read_text() == "other\n"


def test_repositories_in_the_work_folder_are_kept_by_their_commit(
    project: Path, tmp_path: Path
) -> None:
    make_repository(tmp_path / "library", {"l.txt": "l\n"})
    git(project, "submodule", "add", "-q", str(tmp_path / "library"), "module")
    git(project, "commit", "-q", "-m", "two")
    make_repository(project / "nested", {"n.txt": "n\n"})
    git(project, "init", "-q", "unborn")
    write(project, {"unborn/u.txt": "u\n"})
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    assert old.left_out == (
        LeftOut("module", OWN_REPOSITORY),
        LeftOut("nested", OWN_REPOSITORY),
        LeftOut("unborn", NO_COMMIT),
    )
    assert content(snapshots, old)["nested"] == "160000"
    assert snapshots_of(project).take(1, "again").left_out == old.left_out
    write(project, {"module/l.txt": "2\n", "nested/n.txt": "2\n", "unborn/u.txt": "2\n"})
    git(project / "nested", "commit", "-q", "-a", "-m", "two")
    new = snapshots.take(2, "programmer")
    assert [one.path for one in snapshots.changes(old.tree, new.tree)] == ["nested"]
    shutil.rmtree(project / "unborn/.git")
    assert snapshots.restore(old.tree) == ()
    assert (project / "unborn/u.txt").read_text() == "2\n", "no snapshot has it: it stays"
    snapshots.lay_out(new.tree, tmp_path / "checkout")
    assert list((tmp_path / "checkout/nested").iterdir()) == []


def test_what_belongs_to_runs_and_agents_is_left_out(project: Path) -> None:
    write(project, {".tmp/state.json": "{}", ".claude/.cc-writes/x": "", ".codex": ""})
    write(project, {".claude/settings.json": "{}", "sub/.tmp/x": "x", ".gitignore": "!.tmp/\n"})
    write(project, {".tmpl": "the project's"})
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    assert set(content(snapshots, old)) == {*FILES, ".claude/settings.json", ".tmpl", "sub/.tmp/x"}
    write(project, {".codex": "not empty"})
    assert ".codex" in content(snapshots, snapshots.take(1, "programmer"))
    snapshots.restore(old.tree)
    assert (project / ".tmp/state.json").exists()
    assert not (project / ".codex").exists()


def test_what_the_user_ignores_everywhere_is_ignored(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\nexcludesFile = ~/mine\n")
    (tmp_path / "mine").write_text("*.swp\n")
    (project / ".git/info/exclude").write_text("/private\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    write(project, {"a.swp": "", "private": ""})
    snapshots = snapshots_of(project)
    assert set(content(snapshots, snapshots.take(0, "start"))) == set(FILES)


def test_a_folder_replaced_by_a_link_is_restored_and_nothing_behind_it_touched(
    project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    write(home, {"b.py": "the user's own\n", "other": "the user's own\n"})
    before, home_before = fingerprint(project), fingerprint(home)
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    (project / "src").rename(tmp_path / "moved")
    (project / "src").symlink_to(home)
    new = snapshots.take(1, "programmer")
    assert set(content(snapshots, new)) == {"a.txt", ".gitignore", "src"}
    assert snapshots.restore(old.tree) == ("src", "src/b.py")
    assert fingerprint(project) == before
    assert snapshots.restore(new.tree) == ("src", "src/b.py")
    assert snapshots.restore(old.tree) == ("src", "src/b.py")
    assert fingerprint(home) == home_before


def test_a_file_that_no_snapshot_has_is_not_written_over(project: Path) -> None:
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    write(project, {"a.txt": "2\n", ".gitignore": "*.log\nsrc\n"})
    (project / "src/b.py").unlink()
    (project / "src").rmdir()
    write(project, {"src": "ignored\n"})
    with pytest.raises(GitError, match=r"'src/b.py' \(a file that is in no snapshot"):
        snapshots.restore(old.tree)
    assert (project / "src").read_text() == "ignored\n"
    assert (project / "a.txt").read_text() == "a\n"


def test_a_work_folder_that_became_a_link_is_left_alone(project: Path, tmp_path: Path) -> None:
    snapshots = snapshots_of(project)
    old = snapshots.take(0, "start")
    project.rename(tmp_path / "moved")
    project.symlink_to(tmp_path / "moved")
    with pytest.raises(GitError, match="is a link now"):
        snapshots.restore(old.tree)


def unfinished(store: Path) -> list[Path]:
    return [*store.glob("*.lock"), *store.glob("staging-*")]


def test_what_a_killed_process_left_is_mended(project: Path, tmp_path: Path) -> None:
    snapshots = snapshots_of(project)
    store = tmp_path / "project-store"
    (store / "objects").mkdir(parents=True)
    (store / "index.lock").touch()
    first = snapshots.take(0, "start")
    (store / "index.lock").touch()
    (store / "staging-x/files").mkdir(parents=True)
    write(project, {"a.txt": "2\n"})
    second = snapshots.take(1, "programmer")
    assert unfinished(store) == []
    assert [one.path for one in snapshots.changes(first.tree, second.tree)] == ["a.txt"]


def test_a_full_disk_is_told_and_leaves_the_store_usable(project: Path, small_disk: Path) -> None:
    repository = find_repository(project, os.environ)
    snapshots = Snapshots(small_disk / "store", project, repository, os.environ)
    first = snapshots.take(0, "start")
    (project / "large").write_bytes(os.urandom(6_000_000))
    with pytest.raises((GitError, OSError)):
        snapshots.take(1, "programmer")
    assert [one.tree for one in snapshots.all()] == [first.tree]
    write(project, {"large": "small"})
    assert "large" in content(snapshots, snapshots.take(1, "programmer"))


def test_a_tree_that_changes_while_it_is_read_is_no_failure(project: Path) -> None:
    script = (
        "import itertools, os\n"
        "for i in itertools.count():\n"
        "    name = f'busy{i % 50}'\n"
        "    [os.path.lexists(name) and os.unlink(name), open(name, 'w').write('x' * i)]\n"
        "    os.unlink(name) if i % 3 else os.chmod(name, 0o755)\n"
        "    os.path.isdir('d') and os.rmdir('d') or os.mkdir('d')\n"
    )
    with subprocess.Popen(["python3", "-c", script], cwd=project) as writer:
        try:
            snapshots = snapshots_of(project)
            for sequence in range(5):
                taken = snapshots.take(sequence, "busy")
                assert "a.txt" in content(snapshots, taken)
        finally:
            writer.kill()
