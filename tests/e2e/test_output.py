"""What `cao` prints, and what happens when nobody reads it."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import CAO, Machine, ended_at_last
from tests.e2e.runs import (
    alive_agents,
    assert_five_turns_once,
    at,
    prepare,
    rule,
    running,
    script,
    state_of,
)

pytestmark = [pytest.mark.tmux, pytest.mark.slow]

FULL = Path("/dev/full")


def test_a_prompt_that_waits_for_a_persons_text_says_so_until_it_is_gone(machine: Machine) -> None:
    prepare(machine, script(rule("analyst", misbehave='{ ask = "Go on?" }')))
    with running(machine, "task.md") as run:
        began = run.until(lambda event: event["type"] == "run_began")
        run.until(at("waiting_for_person", "analyst"))
        panes = machine.panes()
        programmer = panes[began["terminals"]["programmer"]]
        machine.tmux("send-keys", "-t", programmer, "-l", "half a thought")
        machine.tmux("send-keys", "-t", panes[began["terminals"]["analyst"]], "1")
        delayed = run.until(at("delayed", "programmer"))
        assert "unsent text in its input box" in delayed["text"]
        assert "/programmer`" in delayed["text"]
        assert delayed["at"] - delayed["since"] >= 2
        machine.tmux("send-keys", "-t", programmer, "C-u")
        assert run.end() == 0, run.errors
    assert_five_turns_once(machine)


def read_until(machine: Machine, marks: tuple[bytes, ...], *words: str) -> str:
    """Read what a run prints until a line with a mark, and no further; return what it says then."""
    with ended_at_last(machine.start("run", "task.md", *words)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if any(mark in line for mark in marks):
                break
        process.stdout.close()
        _, errors = process.communicate()
    assert process.returncode == 141
    return errors.decode()


def test_a_run_whose_reader_leaves_while_agents_start_leaves_none(machine: Machine) -> None:
    prepare(machine, script())
    errors = read_until(machine, (b'"type": "server"',), "--json")
    assert errors == "cao: nobody reads the output any more; no run was begun\n"
    assert alive_agents(machine) == []


def test_a_run_whose_reader_leaves_is_saved_and_goes_on(machine: Machine) -> None:
    prepare(machine, script(rule("programmer", seconds="1")))
    errors = read_until(machine, (b"The run begins",))
    assert errors == "cao: nobody reads the output any more; what is saved can be resumed\n"
    assert state_of(machine)["final_status"] == "RUNNING"
    machine.cao("run", code=0)
    assert_five_turns_once(machine)


def test_a_command_whose_reader_is_gone_says_nothing(machine: Machine) -> None:
    # Not forked: it is about what Python itself does at its very end.
    (machine.home / "cao").write_text(f"{shlex.join(CAO)} --help; echo $? >&2")
    done = machine.new_process(["sh", "-c", "sh ../cao | exec true"])
    assert done.stderr == "141\n"


def test_a_run_passes_without_standard_streams(machine: Machine) -> None:
    prepare(machine, script())
    done = in_shell(machine, 'exec "$@" 0>&- 1>&-')
    assert done.returncode == 0, done.stdout + done.stderr
    assert_five_turns_once(machine)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("where", [">/dev/full", ">/dev/full 2>/dev/full"])
def test_a_run_that_can_tell_nothing_is_not_begun_and_says_no_more(
    machine: Machine, where: str
) -> None:
    prepare(machine, script())
    done = in_shell(machine, f'exec "$@" {where}')
    assert done.returncode == 3, done.stderr
    assert "resumed" not in done.stderr
    assert ("no run was begun" in done.stderr) is ("2>" not in where)


def in_shell(machine: Machine, text: str) -> subprocess.CompletedProcess[str]:
    """Run a task by a line of a shell, in which "$@" stands for the command."""
    return machine.new_process(["sh", "-c", text, "sh", *CAO, "run", "task.md"])
