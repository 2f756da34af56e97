"""Session records by who writes them; who asks us from inside an agent's terminal."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cli_agent_orchestrator.terminals import programs
from cli_agent_orchestrator.terminals.programs import is_inside, open_files

PATTERN = r"/rollout-[^/]+\.jsonl$"
SOCKET = "cao-9f3c1a2b"
BELOW = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[3:]))"
"""Runs what follows its first two arguments."""
ASK = (
    "import sys; from cli_agent_orchestrator.terminals.programs import is_inside; "
    f"sys.exit(not is_inside({SOCKET!r}, {{}}))"
)
CONNECT = (
    "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); s.recv(1)"
)


has_client = partial(programs.has_client, socket=SOCKET)


def test_a_record_that_is_only_read_is_that_of_another_session(tmp_path: Path) -> None:
    older, own, newer = (tmp_path / f"rollout-{number}.jsonl" for number in range(3))
    older.touch()
    with older.open():
        assert open_files(os.getpid(), PATTERN) == []
        with own.open("a"), newer.open("a"):
            os.utime(own, (1, 1))
            assert sorted(open_files(os.getpid(), PATTERN)) == [own, newer]


def test_the_record_may_be_written_by_a_child(tmp_path: Path) -> None:
    own = tmp_path / "rollout-1.jsonl"
    waits = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with (
        own.open("a") as file,
        subprocess.Popen(
            waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file.fileno()]
        ) as child,
    ):
        assert child.stdout is not None
        child.stdout.readline()
        file.close()
        assert open_files(os.getpid(), PATTERN) == [own]
        child.communicate()


@pytest.mark.parametrize(("own_session", "refused"), [(True, True), (False, False)])
def test_what_a_gate_started_cannot_steer_its_run(own_session: bool, refused: bool) -> None:
    below = (
        "from cli_agent_orchestrator.errors import NotSteerable\n"
        "from cli_agent_orchestrator.terminals.programs import check_no_gate_of\n"
        "try:\n"
        f"    check_no_gate_of({os.getpid()})\n"
        "except NotSteerable:\n"
        "    raise SystemExit(4)\n"
    )
    argv = ("/bin/sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", below)
    done = subprocess.run(argv, check=False, start_new_session=own_session)
    assert done.returncode == (4 if refused else 0)


def asked_below(*words: str) -> bool:
    """Return what a process finds out that has an ancestor with these arguments."""
    shell = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
    argv = (sys.executable, "-c", BELOW, *words, *shell, sys.executable, "-c", ASK)
    return subprocess.run(argv, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "inside"),
    [(("-L", SOCKET), True), (("-L", "cao-00000000"), False), ((SOCKET, "-L"), False)],
)
def test_an_ancestor_tells(words: tuple[str, str], inside: bool) -> None:
    assert asked_below(*words) is inside


@pytest.mark.parametrize(
    ("tmux", "inside"),
    [
        (f"/tmp/tmux-1000/{SOCKET},4711,0", True),
        ("/tmp/tmux-1000/default,4711,0", False),
        (f"/tmp/tmux-1000/{SOCKET}0,4711,0", False),
        ("", False),
    ],
)
def test_the_environment_tells(tmux: str, inside: bool) -> None:
    assert is_inside(SOCKET, {"TMUX": tmux}) is inside


@contextmanager
def connected(host: str) -> Iterator[tuple[int, int, int]]:
    """Let a program connect; yield its pid and the ports of both ends."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if family is socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        argv = (sys.executable, "-c", CONNECT, host, str(port))
        with subprocess.Popen(argv) as program:
            accepted, peer = listener.accept()
            with accepted:
                yield program.pid, peer[1], port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_of_a_program_is_found(host: str) -> None:
    with connected(host) as (pid, client, server):
        assert has_client([pid], client, server)
        assert not has_client([pid], server, client)
        assert not has_client([], client, server)
        assert has_client([os.getpid()], client, server), "it is a child"
        assert has_client([pid], pid, None)
        assert not has_client([pid], os.getpid(), None)
    environ = {**os.environ, "TMUX": f"/tmp/tmux-1000/{SOCKET},4711,0"}
    with subprocess.Popen(["cat"], 0, stdin=-1, stdout=-1, env=environ) as background:
        assert background.stdin is not None
        assert background.stdout is not None
        background.stdin.write(b"x")
        assert background.stdout.read(1), "it has begun"
        assert has_client([], background.pid, None) is Path("/proc").is_dir()


def test_a_connection_of_somebody_else_is_not() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as other,
    ):
        ports = client.getsockname()[1], listener.getsockname()[1]
        assert not has_client([other.pid], *ports)
        assert has_client([os.getpid()], *ports)
