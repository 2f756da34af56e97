"""The commands about what a run did to the files, on real folders."""

import os
import re
import shlex
from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli_agent_orchestrator.cli.work import diff, moment_lines, undo
from cli_agent_orchestrator.errors import NotSteerable, RunError, UsageError
from cli_agent_orchestrator.runs.deliver import apply_run, discard_run, ended_run
from cli_agent_orchestrator.runs.record import write_record
from cli_agent_orchestrator.runs.tree import OwnTree, plan_tree, store_of
from cli_agent_orchestrator.settings.config import state_folder
from cli_agent_orchestrator.settings.layout import STATE_FILE, run_folder
from cli_agent_orchestrator.work.snapshots import Snapshot
from tests.programs import in_a_terminal
from tests.runs.kept_runs import RUN, make_run, snapshots_in, worked_run
from tests.runs.test_own_tree import STATE, record_of
from tests.work.projects import Project, git, make_project, make_repository, write

OTHER = "20261116-101010-abc7"
FITS_A_TURN = "20261116-101010-abx1"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wd = tmp_path / "project"
    worked_run(state_folder(os.environ), wd)
    monkeypatch.chdir(wd)
    return wd


def invoke(command: click.Command, *words: str) -> Result:
    done = CliRunner().invoke(command, [*words])
    if done.exception is not None:
        raise done.exception
    return done


@pytest.mark.parametrize("words", [(), ("k3f9",), ("start",), ("k3f9", "start..tester")])
def test_a_diff_is_what_the_run_changed_from_start_to_end(
    project: Path, words: tuple[str, ...]
) -> None:
    write(project, {"later.txt": "the user's\n"})
    shown = invoke(diff, *words).stdout
    assert "-1\n+3\n" in shown
    assert "+++ b/new.txt" in shown
    assert "--- a/gone.txt" in shown
    assert "mine.txt" not in shown
    assert "later.txt" not in shown


@pytest.mark.parametrize("words", [("1",), ("k3f9", "1"), ("..1",), ("start..1",)])
def test_a_diff_can_be_about_one_turn(project: Path, words: tuple[str, ...]) -> None:
    shown = invoke(diff, *words).stdout
    assert "-1\n+2\n" in shown
    assert "gone.txt" not in shown


def test_a_role_means_its_last_turn(project: Path) -> None:
    assert "-2\n+3\n" in invoke(diff, "programmer").stdout
    nothing = invoke(diff, "tester")
    assert nothing.stdout == ""
    assert nothing.stderr == "No file changed between 3 (programmer) and 4 (tester).\n"


def test_a_word_alone_is_a_run_if_it_is_no_turn_here(project: Path) -> None:
    other = make_repository(project.parent / "other", {"b.txt": "1\n"})
    for run in (OTHER, FITS_A_TURN):
        folder = make_run(state_folder(os.environ), other, run)
        write(other, {"b.txt": "1\n"})
        snapshots_in(folder, other).take(0, "start")
        write(other, {"b.txt": "2\n"})
        snapshots_in(folder, other).take(1, "programmer")
    assert "b.txt" in invoke(diff, "c7").stdout
    assert "b.txt" in invoke(diff, "7").stdout
    assert "b.txt" in invoke(diff, "x1").stdout
    assert "b.txt" not in invoke(diff, "1").stdout
    with pytest.raises(UsageError, match="no snapshot for '99'"):
        invoke(diff, "99")
    with pytest.raises(UsageError, match="at most"):
        invoke(diff, "a", "b", "c")


def test_a_table_says_which_files(project: Path) -> None:
    shown = invoke(diff, "--stat").stdout
    assert " a.txt    | 2 +-\n" in shown
    assert "delete mode 100644 gone.txt" in shown


def test_a_diff_has_colors_where_there_is_a_terminal(project: Path) -> None:
    shown = CliRunner().invoke(diff, ["3"], color=True).stdout
    assert "\x1b[31m-2\x1b[0m\n\x1b[32m+3\x1b[0m\n" in shown
    assert "\x1b[1m--- a/a.txt\x1b[0m\n" in shown
    assert "\x1b" not in invoke(diff, "3").stdout


def test_nothing_in_a_diff_controls_the_terminal(project: Path) -> None:
    write(project, {"evil\x1b[2J\nname": "x\x1b]0;title\x07\r\n"})
    snapshots_in(run_folder(state_folder(os.environ), RUN), project).take(5, "programmer")
    shown = invoke(diff, "5").stdout
    assert r'b/evil\033[2J\nname"' in shown
    assert "+x�]0;title��\n" in shown
    raw = CliRunner().invoke(diff, ["5", "--raw"]).stdout_bytes
    assert b"+x\x1b]0;title\x07\r\n" in raw
    assert "\x1b" not in invoke(diff, "5", "--stat").stdout
    listed = invoke(undo, "--to", "4", "--all", "--yes").stdout
    assert "    evil�[2J�name\n" in listed


def test_a_raw_diff_can_be_applied_backwards(project: Path, tmp_path: Path) -> None:
    patch = tmp_path / "patch"
    patch.write_bytes(CliRunner().invoke(diff, ["--raw"]).stdout_bytes)
    git(project, "apply", "-R", str(patch))
    assert (project / "a.txt").read_text() == "1\n"
    assert (project / "gone.txt").exists()


def test_undo_shows_what_it_does_and_how_to_undo_it(project: Path) -> None:
    write(project, {"a.txt": "the user's\n"})
    shown = invoke(undo, "--to", "1", "--yes").stdout
    assert shown == (
        f"{project}, back to 1 (programmer) of {RUN}:\n"
        "  brings back 1 file:\n"
        "    gone.txt\n"
        "  leaves 1 file that you changed (--all takes it back, too):\n"
        "    a.txt\n"
        f"Done: 1 file. To undo this: cao undo {RUN} --to 5 --all\n"
    )
    assert (project / "a.txt").read_text() == "the user's\n"
    invoke(undo, RUN, "--to", "5", "--all", "--yes")
    assert not (project / "gone.txt").exists()
    git(project, "checkout", "-q", "-b", "other")
    assert "! HEAD was " in invoke(undo, "--to", "1", "--all", "--yes").stdout
    assert (project / "a.txt").read_text() == "2\n"


def test_undo_brings_back_what_was_there_at_the_start(project: Path) -> None:
    shown = invoke(undo, "k3f9", "--yes").stdout
    assert "back to 0 (start)" in shown
    assert "  removes 1 file, made since then:\n    new.txt\n" in shown
    assert (project / "a.txt").read_text() == "1\n"
    assert (project / "mine.txt").read_text() == "not committed\n"
    assert invoke(undo, "--yes").stdout.startswith("Nothing to do: ")


def test_nothing_is_done_without_a_yes(project: Path) -> None:
    with pytest.raises(UsageError, match="add --yes"):
        invoke(undo)
    output, code = in_a_terminal(["undo"], "n\n")
    assert (output.endswith("Nothing was changed.\n"), code) == (True, 0)
    assert (project / "a.txt").read_text() == "3\n"
    assert "Done" in in_a_terminal(["undo"], "y\n")[0]


def test_undo_needs_one_moment_to_go_to(project: Path) -> None:
    with pytest.raises(UsageError, match=r"by its number; there are:\n +0  start"):
        invoke(undo, "--to", "1..3")
    assert (project / "a.txt").read_text() == "3\n"


@pytest.mark.parametrize("command", [diff, undo])
def test_a_run_without_any_snapshot_is_passed_over(project: Path, command: click.Command) -> None:
    """It was killed before its first turn, say."""
    make_run(state_folder(os.environ), project, OTHER)
    assert "new.txt" in invoke(command, *(("--yes",) if command is undo else ())).stdout
    with pytest.raises(RunError, match=f"the run {OTHER} has no snapshots"):
        invoke(command, OTHER)


@pytest.mark.parametrize("words", [(), ("programmer",), ("1",)])
def test_elsewhere_a_diff_is_of_the_only_run_there_is(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    shown = invoke(diff, *words)
    assert "+++ b/" in shown.stdout
    assert shown.stderr.startswith(f"There is no run in this folder; this is {RUN} (")
    with pytest.raises(UsageError, match="no run in this folder; name one of"):
        invoke(undo, "--yes")


def test_the_last_of_several_turns_says_that_it_is_and_how_to_see_the_one_before(
    project: Path,
) -> None:
    said = invoke(diff, "programmer").stderr
    head, *_ = said.split("\n")
    assert re.fullmatch(
        r"Turn \d+ is the last of 2 of programmer; for the one before: cao diff k3f9 1", head
    )
    assert invoke(diff, "1").stderr == ""
    assert invoke(diff, "start").stderr == ""


@pytest.mark.parametrize("command", [diff, undo])
def test_a_run_that_is_in_no_list_is_said_to_be(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, command: click.Command
) -> None:
    deep = tmp_path / "demo" / "src"
    deep.mkdir(parents=True)
    write(tmp_path / "demo", {STATE_FILE: "{}"})
    monkeypatch.chdir(deep)
    with pytest.raises(RunError, match="not in your list of runs, as that of `cao demo`"):
        invoke(command)


def test_snapshots_are_listed_a_line_each() -> None:
    noon = datetime(2026, 11, 17, 12).timestamp()
    taken = [
        Snapshot("t", 0, "start", noon),
        Snapshot("t", 12, "programmer", noon + 61),
    ]
    assert [*moment_lines(taken, {12: "3 files"})] == [
        "  0  start       12:00:00",
        " 12  programmer  12:01:01  changed 3 files",
    ]


@pytest.mark.parametrize("words", [(diff, "bogus"), (diff, "1..bogus"), (undo, "--to", "bogus")])
def test_a_word_that_means_no_snapshot_is_answered_with_those_there_are(
    project: Path, words: tuple[click.Command, *tuple[str, ...]]
) -> None:
    with pytest.raises(
        UsageError, match=r"there is no snapshot for 'bogus'; there are:\n +0  start"
    ):
        invoke(*words)


class TestInWorkTree:
    """A run that worked in a work tree, and committed there."""

    @pytest.fixture
    def user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
        found = make_project(tmp_path / "the project")
        monkeypatch.chdir(found.folder)
        return found

    @pytest.fixture
    def tree(self, user: Project) -> OwnTree:
        state = state_folder(os.environ)
        made = plan_tree(user.folder, state, RUN, os.environ)[0].make()[0]
        snapshots = made.snapshots(store_of(state, RUN))
        snapshots.take(0, "start")
        write(made.wd, {"new.txt": "new\n"})
        snapshots.take(1, "programmer")
        committed, _ = made.commit(store_of(state, RUN), RUN, STATE, "Do it")
        write_record(run_folder(state, RUN), record_of(committed))
        return committed

    def apply(self) -> None:
        with ended_run(state_folder(os.environ), RUN, os.environ) as ended:
            apply_run(ended)

    def assert_can_be_reverted(self, user: Project, tree: OwnTree) -> None:
        tip = tree.worktree.tip[:12]
        with pytest.raises(NotSteerable, match=f"is in main as commit {tip}") as caught:
            invoke(undo, RUN, "--yes")
        assert (user.folder / "new.txt").exists()
        command = shlex.split(str(caught.value).rpartition("\n  ")[2])
        assert command[0] == "git"
        user.git(*command[1:], folder=Path("/"))
        assert not (user.folder / "new.txt").exists()

    def test_what_was_not_applied_is_discarded_or_restored_there(
        self, user: Project, tree: OwnTree
    ) -> None:
        with pytest.raises(NotSteerable, match=f"cao discard {RUN}"):
            invoke(undo, "--yes")
        assert (tree.wd / "new.txt").exists()
        said = invoke(undo, RUN, "--to", "0", "--yes")
        assert not (tree.wd / "new.txt").exists()
        assert f"cao/{RUN} still has what was committed" in said.output

    def test_what_was_never_committed_is_taken_back_in_the_work_tree(self, user: Project) -> None:
        state = state_folder(os.environ)
        made = plan_tree(user.folder, state, RUN, os.environ)[0].make()[0]
        snapshots = made.snapshots(store_of(state, RUN))
        snapshots.take(0, "start")
        write(made.wd, {"new.txt": "new\n"})
        snapshots.take(1, "programmer")
        write_record(run_folder(state, RUN), record_of(made))
        invoke(undo, RUN, "--yes")
        assert not (made.wd / "new.txt").exists()

    @pytest.mark.parametrize("has_moved", [False, True], ids=["fast-forward", "merge"])
    def test_what_was_applied_is_reverted_by_git(
        self, user: Project, tree: OwnTree, has_moved: bool
    ) -> None:
        if has_moved:
            user.commit({"other.txt": "o\n"})
        self.apply()
        self.assert_can_be_reverted(user, tree)
        assert (tree.wd / "new.txt").exists()

    def test_also_with_commits_of_agents(self, user: Project, tree: OwnTree) -> None:
        write(tree.wd, {"a.txt": "2\n"})
        user.git("add", "a.txt", folder=tree.wd)
        user.git("commit", "-q", "-m", "by an agent", folder=tree.wd)
        write(tree.wd, {"a.txt": "3\n"})
        store = store_of(state_folder(os.environ), RUN)
        tree.snapshots(store).take(2, "programmer")
        tree, _ = tree.commit(store, RUN, STATE, "Do more")
        write_record(run_folder(state_folder(os.environ), RUN), record_of(tree))
        before = (user.folder / "a.txt").read_text()
        self.apply()
        self.assert_can_be_reverted(user, tree)
        assert (user.folder / "a.txt").read_text() == before

    def test_also_when_the_work_tree_is_gone(self, user: Project, tree: OwnTree) -> None:
        self.apply()
        with ended_run(state_folder(os.environ), RUN, os.environ) as ended:
            discard_run(ended)
        self.assert_can_be_reverted(user, tree)
