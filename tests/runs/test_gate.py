"""The command of a gate, really run."""

import os
import shlex
import signal
import sys
import threading
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import Stopped
from cli_agent_orchestrator.runs.gate import Bounded, Ending, GateCommand, GateRunner

LONG = 600.0


def run(folder: Path, command: str, seconds: float = LONG, **environ: str) -> Ending:
    return GateRunner().run(GateCommand(command, seconds, folder, {**os.environ, **environ}))


@pytest.mark.parametrize("code", [0, 1, 7])
def test_the_exit_code_decides(tmp_path: Path, code: int) -> None:
    result = run(tmp_path, f"echo out; echo err >&2; exit {code}")
    assert result.exit_code == code
    assert result.output == "out\nerr\n"


def test_it_runs_in_the_folder_through_the_shell(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("x\n", encoding="utf-8")
    assert run(tmp_path, "pwd -P && cat 'a b' | tr x y").output == f"{tmp_path.resolve()}\ny\n"


def test_it_gets_no_input_and_no_token(tmp_path: Path) -> None:
    result = run(tmp_path, "cat; echo $CAO_TOKEN-$OTHER", CAO_TOKEN="secret", OTHER="plain")
    assert result.output == "-plain\n"


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


def test_a_command_that_is_not_there_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "no-such-command-at-all").exit_code == 127


def test_a_command_ended_by_a_signal_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "kill -9 $$").exit_code == -signal.SIGKILL


def test_at_its_time_limit_the_whole_group_is_killed(tmp_path: Path) -> None:
    result = run(tmp_path, "(sleep 600; touch late) & sleep 600; touch later", 0.5)
    assert result.exit_code is None
    assert list(tmp_path.iterdir()) == []


def test_what_it_leaves_behind_is_killed_with_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    reading = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    assert run(tmp_path, "sleep 600 > alive & echo begun").output == "begun\n"
    os.set_blocking(reading, True)
    # It ends when nobody has the other end of the pipe any more.
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_what_left_its_group_does_not_hold_it(tmp_path: Path) -> None:
    for name in ("left", "over"):
        os.mkfifo(tmp_path / name)
    # It holds the output open until somebody writes to the second pipe.
    leave = "import os; os.setsid(); open('left', 'w').close(); open('over').read()"
    python = shlex.join([sys.executable, "-c", leave])
    result = run(tmp_path, f"{python} & cat left; echo done")
    assert (result.exit_code, result.output) == (0, "done\n")
    (tmp_path / "over").write_text("", encoding="utf-8")


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
            assert kept.text() == (text if size <= 7 else text[:3] + gap + text[-4:])
