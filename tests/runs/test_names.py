"""Which run and which agent a word means."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import NotFound, NotSteerable, UsageError
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.runs.view import (
    Purpose,
    RunView,
    choose_run,
    find_addressee,
    find_agent,
    is_surely_run,
)
from tests.runs.views import a_run

HERE, THERE = Path("/here"), Path("/there")
RUNNING, PAUSED, PASS, FAIL = RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.PASS, RunStatus.FAIL
STOPPED, FAILED, INTERRUPTED = RunStatus.STOPPED, RunStatus.FAILED, RunStatus.INTERRUPTED


def run(
    name: str, status: RunStatus = RUNNING, wd: Path = HERE, *roles: str, **more: bool
) -> RunView:
    terminals = {role: f"{role}-of-{name}" for role in roles}
    return a_run(
        id=f"20261115-084037-{name}", wd=str(wd), status=status, terminals=terminals, **more
    )


class TestAgents:
    def test_a_role_is_that_of_the_run_of_this_folder(self) -> None:
        runs = [run("aaaa", RUNNING, THERE, "tester"), run("bbbb", RUNNING, HERE, "tester")]
        assert find_agent(runs, "tester", HERE) == "tester-of-bbbb"
        assert find_agent(runs, "tester", THERE) == "tester-of-aaaa"

    def test_else_of_the_only_one_that_is_running(self) -> None:
        ended = run("bbbb", PASS, THERE, "tester")
        runs = [run("aaaa", RUNNING, THERE, "tester"), ended]
        assert find_agent(runs, "tester", HERE) == "tester-of-aaaa"
        with pytest.raises(UsageError, match=r"(?s)aaaa.*cccc"):
            find_agent([*runs, run("cccc", RUNNING, THERE, "tester")], "tester", HERE)
        with pytest.raises(UsageError, match="bbbb"):
            find_agent([ended], "tester", HERE)

    def test_a_run_can_be_named_with_it(self) -> None:
        runs = [run("aaaa", RUNNING, HERE, "tester"), run("bbbb", PASS, THERE, "tester")]
        assert find_agent(runs, "bbbb/tester", HERE) == "tester-of-bbbb"
        with pytest.raises(NotFound, match="tester"):
            find_agent(runs, "bbbb/cook", HERE)
        with pytest.raises(NotFound, match="cccc"):
            find_agent(runs, "cccc/tester", HERE)
        with pytest.raises(UsageError, match="fits several"):
            find_agent(runs, "2026/tester", HERE)

    @pytest.mark.parametrize("text", ["7f3a", "cook", "", "2026"])
    def test_other_words_name_no_role(self, text: str) -> None:
        assert find_agent([run("aaaa", RUNNING, HERE, "tester")], text, HERE) is None


def test_a_message_goes_to_the_one_agent_or_run_that_a_word_can_mean() -> None:
    live, ended = run("7f3a", RUNNING, HERE, "tester", "testing"), run("k3f9", PASS, HERE, "cook")
    runs = [live, ended]
    assert find_addressee(runs, "tester-of", HERE) == (live, "tester")
    assert find_addressee(runs, "7f3a", HERE) == (live, None)
    assert find_addressee(runs, "k3f9/cook", HERE) == (None, None)
    assert find_addressee(runs, "cook-of", HERE) == (None, None)
    with pytest.raises(UsageError, match="tester, testing"):
        find_addressee(runs, "test", HERE)


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("20261115-084037-k3f9", True),
        ("k3f9", True),
        ("20261115-0", True),
        ("2026", False),
        ("f9", False),
        ("zzzz", False),
    ],
)
def test_what_could_be_a_terminal_is_not_surely_a_run(text: str, sure: bool) -> None:
    assert is_surely_run([run("k3f9")], text) is sure


class TestWithoutAName:
    @pytest.mark.parametrize(
        ("to", "runs", "meant"),
        [
            ("act", [(PASS, THERE), (PASS, HERE), (PASS, HERE)], 1),
            ("act", [(PASS, HERE / "inner")], 0),
            ("act", [(PASS, HERE), (RUNNING, HERE)], 1),
            ("act", [(PASS, THERE), (RUNNING, THERE)], 1),
            ("look", [(PASS, THERE)], 0),
            ("steer", [(PAUSED, HERE), (RUNNING, THERE), (PASS, HERE)], 0),
            ("steer", [(RUNNING, THERE), (PASS, HERE)], 0),
            ("steer", [(RUNNING, THERE), (STOPPED, HERE)], 1),
            ("steer", [(RUNNING, THERE), (FAILED, HERE)], 1),
            ("steer", [(RUNNING, THERE), (INTERRUPTED, HERE)], 1),
            ("steer", [(STOPPED, HERE), (RUNNING, HERE)], 1),
            ("resume", [(PAUSED, THERE), (STOPPED, HERE)], 1),
            ("resume", [(RUNNING, THERE), (PAUSED, THERE)], 1),
            ("resume", [(STOPPED, HERE), (PAUSED, HERE)], 1),
            ("resume", [(FAIL, HERE), (STOPPED, HERE), (FAILED, HERE)], 1),
            ("resume", [(PASS, HERE), (STOPPED, HERE)], 1),
            ("resume", [(FAIL, HERE), (PASS, HERE)], 0),
            ("extend", [(PASS, HERE), (FAIL, HERE), (STOPPED, HERE)], 1),
            ("extend", [(FAIL, THERE), (STOPPED, HERE), (FAIL, HERE)], 1),
        ],
    )
    def test_it_is_the_run_that_matters_here(
        self, to: Purpose, runs: list[tuple[RunStatus, Path]], meant: int
    ) -> None:
        """The newest come first."""
        views = [run(f"aaa{n}", status, wd) for n, (status, wd) in enumerate(runs)]
        assert choose_run(views, None, HERE, to) is views[meant]

    def test_one_that_did_not_begin_or_is_gone_is_passed_over(self) -> None:
        gone, failed = run("dddd", FAIL, lost=True), run("eeee", FAIL)
        assert choose_run([gone, failed], None, HERE, "extend") is failed
        unsaved, own = run("bbbb", STOPPED, unsaved=True), run("aaaa", STOPPED)
        elsewhere = run("cccc", RUNNING, THERE)
        assert choose_run([unsaved, own], None, HERE, "resume") is own
        assert choose_run([unsaved, elsewhere], None, HERE, "steer") is elsewhere
        assert choose_run([unsaved, own], "bbbb", HERE, "resume") is unsaved

    @pytest.mark.parametrize(
        ("to", "runs", "error", "said"),
        [
            ("steer", [(RUNNING, THERE), (RUNNING, THERE)], UsageError, "(?s)aaa0.*aaa1"),
            ("steer", [(PASS, HERE)], NotSteerable, "no run is running"),
            ("look", [(PASS, THERE), (PASS, THERE)], UsageError, "this folder; name one of: 2026"),
            ("act", [(PASS, THERE)], UsageError, "this folder; name one of: 2026"),
            ("act", [], UsageError, "no run yet"),
        ],
    )
    def test_else_it_is_said_which_there_are(
        self, to: Purpose, runs: list[tuple[RunStatus, Path]], error: type[Exception], said: str
    ) -> None:
        views = [run(f"aaa{n}", status, wd) for n, (status, wd) in enumerate(runs)]
        with pytest.raises(error, match=said):
            choose_run(views, None, HERE, to)
