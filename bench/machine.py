"""A private machine for one measure: a home, a server, a tmux server; gone when it is over."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cli_agent_orchestrator.client.client import ApiClient
from cli_agent_orchestrator.settings.config import ServerConfig

PROFILE = "tester"
PROVIDER = "scripted"
STARTERS = 8
"""How many terminals are started at once when many are needed."""
PATIENCE = 60.0

DRAWN_AGENT = """#!/bin/sh
[ "$1" = --version ] && exit 0
printf '▢ ready\\nscripted ❯ '
exec sleep 1000000
"""
"""Looks like the scripted agent at rest and does nothing: what it shows is drawn by the measure."""


def cao_words() -> list[str]:
    """Return the command line of `cao`, as a user has it."""
    beside = Path(sys.executable).with_name("cao")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "cli_agent_orchestrator"]


@dataclass(frozen=True, slots=True)
class Server:
    """A `cao server` that answers."""

    pid: int
    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def client(self, working_directory: Path) -> ApiClient:
        return ApiClient(
            self.url, provider=PROVIDER, working_directory=str(working_directory), token=self.token
        )


class Machine:
    """A user's machine: a home of its own, nothing inherited but the programs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"
        self.work.mkdir()
        names = ("PATH", "LANG", "LC_ALL")
        self.env = {name: os.environ[name] for name in names if name in os.environ}
        self.env |= {
            "HOME": str(home),
            "TMPDIR": str(home),
            "TMUX_TMPDIR": str(home),
            "CAO_STATE_DIR": str(home / "state"),
            "CAO_CONFIG_DIR": str(home / "config"),
        }
        self.script("")

    @property
    def state(self) -> Path:
        return self.home / "state"

    def script(self, text: str) -> None:
        """Tell the scripted agents of the next server what to do; nothing: they echo."""
        path = self.home / "script.toml"
        path.write_text(text, encoding="utf-8")
        self.env["CAO_SCRIPTED_ARGS"] = f"--script {path}"

    def draw_agents(self) -> None:
        """Let the next server start agents that do nothing, so that the measure draws for them."""
        program = self.home / "drawn-agent"
        program.write_text(DRAWN_AGENT, encoding="utf-8")
        program.chmod(0o755)
        self.env["CAO_SCRIPTED_COMMAND"] = str(program)

    @contextmanager
    def server(self) -> Iterator[Server]:
        """Run a server on a free port; its agents outlive it."""
        with running([*cao_words(), "server", "--port", "0"], self.env, self.work) as process:
            assert process.stdout is not None
            printed = ""
            for line in process.stdout:
                printed += line
                if found := re.search(r"Listening on http://([\d.]+):(\d+)", line):
                    break
            else:
                raise RuntimeError(f"the server did not start:\n{printed}")
            token = (self.state / "token").read_text().strip()
            yield Server(process.pid, found[1], int(found[2]), token)

    def open_terminals(self, server: Server, count: int) -> list[str]:
        """Start agents in one session and return their ids; all are ready then."""
        with server.client(self.work) as client, ThreadPoolExecutor(STARTERS) as starters:
            first = client.create_session(PROFILE)
            session = str(first["session_name"])
            more = starters.map(lambda _: client.create_terminal(session, PROFILE), range(1, count))
            return [str(first["id"]), *(str(terminal["id"]) for terminal in more)]

    def tmux_words(self) -> list[str]:
        """Return the start of a tmux command line for this machine's own server."""
        return ["tmux", "-u", "-L", ServerConfig.from_env(self.env).tmux_socket]

    def tmux(self, *words: str) -> str:
        """Run tmux by hand."""
        return subprocess.run(
            [*self.tmux_words(), *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        ).stdout.strip()

    def tmux_pids(self) -> list[int]:
        """Return the process ids of the tmux server and its control clients."""
        clients = self.tmux("list-clients", "-F", "#{client_pid}").split()
        return [int(pid) for pid in (self.tmux("display-message", "-p", "#{pid}"), *clients) if pid]

    def panes(self) -> dict[str, str]:
        """Return the terminal device of every pane, by our id of it."""
        listed = self.tmux("list-panes", "-a", "-F", "#{@cao_id} #{pane_tty}").splitlines()
        return {tag: tty for tag, _, tty in (line.partition(" ") for line in listed) if tag}

    def close(self) -> None:
        """End the tmux server with all agents, and remove every trace."""
        pid = self.tmux("display-message", "-p", "#{pid}")
        self.tmux("kill-server")
        if pid:
            _see_ended(int(pid))
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def private_machine() -> Iterator[Machine]:
    """Make a machine, and clean up whatever ends the block."""
    machine = Machine(Path(tempfile.mkdtemp(prefix="cao-bench-")))
    try:
        yield machine
    finally:
        with undisturbed():
            machine.close()


@contextmanager
def running(
    words: Sequence[str], env: Mapping[str, str], folder: Path, **pipes: int
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the end of the block."""
    process = subprocess.Popen(
        words,
        env={**env, "PYTHONUNBUFFERED": "1"},
        cwd=folder,
        stdin=pipes.get("stdin", subprocess.DEVNULL),
        stdout=pipes.get("stdout", subprocess.PIPE),
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C is ours to deal with: it ends the block.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with undisturbed():
            _end(process)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no second Ctrl-C break off the cleaning up."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _see_ended(pid: int) -> None:
    """Wait for a process that is not our child to end; kill it if it does not."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
