"""Flows as users run them: pair and solo with a gate, one of their own, faults."""

import json
import signal
from pathlib import Path

import pytest

from cli_agent_orchestrator.cli.flow import write_flow
from cli_agent_orchestrator.pipeline.flow import FlowSource
from cli_agent_orchestrator.pipeline.flow_file import read_flow
from tests.e2e.conftest import Machine
from tests.e2e.runs import archive_of, at, prepare, running, script, state_of
from tests.e2e.test_runs import ASKS, answer
from tests.pipeline.test_flow_file import TEMPLATES, TEXT

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

PROFILE = "---\nname: {}\ndescription: takes part\n---\nYou take part.\n"
GROUPS = TEXT.replace('"next word"]', '"next word"]\nwords = ["word"]\nlines = ["line"]')
MINE = read_flow(FlowSource(GROUPS, TEMPLATES), "mine", "mine.toml")


@pytest.fixture
def ready(machine: Machine) -> Machine:
    prepare(machine, script())
    return machine


def once(command: str) -> str:
    """Return a gate that is run at the end alone."""
    return json.dumps({"name": "gate", "run": command, "when": ["after_tester"]})


def archived(machine: Machine) -> list[str]:
    found = (machine.home / "state" / "runs").glob("20*/turns/*.md")
    return sorted(path.name for path in found if "prompt" not in path.name)


def test_a_flow_with_an_unknown_profile_starts_nothing(ready: Machine) -> None:
    path = write_flow(MINE, ready.work)
    done = ready.cao("run", "task.md", "--flow", path.name, "--gate", "tests=true")
    assert done.returncode == 2
    assert "mine.toml, roles.writer.profile: unknown profile `writer`; " in done.stderr
    assert not (ready.home / "state" / "runs").exists()


def test_a_pair_passes_its_gate(ready: Machine) -> None:
    gate = 'echo checked; test -n "$HOME" && test -z "$CAO_TOKEN"'
    done = ready.cao("run", "task.md", "--flow", "pair", "--gate", once(gate), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert archived(ready) == [
        "001-programmer.md",
        "002-programmer_review.md",
        "003-gate.md",
        "004-proof.md",
    ]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (began,) = [event for event in events if event["type"] == "run_began"]
    assert list(began["terminals"]) == ["programmer", "programmer_review"]
    gate, proof = [event for event in events if event["type"] == "check_ended"]
    assert (gate["gate"], gate["outcome"]) == ("gate", "cleared")
    assert (proof["gate"], proof["outcome"]) == ("proof", "passed")
    assert "not proven: no gate says which tests it runs" in proof["detail"]
    assert set(state_of(ready)["terminals"]) == {"programmer", "peer_programmer"}
    (listed,) = json.loads(ready.cao("runs", "--json").stdout)
    assert listed["flow"] == "pair"


def test_a_gate_that_fails_is_told_in_the_next_round_and_the_run_can_be_reported(
    ready: Machine,
) -> None:
    gate = "echo attempt >> attempts; echo not yet; test $(wc -l < attempts) -ge 2"
    done = ready.cao("run", "task.md", "--flow", "solo", "--gate", once(gate))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Round 1, gate: FAIL" in done.stdout
    prompts = sorted(archive_of(ready).glob("*programmer-prompt.md"))
    assert "It wrote:\nnot yet" in prompts[1].read_text(encoding="utf-8")
    report = ready.cao("report")
    assert report.returncode == 0, report.stderr
    assert "| 2 |  | gate | command |" in report.stdout


def test_a_flow_with_a_gate_needs_a_command(ready: Machine) -> None:
    done = ready.cao("run", "task.md", "--flow", "solo")
    assert done.returncode == 2
    assert "a command of yours decides, and none is given" in done.stderr
    assert archived(ready) == []


def test_a_saved_run_is_resumed_with_its_own_flow_and_gate(machine: Machine) -> None:
    prepare(machine, script(ASKS))
    words = ("--max-rounds", "2", "--flow", "solo", "--gate", once("test -e mended"))
    with running(machine, "task.md", *words) as run:
        run.until(at("waiting_for_person", "programmer"))
        run.interrupt(signal.SIGINT)
        assert run.end() == 130, run.errors
    other = machine.cao("run", "--flow", "loop")
    assert other.returncode == 2
    assert "its flow is solo, not loop" in other.stderr
    (machine.work / "mended").touch()
    answer(machine, "programmer")
    done = machine.cao("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert archived(machine)[-2:] == ["002-gate.md", "003-proof.md"]


def test_a_fault_in_a_flow_file_is_named_and_nothing_is_started(ready: Machine) -> None:
    path = ready.work / "bad.toml"
    path.write_text(TEXT.replace('tester = "user"', 'tester = "nobody"'), encoding="utf-8")
    done = ready.cao("run", "task.md", "--flow", "bad.toml")
    assert done.returncode == 2
    assert "bad.toml, stages[2].tester: unknown role `nobody`; expected" in done.stderr
    unknown = ready.cao("run", "task.md", "--flow", "lop")
    assert unknown.returncode == 2
    assert "unknown flow 'lop' (did you mean loop?); there are: loop, pair, solo" in unknown.stderr


@pytest.mark.parametrize("own", ["config", "project"])
def test_a_flow_of_the_users_own_is_tried(machine: Machine, own: str) -> None:
    folder = Path(machine.env["CAO_CONFIG_DIR"]) if own == "config" else machine.work / ".cao"
    for name in ("flows", "profiles"):
        (folder / name).mkdir(parents=True)
    for role in MINE.roles:
        text = PROFILE.format(role.profile)
        (folder / "profiles" / f"{role.profile}.md").write_text(text, encoding="utf-8")
    write_flow(MINE, folder / "flows")
    before = sorted(machine.work.iterdir())
    done = machine.cao("flow", "check", "mine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Round 1, gate: PASS" in done.stdout
    assert "It runs to its end." in done.stdout
    assert sorted(machine.work.iterdir()) == before
