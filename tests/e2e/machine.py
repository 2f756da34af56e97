"""The product as a user runs it: real processes, private folders, private tmux server."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from cli_agent_orchestrator.core.files import Folder
from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.runs.record import read_record
from cli_agent_orchestrator.runs.view import list_runs
from cli_agent_orchestrator.settings.config import ServerConfig
from cli_agent_orchestrator.settings.layout import run_folder
from tests.e2e.warm import Command, WarmCao

CAO = (sys.executable, "-m", "cli_agent_orchestrator")
Process = Command | subprocess.Popen[bytes]


@dataclass
class Server:
    """A `cao server` process and where it listens."""

    process: Process
    url: str

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def ended_at_last(process: Process) -> Iterator[Process]:
    """See to it that nothing is left of a process after the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def inherited() -> dict[str, str]:
    """Return what every machine has of the environment."""
    names = ("PATH", "LANG", "LC_ALL", "TMUX_TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ}


@dataclass
class Machine:
    """A user's machine: a home of its own, nothing inherited but the programs."""

    home: Path
    warm: WarmCao
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work.mkdir()
        self.env = inherited() | {
            "HOME": str(self.home),
            "CAO_STATE_DIR": str(self.home / "state"),
            "CAO_CONFIG_DIR": str(self.home / "config"),
            "CAO_PORT": "0",
        }

    @property
    def work(self) -> Path:
        return self.home / "work"

    def script(self, text: str) -> None:
        """Tell the scripted agents what to do."""
        path = self.home / "script.toml"
        path.write_text(text, encoding="utf-8")
        self.env["CAO_SCRIPTED_ARGS"] = f"--script {path}"

    def cao(
        self, *words: str, stdin: str = "", folder: Path | None = None, code: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; `code` is the exit code that it must have."""
        if self.warm.fits(self.env):
            done = self.warm.run([*CAO[1:], *words], self.env, folder or self.work, stdin)
        else:
            done = self.new_process([*CAO, *words], folder, input=stdin)
        assert code in (None, done.returncode), (done.returncode, done.stdout + done.stderr)
        return done

    def new_process(
        self, words: Sequence[str], folder: Path | None = None, input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run any program to its end, not forked."""
        return subprocess.run(
            words,
            env=self.env,
            cwd=folder or self.work,
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *words: str, folder: Path | None = None) -> Process:
        """Start a command, and do not wait for its end; its output and errors come by pipes."""
        if self.warm.fits(self.env):
            with Path(os.devnull).open("rb") as nothing:
                args = [*CAO[1:], *words]
                return self.warm.open(args, self.env, folder or self.work, nothing.fileno())
        return subprocess.Popen(
            [*CAO, *words],
            env=self.env,
            cwd=folder or self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # So that nothing has been read ahead when `communicate` reads on.
            bufsize=0,
        )

    @contextmanager
    def server(self, *words: str) -> Iterator[Server]:
        """Run a server on a free port until the end of the block."""
        with ended_at_last(self.start("server", "--port", "0", *words)) as process:
            assert process.stdout is not None
            for line in process.stdout:
                found = re.search(r"Listening on (http://\S+)", line.decode())
                if found:
                    break
            else:
                raise AssertionError(f"the server did not start: {process.communicate()}")
            self.env["CAO_API"] = found[1]
            yield Server(process, found[1])
            process.terminate()
            process.wait(60)

    def shut_down(self) -> None:
        """End what commands have left: runs apart from any terminal, and tmux."""
        with suppress(UsageError, OSError):  # a state folder that a test has spoiled
            for run in list_runs(self.home / "state"):
                if run.is_live:
                    self._end_detached(run_folder(self.home / "state", run.id))
        socket = Path(self.tmux("display-message", "-p", "#{socket_path}") or "/nonexistent")
        self.tmux("kill-server")
        socket.unlink(missing_ok=True)

    def _end_detached(self, folder: Folder) -> None:
        """End a run that leads a session of its own, and wait until it is gone."""
        record = read_record(folder)
        # A record may be a test's own, and name anybody.
        if record is None or record.pid <= 1 or os.getsid(record.pid) != record.pid:
            return
        os.kill(record.pid, signal.SIGKILL)
        descriptor = os.open(folder.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held by a run as long as it lives
        finally:
            os.close(descriptor)

    def http(self, server: Server) -> httpx.Client:
        """Return a client with the user's token."""
        token = (self.home / "state" / "token").read_text(encoding="utf-8").strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=server.url, headers=headers, timeout=120, trust_env=False)

    def panes(self, what: str = "pane_id") -> dict[str, str]:
        """Return the pane of each terminal, or something else about it."""
        listed = self.tmux("list-panes", "-a", "-F", f"#{{@cao_id}}=#{{{what}}}").splitlines()
        return dict(line.split("=") for line in listed if not line.startswith("="))

    def tmux(self, *words: str) -> str:
        """Run tmux by hand on this machine's private socket."""
        socket = ServerConfig.from_env(self.env).tmux_socket
        done = subprocess.run(
            ["tmux", "-L", socket, *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()
