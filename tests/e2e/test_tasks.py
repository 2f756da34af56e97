"""Tasks as users tell them: with headings, with settings of their own, in one line."""

import pytest

from cli_agent_orchestrator.pipeline.flow import USUAL_SCENARIO
from tests.e2e.conftest import Machine
from tests.e2e.runs import running, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


def prompt_of(machine: Machine, role: str) -> str:
    path = min((machine.home / "state" / "runs").glob(f"2*/turns/*-{role}-prompt.md"))
    return path.read_text(encoding="utf-8")


def test_a_task_in_one_line_is_resumed_by_the_same_line_and_has_the_usual_scenario(
    ready: Machine,
) -> None:
    line = ("Mend the typo.",)
    with running(ready, *line) as first:
        first.until(lambda event: event["type"] == "turn_ended")
        first.interrupt()
        assert first.end() == 130
    other = ready.cao("run", "Mend another.", code=2)
    assert "not the task it works on" in other.stderr
    with running(ready, *line) as second:
        assert second.end() == 0
        (began,) = second.told("run_began")
    assert began["resumed"]
    assert "Mend the typo." in prompt_of(ready, "analyst")
    assert USUAL_SCENARIO in prompt_of(ready, "tester")
    assert "Mend the typo." in ready.cao("report").stdout


def test_a_run_in_a_subfolder_is_one_of_the_project_above(ready: Machine) -> None:
    top, below = ready.work, ready.work / "src" / "deep"
    (top / "cao.toml").write_text('prompt_file = "task.md"\n', encoding="utf-8")
    below.mkdir(parents=True)
    done = ready.cao("run", "../../task.md", folder=below, code=0)
    assert f"Using the project in {top}\n" in done.stderr
    assert state_of(ready)["wd"] == str(top)
    assert not list(below.iterdir())
