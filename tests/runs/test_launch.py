"""A run as a process of its own: what it is told, what it tells, and how its start can fail."""

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import OrchestratorError, RunError, RunLocked, UsageError
from cli_agent_orchestrator.events import (
    OnRunEvent,
    RunBegan,
    RunEnded,
    RunEvent,
    RunOpened,
    Warned,
    tell_nobody,
    to_line,
)
from cli_agent_orchestrator.runs.service import RunToLaunch, launch_run
from tests.runs.views import NOON, RUN

OPENED = to_line(RunOpened(NOON, RUN, "/p", False))
BEGAN = to_line(RunBegan(NOON, "cao-1", {}, {}, "/a"))
REQUEST = RunToLaunch({"WD": "/p", "FLOW": None}, "cao.toml", replace_terminals=True)

TELL = """
import json, os, sys
wanted = json.load(sys.stdin)
with open("wanted", "w") as file:
    json.dump([wanted, os.getsid(0) == os.getpid(), os.getpid(), [*os.environ]], file)
print(*sys.argv[1:], sep="\\n")
"""
UNTIL_STOPPED = """
import signal, sys
def stop(*_):
    open("stopped", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print(sys.argv[1], flush=True)
while True:
    signal.pause()
"""


def launch(
    program: str, lines: Sequence[str], folder: Path, on_event: OnRunEvent = tell_nobody
) -> str:
    command = (sys.executable, "-c", program, *lines)
    environ = {**os.environ, "GIT_DIR": "/other/.git", "GIT_AUTHOR_NAME": "Ada"}
    return launch_run(REQUEST, folder, on_event, environ=environ, command=command)


def test_it_returns_when_the_run_has_begun(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[RunEvent] = []
    warned = to_line(Warned(NOON, "mind"))
    program = f"import sys; print('secret', file=sys.stderr)\n{TELL}"
    run = launch(program, [OPENED, warned, BEGAN], tmp_path, told.append)
    assert run == RUN
    assert [type(event) for event in told] == [RunOpened, Warned, RunBegan]
    wanted, is_apart, pid, names = json.loads((tmp_path / "wanted").read_text(encoding="utf-8"))
    assert wanted == {
        "options": {"WD": "/p", "FLOW": None},
        "config_file": "cao.toml",
        "replace_terminals": True,
        "run": "",
    }
    assert is_apart
    # No repository of who starts it is handed on.
    assert {"GIT_AUTHOR_NAME", "GIT_DIR"} & {*names} == {"GIT_AUTHOR_NAME"}
    assert capfd.readouterr() == ("", ""), "what it writes elsewhere is shown to nobody"
    # One that has ended leaves no dead process behind.
    for thread in threading.enumerate():
        if thread.name == "run":
            thread.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def ended(reason: str, error: str) -> str:
    return to_line(RunEnded(NOON, "RUNNING", 0, 3, reason, error=error))


def refused(reason: str, kind: str) -> str:
    return json.dumps({"error": reason, "kind": kind})


@pytest.mark.parametrize(
    ("lines", "kind", "said"),
    [
        ([refused("no task", "UsageError")], UsageError, "no task"),
        ([refused("it is removed", "RunLocked")], RunLocked, "it is removed"),
        ([refused("odd", "SystemExit")], RunError, "odd"),
        ([OPENED, ended("no flow", "UsageError")], UsageError, "no flow"),
        ([OPENED, ended("", "")], RunError, "was stopped before it began"),
        (["Traceback"], RunError, "could not be started"),
        (['{"kind": "UsageError"}'], RunError, "could not be started"),
        (["[]"], RunError, "could not be started"),
        ([OPENED], RunError, "ended before it began"),
        ([BEGAN], RunError, "ended before it began"),
    ],
)
def test_why_it_has_not_begun_is_raised(
    tmp_path: Path, lines: list[str], kind: type[OrchestratorError], said: str
) -> None:
    with pytest.raises(OrchestratorError, match=said) as caught:
        launch(TELL, lines, tmp_path)
    assert type(caught.value) is kind


def test_a_process_that_ends_at_once_is_an_error(tmp_path: Path) -> None:
    # More than a pipe holds.
    request = RunToLaunch({"PROMPT": "x" * 1_000_000})
    with pytest.raises(RunError, match="ended at once"):
        launch_run(request, tmp_path, environ=os.environ, command=("true",))


def test_who_is_interrupted_meanwhile_stops_the_run(tmp_path: Path) -> None:
    def interrupt(event: RunEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(UNTIL_STOPPED, [OPENED], tmp_path, interrupt)
    assert (tmp_path / "stopped").exists()


def test_a_run_goes_on_although_nobody_reads_what_is_told_of_it(tmp_path: Path) -> None:
    told: list[RunEvent] = []

    def tell(event: RunEvent) -> None:
        told.append(event)
        raise BrokenPipeError

    run = launch(TELL, [OPENED, BEGAN], tmp_path, tell)
    assert run == RUN
    assert [type(event) for event in told] == [RunOpened]


def test_a_folder_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"gone: No such file or directory"):
        launch("pass", [], tmp_path / "gone")
