"""What a user sees of a fault of the program itself."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import logging
import click
from cli_agent_orchestrator.cli.main import main

@click.command()
def broken():
    logging.getLogger("watchdog.inotify").error("a library logs this")
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
    assert "a library logs" not in done.stdout + done.stderr


EARLY = """
import runpy, signal, sys

class Impatient:
    def find_spec(self, name, *_):
        if name == "click":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Impatient())
runpy.run_module("cli_agent_orchestrator", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_it_starts_ends_it_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
