"""A project that was merely cloned: whatever lies in it, nothing outside of it is touched."""

import json
import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.pipeline.task import SCENARIO_HEADER
from tests.e2e.conftest import Machine
from tests.e2e.runs import TASK, prepare, script
from tests.e2e.test_bad_input import OLD_STATE, assert_nothing_was_started

STATE = ".tmp/orchestrator-loop-state.json"
KINDS = {
    "link": "a symbolic link",
    "pipe": "a pipe",
    "folder": "a folder",
    "file": "a regular file",
}


@pytest.fixture
def ready(machine: Machine) -> Machine:
    prepare(machine, script())
    (machine.home / "outside").mkdir()
    (machine.home / "outside" / "victim").write_text("precious", encoding="utf-8")
    return machine


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


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        (STATE, 3),
        ("task.md", 2),
        ("cao.toml", 2),
    ],
)
def test_a_run_opens_regular_files_only(
    ready: Machine, name: str, kind: str, exit_code: int
) -> None:
    path = plant(ready, name, kind)
    done = ready.cao("run", "task.md")
    assert done.returncode == exit_code, done.stderr
    assert path.name in done.stderr
    said = f"it is {KINDS[kind]}, not a regular file; remove it"
    if (name, kind) == ("task.md", "folder"):
        # Nobody is told to remove a project.
        said = "is a folder, and the task"
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)
    assert_nothing_outside_was_touched(ready)


@pytest.mark.parametrize("kind", ["link to a folder", "pipe", "file"])
@pytest.mark.parametrize("name", [".tmp", ".tmp/agent-responses"])
def test_a_run_enters_no_folder_that_is_none(ready: Machine, name: str, kind: str) -> None:
    path = plant(ready, name, kind)
    done = ready.cao("run", "task.md")
    assert done.returncode == 2, done.stderr
    assert f"{path} is {KINDS[kind.split()[0]]}, not a folder; remove it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert_nothing_was_started(ready)
    assert_nothing_outside_was_touched(ready)


@pytest.mark.tmux
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_reply_is_taken_from_a_regular_file_only(ready: Machine, kind: str) -> None:
    path = plant(ready, ".tmp/agent-responses/analyst_summary.md", kind)
    done = ready.cao("run", "task.md")
    assert done.returncode == 3, done.stderr
    assert str(path) in done.stderr
    assert f"it is {KINDS[kind]}, not a regular file; remove it" in done.stderr
    assert_nothing_outside_was_touched(ready)


class TestReport:
    @pytest.fixture
    def saved(self, ready: Machine) -> Machine:
        state = {**OLD_STATE, "wd": str(ready.work), "terminals": {}, "run": "20250131-120000"}
        (ready.work / ".tmp").mkdir()
        (ready.work / STATE).write_text(json.dumps(state), encoding="utf-8")
        return ready

    def test_it_is_printed_without_a_run_folder(self, saved: Machine) -> None:
        assert saved.cao("report").returncode == 0

    @pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
    def test_it_reads_regular_files_only(self, saved: Machine, kind: str) -> None:
        path = plant(saved, STATE, kind)
        done = saved.cao("report")
        assert done.returncode == 3
        assert str(path) in done.stderr
        assert f"it is {KINDS[kind]}, not a regular file" in done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prompt_file", "a\0b"),
        ("state_file", "x\ntouch ~/owned #"),
        ("wd", "\x1b]0;title\x07"),
        ("wd", "a\u2028b"),
    ],
)
def test_a_path_with_control_characters_is_refused_and_quoted(
    ready: Machine, key: str, value: str
) -> None:
    (ready.work / "cao.toml").write_text(f"{key} = {json.dumps(value)}\n", encoding="utf-8")
    done = ready.cao("run")
    assert done.returncode == 2
    assert "expected a path without control characters" in done.stderr
    assert ascii(value).strip("'") in ascii(done.stderr).replace("\\\\", "\\")
    assert done.stderr.count("\n") == 1
    assert not (ready.work / ".tmp").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("prompt_file", "circle/x"), ("state_file", "circle"), ("wd", "~nosuchuser/x")],
)
def test_a_path_that_leads_nowhere_is_said_in_one_line(
    ready: Machine, key: str, value: str
) -> None:
    (ready.work / "circle").symlink_to("circle")
    (ready.work / "cao.toml").write_text(f"{key} = {json.dumps(value)}\n", encoding="utf-8")
    done = ready.cao("run")
    assert done.returncode in (2, 3)
    assert done.stderr.count("\n") == 1
    assert value in done.stderr
    assert_nothing_was_started(ready)


def test_so_is_one_that_is_given_by_option(ready: Machine) -> None:
    done = ready.cao("run", "--wd", "a\nb")
    assert done.returncode == 2
    assert r"'a\nb', expected a path without control characters" in done.stderr


def test_a_task_elsewhere_may_be_a_link(ready: Machine) -> None:
    """It is the user's own; here it is read, and has not the right form."""
    (ready.home / "outside" / "victim").write_text(f"{SCENARIO_HEADER}\nx", encoding="utf-8")
    (ready.home / "mine.md").symlink_to(ready.home / "outside" / "victim")
    done = ready.cao("run", str(ready.home / "mine.md"))
    assert done.returncode == 2
    assert "isn't in the expected format" in done.stderr


@pytest.mark.parametrize("name", ["mine.md", "mine.toml"])
def test_a_pipe_elsewhere_is_not_waited_for(ready: Machine, name: str) -> None:
    path = ready.home / name
    os.mkfifo(path)
    words = ["--config", str(path)] if path.suffix == ".toml" else [str(path)]
    done = ready.cao("run", *words)
    assert done.returncode == 2
    assert "it is a pipe" in done.stderr


def test_init_leaves_alone_what_is_there(ready: Machine) -> None:
    path = plant(ready, "cao.toml", "link")
    before = path.lstat().st_ino
    done = ready.cao("init")
    assert done.returncode == 0
    assert "cao.toml is there already and stays as it is" in done.stdout
    assert path.lstat().st_ino == before
    assert (ready.work / "task.md").read_text(encoding="utf-8") == TASK
    assert_nothing_outside_was_touched(ready)
