"""Runs that a person steers while they are under way."""

import json
import os
import shlex
import signal
import sys
from itertools import takewhile

import httpx
import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    Run,
    archive_of,
    assert_five_turns_once,
    at,
    prepare,
    replies_of,
    rule,
    running,
    script,
    state_of,
    wait_until,
)
from tests.e2e.test_runs import (
    alive_agents,
    answer,
    run_folder_of,
    runs_of,
    watch_and_answer,
)

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


def asks(role: str) -> str:
    """Return a rule by which an agent waits for a person, however slow the machine is."""
    return rule(role, misbehave='{ ask = "Go on?" }')


def until_paused(run: Run) -> None:
    run.until(lambda event: event["type"] == "paused")


def prompts_with(machine: Machine, text: str) -> list[str]:
    found = archive_of(machine).glob("*-prompt.md")
    return sorted(path.name for path in found if text in path.read_text(encoding="utf-8"))


def refused(machine: Machine, *words: str) -> str:
    """Return what a command says that ends with 2."""
    done = machine.cao(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


def done(machine: Machine, *words: str) -> str:
    """Return what a command says that does what it should."""
    done = machine.cao(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestPause:
    def test_it_holds_after_the_present_turn_until_it_is_lifted(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            assert "pauses when the present turn has ended" in done(machine, "pause")
            again = "Nothing to do: the run pauses when the present turn has ended."
            assert again in done(machine, "pause")
            answer(machine, "analyst")
            until_paused(run)
            assert "paused already" in done(machine, "pause")
            assert [event["role"] for event in run.told("turn_ended")] == ["analyst"]
            assert runs_of(machine)[0]["status"] == "paused"
            assert "paused" in machine.cao("runs").stdout
            assert "The run goes on" in done(machine, "resume")
            assert run.end() == 0, run.errors
        assert len(run.told("paused")) == 1
        assert_five_turns_once(machine)
        assert "The run is paused" in machine.cao("watch").stdout
        report = done(machine, "report")
        assert report == done(machine, "report", run_folder_of(machine).name)
        assert "## What people did" in report
        assert "pause after the present turn" in report

    def test_no_server_is_asked(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            machine.env["API"] = "http://127.0.0.1:1"
            done(machine, "pause")
            done(machine, "resume")
            del machine.env["API"]
            answer(machine, "analyst")
            assert run.end() == 0, run.errors
        assert run.told("paused") == []

    def test_ctrl_c_ends_a_paused_run_and_it_can_be_resumed(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            done(machine, "pause")
            answer(machine, "analyst")
            until_paused(run)
            run.interrupt()
            assert run.end() == 130
        assert runs_of(machine)[0]["status"] == "stopped"
        assert "cao resume" in refused(machine, "pause", run_folder_of(machine).name)
        again = machine.cao("resume", "--json")
        assert again.returncode == 0, again.stderr
        assert_five_turns_once(machine)

    def test_a_killed_run_is_resumed_from_anywhere_and_heeds_nothing_twice(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(asks("analyst")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            done(machine, "send", "analyst_review", "Mind the tabs.")
            done(machine, "pause")
            answer(machine, "analyst")
            until_paused(run)
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
        name = run_folder_of(machine).name
        assert "process is gone" in refused(machine, "send", name, "too late")
        again = machine.cao("resume", name[-4:], "--json", folder=machine.home)
        assert again.returncode == 0, again.stderr
        told = [json.loads(line)["type"] for line in again.stdout.splitlines()]
        assert {"paused", "pause_asked", "hint_taken"}.isdisjoint(told)
        assert prompts_with(machine, "Mind the tabs.") == ["002-analyst_review-prompt.md"]
        assert_five_turns_once(machine)


class TestHint:
    def test_it_is_in_the_next_prompt_and_in_the_report(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            said = done(machine, "send", "tester", "Use Python 3.12.")
            assert "in the next prompt of tester" in said
            done(machine, "send", run_folder_of(machine).name[-4:], "Mind the tabs.")
            assert "analyst_review" in refused(
                machine, "send", f"{run_folder_of(machine).name}/cook", "x"
            )
            assert "not empty" in refused(machine, "send", " ")
            assert "8192" in refused(machine, "send", "x" * 9000)
            assert "quotes" in refused(machine, "send", "Mind", "the", "tabs")
            answer(machine, "analyst")
            assert run.end() == 0, run.errors
        assert prompts_with(machine, "=== HINT FROM A PERSON ===\nUse Python 3.12.\n") == [
            "005-tester-prompt.md"
        ]
        assert prompts_with(machine, "Mind the tabs.") == ["002-analyst_review-prompt.md"]
        assert "hint for tester: Use Python 3.12." in done(machine, "report")


class TestSkip:
    def test_the_review_under_way_counts_as_approved(self, machine: Machine) -> None:
        prepare(
            machine,
            script(asks("analyst"), rule("analyst_review", misbehave="{ hang = true }")),
        )
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            assert "no review is under way" in refused(machine, "skip")
            answer(machine, "analyst")
            run.until(at("dispatched", "analyst_review"))
            assert "counts as approved" in done(machine, "skip")
            assert run.end() == 0, run.errors
        assert "002-analyst_review.md" not in replies_of(machine)
        assert "skipped by a person; it counts as approved" in done(machine, "report")


class TestSet:
    def test_it_counts_from_the_next_turn_on(self, machine: Machine) -> None:
        fails = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- no", round="1")
        prepare(machine, script(asks("analyst"), fails))
        with running(machine, "task.md", "--max-rounds", "1") as run:
            run.until(at("waiting_for_person", "analyst"))
            assert "max_review_cycles" in refused(machine, "set", "provider=codex")
            assert "whole number" in refused(machine, "set", "max_rounds=none")
            assert "NAME=VALUE" in refused(machine, "set", "max_rounds")
            assert "max_rounds is 2 now; it was 1" in done(machine, "set", "max_rounds=2")
            answer(machine, "analyst")
            run.until(at("waiting_for_person", "analyst", round=2))
            answer(machine, "analyst")
            assert run.end() == 0, run.errors
        settings = json.loads((run_folder_of(machine) / "run.json").read_text())["settings"]
        assert settings["MAX_ROUNDS"] == {"value": "2", "source": "cao set"}


class TestStop:
    def test_the_run_and_its_agents_are_ended_and_it_goes_on_with_new_ones(
        self, machine: Machine
    ) -> None:
        prepare(machine, script(asks("programmer")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            assert "its agents are ended" in done(machine, "stop")
            assert run.end() == 130
        assert run.told("run_ended")[0]["reason"] == "a person stopped the run"
        (listed,) = runs_of(machine)
        assert (listed["status"], listed["terminals"]) == ("stopped", {})
        assert alive_agents(machine) == []
        again = done(machine, "stop", listed["id"])
        assert "It has ended, and has no agents any more." in again
        assert f"Resume it, with new agents: cao resume {listed['id']}" in again
        done(machine, "resume", "--detach")
        watch_and_answer(machine)
        assert runs_of(machine)[0]["status"] == "PASS"
        assert state_of(machine)["final_status"] == "PASS"

    @pytest.mark.parametrize(
        "words", [("--all",), ("--everywhere", "--yes"), ("--session", "RUN")], ids=" ".join
    )
    def test_where_all_is_to_end_runs_are_stopped_before_their_agents(
        self, machine: Machine, words: tuple[str, ...]
    ) -> None:
        prepare(machine, script(asks("programmer")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            (listed,) = runs_of(machine)
            name = listed["id"]
            said = done(machine, "stop", *(name if word == "RUN" else word for word in words))
            assert f"{name}: The run is stopped and saved; its agents are ended." in said
            assert f"cao resume {name}" in said
            assert run.end() == 130
        (ended,) = run.told("run_ended")
        assert ended["reason"] == "a person stopped the run"
        assert alive_agents(machine) == []
        done(machine, "resume", "--detach")
        watch_and_answer(machine)
        assert runs_of(machine)[0]["status"] == "PASS"


class TestNames:
    def test_an_agent_is_named_by_its_role(self, machine: Machine) -> None:
        prepare(machine, script(asks("programmer")))
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "programmer"))
            (listed,) = runs_of(machine)
            name = listed["terminals"]["programmer"]
            assert name in done(machine, "output", "programmer", "--why")
            assert name in done(machine, "output", f"{listed['id'][-4:]}/programmer", "--why")
            # A question is told before it is drawn.
            shown = ("output", "programmer", "--screen")
            wait_until(lambda: "Go on?" in done(machine, *shown))
            assert f"cao output {name}" in refused(machine, "attach", "programmer")
            wrong = machine.cao("output", f"{listed['id']}/cook")
            assert "analyst_review" in wrong.stderr
            assert "Ended" in done(machine, "stop", "tester")
            assert len(alive_agents(machine)) == 4
            run.interrupt()
            run.end()

    def test_an_id_that_fits_several_runs_lists_them(self, machine: Machine) -> None:
        prepare(machine, script())
        for _ in range(2):
            assert machine.cao("run", "task.md", "--no-resume", "--keep-agents").returncode == 0
        names = [run["id"] for run in runs_of(machine)]
        # Not so short that it could be the beginning of a terminal's id.
        same = takewhile(lambda pair: pair[0] == pair[1], zip(*names, strict=True))
        both = "".join(one for one, _ in same)
        for command in ("pause", "resume", "skip", "stop"):
            said = refused(machine, command, both)
            assert all(name in said for name in names)
        assert "no run is running" in refused(machine, "pause")
        for command in ("pause", "resume", "skip"):
            assert "has ended with PASS" in refused(machine, command, names[0])
        # The agents of a run that has ended are still there.
        assert "Ended" in done(machine, "stop", names[0])
        assert done(machine, "stop", names[0]) == (
            f"{names[0]}: It has ended, and has no agents any more.\n"
        )


def test_rubbish_in_the_control_file_stops_nothing(machine: Machine) -> None:
    prepare(machine, script(asks("analyst")))
    with running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "analyst"))
        folder = run_folder_of(machine)
        with (folder / "control.jsonl").open("ab") as file:
            file.write(b"\xff\x00 nonsense\n[1, 2]\n")
        run.until(lambda event: event["type"] == "run_warning" and "control" in event["text"])
        done(machine, "send", "Mind the tabs.")
        answer(machine, "analyst")
        assert run.end() == 0, run.errors
    assert prompts_with(machine, "Mind the tabs.") == ["002-analyst_review-prompt.md"]


def test_a_server_steers_runs_and_resumes_one_that_was_killed(machine: Machine) -> None:
    prepare(machine, script(asks("analyst")))
    with machine.server() as server:
        token = (machine.home / "state" / "token").read_text(encoding="utf-8")
        with (
            httpx.Client(
                base_url=server.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=120,
                trust_env=False,
            ) as client,
            running(machine, "task.md") as run,
        ):
            run.until(at("waiting_for_person", "analyst"))
            path = f"/runs/{run_folder_of(machine).name}"
            hint = client.post(f"{path}/hint", json={"text": "Mind the tabs."})
            assert (hint.status_code, hint.json()["heard"]) == (200, True), hint.text
            assert client.post(f"{path}/skip").status_code == 409
            assert client.post(f"{path}/pause").status_code == 200
            answer(machine, "analyst")
            until_paused(run)
            run.interrupt(signal.SIGKILL)
            run.process.wait(60)
            assert client.post(f"{path}/pause").status_code == 409
            resumed = client.post(f"{path}/resume")
            assert resumed.status_code == 200, resumed.text
        assert machine.cao("watch").returncode == 0
    assert_five_turns_once(machine)


PROBE = """
import json, os, subprocess, sys, urllib.error, urllib.request
folder = sys.argv[1]
with open(folder + "/order") as file:
    text = file.read()
if not text:
    sys.exit()  # the probe of another agent has it
order = json.loads(text)
found = []
for words in order["commands"]:
    argv = [sys.executable, "-m", "cli_agent_orchestrator", *words]
    done = subprocess.run(
        argv, env=order["env"], cwd=order["cwd"], stdin=subprocess.DEVNULL, capture_output=True
    )
    found.append(done.returncode)
for method, url, body in order["requests"]:
    request = urllib.request.Request(url, body and body.encode(), order["headers"], method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found.append(answer.status)
    except urllib.error.HTTPError as error:
        found.append(error.code)
with open(folder + "/draft", "w") as file:
    json.dump(found, file)
os.rename(folder + "/draft", folder + "/found")
"""
"""Does what it is told from inside an agent's terminal, without a word of tmux's."""


class TestAgents:
    """An agent may look at runs, from the shell in its terminal, and not steer them."""

    def let_agents_probe(self, machine: Machine) -> None:
        """Let every agent have a process beside it that waits for an order."""
        (machine.home / "probe.py").write_text(PROBE, encoding="utf-8")
        os.mkfifo(machine.home / "order")
        wrapper = machine.home / "agent"
        python, probe = shlex.quote(sys.executable), shlex.quote(str(machine.home / "probe.py"))
        home = shlex.quote(str(machine.home))
        wrapper.write_text(f'#!/bin/sh\n{python} {probe} {home} &\nexec {python} "$@"\n')
        wrapper.chmod(0o700)
        machine.env["CAO_SCRIPTED_COMMAND"] = str(wrapper)

    def probe(self, machine: Machine, **order: object) -> list[int]:
        """Return the exit codes of commands and the statuses of requests of an agent."""
        told = {"env": machine.env, "cwd": str(machine.work), "commands": [], "requests": []}
        (machine.home / "order").write_text(json.dumps({**told, **order}), encoding="utf-8")
        wait_until((machine.home / "found").exists)
        found = json.loads((machine.home / "found").read_text(encoding="utf-8"))
        assert isinstance(found, list)
        return found

    def test_what_it_types_steers_nothing(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        self.let_agents_probe(machine)
        with running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            commands = [["runs"], ["set", "max_rounds=1"], ["stop"], ["send", "analyst", "y"]]
            assert self.probe(machine, commands=commands) == [0, 2, 2, 2]
            answer(machine, "analyst")
            assert run.end() == 0

    def test_what_it_sends_to_the_server_steers_nothing(self, machine: Machine) -> None:
        prepare(machine, script(asks("analyst")))
        self.let_agents_probe(machine)
        with machine.server() as server, running(machine, "task.md") as run:
            run.until(at("waiting_for_person", "analyst"))
            name = runs_of(machine)[0]["id"]
            token = (machine.home / "state" / "token").read_text(encoding="utf-8").strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            change = json.dumps({"name": "max_rounds", "value": "3"})
            requests = [
                ("GET", f"{server.url}/runs/{name}", None),
                ("POST", f"{server.url}/runs/{name}/set", change),
                ("POST", f"{server.url}/runs/{name}/stop", None),
                ("POST", f"{server.url}/dashboard/links", None),
            ]
            found = self.probe(machine, requests=requests, headers=headers)
            assert found == [200, 403, 403, 403]
            outside = httpx.post(requests[1][1], content=change, headers=headers, timeout=60)
            assert outside.status_code == 200
            answer(machine, "analyst")
            assert run.end() == 0
