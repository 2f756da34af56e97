"""A project that was merely cloned: whatever lies in it, nothing outside of it is touched."""

import json
import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.task import SCENARIO_HEADER
from tests.e2e.conftest import Machine
from tests.e2e.test_bad_input import OLD_STATE, assert_nothing_was_started

STATE = ".tmp/orchestrator-loop-state.json"
KINDS = {
    "link": "a symbolic link",
    "pipe": "a pipe",
    "folder": "a folder",
    "file": "a regular file",
}


@pytest.fixture(autouse=True)
def victim(ready: Machine) -> None:
    (ready.home / "outside").mkdir()
    (ready.home / "outside" / "victim").write_text("precious", encoding="utf-8")


def plant(machine: Machine, name: str, kind: str) -> Path:
    """Put something in a file's or folder's place."""
    path = machine.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    match kind:
        case "link":
            path.symlink_to(machine.home / "outside" / "victim")
        case "link to a folder":
            path.symlink_to(machine.home / "outside")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "file":
            path.write_text("", encoding="utf-8")
    return path


def assert_nothing_outside_was_touched(machine: Machine) -> None:
    outside = machine.home / "outside"
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        *((STATE, kind, 3) for kind in ("link", "pipe")),
        *((name, kind, 2) for name in ("task.md", "cao.toml") for kind in ("link", "folder")),
        (".tmp", "link to a folder", 2),
        (".tmp/agent-responses", "file", 2),
    ],
)
def test_a_run_opens_regular_files_and_folders_only(
    ready: Machine, name: str, kind: str, code: int
) -> None:
    path = plant(ready, name, kind)
    done = ready.cao("run", "task.md", code=code)
    wanted = "a folder" if name.startswith(".tmp") and name != STATE else "a regular file"
    said = f"is {KINDS[kind.split()[0]]}, not {wanted}; remove it"
    if (name, kind) == ("task.md", "folder"):
        # A project is not to be removed.
        said = "is a folder, and the task"
    assert path.name in done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)
    assert_nothing_outside_was_touched(ready)


@pytest.mark.tmux
def test_a_reply_is_taken_from_a_regular_file_only(ready: Machine) -> None:
    reply = ".tmp/agent-responses/analyst_summary.md"
    for kind in ("link", "pipe"):
        path = plant(ready, reply, kind)
        done = ready.cao("run", "task.md", "--no-resume", code=3)
        assert str(path) in done.stderr
        assert f"it is {KINDS[kind]}, not a regular file; remove it" in done.stderr
    assert_nothing_outside_was_touched(ready)


def test_a_report_reads_regular_files_only(ready: Machine) -> None:
    state = {**OLD_STATE, "wd": str(ready.work), "terminals": {}, "run": "20250131-120000"}
    (ready.work / ".tmp").mkdir()
    (ready.work / STATE).write_text(json.dumps(state), encoding="utf-8")
    ready.cao("report", code=0)
    path = plant(ready, STATE, "link")
    done = ready.cao("report", code=3)
    assert f"{path}" in done.stderr
    assert "it is a symbolic link, not a regular file" in done.stderr


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


def test_a_task_elsewhere_may_be_a_link(ready: Machine) -> None:
    """It is the user's own; here it is read, and has not the right form."""
    (ready.home / "outside" / "victim").write_text(f"{SCENARIO_HEADER}\nx", encoding="utf-8")
    (ready.home / "mine.md").symlink_to(ready.home / "outside" / "victim")
    done = ready.cao("run", str(ready.home / "mine.md"), code=2)
    assert "isn't in the expected format" in done.stderr


@pytest.mark.parametrize("name", ["mine.md", "mine.toml"])
def test_a_pipe_elsewhere_is_not_waited_for(ready: Machine, name: str) -> None:
    path = ready.home / name
    os.mkfifo(path)
    words = ["--config", str(path)] if path.suffix == ".toml" else [str(path)]
    done = ready.cao("run", *words, code=2)
    assert "it is a pipe" in done.stderr
