"""Runs as things of their own: listed, watched, started apart, cleaned up."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli_agent_orchestrator.runs.service import Follower
from cli_agent_orchestrator.settings.layout import run_folder
from tests.e2e.conftest import Machine, Process, ended_at_last
from tests.e2e.runs import (
    ASKS,
    FIVE_TURNS,
    TASK,
    alive_agents,
    answer,
    archive_of,
    assert_five_turns_once,
    at,
    events_of,
    prepare,
    record_of,
    run_folder_of,
    running,
    runs_of,
    script,
    state_of,
)

pytestmark = pytest.mark.tmux


class TestRunFolder:
    def test_one_id_is_in_folder_archive_session_and_events(self, machine: Machine) -> None:
        """Followed to its end by watchers, whose Ctrl-C leaves it alone."""
        prepare(machine, script(ASKS))
        (machine.work / "cao.toml").write_text("idle_grace_seconds = 9\n", encoding="utf-8")
        with running(machine, "task.md", "--max-rounds", "3", "--keep-agents") as run:
            run.until(lambda event: event["type"] == "agents_starting")
            assert runs_of(machine)[0]["status"] == "running", "before its agents are there"
            run.until(at("waiting_for_person", "programmer"))
            with watching(machine, until="programmer begins") as watch:
                watch.send_signal(signal.SIGINT)
                _, errors = watch.communicate(timeout=60)
            assert watch.returncode == 130
            assert b"the run goes on" in errors
            watch_and_answer(machine)
            assert run.end() == 0, run.errors
        folder = run_folder_of(machine)
        assert archive_of(machine).parent == folder
        assert state_of(machine)["session_name"] == f"cao-{folder.name}"
        assert run.events[0]["type"] == "run_opened"
        assert run.events[0]["run"] == folder.name
        assert folder.stat().st_mode & 0o777 == 0o700
        lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == run.events
        assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))
        begun = [event["type"] for event in run.events if event["type"] != "run_warning"]
        assert begun[1:9] == ["agents_starting", "server", *["agent_started"] * 5, "run_began"]
        turns = [event for event in run.events if event["type"] == "status"]
        assert {event["round"] for event in turns} == {1}
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
        watched = machine.cao("watch", code=0)
        assert "Round 1, cycle 1, programmer: summary received" in watched.stdout
        assert "DRY RUN: PASS, not proven: no command" in watched.stdout.splitlines()[-2]
        assert "Its agents stay" in watched.stdout.splitlines()[-1]
        again = machine.cao("watch", folder.name[-4:], "--json")
        assert events_of(again.stdout) == run.events

    def test_a_password_in_the_address_of_the_server_is_not_kept(self, machine: Machine) -> None:
        prepare(machine, script())
        machine.env["API"] = "http://me:sesame@127.0.0.1:1"
        done = machine.cao("run", "task.md", "--json", code=2)
        for path in machine.home.rglob("*"):
            assert path.is_dir() or b"sesame" not in path.read_bytes(), path
        assert "sesame" not in done.stdout + done.stderr

    def test_a_run_that_could_not_start_its_agents_is_listed_as_failed(
        self, machine: Machine
    ) -> None:
        prepare(machine, script())
        missing = machine.cao("run", "nowhere.md", "--detach", code=2)
        assert "nowhere.md is not there" in missing.stderr
        machine.env["CAO_SCRIPTED_COMMAND"] = "/nonexistent/agent"
        done = machine.cao("run", "task.md", "--detach", code=2)
        assert "could not be started" in done.stderr
        (run,) = runs_of(machine)
        assert run["status"] == "failed"
        report = machine.cao("report", run["id"]).stdout
        assert "# Not begun (error): nothing of it is saved" in report
        assert ".tmp" not in report, "nothing is kept there"
        assert f"{run['id']}  not begun" in machine.cao("runs").stdout
        assert "- Stopped: no run was begun: scripted could not be started" in report


@contextmanager
def watching(machine: Machine, until: str) -> Iterator[Process]:
    """Run `cao watch`; the block begins when it has printed a text."""
    with ended_at_last(machine.start("watch")) as watch:
        assert watch.stdout is not None
        while until not in (line := watch.stdout.readline().decode()):
            assert line
        yield watch


def watch_and_answer(machine: Machine) -> None:
    """Watch a run to its PASS, and answer its programmer's question."""
    with watching(machine, until="asks you") as watch:
        answer(machine, "programmer")
        watch.communicate(timeout=120)
    assert watch.returncode == 0


class TestDetached:
    def test_a_run_goes_on_without_the_command_that_started_it(self, machine: Machine) -> None:
        """It can be stopped and resumed, and imports nothing from the project."""
        prepare(machine, script(ASKS))
        for name in ("click.py", "json.py", "cli_agent_orchestrator.py"):
            text = "import pathlib; pathlib.Path('ran').touch(); raise SystemExit"
            (machine.work / name).write_text(text, encoding="utf-8")
        cao = (sys.executable, "-P", "-m", "cli_agent_orchestrator")
        done = machine.new_process([*cao, "run", "task.md", "--detach", "--max-rounds", "3"])
        assert done.returncode == 0, done.stderr
        (listed,) = runs_of(machine)
        assert listed["status"] == "running"
        for command in ("watch", "pause", "resume", "send", "stop"):
            assert f"cao {command} {listed['id']}" in done.stdout
        record = record_of(machine)
        assert os.getsid(record["pid"]) == record["pid"]
        assert record["settings"]["MAX_ROUNDS"] == {"value": "3", "source": "option"}
        os.kill(record["pid"], signal.SIGTERM)
        machine.cao("watch", code=143)
        assert runs_of(machine)[0]["status"] == "stopped"
        again = machine.cao("run", "--detach", "--json", code=0)
        assert json.loads(again.stdout.splitlines()[-1])["type"] == "run_began"
        watch_and_answer(machine)
        assert_five_turns_once(machine)
        assert runs_of(machine)[0]["status"] == "PASS"
        assert not (machine.work / "ran").exists()


def without_times(report: str) -> list[str]:
    """Return the lines of a report; events and journal tell times that differ by a moment."""
    return [line for line in report.splitlines() if not line.startswith(("- Time:", "| "))]


def test_finished_runs_are_listed_and_reported_on(machine: Machine) -> None:
    """Scenario: No auto-resume when state file has PASS status"""
    prepare(machine, script())
    machine.cao("run", "task.md", code=0)
    assert machine.tmux("list-panes", "-a") == "", "the agents are done with their work"
    first = run_folder_of(machine).name
    own = machine.cao("report", first[-4:])
    task = TASK.replace("empty", "blank")
    machine.cao("run", task, code=0)
    assert len(runs_of(machine)) == 2
    done = machine.cao("report", first, code=0)
    assert without_times(done.stdout) == without_times(own.stdout)
    assert "# DRY RUN: PASS after 1 round" in done.stdout
    assert "accept empty lines" in done.stdout
    assert "accept blank lines" in machine.cao("report").stdout
    head, second, _ = machine.cao("runs").stdout.splitlines()
    assert head.split() == ["ID", "STATUS", "ROUND", "AGE", "FOLDER", "TASK"]
    assert "Make the parser accept blank lines." in second
    assert " .  " in second
    assert "PASS (DRY RUN)" in second
    elsewhere = machine.cao("runs", folder=machine.home).stdout.splitlines()
    assert all("work" in line for line in elsewhere[1:])


@pytest.mark.slow
class TestClean:
    def test_it_shows_what_would_go_and_asks_whatever_port_is_named(self, machine: Machine) -> None:
        prepare(machine, script())
        machine.cao("run", "task.md", "--keep-agents", code=0)
        with machine.server():
            machine.env["CAO_PORT"] = machine.env.pop("CAO_API").rpartition(":")[2]
            assert "agents of 1 ended run" in machine.cao("doctor").stdout
            asked = machine.cao("clean", "--older-than", "0", code=2)
            assert "5 agents" in asked.stdout
            assert "--yes" in asked.stderr
            assert len(alive_agents(machine)) == 5
            assert "Ended 5 agents." in machine.cao("clean", "--yes", code=0).stdout
            assert "ended run" not in machine.cao("doctor").stdout
        machine.env["CAO_PORT"] = "0"
        assert alive_agents(machine) == []
        done = machine.cao("clean", "--yes", "--older-than", "0", code=0)
        assert "Removed the records of 1 run." in done.stdout
        assert runs_of(machine) == []
        assert "Nothing to clean up." in machine.cao("clean").stdout


@pytest.mark.slow
class TestServed:
    def test_an_agent_that_a_named_server_of_ours_does_not_know_leaves_no_run(
        self, machine: Machine
    ) -> None:
        prepare(machine, script())
        with machine.server():
            done = machine.cao("run", "task.md", "--provider", "clade")
            assert "unknown provider 'clade' (did you mean claude_code?)" in done.stderr
            assert (done.returncode, runs_of(machine)) == (2, [])

    def test_a_server_starts_a_run_and_does_not_keep_it(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        with machine.server() as server:
            body = {
                "wd": str(machine.work),
                "task_file": "task.md",
                "settings": {"PROVIDER": "scripted", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"},
            }
            with machine.http(server) as client:
                answer = client.post("/runs", json=body)
                assert answer.status_code == 201, answer.text
                run = answer.json()
                assert run["status"] == "running"
                again = client.post("/runs", json=body)
                assert again.status_code == 409
                assert "another run works in" in again.json()["detail"]
            server.kill()
        del machine.env["CAO_API"]
        watch_and_answer(machine)
        (listed,) = runs_of(machine)
        assert (listed["id"], listed["status"]) == (run["id"], "PASS")
        assert_five_turns_once(machine)


@pytest.mark.slow
def test_detached_runs_at_once_all_finish(machine: Machine) -> None:
    prepare(machine, script())
    folders = [machine.home / f"project-{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    task = str(machine.work / "task.md")
    starting = [machine.start("run", task, "--detach", folder=folder) for folder in folders]
    for process in starting:
        with ended_at_last(process):
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
    for run in runs_of(machine):
        for _ in Follower(run_folder(machine.home / "state", run["id"])):
            pass  # until it ends
    assert [run["status"] for run in runs_of(machine)] == ["PASS"] * 3
