"""The command of a gate, really run."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import Stopped
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.gates.checking import (
    LOG_HEAD,
    LOG_TAIL,
    Bounded,
    GateCommand,
    GateRunner,
    unreadable,
)

LONG = 600.0


def run(folder: Path, command: str, seconds: float = LONG, **environ: str) -> CheckResult:
    return GateRunner().run(GateCommand(command, seconds, folder, {**os.environ, **environ}))


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
    "command", ["no-such-command-at-all", "test -t 0 || test -t 1 || cat < /dev/tty", "if then ("]
)
def test_what_cannot_be_run_fails(tmp_path: Path, command: str) -> None:
    assert run(tmp_path, command).exit_code not in (0, None)


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 600; touch late) & sleep 600; touch later",
        "exec >&- 2>&-; exec sleep 600",
        "kill -STOP $$; echo never",
    ],
)
def test_at_its_time_limit_the_whole_group_is_killed(tmp_path: Path, command: str) -> None:
    result = run(tmp_path, command, 0.5)
    assert (result.exit_code, result.output) == (None, "")
    assert list(tmp_path.iterdir()) == []


def test_it_runs_in_the_folder_through_the_shell(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("x\n", encoding="utf-8")
    assert run(tmp_path, "pwd -P && cat 'a b' | tr x y").output == f"{tmp_path.resolve()}\ny\n"


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


def test_what_it_leaves_behind_is_killed_with_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    reading = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    assert run(tmp_path, "sleep 600 > alive & echo begun").output == "begun\n"
    os.set_blocking(reading, True)
    # It ends when nobody has the other end of the pipe any more.
    assert os.read(reading, 1) == b""
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


def run_daemon(folder: Path, seconds: float, program: str, then: str) -> CheckResult:
    """Run a gate that leaves a daemon, and return when the daemon is dead."""
    for name in ("alive", "begun", "never"):
        os.mkfifo(folder / name)
    (folder / "daemon.py").write_text(DAEMON, encoding="utf-8")
    reading = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    python = shlex.quote(sys.executable)
    result = run(folder, f"{python} {program}; cat begun; {then}", seconds)
    os.set_blocking(reading, True)
    # It ends when nobody has the other end of the pipe any more.
    assert os.read(reading, 1) == b""
    os.close(reading)
    return result


def test_a_daemon_ends_with_it(tmp_path: Path) -> None:
    result = run_daemon(tmp_path, LONG, "daemon.py", "echo done")
    assert (result.exit_code, result.output) == (0, "done\n")


def test_a_daemon_ends_at_the_time_limit(tmp_path: Path) -> None:
    assert run_daemon(tmp_path, 3.0, "daemon.py", "kill -STOP $$").exit_code is None


def test_what_a_killed_run_left_is_ended_before_the_gate_is_repeated(tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    left = subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "CAO_GATE": f"outer:{run}-1"},
        start_new_session=True,
    )
    for other in (f"{run}-2", run, f"outer:{run}"):
        GateRunner().run(GateCommand("true", LONG, tmp_path, os.environ, mark=other))
        assert left.poll() is None
    GateRunner().run(GateCommand("true", LONG, tmp_path, os.environ, mark=f"{run}-1"))
    assert left.wait(60) == -signal.SIGKILL
    assert left.stdin is not None
    left.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ps may not show the environment")
def test_a_child_that_cleared_its_environment_ends_with_its_parent(tmp_path: Path) -> None:
    result = run_daemon(tmp_path, LONG, "daemon.py bare", "echo done")
    assert (result.exit_code, result.output) == (0, "done\n")


def test_the_mark_of_a_gate_around_us_is_kept(tmp_path: Path) -> None:
    command = GateCommand("echo $CAO_GATE", LONG, tmp_path, {"CAO_GATE": "outer"}, mark="inner")
    assert GateRunner().run(command).output == "outer:inner\n"


def test_a_folder_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    result = run(tmp_path / "gone", "true")
    assert (result.exit_code, result.fault) == (None, "No such file or directory")


def test_an_environment_that_is_too_large_is_a_fault(tmp_path: Path) -> None:
    result = run(tmp_path, "true", HUGE="x" * 10_000_000)
    assert (result.exit_code, result.fault) == (None, "Argument list too long")


@pytest.mark.parametrize(
    "environ",
    [
        {"CAO_TOKEN": "secret-token", "OTHER": "Bearer secret-token"},
        {"CAO_API": "http://ada:secret-token@localhost:1"},
        {"API": "http://secret-token@localhost:1"},
        {"OLDPWD": "/secret", "PWD": "/secret"},
        {"GIT_DIR": "/secret/.git", "GIT_INDEX_FILE": "/secret", "GIT_PREFIX": "secret/"},
    ],
)
def test_nothing_that_gives_access_to_us_or_leads_elsewhere_is_handed_on(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    environ |= {"PATH": os.environ["PATH"], "GIT_AUTHOR_NAME": "Ada"}
    said = GateRunner().run(GateCommand("env", LONG, tmp_path, environ)).output
    assert "secret" not in said
    assert f"PWD={tmp_path}\n" in said
    assert "GIT_AUTHOR_NAME=Ada\n" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_does_not_change_the_verdict(tmp_path: Path) -> None:
    command = GateCommand("head -c 1000000 /dev/zero; exit 4", LONG, tmp_path, os.environ)
    with Path("/dev/full").open("wb", buffering=0) as log:
        assert GateRunner().run(command, log).exit_code == 4


def test_of_a_gigantic_line_the_log_has_the_beginning_and_the_end(tmp_path: Path) -> None:
    words = "echo first; head -c 100000000 /dev/zero; echo last"
    command = GateCommand(words, LONG, tmp_path, os.environ)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (tmp_path / "log").open("wb") as log:
        result = GateRunner().run(command, log)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.exit_code == 0
    assert result.output.endswith("last\n")
    assert len(result.output) < 600_000
    assert grown < 50_000 * (1024 if sys.platform == "darwin" else 1)
    kept = (tmp_path / "log").read_bytes()
    assert kept.startswith(b"first\n")
    assert kept.endswith(b"\0last\n")
    assert result.left_out == 100_000_011 - LOG_HEAD - LOG_TAIL
    assert f"\n({result.left_out} bytes left out)\n".encode() in kept
    assert len(kept) < LOG_HEAD + LOG_TAIL + 100


def test_a_log_that_is_short_enough_has_all_of_it(tmp_path: Path) -> None:
    size = LOG_HEAD + LOG_TAIL
    command = GateCommand(f"head -c {size} /dev/zero", LONG, tmp_path, os.environ)
    with (tmp_path / "log").open("wb") as log:
        assert GateRunner().run(command, log).left_out == 0
    assert (tmp_path / "log").read_bytes() == bytes(size)


def test_its_last_line_is_told_when_it_changes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    going = os.open(tmp_path / "go", os.O_RDWR)
    told: list[str] = []

    def hear(line: str) -> None:
        told.append(line)
        os.write(going, b"go\n")

    lines = r"printf 'a\n\033[31mb 10%%\rb 20%%\n\n'; read word < go; printf c; read word < go"
    result = GateRunner().run(GateCommand(lines, LONG, tmp_path, os.environ), None, hear)
    os.close(going)
    assert (result.exit_code, told) == (0, ["b 20%", "c"])


def test_a_stop_kills_it(tmp_path: Path) -> None:
    gate = GateRunner()
    os.mkfifo(tmp_path / "begun")

    def stop_when_it_has_begun() -> None:
        (tmp_path / "begun").read_text(encoding="utf-8")
        gate.stop()

    stopper = threading.Thread(target=stop_when_it_has_begun)
    stopper.start()
    with pytest.raises(Stopped):
        gate.run(GateCommand("echo x > begun; sleep 600", LONG, tmp_path, os.environ))
    stopper.join()
    with pytest.raises(Stopped):
        gate.run(GateCommand("touch never", LONG, tmp_path, os.environ))
    assert not (tmp_path / "never").exists()


def test_what_people_ask_for_meanwhile_is_heeded_and_it_goes_on(tmp_path: Path) -> None:
    heeded = threading.Semaphore(0)
    gate = GateRunner(heeded.release)
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    going = os.open(tmp_path / "go", os.O_RDWR)

    def ask_when_it_has_begun() -> None:
        (tmp_path / "begun").read_text(encoding="utf-8")
        try:
            assert heeded.acquire(timeout=60)
            gate.wake()
            assert heeded.acquire(timeout=60)
        finally:
            os.write(going, b"go\n")

    asker = threading.Thread(target=ask_when_it_has_begun)
    asker.start()
    command = GateCommand("echo x > begun; read word < go; echo $word", LONG, tmp_path, os.environ)
    result = gate.run(command)
    asker.join()
    os.close(going)
    assert (result.exit_code, result.output) == (0, "go\n")


def test_a_flood_is_bounded(tmp_path: Path) -> None:
    result = run(tmp_path, "echo first; head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo last")
    assert len(result.output) < 530_000
    assert result.output.startswith("first\n")
    assert result.output.endswith("\nlast\n")
    assert "bytes left out)" in result.output


def test_beginning_and_end_are_kept_to_the_byte() -> None:
    for size in range(12):
        for step in (1, 3, 20):
            kept = Bounded(3, 4)
            data = bytes(range(97, 97 + size))
            for start in range(0, size, step):
                kept.add(data[start : start + step])
            text = data.decode()
            gap = f"\n({size - 7} bytes left out)\n"
            assert kept.content().decode() == (text if size <= 7 else text[:3] + gap + text[-4:])


@pytest.mark.parametrize("command", ["'unclosed", "if true; then", "(exit 0", "echo ok; )"])
def test_what_the_shell_cannot_read_is_told_in_its_words(command: str) -> None:
    said = unreadable(command, os.environ)
    assert said.startswith("/bin/sh: ")
    assert "\n" not in said


def test_what_it_can_read_is_not_run(tmp_path: Path) -> None:
    assert unreadable(f"touch {shlex.quote(str(tmp_path))}/ran; no-such-command", os.environ) == ""
    assert not (tmp_path / "ran").exists()
