"""Runs that a person steers while they are under way."""

import json
import os
import shlex
import signal
import sys

import httpx
import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import (
    ASKS,
    alive_agents,
    answer,
    assert_five_turns_once,
    at,
    prepare,
    prompts_with,
    record_of,
    replies_of,
    rule,
    run_folder_of,
    running,
    runs_of,
    script,
    wait_until,
)
from tests.e2e.test_runs import watch_and_answer

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


ASKS_FIRST = rule("analyst", misbehave='{ ask = "Go on?" }')


def refused(machine: Machine, *words: str) -> str:
    """Return what a command says that ends with 2."""
    return machine.cao(*words, code=2).stderr


def done(machine: Machine, *words: str) -> str:
    """Return what a command says that does what it should."""
    return machine.cao(*words, code=0).stdout


def test_a_run_is_steered_from_its_first_turn_to_its_last(machine: Machine) -> None:
    """A pause holds, hints arrive, a review is skipped, a setting counts from then on."""
    fails = rule("tester", "RESULT: FAIL\nEVIDENCE:\n- no", round="1")
    hangs = rule("programmer_review", round="2", misbehave="{ hang = true }")
    prepare(machine, script(ASKS_FIRST, fails, hangs))
    with running(machine, "task.md", "--max-rounds", "1") as run:
        run.until(at("waiting_for_person", "analyst"))
        assert "in the next prompt of tester" in done(machine, "send", "tester", "Use Python 3.12.")
        done(machine, "send", run_folder_of(machine).name[-4:], "Mind the tabs.")
        assert "no review is under way" in refused(machine, "skip")
        assert "whole number" in refused(machine, "set", "max_rounds=none")
        assert "max_rounds is 2 now; it was 1" in done(machine, "set", "max_rounds=2")
        assert "pauses when the present turn has ended" in done(machine, "pause")
        answer(machine, "analyst")
        run.until(lambda event: event["type"] == "paused")
        assert "paused already" in done(machine, "pause")
        assert [event["role"] for event in run.told("turn_ended")] == ["analyst"]
        assert runs_of(machine)[0]["status"] == "paused"
        assert "paused" in machine.cao("runs").stdout
        assert "The run goes on" in done(machine, "resume")
        run.until(at("waiting_for_person", "analyst", round=2))
        answer(machine, "analyst")
        run.until(at("dispatched", "programmer_review", round=2))
        assert "counts as approved" in done(machine, "skip")
        assert run.end() == 0, run.errors
    assert len(run.told("paused")) == 1
    assert prompts_with(machine, "=== HINT FROM A PERSON ===\nUse Python 3.12.\n") == [
        "005-tester-prompt.md"
    ]
    assert prompts_with(machine, "Mind the tabs.") == ["002-analyst_review-prompt.md"]
    assert "009-programmer_review.md" not in replies_of(machine)
    settings = record_of(machine)["settings"]
    assert settings["MAX_ROUNDS"] == {"value": "2", "source": "cao set"}
    assert "The run is paused" in machine.cao("watch").stdout
    told = done(machine, "report").partition("## What people did")[2]
    for text in ("pause after", "hint for tester: Use Python 3.12.", "skipped by a person"):
        assert text in told


def test_a_killed_run_is_resumed_from_anywhere_and_heeds_nothing_twice(machine: Machine) -> None:
    prepare(machine, script(ASKS_FIRST))
    with running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "analyst"))
        done(machine, "send", "analyst_review", "Mind the tabs.")
        done(machine, "pause")
        answer(machine, "analyst")
        run.until(lambda event: event["type"] == "paused")
        run.interrupt(signal.SIGKILL)
        run.process.wait(60)
    name = run_folder_of(machine).name
    assert "process is gone" in refused(machine, "send", name, "too late")
    again = machine.cao("resume", name[-4:], "--json", folder=machine.home, code=0)
    told = [json.loads(line)["type"] for line in again.stdout.splitlines()]
    assert {"paused", "pause_asked", "hint_taken"}.isdisjoint(told)
    assert prompts_with(machine, "Mind the tabs.") == ["002-analyst_review-prompt.md"]
    assert_five_turns_once(machine)


def test_a_run_that_is_stopped_is_ended_with_its_agents_and_goes_on_with_new_ones(
    machine: Machine,
) -> None:
    prepare(machine, script(ASKS))
    with running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "programmer"))
        assert "its agents are ended" in done(machine, "stop", "--all")
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


def test_what_an_agent_types_or_sends_to_the_server_steers_nothing(machine: Machine) -> None:
    """It may look at runs, from the shell in its terminal, and not steer them."""
    prepare(machine, script(ASKS_FIRST))
    # Every agent has a process beside it that waits for an order.
    (machine.home / "probe.py").write_text(PROBE, encoding="utf-8")
    os.mkfifo(machine.home / "order")
    python, home = shlex.quote(sys.executable), shlex.quote(str(machine.home))
    wrapper = machine.home / "agent"
    wrapper.write_text(f'#!/bin/sh\n{python} {home}/probe.py {home} &\nexec {python} "$@"\n')
    wrapper.chmod(0o700)
    machine.env["CAO_SCRIPTED_COMMAND"] = str(wrapper)
    with machine.server() as server, running(machine, "task.md") as run:
        run.until(at("waiting_for_person", "analyst"))
        name = runs_of(machine)[0]["id"]
        token = (machine.home / "state" / "token").read_text(encoding="utf-8").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        change = json.dumps({"name": "max_rounds", "value": "3"})
        order = {
            "env": machine.env,
            "cwd": str(machine.work),
            "headers": headers,
            "commands": [["runs"], ["set", "max_rounds=1"], ["stop"], ["send", "analyst", "y"]],
            "requests": [
                ("GET", f"{server.url}/runs/{name}", None),
                ("POST", f"{server.url}/runs/{name}/set", change),
                ("POST", f"{server.url}/runs/{name}/stop", None),
                ("POST", f"{server.url}/dashboard/links", None),
            ],
        }
        (machine.home / "order").write_text(json.dumps(order), encoding="utf-8")
        wait_until((machine.home / "found").exists)
        found = json.loads((machine.home / "found").read_text(encoding="utf-8"))
        assert found == [0, 2, 2, 2, 200, 403, 403, 403]
        path = f"{server.url}/runs/{name}/set"
        assert httpx.post(path, content=change, headers=headers, timeout=60).status_code == 200
        answer(machine, "analyst")
        assert run.end() == 0
