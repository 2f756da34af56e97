"""Flows as users run them: pair and solo with a gate, one of their own, faults."""

import json
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.flow import FlowSource
from cli_agent_orchestrator.pipeline.flow_file import read_flow
from tests.cli.test_flow import write_flow
from tests.e2e.conftest import Machine
from tests.e2e.runs import events_of, run_folder_of, runs_of, state_of
from tests.pipeline.test_flow_file import TEMPLATES, TEXT

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

PROFILE = "---\nname: {}\ndescription: takes part\n---\nYou take part.\n"
GROUPS = TEXT.replace('"next word"]', '"next word"]\nwords = ["word"]\nlines = ["line"]')
MINE = read_flow(FlowSource(GROUPS, TEMPLATES), "mine", "mine.toml")


def once(command: str) -> str:
    """Return a gate that is run at the end alone."""
    return json.dumps({"name": "gate", "run": command, "when": ["after_tester"]})


def archived(machine: Machine) -> list[str]:
    found = (machine.home / "state" / "runs").glob("20*/turns/*.md")
    return sorted(path.name for path in found if "prompt" not in path.name)


def test_a_pair_passes_its_gate(ready: Machine) -> None:
    refused = ready.cao("run", "task.md", "--flow", "pair", code=2)
    assert "a command of yours decides, and none is given" in refused.stderr
    gate = 'echo checked; test -n "$HOME" && test -z "$CAO_TOKEN"'
    words = ("--flow", "pair", "--gate", once(gate), "--no-recording", "--json")
    done = ready.cao("run", "task.md", *words, code=0)
    assert archived(ready) == [
        "001-programmer.md",
        "002-programmer_review.md",
        "003-gate.md",
        "004-proof.md",
    ]
    events = events_of(done.stdout)
    (began,) = [event for event in events if event["type"] == "run_began"]
    assert list(began["terminals"]) == ["programmer", "programmer_review"]
    checked, proof = [event for event in events if event["type"] == "check_ended"]
    assert (checked["gate"], checked["outcome"]) == ("gate", "cleared")
    assert (proof["gate"], proof["outcome"]) == ("proof", "passed")
    assert "not proven: no gate says which tests it runs" in proof["detail"]
    assert set(state_of(ready)["terminals"]) == {"programmer", "peer_programmer"}
    (listed,) = runs_of(ready)
    assert listed["flow"] == "pair"
    assert not (run_folder_of(ready) / "replay").exists()
    assert "no screens of run" in ready.cao("replay", code=2).stderr


def test_a_flow_of_the_users_own_is_tried(machine: Machine) -> None:
    folder = Path(machine.env["CAO_CONFIG_DIR"])
    for name in ("flows", "profiles"):
        (folder / name).mkdir(parents=True)
    for role in MINE.roles:
        text = PROFILE.format(role.profile)
        (folder / "profiles" / f"{role.profile}.md").write_text(text, encoding="utf-8")
    write_flow(folder / "flows", GROUPS)
    before = sorted(machine.work.iterdir())
    done = machine.cao("flow", "check", "mine", code=0)
    assert "Round 1, gate: PASS" in done.stdout
    assert "It runs to its end." in done.stdout
    assert sorted(machine.work.iterdir()) == before
