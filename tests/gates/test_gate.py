"""The command of a gate, really run."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import Stopped
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.gates.checking import (
    LOG_HEAD,
    LOG_TAIL,
    GatePlace,
    GateRunner,
    unreadable,
)

LONG = 600.0


def run(folder: Path, command: str, seconds: float = LONG, **environ: str) -> CheckResult:
    place = GatePlace(folder, seconds, {**os.environ, **environ})
    return GateRunner().run_command(command, place)


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo out; echo err >&2; exit 0", 0, "out\nerr\n"),
        ("echo out; exit 7", 7, "out\n"),
        ("cat; echo $CAO_TOKEN-$OTHER", 0, "-plain\n"),
        ("kill -9 $$", -signal.SIGKILL, ""),
        ("sleep 600 & kill -9 0", -signal.SIGKILL, ""),
        ("echo a; exec >&- 2>&-; exit 3", 3, "a\n"),
        (r"printf '\377\376\033[31mred\000'", 0, "\ufffd\ufffd\x1b[31mred\x00"),
    ],
)
def test_a_command_ends_with_a_code_and_an_output(
    tmp_path: Path, command: str, code: int, output: str
) -> None:
    result = run(tmp_path, command, CAO_TOKEN="secret", OTHER="plain")
    assert (result.exit_code, result.output) == (code, output)


@pytest.mark.parametrize(
    "command", ["(sleep 600; touch late) & sleep 600; touch later", "kill -STOP $$; echo never"]
)
def test_at_its_time_limit_the_whole_group_is_killed(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command, 0.5)
    assert (result.exit_code, result.output) == (None, "")
    assert list(tmp_path.iterdir()) == []


def test_it_does_not_read_what_a_person_types(tmp_path: Path) -> None:
    reading, typing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(typing, b"typed\n")
        os.close(typing)
        assert run(tmp_path, "cat").output == ""
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


DAEMON = """
import os, subprocess, sys
serve = "alive = open('alive', 'w'); open('begun', 'w').close(); open('never').read()"
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
if sys.argv[1:]:
    subprocess.run([sys.executable, "-c", serve], env={}, start_new_session=True)
else:
    exec(serve)
"""


@pytest.mark.parametrize("program", ["daemon.py", "daemon.py bare"])
def test_a_daemon_ends_with_it(tmp_path: Path, program: str) -> None:
    """Also one that cleared its environment: its parent has the mark."""
    if sys.platform != "linux" and "bare" in program:
        pytest.skip("ps may not show the environment")
    for name in ("alive", "begun", "never"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "daemon.py").write_text(DAEMON, encoding="utf-8")
    reading = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    result = run(tmp_path, f"{shlex.quote(sys.executable)} {program}; cat begun; echo done")
    os.set_blocking(reading, True)
    # It ends when nobody has the other end of the pipe any more.
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert (result.exit_code, result.output) == (0, "done\n")


def marked(folder: Path, run: str, environ: Mapping[str, str]) -> GatePlace:
    return GatePlace(folder, LONG, environ, Folder(folder, (run,)))


def test_what_a_killed_run_left_is_ended_before_the_gate_is_repeated(tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    left = subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "CAO_GATE": f"outer:{run}-1"},
        start_new_session=True,
    )
    for other in (f"{run}-2", run, f"outer:{run}"):
        GateRunner().run_command("true", marked(tmp_path, other, os.environ))
        assert left.poll() is None
    GateRunner().run_command("true", marked(tmp_path, f"{run}-1", os.environ))
    assert left.wait(60) == -signal.SIGKILL
    assert left.stdin is not None
    left.stdin.close()


def test_the_mark_of_a_gate_around_us_is_kept(tmp_path: Path) -> None:
    place = marked(tmp_path, "inner", {"CAO_GATE": "outer"})
    assert GateRunner().run_command("echo $CAO_GATE", place).output == "outer:inner\n"


def test_a_folder_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    result = run(tmp_path / "gone", "true")
    assert (result.exit_code, result.fault) == (None, "No such file or directory")


def test_nothing_that_gives_access_to_us_or_leads_elsewhere_is_handed_on(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "CAO_TOKEN": "secret-token",
        "OTHER": "Bearer secret-token",
        "CAO_API": "http://ada:secret@localhost:1",
        "API": "http://secret@localhost:1",
        **dict.fromkeys(("OLDPWD", "PWD", "GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"), "/secret"),
        "GIT_AUTHOR_NAME": "Ada",
    }
    said = GateRunner().run_command("env", GatePlace(tmp_path, LONG, environ)).output
    assert "secret" not in said
    assert f"PWD={tmp_path}\n" in said
    assert "GIT_AUTHOR_NAME=Ada\n" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_does_not_change_the_verdict(tmp_path: Path) -> None:
    place = GatePlace(tmp_path, LONG, os.environ)
    with Path("/dev/full").open("wb", buffering=0) as log:
        result = GateRunner().run_command("head -c 1000000 /dev/zero; exit 4", place, log)
    assert result.exit_code == 4


def test_of_a_gigantic_line_the_log_has_the_beginning_and_the_end(tmp_path: Path) -> None:
    words = "echo first; head -c 30000000 /dev/zero; echo last"
    place = GatePlace(tmp_path, LONG, os.environ)
    with (tmp_path / "log").open("wb") as log:
        result = GateRunner().run_command(words, place, log)
    assert result.exit_code == 0
    assert result.output.endswith("last\n")
    assert len(result.output) < 600_000
    kept = (tmp_path / "log").read_bytes()
    assert kept.startswith(b"first\n")
    assert kept.endswith(b"\0last\n")
    assert result.left_out == 30_000_011 - LOG_HEAD - LOG_TAIL
    assert f"\n({result.left_out} bytes left out)\n".encode() in kept
    assert len(kept) < LOG_HEAD + LOG_TAIL + 100


def test_its_last_line_is_told_when_it_changes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    going = os.open(tmp_path / "go", os.O_RDWR)
    told: list[str] = []

    def hear(line: str) -> None:
        told.append(line)
        os.write(going, b"go\n")

    lines = r"printf 'a\n\033[31mb 10%%\rb 20%%\n\n'; read word < go; printf c; read word < go"
    result = GateRunner().run_command(lines, GatePlace(tmp_path, LONG, os.environ, on_line=hear))
    os.close(going)
    assert (result.exit_code, told) == (0, ["b 20%", "c"])


def test_a_stop_kills_it(tmp_path: Path) -> None:
    gate, place = GateRunner(), GatePlace(tmp_path, LONG, os.environ)
    os.mkfifo(tmp_path / "begun")

    def stop_when_it_has_begun() -> None:
        (tmp_path / "begun").read_text(encoding="utf-8")
        gate.stop()

    stopper = threading.Thread(target=stop_when_it_has_begun)
    stopper.start()
    with pytest.raises(Stopped):
        gate.run_command("echo x > begun; sleep 600", place)
    stopper.join()
    with pytest.raises(Stopped):
        gate.run_command("touch never", place)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("command", ["'unclosed", "if true; then", "(exit 0", "echo ok; )"])
def test_what_the_shell_cannot_read_is_told_in_its_words(command: str) -> None:
    said = unreadable(command, os.environ)
    assert said.startswith("/bin/sh: ")
    assert "\n" not in said


def test_what_it_can_read_is_not_run(tmp_path: Path) -> None:
    assert unreadable(f"touch {shlex.quote(str(tmp_path))}/ran; no-such-command", os.environ) == ""
    assert not (tmp_path / "ran").exists()
