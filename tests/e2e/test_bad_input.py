"""Bad input and bad days: each has a clear message, and nothing is lost."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, replies_of, runs_of, state_of

EXPLORE, SCENARIO = "*** ORIGINAL EXPLORE SUMMARY ***", "*** SCENARIO TEST ***"
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


def state_path(machine: Machine) -> Path:
    path = machine.work / ".tmp" / "orchestrator-loop-state.json"
    path.parent.mkdir(exist_ok=True)
    return path


def assert_nothing_was_started(machine: Machine) -> None:
    assert not (machine.home / "state").exists()


def test_an_agent_that_is_not_signed_in_is_refused_before_anything_is_started(
    ready: Machine,
) -> None:
    program = ready.home / "codex"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo codex-cli 0.169.0 && exit\n"
        "echo Not logged in >&2\nexit 1\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    ready.env["CAO_CODEX_COMMAND"] = str(program)
    refused = ready.cao("run", "task.md", "--agent", "tester=codex", code=2)
    assert f"`{program} login`" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert runs_of(ready) == []
    assert_nothing_was_started(ready)


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


def test_a_task_of_another_form_is_refused_with_the_right_form(ready: Machine) -> None:
    (ready.work / "task.md").write_text(f"{SCENARIO}\ntry it\n", encoding="utf-8")
    done = ready.cao("run", "task.md", code=2)
    assert f"`{EXPLORE}` is missing" in done.stderr
    assert f"{EXPLORE}\nWhat is to be done" in done.stderr
    assert_nothing_was_started(ready)


def write_state(machine: Machine, **fields: object) -> dict[str, object]:
    state = {**OLD_STATE, "wd": str(machine.work), "terminals": {}, **fields}
    state_path(machine).write_text(json.dumps(state), encoding="utf-8")
    return state


class TestSavedState:
    def test_a_state_that_cannot_be_read_is_left_alone(self, ready: Machine) -> None:
        content = b'{"version": 2}'
        state_path(ready).write_bytes(content)
        for words in ([], ["--no-resume"]):
            done = ready.cao("run", "task.md", *words, code=3)
            assert str(state_path(ready)) in done.stderr
        assert state_path(ready).read_bytes() == content
        assert_nothing_was_started(ready)

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


def install(machine: Machine, text: str) -> None:
    """Let the agents be a shell script."""
    program = machine.home / "agent"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)
    machine.env["CAO_SCRIPTED_COMMAND"] = str(program)


def assert_no_agent_is_left(machine: Machine) -> None:
    assert not machine.tmux("list-panes", "-a", "-F", "#{@cao_id}").split()


@pytest.mark.tmux
def test_agents_that_cannot_be_started_are_a_matter_of_usage(ready: Machine) -> None:
    def refused(reason: str) -> None:
        done = ready.cao("run", "task.md", "--json", code=2)
        assert "no run was begun: scripted could not be started" in done.stderr
        assert reason in done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["exit_code"] == 2
        assert not state_path(ready).exists()
        assert_no_agent_is_left(ready)

    ready.env["CAO_SCRIPTED_COMMAND"] = "no-such-agent"
    refused("there is no program 'no-such-agent'")
    install(ready, "echo Please sign in first; exit 1")
    refused("Please sign in first")


@pytest.mark.tmux
def test_agents_of_a_run_that_cannot_be_saved_are_ended(ready: Machine) -> None:
    # Taken away only when the agents start: before that, nothing is started at all.
    python = shlex.quote(sys.executable)
    runs = ready.home / "state" / "runs"
    take = f'for run in {runs}/2*; do mkdir -p "$run/state.json"; done'
    install(ready, f'{take}\nexec {python} "$@"')
    done = ready.cao("run", "task.md", code=3)
    assert "the state cannot be saved" in done.stderr
    assert done.stderr.count("\n") == 1
    assert_no_agent_is_left(ready)


def test_in_a_folder_that_was_removed_that_is_said(machine: Machine) -> None:
    cao = f"{shlex.quote(sys.executable)} -P -m cli_agent_orchestrator"
    words = f"mkdir gone && cd gone && rmdir ../gone && {cao} runs"
    done = machine.new_process(["sh", "-c", words], machine.home)
    assert done.returncode == 3
    assert "the folder you are in was removed: go to another one" in done.stderr
