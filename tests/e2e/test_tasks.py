"""Tasks as users tell them: with headings, with settings of their own, in one line."""

import json
from typing import Any

import pytest

from cli_agent_orchestrator.pipeline.flow import USUAL_SCENARIO
from tests.e2e.conftest import Machine
from tests.e2e.runs import FIVE_TURNS, rule, running, script, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

FAILING = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- not yet")


def prompt_of(machine: Machine, role: str) -> str:
    path = min((machine.home / "state" / "runs").glob(f"2*/turns/*-{role}-prompt.md"))
    return path.read_text(encoding="utf-8")


def write_task(machine: Machine, text: str) -> None:
    (machine.work / "task.md").write_text(text, encoding="utf-8")


def settings_of(machine: Machine) -> Any:
    """Return what the record of the run says about its settings."""
    (folder,) = (machine.home / "state" / "runs").iterdir()
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))["settings"]


def test_a_task_in_one_line_runs_with_the_usual_scenario_and_can_be_reported(
    ready: Machine,
) -> None:
    ready.cao("run", "Mend the typo.", code=0)
    assert "Mend the typo." in prompt_of(ready, "analyst")
    assert USUAL_SCENARIO in prompt_of(ready, "tester")
    assert "Mend the typo." in ready.cao("report").stdout


def test_a_task_in_one_line_is_resumed_by_the_same_line(ready: Machine) -> None:
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


def test_a_task_brings_settings_that_win_over_the_project_but_not_over_the_user(
    ready: Machine,
) -> None:
    ready.script(script(FAILING))
    (ready.work / "cao.toml").write_text(
        'max_rounds = 3\ntester_provider = "nonesuch"\n', encoding="utf-8"
    )
    del ready.env["PROVIDER"]
    write_task(
        ready, "---\nmax_rounds: 2\nprovider: scripted\n---\n# Task\nMend it.\n# Test\nTry it.\n"
    )
    with running(ready, "task.md") as run:
        assert run.end() == 1
        assert len(run.told("turn_ended")) == 2 * len(FIVE_TURNS)
    assert "provider: scripted" not in prompt_of(ready, "analyst")
    with running(ready, "task.md", "--max-rounds", "1") as run:
        assert run.end() == 1
        assert len(run.told("turn_ended")) == len(FIVE_TURNS)


def test_a_task_that_is_sent_to_the_server_has_settings_in_the_same_way(ready: Machine) -> None:
    text = "---\nmax_rounds: 2\n{}\n---\n# Task\nMend it.\n"
    with ready.server() as server:
        with ready.http(server) as client:
            body = {"wd": str(ready.work), "settings": {"PROVIDER": "scripted"}}
            refused = client.post("/runs", json={**body, "task": text.format("gates: true")})
            assert refused.status_code == 400
            assert "PROMPT, line 3: a task cannot set gates" in refused.json()["detail"]
            begun = client.post("/runs", json={**body, "task": text.format("")})
            assert begun.status_code == 201, begun.text
        assert settings_of(ready)["MAX_ROUNDS"] == {"value": "2", "source": "task"}
        ready.cao("watch", code=0)


def test_a_run_in_a_subfolder_is_one_of_the_project_above(ready: Machine) -> None:
    top, below = ready.work, ready.work / "src" / "deep"
    (top / "cao.toml").write_text('prompt_file = "task.md"\n', encoding="utf-8")
    below.mkdir(parents=True)
    done = ready.cao("run", "../../task.md", folder=below, code=0)
    assert f"Using the project in {top}\n" in done.stderr
    assert f"cao report --wd {top}" in done.stdout
    assert state_of(ready)["wd"] == str(top)
    assert not list(below.iterdir())
