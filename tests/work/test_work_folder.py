"""The work folder of a run, with real git."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import GitError, RunError
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import Seen, WorkFolder, open_work_folder
from cli_agent_orchestrator.work.git import find_repository
from cli_agent_orchestrator.work.snapshots import Snapshots
from cli_agent_orchestrator.work.worktree import Worktree
from tests.work.projects import git, make_repository, with_other_git, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", {"a.py": "one\n"})


def open_here(project: Path, environ: Mapping[str, str] = os.environ) -> WorkFolder:
    folder = run_folder(project.parent / "state", "20261115-084037-k3f9")
    return open_work_folder(project, folder, environ)


def test_who_changed_what_is_known(project: Path) -> None:
    work = open_here(project)
    assert work.begin(0, is_in_flight=False) == (0, [])
    assert work.look(1, "analyst").changes == ()
    (project / "a.py").write_text("two\n", encoding="utf-8")
    (project / "b.py").write_text("new\n", encoding="utf-8")
    seen = work.look(2, "programmer")
    assert seen.work.changed == ("a.py", "b.py")
    assert [(one.status, one.added, one.removed) for one in seen.changes] == [
        ("M", 1, 1),
        ("A", 1, 0),
    ]
    approved = seen.work.tree
    (project / "a.py").write_text("three\n", encoding="utf-8")
    assert work.look(3, "tester", approved).work.since_review == ("a.py",)
    assert git(project, "status", "--porcelain") == " M a.py\n?? b.py"


def test_what_lies_beside_a_folder_of_the_users_own_is_nobodys_change(project: Path) -> None:
    write(project / "sub", {"x.py": "1\n"})
    work = open_here(project / "sub")
    work.begin(0, is_in_flight=False)
    write(project, {"a.py": "two\n", "sub/x.py": "2\n"})
    assert work.look(1, "programmer").work.changed == ("sub/x.py",)


def test_a_reviewers_change_anywhere_in_a_work_tree_can_be_put_back(project: Path) -> None:
    write(project, {"sub/x.py": "1\n"})
    wd, folder = project / "sub", run_folder(project.parent / "state", "20261115-084037-k3f9")
    work = open_work_folder(wd, folder, os.environ, held_back=())
    work.begin(0, is_in_flight=False)
    write(project, {"a.py": "two\n", "new/y": "1\n"})
    seen = work.look(1, "analyst_review")
    assert seen.work.changed == ("a.py", "new/y")
    work.put_back(2, "analyst_review", seen)
    assert (project / "a.py").read_text() == "one\n"
    assert not (project / "new").exists()


def test_what_the_user_had_is_said_and_is_nobodys_change(project: Path) -> None:
    (project / "mine.txt").write_text("mine\n", encoding="utf-8")
    work = open_here(project)
    _, remarks = work.begin(0, is_in_flight=False)
    assert remarks == ["mine.txt had uncommitted changes when the run began; they count as yours"]
    assert work.look(1, "programmer").changes == ()


def test_what_changed_between_two_starts_is_nobodys_turn(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    work.look(1, "analyst")
    (project / "a.py").write_text("by the user\n", encoding="utf-8")
    again = open_here(project)
    assert again.begin(1, is_in_flight=False) == (2, [])
    assert again.look(3, "programmer").changes == ()
    # A turn in flight went on meanwhile: it may be its own.
    (project / "a.py").write_text("by the agent\n", encoding="utf-8")
    later = open_here(project)
    assert later.begin(3, is_in_flight=True) == (3, [])
    assert later.look(4, "programmer").work.changed == ("a.py",)


def test_what_the_user_had_survives_the_loss_of_the_repository(project: Path) -> None:
    (project / "staged.txt").write_text("mine\n", encoding="utf-8")
    git(project, "add", "staged.txt")
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    (project / "staged.txt").unlink()
    (project / "a.py").write_text("two\n", encoding="utf-8")
    shutil.rmtree(project / ".git")
    with pytest.raises(RunError, match="was removed while programmer was at work"):
        work.look(1, "programmer")
    assert work.snapshots is not None
    start = work.snapshots.all()[0]
    assert work.snapshots.restore(start.tree) == ("a.py", "staged.txt")
    assert (project / "staged.txt").read_text(encoding="utf-8") == "mine\n"
    assert (project / "a.py").read_text(encoding="utf-8") == "one\n"


def test_where_a_folder_cannot_be_kept_because_its_repository_is_gone_that_is_said(
    project: Path,
) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    shutil.rmtree(project / ".git")
    store = project.parent / "state/runs/20261115-084037-k3f9/snapshots.git"
    shutil.rmtree(store / "objects")
    with pytest.raises(RunError, match=r"repository is gone: .*while programmer was at work"):
        work.look(1, "programmer")


def test_a_folder_that_became_a_link_is_not_looked_into(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    other = make_repository(project.parent / "other", {"a.py": "theirs\n"})
    shutil.rmtree(project)
    project.symlink_to(other)
    with pytest.raises(RunError, match="is a link now; nothing is kept of where it leads"):
        work.look(1, "programmer")


def test_what_cannot_be_brought_back_costs_nothing_that_is_there(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    (project / "a.py").write_text("two\n", encoding="utf-8")
    (project / "made.txt").write_text("mine\n", encoding="utf-8")
    work.look(1, "programmer")
    assert work.snapshots is not None
    start = work.snapshots.all()[0]
    # The content of a.py at the start: in the store and in the repository.
    lost = git(project, "rev-parse", "HEAD:a.py").strip()
    store = project.parent / "state/runs/20261115-084037-k3f9/snapshots.git"
    for pack in (store / "objects/pack").iterdir():
        pack.rename(project.parent / pack.name)
    unpack = ["git", f"--git-dir={store}", "unpack-objects", "-q"]
    (pack,) = project.parent.glob("*.pack")
    subprocess.run(unpack, input=pack.read_bytes(), check=True)
    for objects in (store / "objects", project / ".git/objects"):
        (objects / lost[:2] / lost[2:]).unlink(missing_ok=True)
    with pytest.raises(GitError):
        work.snapshots.restore(start.tree)
    assert (project / "made.txt").read_text(encoding="utf-8") == "mine\n"
    assert (project / "a.py").read_text(encoding="utf-8") == "two\n"


def test_what_a_turn_did_can_be_put_back(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    (project / "a.py").write_text("two\n", encoding="utf-8")
    work.look(1, "programmer")
    (project / "a.py").write_text("three\n", encoding="utf-8")
    (project / "c.py").write_text("new\n", encoding="utf-8")
    seen = work.look(2, "tester")
    approved = git(project, "rev-parse", "HEAD^{tree}").strip()
    put_back = work.put_back(3, "tester", seen, approved)
    assert put_back.changes == ()
    assert put_back.work.since_review == work.kept(approved).since_review == ("a.py",)
    # What was there is kept, whoever made it.
    assert work.snapshots is not None
    last = work.snapshots.all()[-2:]
    assert [(one.sequence, one.label) for one in last] == [(2, "tester"), (3, "tester, put back")]
    assert work.snapshots.read(last[0].tree, "c.py", 99) == b"new\n"
    assert (project / "a.py").read_text(encoding="utf-8") == "two\n"
    assert not (project / "c.py").exists()


@pytest.mark.parametrize("is_put_back", [False, True], ids=["files", "files and snapshot"])
@pytest.mark.parametrize("edited", [False, True], ids=["untouched", "edited since"])
def test_what_a_killed_process_has_put_back_is_known_when_the_run_is_resumed(
    project: Path, is_put_back: bool, edited: bool
) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    work.look(1, "programmer")
    (project / "a.py").write_text("by the tester\n", encoding="utf-8")
    seen = work.look(2, "tester")
    if is_put_back:
        work.put_back(3, "tester", seen)
    else:
        git(project, "checkout", "-q", "a.py")
    if edited:
        (project / "a.py").write_text("by the user\n", encoding="utf-8")
    # Killed before the state was saved: the reply is archived, the turn is still in flight.
    again = open_here(project)
    last, _ = again.begin(2, is_in_flight=True, replied=(2, "tester"))
    seen = again.look(2, "tester")
    assert seen.work.changed == ("a.py",)
    assert again.put_back(last + 1, "tester", seen).changes == ()
    assert (project / "a.py").read_text(encoding="utf-8") == "one\n"
    assert again.snapshots is not None
    kept = [again.snapshots.read(one.tree, "a.py", 99) for one in again.snapshots.all()]
    assert kept[2] == b"by the tester\n"
    assert (b"by the user\n" in kept) == edited


def test_a_folder_that_is_no_repository_is_kept_too(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    work = open_here(folder)
    assert work.begin(0, is_in_flight=False) == (0, [])
    (folder / "a").write_text("x", encoding="utf-8")
    assert work.look(1, "programmer").work.changed == ("a",)


def test_without_a_run_folder_nothing_is_known_and_nothing_is_in_the_way(project: Path) -> None:
    work = open_work_folder(project, None, os.environ)
    assert work.begin(3, is_in_flight=False) == (3, [])
    assert work.look(4, "programmer") == Seen()
    with pytest.raises(RunError, match="no fresh checkout"), work.laid_out("x"):
        pass


def test_where_none_can_be_taken_the_run_goes_on_and_says_so(project: Path) -> None:
    work = open_here(project)
    (project.parent / "state").write_text("in the way", encoding="utf-8")
    assert work.begin(0, is_in_flight=False) == (0, [])
    assert work.why_no_snapshots.startswith("it cannot be kept: ")
    assert work.snapshots is None
    assert work.look(1, "programmer") == Seen()


def test_a_folder_with_too_much_in_it_is_not_copied(project: Path, tmp_path: Path) -> None:
    def begun() -> WorkFolder:
        repository = find_repository(project, os.environ)
        store = tmp_path / "store"
        snapshots = Snapshots(store, project, repository, os.environ, most_files=3)
        work = WorkFolder(snapshots, repository)
        work.begin(0, is_in_flight=False)
        return work

    for name in "bcde":
        (project / name).write_text(name, encoding="utf-8")
    work = begun()
    assert "has 4 files (0 MB) that are in no repository, too many to keep" in work.why_no_snapshots
    git(project, "add", "-A")
    assert begun().snapshots is not None


def test_one_that_fails_later_stops_the_run_with_the_reply_kept(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    store = project.parent / "state/runs/20261115-084037-k3f9/snapshots.git"
    (project / "b").write_text("x", encoding="utf-8")
    for part in ("objects", "refs"):
        (store / part).rename(store / f"{part}-gone")
        (store / part).write_text("in the way", encoding="utf-8")
    with pytest.raises(RunError, match=r"after programmer: .*The reply is kept; resume"):
        work.look(1, "programmer")


def test_a_checkout_has_what_the_snapshot_had_and_is_removed(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    start = work.now
    (project / "a.py").write_text("two\n", encoding="utf-8")
    (project / "b.py").write_text("new\n", encoding="utf-8")
    work.look(1, "programmer")
    assert start is not None
    assert work.now is not None
    with work.laid_out(work.now.tree, start.tree, ["a.py"]) as folder:
        assert (folder / "a.py").read_text(encoding="utf-8") == "one\n"
        assert (folder / "b.py").read_text(encoding="utf-8") == "new\n"
    assert not folder.exists()


def test_a_checkout_has_what_programs_left_behind_as_it_was_at_the_start(project: Path) -> None:
    """Unless it is committed: then it is part of the work."""
    mine, old, new = "node_modules/mine.js", "node_modules/old.js", "node_modules/new.js"
    (project / "node_modules").mkdir()
    (project / mine).write_text("committed\n", encoding="utf-8")
    git(project, "add", "-f", mine)
    git(project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "-m", "two")
    (project / old).write_text("left\n", encoding="utf-8")
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    for name in (mine, old, new, "a.py"):
        (project / name).write_text("changed\n", encoding="utf-8")
    work.look(1, "programmer")
    assert work.now is not None
    assert work.left_behind(work.now.tree) == (new, old)
    with work.laid_out(work.now.tree) as folder:
        assert (folder / "a.py").read_text(encoding="utf-8") == "changed\n"
        assert (folder / mine).read_text(encoding="utf-8") == "changed\n"
        assert (folder / old).read_text(encoding="utf-8") == "left\n"
        assert not (folder / new).exists()


def test_snapshots_that_are_removed_are_not_begun_anew(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    shutil.rmtree(next(project.parent.glob("state/runs/*/snapshots.git")))
    with pytest.raises(RunError, match="while programmer was at work, the snapshots of the run"):
        work.look(1, "programmer")
    again = open_here(project)
    assert again.begin(1, is_in_flight=True) == (1, [])
    assert again.why_no_snapshots.startswith("the snapshots")
    assert again.snapshots is None


def test_one_that_fails_when_the_run_is_resumed_stops_it_too(project: Path) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    (project / "b").write_text("x", encoding="utf-8")
    store = project.parent / "state/runs/20261115-084037-k3f9/snapshots.git"
    (store / "objects").rename(store / "objects-gone")
    (store / "objects").write_text("in the way", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RunError, match=r"when the run was resumed: .*resume the run when that"):
            open_here(project).begin(1, is_in_flight=False)
    (store / "objects").unlink()
    (store / "objects-gone").rename(store / "objects")
    assert open_here(project).begin(1, is_in_flight=False) == (2, [])


def test_a_turn_that_was_kept_before_the_run_was_killed_still_has_its_changes(
    project: Path,
) -> None:
    work = open_here(project)
    work.begin(0, is_in_flight=False)
    (project / "a.py").write_text("two\n", encoding="utf-8")
    work.look(1, "programmer")
    again = open_here(project)
    again.begin(1, is_in_flight=True, replied=(1, "programmer"))
    assert again.look(1, "programmer").work.changed == ("a.py",)


def test_a_repository_that_cannot_be_copied_leaves_the_snapshots(
    project: Path, tmp_path: Path
) -> None:
    without_room = with_other_git(tmp_path / "other", "*repack*) echo no room >&2; exit 1;;")
    work = open_here(project, without_room)
    _, (said,) = work.begin(0, is_in_flight=False)
    assert said.startswith(
        "snapshots can be read only as long as the repository has what it has now: "
    )
    assert said.endswith("no room")
    (project / "a.py").write_text("two\n", encoding="utf-8")
    assert work.look(1, "programmer").work.changed == ("a.py",)


@pytest.mark.parametrize("left", [None, b"", b"{"], ids=["gone", "empty", "damaged"])
def test_a_repository_that_can_be_compared_with_nothing_is_said_to_be_so(
    project: Path, left: bytes | None
) -> None:
    open_here(project).begin(0, is_in_flight=False)
    kept = project.parent / "state/runs/20261115-084037-k3f9/repository.json"
    kept.unlink()
    if left is not None:
        kept.write_bytes(left)
    git(project, "config", "core.fsmonitor", "x")
    again = open_here(project)
    _, (remark,) = again.begin(1, is_in_flight=True)
    assert remark == (
        "what the repository was like before is not known, so it cannot be told whether it was "
        "changed since the run was interrupted"
    )
    assert again.changed_before == again.look(1, "programmer").repository == ()


def test_a_change_of_the_repository_is_told_though_the_run_could_not_go_on_at_first(
    project: Path,
) -> None:
    open_here(project).begin(0, is_in_flight=False)
    git(project, "config", "core.fsmonitor", "x")
    (project / "b").write_text("x", encoding="utf-8")
    objects = project.parent / "state/runs/20261115-084037-k3f9/snapshots.git/objects"
    objects.rename(objects.with_name("gone"))
    objects.write_text("in the way", encoding="utf-8")
    with pytest.raises(RunError):
        open_here(project).begin(1, is_in_flight=False)
    objects.unlink()
    objects.with_name("gone").rename(objects)
    again = open_here(project)
    again.begin(1, is_in_flight=False)
    assert again.changed_before == (".git/config (core.fsmonitor)",)


def checked_out(folder: Path, attributes: str, *settings: str) -> Path:
    """Return a fresh clone of a project in which git lays some files out in its own way."""
    make_repository(folder / "origin", {".gitattributes": attributes, "tests/a.txt": "one\ntwo\n"})
    options = [word for setting in settings for word in ("-c", setting)]
    git(folder, "clone", "-q", *options, str(folder / "origin"), str(folder / "project"))
    return folder / "project"


def test_a_clean_checkout_is_clean_whatever_its_line_ends(tmp_path: Path) -> None:
    project = checked_out(tmp_path, "*.txt text eol=crlf\n")
    assert (project / "tests/a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert open_here(project).begin(0, is_in_flight=False) == (0, [])


def test_a_clean_checkout_is_clean_with_autocrlf(tmp_path: Path) -> None:
    project = checked_out(tmp_path, "", "core.autocrlf=true")
    assert (project / "tests/a.txt").read_bytes() == b"one\r\ntwo\r\n"
    (project / "tests/a.txt").touch()
    assert open_here(project).begin(0, is_in_flight=False) == (0, [])


@pytest.mark.parametrize("name", ["eol=crlf", "autocrlf", "filter"])
def test_a_fresh_work_tree_is_clean(tmp_path: Path, name: str) -> None:
    attributes = {"eol=crlf": "*.txt text eol=crlf\n", "filter": "*.txt filter=up\n"}
    settings = ("core.autocrlf=true",) if name == "autocrlf" else filters_of(tmp_path)
    project = checked_out(tmp_path, attributes.get(name, ""), *settings)
    repository = find_repository(project, os.environ)
    assert repository is not None
    tree = tmp_path / "tree"
    Worktree(repository, tree, "cao/r1", repository.head, os.environ).make()
    assert open_here(tree).begin(0, is_in_flight=False) == (0, [])


def filters_of(folder: Path) -> tuple[str, ...]:
    """Return the settings of a filter that leaves a trace whenever it is run."""
    ran = f"touch {folder}/ran; tr"
    return f"filter.up.smudge={ran} a-z A-Z", f"filter.up.clean={ran} A-Z a-z"


def test_a_clean_checkout_is_clean_with_a_filter_and_none_is_run(tmp_path: Path) -> None:
    project = checked_out(tmp_path, "*.txt filter=up\n", *filters_of(tmp_path))
    assert (project / "tests/a.txt").read_bytes() == b"ONE\nTWO\n"
    os.utime(project / "tests/a.txt", (1, 1))
    assert git(project, "status", "--porcelain") == ""
    (tmp_path / "ran").unlink()
    assert open_here(project).begin(0, is_in_flight=False) == (0, [])
    assert not (tmp_path / "ran").exists()
