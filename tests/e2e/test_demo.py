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


def test_the_demo_shows_a_false_pass_then_a_proven_one_and_what_to_type_next(
    visitor: Machine,
) -> None:
    visitor.env |= {
        "API": "http://127.0.0.1:1",
        "MAX_ROUNDS": "1",
        "CAO_SCRIPTED_ARGS": "--nonsense",
    }
    done = visitor.cao("demo", code=0)
    it_tells_what_happened(done.stdout)
    it_leaves_the_project_and_nothing_else(visitor, done.stdout)
    for name in ("API", "MAX_ROUNDS", "CAO_SCRIPTED_ARGS"):
        del visitor.env[name]
    its_report_can_be_read(visitor, done.stdout)
    it_is_among_the_runs_of_the_user(visitor, done.stdout)
    what_it_says_to_type_next_works_as_it_is_printed(visitor, done.stdout)


def it_tells_what_happened(said: str) -> None:
    for text in (
        "Round 1, tester: PASS; the gate tests follows",
        "1 of 5 tests failed, as before the run (test_ten_pieces_are_cheaper); round 2 follows",
        "Round 2, proof: PASS, proven: 2 tests that failed before now pass",
        "DRY RUN: PASS, proven, after 2 rounds",
        "+    if quantity >= DISCOUNT_FROM:",
        "Timeline",
        "020-tester.md",
        "run task.md",
    ):
        assert text in said
    assert "Not converging" not in said
    proven = said.partition("What was proven")[2].partition("The project stays")[0]
    assert "In round 1 the tester said PASS without running a test. cao ran them: FAIL" in proven
    assert "Proven: 2 tests that failed before now pass" in " ".join(proven.split())


def it_leaves_the_project_and_nothing_else(visitor: Machine, said: str) -> None:
    project = demo_folder(visitor) / "shopping-basket"
    assert str(project) in said
    tests = visitor.new_process([sys.executable, "-m", "unittest"], project)
    assert tests.returncode == 0
    assert not tmux_answers(visitor)
    assert [path.name for path in demo_folder(visitor).iterdir()] == ["shopping-basket"]


def its_report_can_be_read(visitor: Machine, said: str) -> None:
    lines = said.splitlines()
    (command,) = [line for line in lines if " report" in line]
    assert (
        lines.index("It is among your own runs now. On one page, and in the browser:")
        == lines.index(command) - 1
    )
    page = type_in(visitor, command)
    assert page.returncode == 0, page.stderr
    assert page.stdout.startswith("# DRY RUN: PASS after 2 rounds")


def it_is_among_the_runs_of_the_user(visitor: Machine, said: str) -> None:
    (run,) = runs_of(visitor)
    assert f" report {run['id'][-4:]}" in said or f" report {run['id']}" in said
    assert (run["status"], run["terminals"]) == ("PASS", {})
    page = visitor.cao("report", run["id"], "--format", "html", code=0)
    assert page.stdout.startswith("<!doctype html>")
    screens = visitor.cao("replay", run["id"], "tester")
    assert "RESULT: PASS" in screens.stdout


def what_it_says_to_type_next_works_as_it_is_printed(visitor: Machine, said: str) -> None:
    after = said.partition("What to type next")[2]
    doctor, init, run = [line for line in after.splitlines() if line.startswith("  ")]
    visitor.env |= {"PROVIDER": "scripted", "CAO_PORT": "0"}
    assert type_in(visitor, doctor).returncode in (0, 1)
    assert type_in(visitor, init).returncode == 0
    (visitor.work / "task.md").write_text(TASK, encoding="utf-8")
    finished = type_in(visitor, run)
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


def type_in(machine: Machine, line: str) -> subprocess.CompletedProcess[str]:
    """Do what a shell does with a line that was copied."""
    return machine.new_process(["sh", "-c", line])


def test_the_demo_shows_other_flows_too(visitor: Machine) -> None:
    done = visitor.cao("demo", "--flow", "solo", code=0)
    said = ("Round 1, tests: FAIL", "after 2 rounds", "005-tests.md", "quantity >= DISCOUNT_FROM")
    for text in said:
        assert text in done.stdout
    assert "Proven: 2 tests" in done.stdout
