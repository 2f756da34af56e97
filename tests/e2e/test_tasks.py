"""Tasks as users tell them: with headings, with settings of their own, in one line."""

import json
from typing import Any

import httpx
import pytest

from cli_agent_orchestrator.pipeline.flow import USUAL_SCENARIO
from tests.e2e.conftest import Machine
from tests.e2e.runs import FIVE_TURNS, prepare, rule, running, script, state_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

FAILING = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- not yet")


@pytest.fixture
def ready(machine: Machine) -> Machine:
    prepare(machine, script())
    return machine


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
    done = ready.cao("run", "Mend the typo.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Mend the typo." in prompt_of(ready, "analyst")
    assert USUAL_SCENARIO in prompt_of(ready, "tester")
    assert "Mend the typo." in ready.cao("report").stdout


def test_a_task_in_one_line_is_resumed_by_the_same_line(ready: Machine) -> None:
    line = ("Mend the typo.",)
    with running(ready, *line) as first:
        first.until(lambda event: event["type"] == "turn_ended")
        first.interrupt()
        assert first.end() == 130
    other = ready.cao("run", "Mend another.")
    assert other.returncode == 2
    assert "not the task it works on" in other.stderr
    with running(ready, *line) as second:
        assert second.end() == 0
        (began,) = second.told("run_began")
    assert began["resumed"]


def test_a_task_in_one_line_can_be_worked_on_apart_from_the_terminal(ready: Machine) -> None:
    done = ready.cao("run", "Mend the typo.", "--detach")
    assert done.returncode == 0, done.stderr
    assert ready.cao("watch").returncode == 0
    assert "Mend the typo." in prompt_of(ready, "analyst")


def test_a_task_with_headings_may_leave_out_the_test(ready: Machine) -> None:
    write_task(ready, "# What to do\nMend the typo.\n\n```\n# Test\n```\n")
    done = ready.cao("run", "task.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "```\n# Test\n```" in prompt_of(ready, "analyst")
    assert USUAL_SCENARIO in prompt_of(ready, "tester")


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


def test_a_run_keeps_the_settings_of_its_task_when_it_is_resumed(ready: Machine) -> None:
    ready.script(script(FAILING))
    write_task(ready, "---\nmax_rounds = 1\n---\n# Task\nMend it.\n")
    with running(ready, "task.md") as first:
        first.until(lambda event: event["type"] == "turn_ended")
        first.interrupt()
        assert first.end() == 130
    with running(ready) as second:
        assert second.end() == 1
    assert state_of(ready)["current_round"] == 1


def test_the_record_of_a_run_says_what_its_task_has_set(ready: Machine) -> None:
    write_task(ready, "---\nmax_rounds = 2\nidle_grace_seconds = 9\n---\n# Task\nMend it.\n")
    (ready.work / "cao.toml").write_text(
        "max_rounds = 5\nmax_review_cycles = 4\n", encoding="utf-8"
    )
    assert ready.cao("run", "task.md", "--max-rounds", "3").returncode == 0
    settings = settings_of(ready)
    assert settings["MAX_ROUNDS"] == {"value": "3", "source": "option"}
    assert settings["MAX_REVIEW_CYCLES"] == {"value": "4", "source": "file"}
    assert settings["IDLE_GRACE_SECONDS"] == {"value": "9", "source": "task"}


def test_a_task_that_is_sent_to_the_server_has_settings_in_the_same_way(ready: Machine) -> None:
    text = "---\nmax_rounds: 2\n{}\n---\n# Task\nMend it.\n"
    with ready.server() as server:
        token = (ready.home / "state" / "token").read_text(encoding="utf-8")
        with httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
            trust_env=False,
        ) as client:
            body = {"wd": str(ready.work), "settings": {"PROVIDER": "scripted"}}
            refused = client.post("/runs", json={**body, "task": text.format("gates: true")})
            assert refused.status_code == 400
            assert "PROMPT, line 3: a task cannot set gates" in refused.json()["detail"]
            begun = client.post("/runs", json={**body, "task": text.format("")})
            assert begun.status_code == 201, begun.text
        assert settings_of(ready)["MAX_ROUNDS"] == {"value": "2", "source": "task"}
        assert ready.cao("watch").returncode == 0


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("gates: make test", "a task cannot set gates"),
        ("agent_permissions: full", "a task cannot set agent_permissions"),
        ("max_rouds: 3", "expected max_rounds"),
        ("max_rounds: none", "expected a whole number"),
    ],
)
def test_settings_that_a_task_cannot_make_stop_it_before_anything_is_started(
    ready: Machine, line: str, fault: str
) -> None:
    write_task(ready, f"---\n{line}\n---\n# Task\nMend it.\n")
    done = ready.cao("run", "task.md")
    assert done.returncode == 2
    assert "task.md, line 2: " in done.stderr
    assert fault in done.stderr
    assert not (ready.home / "state").exists()


@pytest.mark.parametrize("words", [(), ("Mend the typo.",), ("../../task.md",)])
def test_a_run_in_a_subfolder_is_one_of_the_project_above(
    ready: Machine, words: tuple[str, ...]
) -> None:
    top, below = ready.work, ready.work / "src" / "deep"
    (top / "cao.toml").write_text('prompt_file = "task.md"\n', encoding="utf-8")
    below.mkdir(parents=True)
    done = ready.cao("run", *words, folder=below)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Using the project in {top}\n" in done.stderr
    assert f"cao report --wd {top}" in done.stdout
    assert state_of(ready)["wd"] == str(top)
    assert not list(below.iterdir())


@pytest.mark.parametrize("named", ["PROMPT_FILE", "WD"])
def test_a_run_that_says_what_it_is_meant_for_stays_where_it_is(ready: Machine, named: str) -> None:
    below = ready.work / "src"
    below.mkdir()
    (ready.work / "cao.toml").write_text('prompt_file = "task.md"\n', encoding="utf-8")
    ready.env[named] = "."
    done = ready.cao("run", folder=below)
    assert done.returncode == 2
    assert "Using the project" not in done.stderr
