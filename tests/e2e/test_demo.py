"""`cao demo` as somebody meets it who has just installed the package."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.settings.config import ServerConfig
from tests.e2e.conftest import Machine, ended_at_last
from tests.e2e.runs import TASK, runs_of

pytestmark = [pytest.mark.tmux, pytest.mark.slow]


@pytest.fixture
def visitor(machine: Machine) -> Machine:
    """A machine whose temporary folder is its own."""
    (machine.home / "tmp").mkdir()
    machine.env["TMPDIR"] = str(machine.home / "tmp")
    return machine


def demo_folder(machine: Machine) -> Path:
    (folder,) = (machine.home / "tmp").glob("cao-demo-*")
    return folder


def tmux_answers(machine: Machine) -> bool:
    """Is there still a tmux server of the demo?"""
    environ = {"CAO_STATE_DIR": str(demo_folder(machine) / "state")}
    socket = ServerConfig.from_env(environ).tmux_socket
    asked = machine.new_process(["tmux", "-L", socket, "list-sessions"])
    return asked.returncode == 0


def type_in(machine: Machine, line: str) -> subprocess.CompletedProcess[str]:
    """Do what a shell does with a line that was copied."""
    return machine.new_process(["sh", "-c", line])


def test_the_demo_shows_a_false_pass_then_a_proven_one_and_what_to_type_next(
    visitor: Machine,
) -> None:
    others = {"API": "http://127.0.0.1:1", "MAX_ROUNDS": "1", "CAO_SCRIPTED_ARGS": "--nonsense"}
    visitor.env |= others
    said = visitor.cao("demo", code=0).stdout
    for text in (
        "Round 1, tester: PASS; the gate tests follows",
        "1 of 5 tests failed, as before the run (test_ten_pieces_are_cheaper); round 2 follows",
        "Round 2, proof: PASS, proven: 2 tests that failed before now pass",
        "DRY RUN: PASS, proven, after 2 rounds",
        "+    if quantity >= DISCOUNT_FROM:",
        "020-tester.md",
        "In round 1 the tester said PASS without running a test. cao ran them: FAIL",
    ):
        assert text in said
    assert "Not converging" not in said
    # It leaves the project and nothing else.
    project = demo_folder(visitor) / "shopping-basket"
    assert str(project) in said
    tests = visitor.new_process([sys.executable, "-m", "unittest"], project)
    assert tests.returncode == 0
    assert not tmux_answers(visitor)
    assert [path.name for path in demo_folder(visitor).iterdir()] == ["shopping-basket"]
    for name in others:
        del visitor.env[name]
    # It is among the runs of the user.
    (run,) = runs_of(visitor)
    assert (run["status"], run["terminals"]) == ("PASS", {})
    (command,) = [line for line in said.splitlines() if " report" in line]
    page = type_in(visitor, command)
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith("# DRY RUN: PASS after 2 rounds")
    assert "RESULT: PASS" in visitor.cao("replay", run["id"], "tester").stdout
    # What it says to type next works as it is printed.
    after = said.partition("What to type next")[2]
    doctor, init, begin = [line for line in after.splitlines() if line.startswith("  ")]
    visitor.env |= {"PROVIDER": "scripted", "CAO_PORT": "0"}
    assert type_in(visitor, doctor).returncode in (0, 1)
    assert type_in(visitor, init).returncode == 0
    (visitor.work / "task.md").write_text(TASK, encoding="utf-8")
    finished = type_in(visitor, begin)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "PASS" in finished.stdout


def test_an_interrupted_demo_cleans_up_too(visitor: Machine) -> None:
    with ended_at_last(visitor.start("demo")) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"cycle 2, analyst" in line:
                process.send_signal(signal.SIGINT)
                break
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.endswith(b"The demo was stopped. Run the same command again to start over\n")
    assert b"saved" not in said + errors
    assert not tmux_answers(visitor)
