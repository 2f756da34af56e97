"""A run as a process of its own: what it is told, what it tells, and how its start can fail."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import OrchestratorError, RunError, RunLocked, UsageError
from cli_agent_orchestrator.events import RunBegan, RunEnded, RunEvent, RunOpened, Warned, to_line
from cli_agent_orchestrator.runs.service import RunLauncher, RunToLaunch, run_command

NOON = 1_700_000_000.0
RUN = "20261115-084037-k3f9"
OPENED = to_line(RunOpened(NOON, RUN, "/p", False))
BEGAN = to_line(RunBegan(NOON, "cao-1", {}, {}, "/a"))
REQUEST = RunToLaunch({"WD": "/p", "FLOW": None}, "cao.toml", replace_terminals=True)

TELL = """
import json, os, sys
wanted = json.load(sys.stdin)
with open("wanted", "w") as file:
    json.dump([wanted, os.getsid(0) == os.getpid()], file)
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


def launcher(program: str, *lines: str) -> RunLauncher:
    return RunLauncher((sys.executable, "-c", program, *lines), os.environ)


def test_it_returns_when_the_run_has_begun(tmp_path: Path) -> None:
    told: list[RunEvent] = []
    warned = to_line(Warned(NOON, "mind"))
    launched = launcher(TELL, OPENED, warned, BEGAN).launch(REQUEST, tmp_path, told.append)
    assert (launched.run, launched.wd) == (RUN, "/p")
    assert [type(event) for event in told] == [RunOpened, Warned, RunBegan]
    wanted, is_apart = json.loads((tmp_path / "wanted").read_text(encoding="utf-8"))
    assert wanted == {
        "options": {"WD": "/p", "FLOW": None},
        "config_file": "cao.toml",
        "replace_terminals": True,
        "run": "",
    }
    assert is_apart


@pytest.mark.parametrize("module", ["json", "click", "cli_agent_orchestrator"])
def test_modules_of_the_project_take_no_part(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()\n")
    request = RunToLaunch({"WD": str(tmp_path), "FLOW": "nothing", "PROMPT": "# Task\nDo it."})
    with pytest.raises(UsageError, match="nothing"):
        RunLauncher(run_command(sys.executable), os.environ).launch(request, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_no_repository_of_who_starts_it_is_handed_on(tmp_path: Path) -> None:
    tell = f"import os\nwith open('names', 'w') as file: print(*os.environ, file=file)\n{TELL}"
    environ = {**os.environ, "GIT_DIR": "/other/.git", "GIT_AUTHOR_NAME": "Ada"}
    command = (sys.executable, "-c", tell, OPENED, BEGAN)
    RunLauncher(command, environ).launch(REQUEST, tmp_path)
    names = (tmp_path / "names").read_text(encoding="utf-8").split()
    assert "GIT_AUTHOR_NAME" in names
    assert "GIT_DIR" not in names


def test_what_it_writes_elsewhere_is_shown_to_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = f"import sys; print('secret', file=sys.stderr)\n{TELL}"
    launcher(program, OPENED, BEGAN).launch(REQUEST, tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_run_that_has_ended_leaves_no_dead_process_behind(tmp_path: Path) -> None:
    launched = launcher(TELL, OPENED, BEGAN).launch(REQUEST, tmp_path)
    for thread in threading.enumerate():
        if thread.name == "run":
            thread.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(launched.pid, 0)


def ended(reason: str, error: str) -> str:
    return to_line(RunEnded(NOON, "RUNNING", 0, 3, reason, error=error))


def refused(reason: str, kind: str) -> str:
    return json.dumps({"error": reason, "kind": kind})


@pytest.mark.parametrize(
    ("lines", "kind", "said"),
    [
        ([refused("no task", "UsageError")], UsageError, "no task"),
        ([refused("another run works in /p", "RunError")], RunError, "another run"),
        ([refused("it is removed", "RunLocked")], RunLocked, "it is removed"),
        ([refused("odd", "SystemExit")], RunError, "odd"),
        ([OPENED, ended("no flow", "UsageError")], UsageError, "no flow"),
        ([OPENED, ended("no tmux", "RunError")], RunError, "no tmux"),
        ([OPENED, ended("it is in use", "RunLocked")], RunLocked, "it is in use"),
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
        launcher(TELL, *lines).launch(REQUEST, tmp_path)
    assert type(caught.value) is kind


def test_a_process_that_ends_at_once_is_an_error(tmp_path: Path) -> None:
    # More than a pipe holds.
    request = RunToLaunch({"PROMPT": "x" * 1_000_000})
    with pytest.raises(RunError, match="ended at once"):
        RunLauncher(("true",), os.environ).launch(request, tmp_path)


def test_who_is_interrupted_meanwhile_stops_the_run(tmp_path: Path) -> None:
    def interrupt(event: RunEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launcher(UNTIL_STOPPED, OPENED).launch(REQUEST, tmp_path, interrupt)
    assert (tmp_path / "stopped").exists()


def test_a_run_goes_on_although_nobody_reads_what_is_told_of_it(tmp_path: Path) -> None:
    told: list[RunEvent] = []

    def tell(event: RunEvent) -> None:
        told.append(event)
        raise BrokenPipeError

    launched = launcher(TELL, OPENED, BEGAN).launch(REQUEST, tmp_path, tell)
    assert launched.run == RUN
    assert [type(event) for event in told] == [RunOpened]


def test_a_folder_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"gone: No such file or directory"):
        launcher("pass").launch(RunToLaunch({}), tmp_path / "gone")
