"""The work folder of a run, with real git."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import RunError
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.folder import Seen, WorkFolder, open_work_folder
from cli_agent_orchestrator.work.git import find_repository
from cli_agent_orchestrator.work.snapshots import Snapshots
from tests.work.projects import Project, git, make_repository, with_other_git, write

RUN = "20261115-084037-k3f9"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", {"a.py": "one\n"})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state/runs" / RUN / "snapshots.git"


def open_here(folder: Path, environ: Mapping[str, str] = os.environ) -> WorkFolder:
    return open_work_folder(folder, run_folder(folder.parent / "state", RUN), environ)


def begun(folder: Path) -> WorkFolder:
    work = open_here(folder)
    work.begin(0, is_in_flight=False)
    return work


@contextmanager
def nothing_can_be_kept(store: Path) -> Iterator[None]:
    for part in ("objects", "refs"):
        (store / part).rename(store / f"{part}-gone")
        (store / part).write_text("in the way")
    yield
    for part in ("objects", "refs"):
        (store / part).unlink()
        (store / f"{part}-gone").rename(store / part)


def test_who_changed_what_is_known(project: Path) -> None:
    work = open_here(project)
    assert work.begin(0, is_in_flight=False) == (0, [])
    assert work.look(1, "analyst").changes == ()
    write(project, {"a.py": "two\n", "b.py": "new\n"})
    seen = work.look(2, "programmer")
    assert seen.work.changed == ("a.py", "b.py")
    assert [(one.status, one.added, one.removed) for one in seen.changes] == [
        ("M", 1, 1),
        ("A", 1, 0),
    ]
    approved = seen.work.tree
    write(project, {"a.py": "three\n"})
    seen = work.look(3, "tester", approved)
    assert seen.work.since_review == work.kept(approved).since_review == ("a.py",)
    assert git(project, "status", "--porcelain") == " M a.py\n?? b.py"
    left = work.put_back(4, "tester", seen, approved)
    assert (left.changes, left.work.since_review) == ((), ())


def test_git_is_asked_once_where_nothing_changed(project: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    work = open_here(project, with_other_git(tmp_path / "other", f"*) echo >> {asked};;"))
    work.begin(0, is_in_flight=False)
    for text, most in (("one\n", 1), ("two\n", 4), ("two\n", 1)):
        asked.unlink()
        write(project, {"a.py": text})
        work.look_before_turn(1)
        assert len(asked.read_text()) <= most


def test_what_lies_beside_a_folder_of_the_users_own_is_nobodys_change(project: Path) -> None:
    write(project / "sub", {"x.py": "1\n"})
    work = begun(project / "sub")
    write(project, {"a.py": "two\n", "sub/x.py": "2\n"})
    assert work.look(1, "programmer").work.changed == ("sub/x.py",)


def test_a_reviewers_change_anywhere_in_a_work_tree_can_be_put_back(project: Path) -> None:
    write(project, {"sub/x.py": "1\n"})
    folder = run_folder(project.parent / "state", RUN)
    work = open_work_folder(project / "sub", folder, os.environ, held_back=())
    work.begin(0, is_in_flight=False)
    write(project, {"a.py": "two\n", "new/y": "1\n"})
    seen = work.look(1, "analyst_review")
    assert seen.work.changed == ("a.py", "new/y")
    work.put_back(2, "analyst_review", seen)
    assert (project / "a.py").read_text() == "one\n"
    assert not (project / "new").exists()


def test_what_the_user_had_is_said_and_is_nobodys_change(project: Path) -> None:
    write(project, {"mine.txt": "mine\n"})
    work = open_here(project)
    _, remarks = work.begin(0, is_in_flight=False)
    assert [remark.partition(" ")[0] for remark in remarks] == ["mine.txt"]
    assert work.look(1, "programmer").changes == ()


def test_what_changed_between_two_starts_is_nobodys_turn(project: Path) -> None:
    begun(project).look(1, "analyst")
    write(project, {"a.py": "by the user\n"})
    again = open_here(project)
    assert again.begin(1, is_in_flight=False) == (2, [])
    assert again.look(3, "programmer").changes == ()
    # A turn in flight went on meanwhile: it may be its own.
    write(project, {"a.py": "by the agent\n"})
    later = open_here(project)
    assert later.begin(3, is_in_flight=True) == (3, [])
    assert later.look(4, "programmer").work.changed == ("a.py",)


def test_what_the_user_had_survives_the_loss_of_the_repository(project: Path, store: Path) -> None:
    write(project, {"staged.txt": "mine\n"})
    git(project, "add", "staged.txt")
    work = begun(project)
    (project / "staged.txt").unlink()
    write(project, {"a.py": "two\n"})
    shutil.rmtree(project / ".git")
    with pytest.raises(RunError, match="was removed while programmer was at work"):
        work.look(1, "programmer")
    assert work.snapshots is not None
    start = work.snapshots.all()[0]
    assert work.snapshots.restore(start.tree) == ("a.py", "staged.txt")
    assert (project / "staged.txt").read_text() == "mine\n"
    assert (project / "a.py").read_text() == "one\n"
    write(project, {"b": "x"})
    lost = pytest.raises(RunError, match=r"repository is gone: .*while tester was at work")
    with nothing_can_be_kept(store), lost:
        work.look(2, "tester")


def test_a_folder_that_became_a_link_is_not_looked_into(project: Path) -> None:
    work = begun(project)
    other = make_repository(project.parent / "other", {"a.py": "theirs\n"})
    shutil.rmtree(project)
    project.symlink_to(other)
    with pytest.raises(RunError, match="is a link now; nothing is kept of where it leads"):
        work.look(1, "programmer")


@pytest.mark.parametrize(("is_put_back", "edited"), [(False, True), (True, False)])
def test_what_a_killed_process_has_put_back_is_known_when_the_run_is_resumed(
    project: Path, is_put_back: bool, edited: bool
) -> None:
    work = begun(project)
    work.look(1, "programmer")
    write(project, {"a.py": "by the tester\n"})
    seen = work.look(2, "tester")
    if is_put_back:
        work.put_back(3, "tester", seen)
    else:
        git(project, "checkout", "-q", "a.py")
    if edited:
        write(project, {"a.py": "by the user\n"})
    # Killed before the state was saved: the reply is archived, the turn is still in flight.
    again = open_here(project)
    last, _ = again.begin(2, is_in_flight=True, replied=(2, "tester"))
    seen = again.look(2, "tester")
    assert seen.work.changed == ("a.py",)
    assert again.put_back(last + 1, "tester", seen).changes == ()
    assert (project / "a.py").read_text() == "one\n"
    assert again.snapshots is not None
    kept = [again.snapshots.read(one.tree, "a.py", 99) for one in again.snapshots.all()]
    assert kept[2] == b"by the tester\n"
    assert (b"by the user\n" in kept) == edited


def test_without_a_run_folder_nothing_is_known_and_nothing_is_in_the_way(project: Path) -> None:
    work = open_work_folder(project, None, os.environ)
    assert work.begin(3, is_in_flight=False) == (3, [])
    assert work.look(4, "programmer") == Seen()


def test_a_folder_with_too_much_in_it_is_not_copied(project: Path, store: Path) -> None:
    def begun() -> WorkFolder:
        repository = find_repository(project, os.environ)
        snapshots = Snapshots(store, project, repository, os.environ, most_files=3)
        work = WorkFolder(snapshots, repository)
        work.begin(0, is_in_flight=False)
        return work

    write(project, dict.fromkeys("bcde", "x"))
    work = begun()
    assert "has 4 files (0 MB) that are in no repository, too many to keep" in work.why_no_snapshots
    git(project, "add", "-A")
    assert begun().snapshots is not None


def test_a_checkout_has_what_the_snapshot_had_and_is_removed(project: Path) -> None:
    """What programs left behind is as it was at the start, unless it is committed."""
    mine, old, new = "node_modules/mine.js", "node_modules/old.js", "node_modules/new.js"
    write(project, {mine: "committed\n"})
    git(project, "add", "-f", mine)
    git(project, "commit", "-q", "-m", "two")
    write(project, {old: "left\n"})
    work = begun(project)
    start = work.now
    write(project, dict.fromkeys((mine, old, new, "a.py", "b.py"), "changed\n"))
    work.look(1, "programmer")
    assert start is not None
    assert work.now is not None
    assert work.left_behind(work.now.tree) == (new, old)
    with work.laid_out(work.now.tree, start.tree, ["a.py"]) as folder:
        assert {name: (folder / name).read_text() for name in ("a.py", "b.py", mine, old)} == {
            "a.py": "one\n",
            "b.py": "changed\n",
            mine: "changed\n",
            old: "left\n",
        }
        assert not (folder / new).exists()
    assert not folder.exists()


def test_snapshots_that_are_removed_are_not_begun_anew(project: Path, store: Path) -> None:
    work = begun(project)
    shutil.rmtree(store)
    with pytest.raises(RunError, match="while programmer was at work, the snapshots of the run"):
        work.look(1, "programmer")
    again = open_here(project)
    assert again.begin(1, is_in_flight=True) == (1, [])
    assert again.why_no_snapshots.startswith("the snapshots")
    assert again.snapshots is None


def test_one_that_fails_later_stops_the_run_until_it_can_be_kept(
    project: Path, store: Path
) -> None:
    """The reply is kept, and a change of the repository is told though nothing went on at first."""
    work = begun(project)
    git(project, "config", "core.fsmonitor", "x")
    write(project, {"b": "x"})
    with nothing_can_be_kept(store):
        with pytest.raises(RunError, match=r"after programmer: .*The reply is kept; resume"):
            work.look(1, "programmer")
        for _ in range(2):
            with pytest.raises(RunError, match=r"resumed: .*resume the run when that"):
                open_here(project).begin(1, is_in_flight=False)
    again = open_here(project)
    assert again.begin(1, is_in_flight=False) == (2, [])
    assert again.changed_before == (".git/config (core.fsmonitor)",)


def test_a_repository_that_cannot_be_copied_leaves_the_snapshots(
    project: Path, tmp_path: Path
) -> None:
    without_room = with_other_git(tmp_path / "other", "*pack-objects*) echo no room >&2; exit 1;;")
    work = open_here(project, without_room)
    _, (said,) = work.begin(0, is_in_flight=False)
    assert said.startswith(
        "snapshots can be read only as long as the repository has what it has now: "
    )
    assert said.endswith("no room")
    write(project, {"a.py": "two\n"})
    assert work.look(1, "programmer").work.changed == ("a.py",)


def checked_out(folder: Path, attributes: str, *settings: str) -> Path:
    """Return a fresh clone of a project in which git lays some files out in its own way."""
    make_repository(folder / "origin", {".gitattributes": attributes, "tests/a.txt": "one\ntwo\n"})
    options = [word for setting in settings for word in ("-c", setting)]
    git(folder, "clone", "-q", *options, str(folder / "origin"), str(folder / "project"))
    return folder / "project"


@pytest.mark.parametrize(
    ("name", "is_worktree"),
    [("eol=crlf", False), ("autocrlf", True), ("filter", False), ("filter", True)],
)
def test_a_fresh_checkout_is_clean_and_no_filter_is_run(
    tmp_path: Path, name: str, is_worktree: bool
) -> None:
    ran = f"touch {tmp_path}/ran; tr"
    filters = (f"filter.up.smudge={ran} a-z A-Z", f"filter.up.clean={ran} A-Z a-z")
    attributes, settings, text = {
        "eol=crlf": ("*.txt text eol=crlf\n", (), b"one\r\ntwo\r\n"),
        "autocrlf": ("", ("core.autocrlf=true",), b"one\r\ntwo\r\n"),
        "filter": ("*.txt filter=up\n", filters, b"ONE\nTWO\n"),
    }[name]
    folder = checked_out(tmp_path, attributes, *settings)
    assert (folder / "tests/a.txt").read_bytes() == text
    os.utime(folder / "tests/a.txt", (1, 1))
    assert git(folder, "status", "--porcelain") == ""
    (tmp_path / "ran").unlink(missing_ok=True)
    if is_worktree:
        Project(folder).tree(tmp_path / "tree")
        folder = tmp_path / "tree"
    assert open_here(folder).begin(0, is_in_flight=False) == (0, [])
    assert not (tmp_path / "ran").exists()
