"""What a user sees of a fault of the program itself."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import click
from cli_agent_orchestrator.cli.main import main

@click.command()
def broken():
    raise ZeroDivisionError("half \\ud83c")

main(broken)
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_fault_is_one_line_and_never_looks_like_a_failed_run(debug: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "CAO_DEBUG": debug},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "internal error" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert ("Traceback" in done.stderr) is bool(debug)
    assert debug or len(done.stderr.splitlines()) == 1


LOGS = """
import logging
import click
from cli_agent_orchestrator.cli.main import main

@click.command()
def log() -> None:
    logging.getLogger("watchdog.inotify").error("called when the thread is inactive")

main(log)
"""


def test_what_a_library_logs_does_not_reach_the_screen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOGS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout + done.stderr == ""
