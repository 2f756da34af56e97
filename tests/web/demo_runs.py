"""Runs of the project that `cao demo` shows, with what the built-in agents are to do besides."""

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from cli_agent_orchestrator._internal.gates import When
from cli_agent_orchestrator.scripted_agent.packaged import DEMO_PROJECT, DEMO_SCRIPT
from tests.e2e.conftest import Machine
from tests.e2e.runs import rule

GATE = {
    "name": "tests",
    # The interpreter that is first on the path, see below.
    "run": f"{Path(sys.executable).name} -B -m unittest",
    "when": [When.BASE, When.AFTER_TESTER],
}


def prepare_demo(machine: Machine, *first: str, seconds: Sequence[float] = (0.2,)) -> None:
    """Let agents follow the demo's script; rules that come first, and how long its turns take."""
    lengths = cycle(seconds)
    text = DEMO_SCRIPT.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^seconds = .*$", lambda _: f"seconds = {next(lengths)}", text)
    machine.script("\n".join([*first, text]))
    machine.env |= {
        "PROVIDER": "scripted",
        "GATES": json.dumps(GATE),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), machine.env["PATH"]]),
    }


def asks(role: str, **fields: str) -> str:
    """Return a rule by which an agent asks a person first; fields are TOML already."""
    return rule(role, misbehave='{ ask = "Run: make clean" }', **fields)


def new_project(folder: Path, name: str, task: str = "") -> Path:
    """Put the demo's project into a folder; a task may take the place of its own."""
    project = folder / name
    shutil.copytree(DEMO_PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    if task:
        (project / "task.md").write_text(task, encoding="utf-8")
    return project


def start_run(machine: Machine, project: Path, *words: str) -> str:
    """Start a run apart from any terminal, and return its id when it has begun."""
    known = {run["id"] for run in _runs(machine)}
    done = machine.cao("run", "task.md", "--detach", *words, folder=project)
    assert done.returncode == 0, done.stdout + done.stderr
    (new,) = {run["id"] for run in _runs(machine)} - known
    return str(new)


def _runs(machine: Machine) -> list[dict[str, object]]:
    done = machine.cao("runs", "--json")
    runs: list[dict[str, object]] = json.loads(done.stdout or "[]")
    return runs
