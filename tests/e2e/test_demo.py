"""`cao demo` as somebody meets it who has just installed the package."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_agent_orchestrator.config import ServerConfig
from tests.e2e.conftest import CAO, Machine

pytestmark = pytest.mark.tmux


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
    asked = subprocess.run(
        ["tmux", "-L", socket, "list-sessions"], env=machine.env, capture_output=True, check=False
    )
    return asked.returncode == 0


def test_the_demo_shows_a_fail_then_a_pass_and_what_changed(visitor: Machine) -> None:
    visitor.env |= {
        "API": "http://127.0.0.1:1",
        "MAX_ROUNDS": "1",
        "CAO_SCRIPTED_ARGS": "--nonsense",
    }
    done = visitor.cao("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "Round 1, tester: FAIL; round 2 follows",
        "PASS after 2 rounds",
        "+    if quantity >= DISCOUNT_FROM:",
        "Timeline",
        "018-tester.md",
        "cao run task.md",
    ):
        assert text in done.stdout
    project = demo_folder(visitor) / "shopping-basket"
    assert str(project) in done.stdout
    tests = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=project, capture_output=True, check=False
    )
    assert tests.returncode == 0


def test_the_demo_cleans_up_and_leaves_the_users_own_server_alone(visitor: Machine) -> None:
    assert visitor.cao("demo").returncode == 0
    assert not tmux_answers(visitor)
    assert [path.name for path in demo_folder(visitor).iterdir()] == ["shopping-basket"]
    assert not (visitor.home / "state").exists()


def test_an_interrupted_demo_cleans_up_too(visitor: Machine) -> None:
    process = subprocess.Popen(
        [*CAO, "demo"],
        env={**visitor.env, "PYTHONUNBUFFERED": "1"},
        cwd=visitor.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if "cycle 2, analyst" in line:
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not tmux_answers(visitor)


def test_without_tmux_the_demo_says_what_is_missing(visitor: Machine) -> None:
    path, visitor.env["PATH"] = visitor.env["PATH"], str(visitor.home)
    done = visitor.cao("demo")
    visitor.env["PATH"] = path
    assert done.returncode == 2
    assert "tmux" in done.stderr
    assert "Traceback" not in done.stderr
