"""Gates in a sandbox, really run where there is one."""

import os
import re
import shlex
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.gates.check import CheckResult
from cli_agent_orchestrator.gates.checking import (
    BUBBLEWRAP,
    SEATBELT,
    GatePlace,
    GateRunner,
    find_sandbox,
    sandbox_words,
)
from cli_agent_orchestrator.settings.gates import Gate

needs_sandbox = pytest.mark.skipif(
    not find_sandbox()[0], reason=find_sandbox()[1] or "there is one"
)
needs_bubblewrap = pytest.mark.skipif(
    find_sandbox()[0] != BUBBLEWRAP, reason="bubblewrap cannot be used here"
)


def run(folder: Path, command: str, seconds: float = 60.0) -> CheckResult:
    gate = Gate("tests", command, sandbox=True, seconds=seconds)
    return GateRunner().run_in(gate, GatePlace(folder, 60.0, os.environ), "1")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a", encoding="utf-8")
    return (tmp_path / "work").resolve()


@needs_sandbox
def test_it_may_write_in_its_folder_and_nowhere_else(work: Path) -> None:
    outside = Path.home() / ".cao-sandbox-test"
    result = run(work, f"cat a.txt > b.txt && pwd; touch {outside} || echo refused")
    assert result.output.startswith(f"{work}\n")
    assert "refused" in result.output
    assert (work / "b.txt").read_text(encoding="utf-8") == "a"
    assert not outside.exists()


@needs_bubblewrap
def test_what_lies_around_its_folder_is_out_of_reach(work: Path) -> None:
    """Temporary files are its own, and it has no power over what is mounted."""
    write_around = "touch ../out; rm -rf ../work/../keep; touch /tmp/cao-sandbox-test"
    mount = "mount -o remount,rw,bind / 2>&1 || umount /tmp 2>&1 || echo refused"
    result = run(work, f"{write_around}; ls /tmp /run && echo $TMPDIR; {mount}")
    assert "/tmp\n" in result.output
    assert "refused" in result.output
    assert not (work.parent / "out").exists()
    assert not Path("/tmp/cao-sandbox-test").exists()


@needs_sandbox
def test_there_is_no_network(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        result = run(work, shlex.join([os.path.realpath(sys.executable), "-c", connect]))
    assert result.exit_code == 1, result.output


@needs_bubblewrap
@pytest.mark.parametrize("is_work", [True, False])
def test_a_program_outside_cannot_be_reached_by_its_socket(is_work: bool) -> None:
    with (
        tempfile.TemporaryDirectory(dir=Path.home()) as home,
        socket.socket(socket.AF_UNIX) as server,
    ):
        place = Path(home).resolve()
        work = place if is_work else place / "work"
        work.mkdir(exist_ok=True)
        server.bind(str(place / "s"))
        server.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(place / 's')!r})"
        words = shlex.join([os.path.realpath(sys.executable), "-c", connect])
        # Below /tmp it is not even there.
        assert re.search("ConnectionRefused|FileNotFound", run(work, words).output)
        gate = Gate("tests", words)
        unfenced = GateRunner().run_in(gate, GatePlace(work, 60.0, os.environ), "1")
        assert unfenced.exit_code == 0


@needs_bubblewrap
def test_the_state_folder_is_not_there(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=Path.home()) as home:
        run_folder = Folder(Path(home), ("runs", "1"))
        checkout = run_folder.path / "checkout"
        checkout.mkdir(parents=True)
        (Path(home) / "token").touch()
        place = GatePlace(checkout, 60.0, os.environ, run_folder)
        gate = Gate("tests", f"touch made; ls {home}", sandbox=True)
        result = GateRunner().run_in(gate, place, "1")
        assert (result.exit_code, result.output) == (0, "runs\n")
        assert (checkout / "made").exists()


@needs_bubblewrap
def test_not_even_a_daemon_without_environment_outlives_it(work: Path) -> None:
    for name in ("alive", "begun"):
        os.mkfifo(work / name)
    reading = os.open(work / "alive", os.O_RDONLY | os.O_NONBLOCK)
    leave = "exec 3>alive; echo x > begun; sleep 600"
    result = run(work, f"env -i setsid -f /bin/sh -c '{leave}' >/dev/null 2>&1; cat begun")
    assert (result.exit_code, result.output) == (0, "x\n")
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""
    os.close(reading)


@needs_bubblewrap
def test_its_time_limit_counts_there_too(work: Path) -> None:
    assert run(work, "sleep 600", 0.5).exit_code is None


def test_without_one_the_gate_is_not_run(work: Path) -> None:
    checker = GateRunner(find_sandbox=lambda: ("", "no sandbox is available (why)"))
    gate = Gate("tests", "touch ran", sandbox=True)
    result = checker.run_in(gate, GatePlace(work, 60.0, os.environ), "1")
    assert str(result) == "FAIL: `touch ran` could not be run: no sandbox is available (why)"
    assert not (work / "ran").exists()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert find_sandbox("plan9") == ("", "no sandbox is available")
    problem = find_sandbox("linux", str(tmp_path))[1]
    assert problem == "no sandbox is available (install bubblewrap)"


def test_one_that_cannot_be_used_is_none(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho No permissions >&2; exit 1\n", encoding="utf-8")
    program.chmod(0o755)
    problem = find_sandbox("linux", str(tmp_path))[1]
    assert problem == "no sandbox is available (bwrap cannot be used: No permissions)"


def test_the_folder_is_a_word_and_no_rule_of_the_sandbox() -> None:
    folder = Path('/a") (allow file-write*) ("b')
    words = sandbox_words(SEATBELT, folder)
    assert words[:3] == ("sandbox-exec", "-D", f"FOLDER={folder}")
    assert str(folder) not in words[4]
    assert sandbox_words(BUBBLEWRAP, folder)[-1] == "--"
