"""Runs as things of their own: listed, watched, started apart, cleaned up."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    FIVE_TURNS,
    archive_of,
    assert_five_turns_once,
    at,
    prepare,
    rule,
    running,
    script,
    state_of,
)

pytestmark = pytest.mark.tmux

# Any: JSON
Listed = dict[str, Any]
FULL = Path("/dev/full")


def runs_of(machine: Machine, *words: str) -> list[Listed]:
    done = machine.cao("runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[Listed] = json.loads(done.stdout)
    return found


def run_folder_of(machine: Machine) -> Path:
    (folder,) = (machine.home / "state" / "runs").iterdir()
    return folder


def record_of(machine: Machine) -> Listed:
    data: Listed = json.loads((run_folder_of(machine) / "run.json").read_text(encoding="utf-8"))
    return data


class TestRunFolder:
    def test_one_id_is_in_folder_archive_session_and_events(self, machine: Machine) -> None:
        prepare(machine, script())
        with running(machine, "task.md", "--max-rounds", "3") as run:
            assert run.end() == 0, run.errors
        folder = run_folder_of(machine)
        assert archive_of(machine).name == folder.name
        assert state_of(machine)["session_name"] == f"cao-{folder.name}"
        assert run.events[0]["type"] == "run_opened"
        assert run.events[0]["run"] == folder.name
        assert folder.stat().st_mode & 0o777 == 0o700
        lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == run.events
        assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))
        turns = [event for event in run.events if event["type"] == "status"]
        assert {event["round"] for event in turns} == {1}

    def test_what_it_was_started_with_is_kept(self, machine: Machine) -> None:
        prepare(machine, script())
        (machine.work / "cao.toml").write_text("idle_grace_seconds = 9\n", encoding="utf-8")
        assert machine.cao("run", "task.md", "--max-rounds", "3").returncode == 0
        record = record_of(machine)
        settings = record["settings"]
        assert settings["MAX_ROUNDS"] == {"value": "3", "source": "option"}
        assert settings["PROVIDER"] == {"value": "scripted", "source": "environment"}
        assert settings["IDLE_GRACE_SECONDS"] == {"value": "9", "source": "file"}
        assert settings["MAX_REVIEW_CYCLES"] == {"value": "3", "source": "default"}
        assert "empty lines" in record["task"]
        assert record["providers"] == dict.fromkeys(FIVE_TURNS, "scripted")
        token = (machine.home / "state" / "token").read_text(encoding="utf-8")
        assert token not in json.dumps(record)

    def test_a_killed_run_is_interrupted_and_goes_on_under_the_same_id(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(rule("programmer", seconds="2")))
        with running(machine, "task.md") as run:
            run.until(at("dispatched", "programmer"))
            (listed,) = runs_of(machine)
            assert (listed["status"], listed["role"]) == ("running", "programmer")
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
        (killed,) = runs_of(machine)
        assert (killed["id"], killed["status"]) == (listed["id"], "interrupted")
        with running(machine) as again:
            assert again.end() == 0, again.errors
        (passed,) = runs_of(machine)
        assert (passed["id"], passed["status"]) == (listed["id"], "PASS")
        assert again.events[0]["seq"] > run.events[-1]["seq"]
        assert_five_turns_once(machine)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_stopped_run_is_listed_as_stopped(self, machine: Machine, number: int) -> None:
        prepare(machine, script(rule("analyst", misbehave="{ hang = true }")))
        with running(machine, "task.md") as run:
            run.until(at("turn_began", "analyst"))
            run.interrupt(number)
            assert run.end() == 128 + number
        assert runs_of(machine)[0]["status"] == "stopped"

    def test_a_run_that_could_not_start_its_agents_is_listed_as_failed(
        self, machine: Machine
    ) -> None:
        prepare(machine, script())
        machine.env["CAO_SCRIPTED_COMMAND"] = "/nonexistent/agent"
        assert machine.cao("run", "task.md").returncode == 2
        assert runs_of(machine)[0]["status"] == "failed"

    def test_a_run_is_listed_before_its_agents_are_there(self, machine: Machine) -> None:
        prepare(machine, script())
        with running(machine, "task.md") as run:
            run.until(lambda event: event["type"] == "agents_starting")
            assert runs_of(machine)[0]["status"] == "running"
            assert run.end() == 0, run.errors

    @pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
    def test_a_run_goes_on_when_its_folder_cannot_be_written(self, machine: Machine) -> None:
        prepare(machine, script())
        runs = machine.home / "state" / "runs"
        runs.parent.mkdir(mode=0o700)
        runs.symlink_to(FULL)
        with running(machine, "task.md") as run:
            assert run.end() == 0, run.errors
        assert any("cao runs" in event["text"] for event in run.told("run_warning"))
        assert_five_turns_once(machine)
