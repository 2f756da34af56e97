"""What is said when the work of a run is delivered."""

import os
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli_agent_orchestrator.cli.work import (
    apply,
    choose_waiting,
    discard,
    pr,
    request_words,
)
from cli_agent_orchestrator.errors import OrchestratorError, UsageError
from cli_agent_orchestrator.runs.record import RunStatus, write_record
from cli_agent_orchestrator.runs.tree import plan_tree
from cli_agent_orchestrator.runs.view import RunView
from cli_agent_orchestrator.settings.config import state_folder
from cli_agent_orchestrator.settings.layout import run_folder
from cli_agent_orchestrator.work.delivery import PullRequest
from tests.runs.kept_runs import make_run
from tests.runs.test_own_tree import RUN, record_of
from tests.runs.views import a_run
from tests.work.projects import make_project

ASKED = ("cao/r1", "main", "Keep digits", "Keep digits.\n\nCao-Run: r1\n")
PUSHED = "Pushed cao/r1 to origin: git push origin cao/r1"
PARTS = [
    "  from cao/r1 into main",
    "  title: Keep digits",
    "  text:",
    "    Keep digits.",
    "",
    "    Cao-Run: r1",
]


def test_of_a_request_that_is_open_its_address_is_enough() -> None:
    done = PullRequest("origin", "https://example.org/7")
    assert [*request_words(done, *ASKED, draft=False)] == [PUSHED, "https://example.org/7"]


def test_without_a_program_all_is_said_that_the_page_of_the_host_asks_for() -> None:
    done = PullRequest("origin", said="remote: visit us")
    assert [*request_words(done, *ASKED, draft=True)] == [
        PUSHED,
        "remote: visit us",
        "No draft request is open yet: neither gh nor glab is there for origin.",
        "Open it on the page of origin: a new draft request",
        *PARTS,
    ]


def test_a_command_that_opens_it_is_said_beside_that() -> None:
    assert [*request_words(PullRequest("origin", to_type="gh pr create"), *ASKED, draft=False)] == [
        PUSHED,
        "No request is open yet. Open it with:\n  gh pr create",
        "Or on the page of origin: a new request",
        *PARTS,
    ]


HERE = Path("/shop")


def run_of(name: str, project: str, status: RunStatus = RunStatus.PASS) -> RunView:
    tree = f"/state/worktrees/{name}"
    return a_run(
        id=name, wd=tree, task_line=f"task of {name}", status=status, round=1, project=project
    )


MINE, MINE_TOO, FAILED = run_of("a", "/shop"), run_of("b", "/shop/inner"), run_of("c", "/shop")
OTHER, LIVE = run_of("d", "/other"), run_of("e", "/shop", RunStatus.RUNNING)
EVERY = [LIVE, FAILED, MINE_TOO, MINE, OTHER]


@pytest.mark.parametrize(
    ("runs", "waiting", "chosen"),
    [
        (EVERY, [MINE, OTHER], MINE),
        # what is wrong with the last one here is then said of it
        ([FAILED, MINE, OTHER], [], FAILED),
        ([FAILED, MINE, OTHER], [OTHER], FAILED),
        ([LIVE, FAILED], [], LIVE),
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
            [MINE_TOO, MINE, OTHER],
            [
                "the work of several runs waits here; name one of these:",
                "  ID  STATUS  ROUND  AGE    FOLDER       TASK",
                "  b   PASS    1      1 min  /shop/inner  task of b",
                "  a   PASS    1      1 min  .            task of a",
            ],
        ),
        (
            [OTHER],
            [OTHER],
            [
                "no work of a run in this folder waits; name one of these:",
                "  ID  STATUS  ROUND  AGE    FOLDER  TASK",
                "  d   PASS    1      1 min  /other  task of d",
            ],
        ),
        ([OTHER], [], ["there is no run of this folder, and no work of any other waits"]),
        ([], [], ["there is no run yet; `cao run` starts one"]),
    ],
)
def test_where_it_is_not_clear_those_are_listed_whose_work_waits(
    runs: list[RunView], waiting: list[RunView], lines: list[str]
) -> None:
    started = [replace(run, started=1.0) for run in waiting]
    with pytest.raises(OrchestratorError) as error:
        choose_waiting(runs, started, HERE, 61.0)
    assert str(error.value).split("\n") == lines


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
    assert tree.worktree.exists
    done = CliRunner().invoke(discard, ["--yes"])
    assert done.exception is None
    assert done.stdout.splitlines() == [
        f"To be removed: {tree.worktree.folder}, cao/{RUN}",
        "Removed.",
        "A snapshot keeps what was in it. To have it back among your files:",
        f"  cao diff k3f9 start..discarded --raw | git -C {project} apply",
    ]
    assert not tree.worktree.exists


@pytest.mark.parametrize(("command", "word"), [(apply, "applied"), (pr, "pushed")])
def test_what_an_exit_code_means_there_is_said(command: click.Command, word: str) -> None:
    """For a run, 3 means that it can be resumed."""
    page = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert f"Ends with 3 if nothing was {word}" in page
