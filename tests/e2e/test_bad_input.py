"""Bad input, bad days and merely cloned projects: each has a clear message, nothing is lost.

Whatever lies in such a project, nothing outside of it is touched.
"""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.task import SCENARIO_HEADER
from tests.e2e.conftest import Machine
from tests.e2e.runs import STATE, TASK, replies_of, state_of

OLD_STATE = {
    "version": 1,
    "updated_at": "2025-01-31T12:00:00Z",
    "api": "http://localhost:9889",
    "provider": "scripted",
    "prompt": TASK,
    "current_round": 2,
    "current_phase": "programmer",
    "final_status": "RUNNING",
    "session_name": "cao-old",
    "feedback": "RESULT: FAIL\nEVIDENCE:\n- it broke",
    "analyst_feedback": "None yet.",
    "programmer_feedback": "None yet.",
    "outputs": {
        "analyst": "ANALYST_SUMMARY: from the old script",
        "analyst_review": "",
        "programmer": "",
        "programmer_review": "",
        "tester": "",
    },
}
TERMINAL_NAMES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")


def assert_nothing_was_started(machine: Machine) -> None:
    assert not (machine.home / "state").exists()


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("PROVIDER", "nonesuch", 2, "nonesuch'; there are: codex"),
        *(("CAO_STATE_FILE", state, 3, state) for state in ("task.md/state.json", "x" * 300)),
    ],
)
def test_a_bad_value_is_named_before_anything_is_started(
    ready: Machine, name: str, value: str, code: int, said: str
) -> None:
    ready.env[name] = value
    done = ready.cao("run", "task.md", code=code)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)


def test_an_agent_that_is_not_signed_in_is_refused_before_anything_is_started(
    ready: Machine,
) -> None:
    program = ready.home / "codex"
    answers = "[ $1 = --version ] && echo codex-cli 0.169.0 && exit\necho Not logged in; exit 1\n"
    program.write_text(f"#!/bin/sh\n{answers}", encoding="utf-8")
    program.chmod(0o755)
    ready.env["CAO_CODEX_COMMAND"] = str(program)
    refused = ready.cao("run", "task.md", "--agent", "tester=codex", code=2)
    assert f"`{program} login`" in refused.stderr
    assert_nothing_was_started(ready)


def write_state(machine: Machine, **fields: object) -> dict[str, object]:
    state = {**OLD_STATE, "wd": str(machine.work), "terminals": {}, **fields}
    (machine.work / STATE).parent.mkdir(exist_ok=True)
    (machine.work / STATE).write_text(json.dumps(state), encoding="utf-8")
    return state


class TestSavedState:
    @pytest.mark.tmux
    def test_a_state_of_the_earlier_script_goes_on(self, ready: Machine) -> None:
        terminals: dict[str, object] = {name: f"old-{name}" for name in TERMINAL_NAMES}
        terminals["tester"] = {"id": "old-tester", "provider": "scripted"}
        write_state(ready, terminals=terminals)
        refused = ready.cao("run", code=3)
        assert "programmer (old-programmer) is not there any more" in refused.stderr
        done = ready.cao("run", "--resume", "--replace-terminals", code=0)
        assert "Round 2, cycle 1, programmer" in done.stdout
        assert "analyst begins" not in done.stdout
        assert list(replies_of(ready)) == [
            *("001-programmer.md", "002-programmer_review.md", "003-tester.md")
        ]

    @pytest.mark.tmux
    def test_a_new_run_keeps_the_unfinished_one(self, ready: Machine) -> None:
        state = write_state(ready)
        ready.cao("run", "task.md", "--no-resume", "--flow", "pair", "--gate", "a=true", code=0)
        (aside,) = (ready.home / "state" / "runs").glob("*/state-before.json")
        assert json.loads(aside.read_text(encoding="utf-8")) == state
        assert state_of(ready)["final_status"] == "PASS"

    def test_one_of_another_folder_or_server_is_not_taken_up_unless_that_is_named(
        self, ready: Machine
    ) -> None:
        write_state(ready, wd=str(ready.home))
        assert str(ready.home) in ready.cao("run", "task.md", "--resume", code=3).stderr
        write_state(ready, api="http://192.0.2.1:1")
        for words in ([], ["task.md", "--resume"]):
            assert "with --api" in ready.cao("run", *words, code=3).stderr


def test_in_a_folder_that_was_removed_that_is_said(machine: Machine) -> None:
    cao = f"{shlex.quote(sys.executable)} -P -m cli_agent_orchestrator"
    words = f"mkdir gone && cd gone && rmdir ../gone && {cao} runs"
    done = machine.new_process(["sh", "-c", words], machine.home)
    assert done.returncode == 3
    assert "the folder you are in was removed: go to another one" in done.stderr


def plant(machine: Machine, name: str, kind: str) -> Path:
    """Put something in a file's or folder's place."""
    path, outside = machine.work / name, machine.home / "outside"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    outside.mkdir(exist_ok=True)
    (outside / "victim").write_text("precious", encoding="utf-8")
    match kind:
        case "link":
            path.symlink_to(outside / "victim")
        case "link to a folder":
            path.symlink_to(outside)
        case "pipe":
            os.mkfifo(path)
    return path


def assert_nothing_outside_was_touched(machine: Machine) -> None:
    outside = machine.home / "outside"
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        (STATE, "link", 3),
        (STATE, "pipe", 3),
        ("task.md", "link", 2),
        ("cao.toml", "link", 2),
        (".tmp", "link to a folder", 2),
    ],
)
def test_a_run_opens_regular_files_and_folders_only(
    ready: Machine, name: str, kind: str, code: int
) -> None:
    path = plant(ready, name, kind)
    done = ready.cao("run", "task.md", code=code)
    is_what = "a pipe" if kind == "pipe" else "a symbolic link"
    wanted = "a folder" if name == ".tmp" else "a regular file"
    assert path.name in done.stderr
    assert f"is {is_what}, not {wanted}; remove it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)
    assert_nothing_outside_was_touched(ready)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("prompt_file", "a\0b", "expected a path without control characters"),
        ("wd", "\x1b]0;title\x07", "expected a path without control characters"),
        ("prompt_file", "circle/x", "circle/x"),
        ("state_file", "circle", "circle"),
        ("wd", "~nosuchuser/x", "~nosuchuser/x"),
    ],
)
def test_a_path_that_leads_nowhere_is_said_in_one_line(
    ready: Machine, key: str, value: str, said: str
) -> None:
    (ready.work / "circle").symlink_to("circle")
    (ready.work / "cao.toml").write_text(f"{key} = {json.dumps(value)}\n", encoding="utf-8")
    done = ready.cao("run")
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert ascii(value).strip("'") in ascii(done.stderr).replace("\\\\", "\\")
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)


def test_files_of_the_users_own_may_be_links_and_are_not_waited_for(ready: Machine) -> None:
    (ready.home / "mine").write_text(f"{SCENARIO_HEADER}\nx", encoding="utf-8")
    (ready.home / "mine.md").symlink_to(ready.home / "mine")
    for name in ("pipe.md", "pipe.toml"):
        os.mkfifo(ready.home / name)
    for words, said in (
        (["mine.md"], "isn't in the expected format"),
        (["pipe.md"], "it is a pipe"),
        (["--config", "pipe.toml"], "it is a pipe"),
    ):
        *option, name = words
        assert said in ready.cao("run", *option, str(ready.home / name), code=2).stderr
