"""The commands about the work of a run, on real folders: shown, taken back, delivered."""

import os
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from cli_agent_orchestrator.cli.work import (
    apply,
    choose_waiting,
    diff,
    discard,
    request_words,
    undo,
)
from cli_agent_orchestrator.errors import NotSteerable, OrchestratorError, RunError, UsageError
from cli_agent_orchestrator.runs.deliver import apply_run, discard_run, ended_run
from cli_agent_orchestrator.runs.record import RunStatus, write_record
from cli_agent_orchestrator.runs.tree import commit_tree, plan_tree, store_of
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.settings.layout import run_folder, state_folder
from cli_agent_orchestrator.work.delivery import PullRequest
from cli_agent_orchestrator.work.worktree import Worktree
from tests.programs import in_a_terminal
from tests.runs.kept_runs import RUN, make_run, snapshots_in, worked_run
from tests.runs.test_own_tree import STATE, record_of
from tests.runs.views import a_run
from tests.work.projects import AUTHOR, Project, git, make_project, make_repository, write

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


WHOLE = ("-1\n+3\n", "+++ b/new.txt", "--- a/gone.txt")
USERS = ("mine.txt", "later.txt")


@pytest.mark.parametrize(
    ("words", "shown", "left_out"),
    [
        ((), WHOLE, USERS),
        (("k3f9", "start..tester"), WHOLE, USERS),
        (("1",), ("-1\n+2\n",), ("gone.txt",)),
        (("k3f9", "..1"), ("-1\n+2\n",), ("gone.txt",)),
        (("programmer",), ("-2\n+3\n",), ("new.txt",)),
        (("--stat",), (" a.txt    | 2 +-\n", "delete mode 100644 gone.txt"), USERS),
    ],
)
def test_a_diff_is_what_the_run_or_one_turn_changed(
    project: Path, words: tuple[str, ...], shown: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    write(project, {"later.txt": "the user's\n"})
    text = invoke(diff, *words).stdout
    assert all(one in text for one in shown)
    assert not any(one in text for one in left_out)


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
    write(project, {"a.txt": "the user's\n"})
    *_, last = invoke(undo, "--to", "1").stdout.splitlines()
    assert last == "Nothing to do: all else is as it was at 1 (programmer)."


def test_nothing_is_done_without_a_yes(project: Path) -> None:
    with pytest.raises(UsageError, match="add --yes"):
        invoke(undo)
    output, code = in_a_terminal(["undo"], "n\n")
    assert (output.endswith("Nothing was changed.\n"), code) == (True, 0)
    assert (project / "a.txt").read_text() == "3\n"


@pytest.mark.parametrize("command", [diff, undo])
def test_a_run_without_any_snapshot_is_passed_over(project: Path, command: click.Command) -> None:
    """It was killed before its first turn, say."""
    make_run(state_folder(os.environ), project, OTHER)
    assert "new.txt" in invoke(command, *(("--yes",) if command is undo else ())).stdout
    with pytest.raises(RunError, match=f"the run {OTHER} has no snapshots"):
        invoke(command, OTHER)


def test_of_a_turn_it_is_said_that_there_are_several_or_that_nothing_changed(project: Path) -> None:
    last = r"Turn \d+ is the last of 2 of programmer; for the one before: cao diff k3f9 1\n"
    assert re.match(last, invoke(diff, "programmer").stderr)
    assert invoke(diff, "1").stderr == ""
    nothing = invoke(diff, "tester")
    assert nothing.stdout == ""
    assert nothing.stderr == "No file changed between 3 (programmer) and 4 (tester).\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((diff, "bogus"), "there is no snapshot for 'bogus'"),
        ((diff, "1..bogus"), "there is no snapshot for 'bogus'"),
        ((undo, "--to", "bogus"), "there is no snapshot for 'bogus'"),
        ((undo, "--to", "1..3"), "by its number"),
    ],
)
def test_a_word_that_means_no_snapshot_is_answered_with_those_there_are(
    project: Path, words: tuple[click.Command, *tuple[str, ...]], said: str
) -> None:
    listed = r"there are:\n +0  start +\d\d:\d\d:\d\d\n +1  programmer"
    with pytest.raises(UsageError, match=rf"{said}; {listed}"):
        invoke(*words)
    assert (project / "a.txt").read_text() == "3\n"


class TestInWorkTree:
    """A run that worked in a work tree, and committed there."""

    @pytest.fixture
    def user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
        found = make_project(tmp_path / "the project")
        monkeypatch.chdir(found.folder)
        return found

    def work(self, user: Project) -> Worktree:
        """Let a run change a file in its work tree."""
        state = state_folder(os.environ)
        made = plan_tree(user.folder, state, RUN, os.environ)[0].make()[0]
        snapshots = made.snapshots(store_of(state, RUN))
        snapshots.take(0, "start")
        write(made.wd, {"new.txt": "new\n"})
        snapshots.take(1, "programmer")
        write_record(run_folder(state, RUN), record_of(made))
        return made

    @pytest.fixture
    def tree(self, user: Project) -> Worktree:
        made, state = self.work(user), state_folder(os.environ)
        committed, _ = commit_tree(made, store_of(state, RUN), RUN, STATE, "Do it")
        write_record(run_folder(state, RUN), record_of(committed))
        return committed

    def apply(self) -> None:
        with ended_run(state_folder(os.environ), RUN, os.environ) as ended:
            apply_run(ended)

    def assert_can_be_reverted(self, user: Project, tree: Worktree) -> None:
        tip = tree.tip[:12]
        with pytest.raises(NotSteerable, match=f"is in main as commit {tip}") as caught:
            invoke(undo, RUN, "--yes")
        assert (user.folder / "new.txt").exists()
        command = shlex.split(str(caught.value).rpartition("\n  ")[2])
        assert command[0] == "git"
        user.git(*command[1:], folder=Path("/"))
        assert not (user.folder / "new.txt").exists()

    def test_what_was_not_applied_is_discarded_or_restored_there(
        self, user: Project, tree: Worktree
    ) -> None:
        with pytest.raises(NotSteerable, match=f"cao discard {RUN}"):
            invoke(undo, "--yes")
        assert (tree.wd / "new.txt").exists()
        said = invoke(undo, RUN, "--to", "0", "--yes")
        assert not (tree.wd / "new.txt").exists()
        assert f"cao/{RUN} still has what was committed" in said.output

    def test_what_was_never_committed_is_taken_back_in_the_work_tree(self, user: Project) -> None:
        made = self.work(user)
        invoke(undo, RUN, "--yes")
        assert not (made.wd / "new.txt").exists()

    @pytest.mark.parametrize("since", ["nothing", "moved", "gone"])
    def test_what_was_applied_is_reverted_by_git(
        self, user: Project, tree: Worktree, since: str
    ) -> None:
        if since == "moved":
            user.commit({"other.txt": "o\n"})
        self.apply()
        if since == "gone":
            with ended_run(state_folder(os.environ), RUN, os.environ) as ended:
                discard_run(ended)
        self.assert_can_be_reverted(user, tree)
        assert (tree.wd / "new.txt").exists() == (since != "gone")

    def test_also_with_commits_of_agents(self, user: Project, tree: Worktree) -> None:
        write(tree.wd, {"a.txt": "2\n"})
        user.git("add", "a.txt", folder=tree.wd)
        user.git("commit", "-q", "-m", "by an agent", folder=tree.wd)
        write(tree.wd, {"a.txt": "3\n"})
        store = store_of(state_folder(os.environ), RUN)
        tree.snapshots(store).take(2, "programmer")
        tree, _ = commit_tree(tree, store, RUN, STATE, "Do more")
        write_record(run_folder(state_folder(os.environ), RUN), record_of(tree))
        before = (user.folder / "a.txt").read_text()
        self.apply()
        self.assert_can_be_reverted(user, tree)
        assert (user.folder / "a.txt").read_text() == before


ASKED = ("cao/r1", "main", "Keep digits", "Keep digits.\n\nCao-Run: r1\n")


@pytest.mark.parametrize(
    ("done", "draft", "told"),
    [
        (PullRequest("origin", "https://example.org/7"), False, ["https://example.org/7"]),
        (
            PullRequest("origin", to_type="gh pr create", said="remote: visit us"),
            True,
            [
                "remote: visit us",
                "No draft request is open yet.",
                "Open it with:\n  gh pr create",
                "Open it on the page of origin: a new draft request",
                "  from cao/r1 into main",
                "  title: Keep digits",
                "  text:",
                *("    Keep digits.", "", "    Cao-Run: r1"),
            ],
        ),
    ],
)
def test_without_a_program_all_is_said_that_the_page_of_the_host_asks_for(
    done: PullRequest, draft: bool, told: list[str]
) -> None:
    pushed = "Pushed cao/r1 to origin: git push origin cao/r1"
    assert [*request_words(done, *ASKED, draft=draft)] == [pushed, *told]


HERE = Path("/shop")


def run_of(name: str, project: str, status: RunStatus = RunStatus.PASS) -> RunView:
    tree = f"/state/worktrees/{name}"
    return a_run(
        id=name, wd=tree, task_line=f"task of {name}", status=status, round=1, project=project
    )


MINE, MINE_TOO, NOT_PASSED = run_of("a", "/shop"), run_of("b", "/shop/inner"), run_of("c", "/shop")
ELSEWHERE, LIVE = run_of("d", "/other"), run_of("e", "/shop", RunStatus.RUNNING)
EVERY = [LIVE, NOT_PASSED, MINE_TOO, MINE, ELSEWHERE]


@pytest.mark.parametrize(
    ("runs", "waiting", "chosen"),
    [
        (EVERY, [MINE, ELSEWHERE], MINE),
        # what is wrong with the last one here is then said of it
        ([NOT_PASSED, MINE, ELSEWHERE], [], NOT_PASSED),
        ([NOT_PASSED, MINE, ELSEWHERE], [ELSEWHERE], NOT_PASSED),
        ([LIVE, NOT_PASSED], [], LIVE),
    ],
)
def test_the_run_whose_work_waits_here_is_meant(
    runs: list[RunView], waiting: list[RunView], chosen: RunView
) -> None:
    assert choose_waiting(runs, waiting, HERE, 60.0) == chosen


@pytest.mark.parametrize(
    ("runs", "waiting", "lines"),
    [
        (
            EVERY,
            [MINE_TOO, MINE, ELSEWHERE],
            ["the work of several runs waits here; name one of these:", "  ID", "  b ", "  a "],
        ),
        (
            [ELSEWHERE],
            [ELSEWHERE],
            ["no work of a run in this folder waits; name one of these:", "  ID", "  d "],
        ),
        ([ELSEWHERE], [], ["there is no run of this folder, and no work of any other waits"]),
        ([], [], ["there is no run yet; `cao run` starts one"]),
    ],
)
def test_where_it_is_not_clear_those_are_listed_whose_work_waits(
    runs: list[RunView], waiting: list[RunView], lines: list[str]
) -> None:
    with pytest.raises(OrchestratorError) as error:
        choose_waiting(runs, waiting, HERE, 61.0)
    said = str(error.value).split("\n")
    assert [line[: len(start)] for line, start in zip(said, lines, strict=True)] == lines


def test_work_that_is_only_in_its_work_tree_waits_too_and_goes_only_if_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_folder(os.environ)
    project = make_project(tmp_path / "project").folder
    tree, _ = plan_tree(project, state, RUN, os.environ)[0].make()
    (tree.wd / "new.txt").write_text("new\n")
    folder = run_folder(state, RUN)
    write_record(folder, replace(record_of(tree), status=RunStatus.FAIL))
    folder.create("state.json", b"{}")
    make_run(state, project, "20261116-101010-abc7")
    monkeypatch.chdir(project)
    not_passed = CliRunner().invoke(apply, [])
    assert "20261116-101010-abc7 worked in" in str(not_passed.exception)
    refused = CliRunner().invoke(discard, [], input="y\n")
    assert isinstance(refused.exception, UsageError)
    assert tree.exists
    done = CliRunner().invoke(discard, ["--yes"])
    assert done.exception is None
    assert done.stdout.splitlines() == [
        f"To be removed: {tree.folder}, cao/{RUN}",
        "Removed.",
        "A snapshot keeps what was in it. To have it back among your files:",
        f"  cao diff k3f9 start..discarded --raw | git -C {project} apply",
    ]
    assert not tree.exists


def test_a_run_that_changed_no_file_leaves_no_doubt_which_work_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, project = state_folder(os.environ), make_project(tmp_path / "project").folder
    for run, text in ((RUN, "new\n"), ("20261116-101010-abc7", "")):
        tree, _ = plan_tree(project, state, run, os.environ)[0].make()
        if text:
            (tree.wd / "new.txt").write_text(text)
            tree = replace(tree, tip=tree.commit("work\n", AUTHOR).id)
        record = replace(record_of(tree), id=run, status=RunStatus.PASS)
        write_record(run_folder(state, run), record)
        run_folder(state, run).create("state.json", b"{}")
    monkeypatch.chdir(project)
    done = CliRunner().invoke(apply, [])
    assert done.exception is None
    assert (project / "new.txt").read_text() == "new\n"
