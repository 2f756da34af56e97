"""Runs as things of their own: listed, watched, started apart, cleaned up."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli_agent_orchestrator.runs.event_log import Follower
from cli_agent_orchestrator.settings.layout import run_folder
from tests.e2e.conftest import Machine, Process, ended_at_last
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

ASKS = rule("programmer", misbehave='{ ask = "Go on?" }')
"""Waits for a person, however slow the machine is."""

# Any: JSON
Listed = dict[str, Any]
FULL = Path("/dev/full")
QUESTION = "Go on?"
LOOK_SECONDS = 0.05


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


def alive_agents(machine: Machine) -> list[Listed]:
    listed: list[Listed] = json.loads(machine.cao("ls", "--json").stdout)
    return [terminal for terminal in listed if terminal["alive"]]


def answer(machine: Machine, role: str) -> None:
    """Answer what the agent of a role asks, as soon as it does."""
    listed = machine.tmux("list-panes", "-a", "-F", "#{@cao_id}=#{pane_id}").splitlines()
    panes = dict(line.split("=") for line in listed)
    pane = panes[record_of(machine)["terminals"][role]]
    deadline = time.monotonic() + 60
    while QUESTION not in machine.tmux("capture-pane", "-p", "-t", pane):
        assert time.monotonic() < deadline
        time.sleep(LOOK_SECONDS)
    machine.tmux("send-keys", "-t", pane, "1")


def what_it_was_started_with_is_kept(machine: Machine) -> None:
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


class TestRunFolder:
    def test_one_id_is_in_folder_archive_session_and_events(self, machine: Machine) -> None:
        prepare(machine, script())
        (machine.work / "cao.toml").write_text("idle_grace_seconds = 9\n", encoding="utf-8")
        with running(machine, "task.md", "--max-rounds", "3") as run:
            run.until(lambda event: event["type"] == "agents_starting")
            assert runs_of(machine)[0]["status"] == "running", "before its agents are there"
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
        turns = [event for event in run.events if event["type"] == "status"]
        assert {event["round"] for event in turns} == {1}
        what_it_was_started_with_is_kept(machine)

    def test_a_password_in_the_address_of_the_server_is_not_kept(self, machine: Machine) -> None:
        prepare(machine, script())
        machine.env["API"] = "http://me:sesame@127.0.0.1:1"
        done = machine.cao("run", "task.md", "--json")
        assert done.returncode == 2
        for path in machine.home.rglob("*"):
            assert path.is_dir() or b"sesame" not in path.read_bytes(), path
        assert "sesame" not in done.stdout + done.stderr

    def test_a_killed_run_is_interrupted_and_goes_on_under_the_same_id(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(ASKS))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            (listed,) = runs_of(machine)
            assert (listed["status"], listed["role"]) == ("running", "programmer")
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
        (killed,) = runs_of(machine)
        assert (killed["id"], killed["status"]) == (listed["id"], "interrupted")
        with running(machine) as again:
            again.until(at("waiting_for_person", "programmer"))
            answer(machine, "programmer")
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
        (run,) = runs_of(machine)
        assert run["status"] == "failed"
        report = machine.cao("report", run["id"]).stdout
        assert "# Not begun (error): nothing of it is saved" in report
        assert ".tmp" not in report, "nothing is kept there"
        assert f"{run['id']}  not begun" in machine.cao("runs").stdout
        assert "- Stopped: no run was begun: scripted could not be started" in report

    @pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
    def test_a_run_that_cannot_have_a_folder_does_not_begin(self, machine: Machine) -> None:
        prepare(machine, script())
        runs = machine.home / "state" / "runs"
        runs.parent.mkdir(mode=0o700)
        runs.symlink_to(FULL)
        done = machine.cao("run", "task.md")
        assert done.returncode == 3
        assert str(runs) in done.stderr
        assert alive_agents(machine) == []


class TestList:
    def test_runs_of_this_folder_come_first(self, machine: Machine) -> None:
        prepare(machine, script())
        assert machine.cao("run", "task.md").returncode == 0
        other = machine.home / "other"
        other.mkdir()
        assert machine.cao("run", "task.md", "--wd", str(other)).returncode == 0
        lines = machine.cao("runs").stdout.splitlines()
        assert lines[0].split() == [
            "ID", "STATUS", "ROUND", "AGE", "FOLDER", "TASK",
        ]  # fmt: skip
        assert "Make the parser accept empty lines." in lines[1]
        assert " .  " in lines[1]
        assert str(other) in lines[2]
        assert "PASS (DRY RUN)" in lines[2]


class TestWatch:
    def test_a_run_is_followed_to_its_end_in_the_words_of_the_run(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        with running(machine, "task.md", "--keep-agents") as run:
            run.until(at("waiting_for_person", "programmer"))
            watch_and_answer(machine)
            assert run.end() == 0, run.errors
        watched = machine.cao("watch")
        assert watched.returncode == 0, watched.stderr
        assert "Round 1, cycle 1, programmer: summary received" in watched.stdout
        assert "DRY RUN: PASS after 1 round" in watched.stdout.splitlines()[-2]
        assert "Its agents stay" in watched.stdout.splitlines()[-1]
        again = machine.cao("watch", run_folder_of(machine).name[-4:], "--json")
        assert [json.loads(line) for line in again.stdout.splitlines()] == run.events

    def test_ctrl_c_leaves_the_run_alone_and_says_so(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            with watching(machine, until="programmer begins") as watch:
                watch.send_signal(signal.SIGINT)
                _, errors = watch.communicate(timeout=60)
            assert watch.returncode == 130
            assert b"the run goes on" in errors
            answer(machine, "programmer")
            assert run.end() == 0, run.errors

    def test_a_run_that_is_killed_meanwhile_ends_it(self, machine: Machine) -> None:
        prepare(machine, script(rule("programmer", misbehave="{ hang = true }")))
        with running(machine, "task.md") as run:
            run.until(at("dispatched", "programmer"))
            with watching(machine, until="programmer begins") as watch:
                run.interrupt(signal.SIGKILL)
                _, errors = watch.communicate(timeout=60)
            assert watch.returncode == 3
            assert b"interrupted" in errors

    def test_a_name_that_is_none_is_said(self, machine: Machine) -> None:
        done = machine.cao("watch", "../../\x1b[2J")
        assert done.returncode == 2
        assert "no run" in done.stderr
        assert "\x1b" not in done.stderr


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
        prepare(machine, script(ASKS))
        done = machine.cao("run", "task.md", "--detach", "--max-rounds", "3")
        assert done.returncode == 0, done.stderr
        (listed,) = runs_of(machine)
        assert listed["status"] == "running"
        assert f"cao watch {listed['id']}" in done.stdout
        pid = record_of(machine)["pid"]
        for command in ("pause", "resume", "send", "stop"):
            assert f"cao {command} {listed['id']}" in done.stdout
        assert os.getsid(pid) == pid
        assert record_of(machine)["settings"]["MAX_ROUNDS"] == {"value": "3", "source": "option"}
        watch_and_answer(machine)
        assert_five_turns_once(machine)
        assert runs_of(machine)[0]["status"] == "PASS"

    def test_it_does_not_outlive_a_test_that_fails(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        assert machine.cao("run", "task.md", "--detach").returncode == 0
        machine.shut_down()
        assert runs_of(machine)[0]["status"] == "interrupted"
        assert machine.tmux("list-sessions") == ""

    def test_it_can_be_stopped_and_resumed(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        assert machine.cao("run", "task.md", "--detach").returncode == 0
        os.kill(record_of(machine)["pid"], signal.SIGTERM)
        assert machine.cao("watch").returncode == 143
        assert runs_of(machine)[0]["status"] == "stopped"
        done = machine.cao("run", "--detach", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["type"] == "run_began"
        watch_and_answer(machine)
        assert_five_turns_once(machine)

    def test_what_is_wrong_is_said_at_once(self, machine: Machine) -> None:
        prepare(machine, script())
        done = machine.cao("run", "nowhere.md", "--detach")
        assert (done.returncode, "nowhere.md is not there; these in" in done.stderr) == (2, True)
        done = machine.cao("run", "task.md", "--detach", "--max-rounds", "none")
        assert (done.returncode, "--max-rounds is" in done.stderr) == (2, True)
        machine.env["CAO_SCRIPTED_COMMAND"] = "/nonexistent/agent"
        done = machine.cao("run", "task.md", "--detach")
        assert (done.returncode, "could not be started" in done.stderr) == (2, True)


def without_times(report: str) -> list[str]:
    """Return the lines of a report; events and journal tell times that differ by a moment."""
    return [line for line in report.splitlines() if not line.startswith(("- Time:", "| "))]


class TestReport:
    def test_an_earlier_run_of_a_folder_can_be_reported_on(self, machine: Machine) -> None:
        prepare(machine, script())
        assert machine.cao("run", "task.md").returncode == 0
        first = run_folder_of(machine).name
        own = machine.cao("report", first[-4:])
        (machine.work / "task.md").write_text(
            (machine.work / "task.md").read_text(encoding="utf-8").replace("empty", "blank"),
            encoding="utf-8",
        )
        assert machine.cao("run", "task.md").returncode == 0
        done = machine.cao("report", first)
        assert done.returncode == 0, done.stderr
        assert without_times(done.stdout) == without_times(own.stdout)
        assert "# DRY RUN: PASS after 1 round" in done.stdout
        assert "accept empty lines" in done.stdout
        assert "accept blank lines" in machine.cao("report").stdout


@pytest.mark.slow
class TestClean:
    def test_it_shows_what_would_go_and_asks(self, machine: Machine) -> None:
        prepare(machine, script())
        assert machine.cao("run", "task.md", "--keep-agents").returncode == 0
        done = machine.cao("clean", "--older-than", "0")
        assert done.returncode == 2
        assert "5 agents" in done.stdout
        assert "--yes" in done.stderr
        assert len(alive_agents(machine)) == 5
        done = machine.cao("clean", "--yes", "--older-than", "0")
        assert done.returncode == 0, done.stderr
        assert "Ended 5 agents." in done.stdout
        assert "Removed the records of 1 run." in done.stdout
        assert alive_agents(machine) == []
        assert runs_of(machine) == []
        assert "Nothing to clean up." in machine.cao("clean").stdout

    @pytest.mark.parametrize("is_there", [True, False])
    def test_what_the_doctor_names_is_cleaned_whatever_port_is_named(
        self, machine: Machine, is_there: bool
    ) -> None:
        prepare(machine, script())
        assert machine.cao("run", "task.md", "--keep-agents").returncode == 0
        with machine.server() as server:
            machine.env["CAO_PORT"] = machine.env.pop("CAO_API").rpartition(":")[2]
            if not is_there:
                server.process.terminate()
                server.process.wait(60)
            assert "agents of 1 ended run" in machine.cao("doctor").stdout
            done = machine.cao("clean", "--yes")
            assert "Ended 5 agents." in done.stdout, done.stderr
            assert "ended run" not in machine.cao("doctor").stdout
        machine.env["CAO_PORT"] = "0"
        assert alive_agents(machine) == []

    def test_agents_of_a_run_that_was_killed_before_it_began_are_ended(
        self, machine: Machine
    ) -> None:
        prepare(machine, script())
        with running(machine, "task.md") as run:
            for _ in FIVE_TURNS:
                run.until(lambda event: event["type"] == "agent_started")
            run.interrupt(signal.SIGSTOP)
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
        if (run_folder_of(machine) / "state.json").exists():
            pytest.skip("it had begun by then")
        assert len(alive_agents(machine)) == 5
        done = machine.cao("clean", "--yes", "--older-than", "0")
        assert "Ended 5 agents." in done.stdout, done.stderr
        assert alive_agents(machine) == []
        assert runs_of(machine) == []

    @pytest.mark.parametrize("harm", ["gone", "unreadable"])
    def test_agents_of_a_run_whose_folder_tells_nothing_are_ended(
        self, machine: Machine, harm: str
    ) -> None:
        prepare(machine, script())
        assert machine.cao("run", "task.md", "--keep-agents").returncode == 0
        folder = run_folder_of(machine)
        if harm == "gone":
            folder.rename(machine.home / "moved")
        else:
            (folder / "run.json").write_text("rubbish", encoding="utf-8")
            (listed,) = runs_of(machine)
            refused = machine.cao("resume", listed["id"])
            assert "its run.json cannot be read" in refused.stderr
        done = machine.cao("clean", "--older-than", "0", "--yes")
        assert f"  {folder.name}  5 agents" in done.stdout, done.stderr
        assert "Ended 5 agents." in done.stdout
        assert alive_agents(machine) == []
        assert runs_of(machine) == []
        assert "Nothing to clean up." in machine.cao("clean").stdout

    def test_a_run_that_can_be_resumed_keeps_everything(self, machine: Machine) -> None:
        prepare(machine, script(ASKS))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            assert "Nothing to clean up." in machine.cao("clean", "--older-than", "0").stdout
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
        assert "Nothing to clean up." in machine.cao("clean", "--older-than", "0").stdout
        assert len(alive_agents(machine)) == 5


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
            token = (machine.home / "state" / "token").read_text(encoding="utf-8")
            body = {
                "wd": str(machine.work),
                "task_file": "task.md",
                "settings": {"PROVIDER": "scripted", "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1"},
            }
            with httpx.Client(
                base_url=server.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=120,
                trust_env=False,
            ) as client:
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
def test_five_detached_runs_at_once_all_finish(machine: Machine) -> None:
    prepare(machine, script())
    folders = [machine.home / f"project-{number}" for number in range(5)]
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
    assert [run["status"] for run in runs_of(machine)] == ["PASS"] * 5


def test_a_detached_run_imports_nothing_from_the_project(machine: Machine) -> None:
    prepare(machine, script())
    for name in ("click.py", "json.py", "cli_agent_orchestrator.py"):
        text = "import pathlib; pathlib.Path('ran').touch(); raise SystemExit"
        (machine.work / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cli_agent_orchestrator", "run", "task.md", "--detach"],
        env=machine.env,
        cwd=machine.work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not (machine.work / "ran").exists()
    assert done.returncode == 0, done.stderr
    watched = subprocess.run(
        [sys.executable, "-P", "-m", "cli_agent_orchestrator", "watch"],
        env=machine.env,
        cwd=machine.work,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert watched.returncode == 0
