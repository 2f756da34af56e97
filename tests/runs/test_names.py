"""Which run and which agent a word means."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import NotFound, NotSteerable, UsageError
from cli_agent_orchestrator.runs.record import RunStatus
from cli_agent_orchestrator.runs.view import (
    RunView,
    choose_live_run,
    choose_run_to_resume,
    find_agent,
    is_surely_run,
)
from tests.runs.views import a_run

HERE, THERE = Path("/here"), Path("/there")
RUNNING, PAUSED, PASS = RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.PASS
STOPPED = RunStatus.STOPPED


def run(
    name: str, status: RunStatus = RUNNING, wd: Path = HERE, *roles: str, started: float = 0.0
) -> RunView:
    terminals = {role: f"{role}-of-{name}" for role in roles}
    return a_run(
        id=f"20261115-084037-{name}",
        wd=str(wd),
        status=status,
        started=started,
        terminals=terminals,
    )


class TestAgents:
    def test_a_role_is_that_of_the_run_of_this_folder(self) -> None:
        runs = [run("aaaa", RUNNING, THERE, "tester"), run("bbbb", RUNNING, HERE, "tester")]
        assert find_agent(runs, "tester", HERE) == "tester-of-bbbb"
        assert find_agent(runs, "tester", THERE) == "tester-of-aaaa"

    def test_else_of_the_only_one_that_is_running(self) -> None:
        runs = [run("aaaa", RUNNING, THERE, "tester"), run("bbbb", PASS, THERE, "tester")]
        assert find_agent(runs, "tester", HERE) == "tester-of-aaaa"

    def test_several_are_listed(self) -> None:
        runs = [run("aaaa", RUNNING, THERE, "tester"), run("bbbb", RUNNING, THERE, "tester")]
        with pytest.raises(UsageError, match=r"(?s)aaaa.*bbbb"):
            find_agent(runs, "tester", HERE)

    def test_one_that_has_ended_here_may_have_left_its_agents(self) -> None:
        runs = [run("aaaa", PASS, HERE, "tester"), run("bbbb", PASS, HERE, "tester")]
        assert find_agent(runs, "tester", HERE) == "tester-of-aaaa"
        with pytest.raises(UsageError, match="aaaa"):
            find_agent(runs, "tester", THERE)

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


class TestLive:
    def test_the_one_here_else_the_only_one(self) -> None:
        here, there = run("aaaa", PAUSED, HERE), run("bbbb", RUNNING, THERE)
        ended = run("cccc", PASS, HERE)
        assert choose_live_run([here, there, ended], None, HERE) == here
        assert choose_live_run([there, ended], None, HERE) == there

    def test_several_are_listed_and_none_is_said(self) -> None:
        runs = [run("aaaa", RUNNING, THERE), run("bbbb", RUNNING, THERE)]
        with pytest.raises(UsageError, match=r"(?s)aaaa.*bbbb"):
            choose_live_run(runs, None, HERE)
        with pytest.raises(NotSteerable, match="no run is running"):
            choose_live_run([run("aaaa", PASS)], None, HERE)

    @pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.STOPPED, RunStatus.FAILED])
    def test_the_last_one_here_is_meant_as_long_as_it_can_go_on(self, status: RunStatus) -> None:
        here, there = run("aaaa", status, HERE), run("bbbb", RUNNING, THERE)
        assert choose_live_run([there, here], None, HERE) == here
        assert choose_live_run([replace(here, unsaved=True), there], None, HERE) == there

    def test_one_that_runs_here_comes_before_a_newer_one_that_can_go_on(self) -> None:
        newer, older = run("bbbb", STOPPED, HERE), run("aaaa", RUNNING, HERE)
        assert choose_live_run([newer, older], None, HERE) == older

    def test_one_that_is_named_may_have_ended(self) -> None:
        ended = run("aaaa", PASS, THERE)
        assert choose_live_run([ended, run("bbbb")], "aaaa", HERE) == ended


class TestResume:
    def test_the_last_here_comes_before_one_that_is_paused_elsewhere(self) -> None:
        here, there = run("aaaa", STOPPED, HERE), run("bbbb", PAUSED, THERE)
        assert choose_run_to_resume([there, here], None, HERE) == here
        assert choose_run_to_resume([there], None, HERE) == there
        assert choose_run_to_resume([there, here], "bbbb", HERE) == there

    def test_without_any_that_is_said(self) -> None:
        with pytest.raises(UsageError, match="no run in this folder"):
            choose_run_to_resume([run("aaaa", STOPPED, THERE)], None, HERE)
