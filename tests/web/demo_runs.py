"""Runs of the project that `cao demo` shows, with what the built-in agents are to do besides."""

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from cli_agent_orchestrator.scripted_agent import DEMO_PROJECT, DEMO_SCRIPT
from cli_agent_orchestrator.settings.gates import When
from tests.e2e.conftest import Machine

GATE = {
    "name": "tests",
    # The interpreter that is first on the path, see below.
    "run": f"{Path(sys.executable).name} -B -m unittest",
    "when": [When.BASE, When.AFTER_TESTER],
}
ASKS = 'misbehave = { ask = "Run: make clean" }'


def prepare_demo(
    machine: Machine, *first: str, asking: Sequence[str] = (), seconds: Sequence[float] = (0.2,)
) -> None:
    """Let agents follow the demo's script.

    `first` are rules that come before its own, `asking` the roles that ask a person something in
    their first turn, `seconds` how long turns take, one after the other.
    """
    lengths = cycle(seconds)
    text = DEMO_SCRIPT.read_text(encoding="utf-8")
    for role in asking:
        named = f'role = "{role}"\n'
        text = text.replace(named, f"{named}{ASKS}\n", 1)
    text = re.sub(r"(?m)^seconds = .*$", lambda _: f"seconds = {next(lengths)}", text)
    machine.script("\n".join([*first, text]))
    machine.env |= {
        "PROVIDER": "scripted",
        "GATES": json.dumps(GATE),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), machine.env["PATH"]]),
    }


def new_project(folder: Path, name: str, task: str = "") -> Path:
    """Put the demo's project into a folder; a task may take the place of its own."""
    project = folder / name
    shutil.copytree(DEMO_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    if task:
        (project / "task.md").write_text(task, encoding="utf-8")
    return project


def start_run(machine: Machine, project: Path, *words: str) -> str:
    """Start a run apart from any terminal, and return its id when it has begun."""
    known = run_ids(machine)
    machine.cao("run", "task.md", "--detach", *words, folder=project, code=0)
    (new,) = run_ids(machine) - known
    return new


def run_ids(machine: Machine) -> set[str]:
    done = machine.cao("runs", "--json")
    return {str(run["id"]) for run in json.loads(done.stdout or "[]")}
