"""Starts a run as a process of its own, apart from whoever starts it.

The process is in a session of its own, without a terminal. It reads what it is to do from its
standard input, and tells on its standard output what happens until the run has begun or failed; by
then it has let go of both.
"""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from ..core.programs import without_repository
from ..errors import OrchestratorError, RunError, error_of
from ..events import OnRunEvent, RunBegan, RunEnded, RunOpened, from_line, tell_nobody

RUN_MODULE = "cli_agent_orchestrator.cli.detached"
"""What the process runs: a command line of its own, at the other end of two pipes."""
STOP_SECONDS = 30.0


def run_command(python: str) -> tuple[str, ...]:
    """Return what starts the process of a run.

    `-P`: it is started in the project, whose modules are not ours.
    """
    return (python, "-P", "-m", RUN_MODULE)


@dataclass(frozen=True, slots=True)
class RunToLaunch:
    """What is to be run."""

    options: Mapping[str, str | None]
    """Settings by variable name, as if they were given by option."""
    config_file: str | None = None
    replace_terminals: bool = False
    run: str = ""
    """The run in a work tree that goes on, if it is one of these."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that has begun."""

    run: str
    """Its id."""
    pid: int
    wd: str


@dataclass(frozen=True, slots=True)
class RunLauncher:
    """Knows how such a process is started."""

    command: Sequence[str]
    """The program and its arguments."""
    environ: Mapping[str, str]

    def launch(
        self, request: RunToLaunch, folder: Path, on_event: OnRunEvent = tell_nobody
    ) -> Launched:
        """Start a run in a folder and return when it has begun; raise why it has not.

        If the caller is interrupted meanwhile, the run is stopped. It goes on if nobody reads what
        the caller writes.
        """
        try:
            process = subprocess.Popen(
                self.command,
                env=without_repository(self.environ),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            # The folder may be gone, or not to be entered.
            raise RunError(f"no run can be started in {folder}: {error.strerror}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdout as told:
                _ask(process.stdin, request)
                launched = _wait(told, process.pid, on_event)
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            raise
        # Whoever lives longer than the run leaves no dead process behind.
        threading.Thread(target=process.wait, name="run", daemon=True).start()
        return launched


def _ask(file: IO[bytes], request: RunToLaunch) -> None:
    try:
        with file:
            file.write(json.dumps(asdict(request)).encode())
    except BrokenPipeError:
        raise RunError("the run could not be started: its process ended at once") from None


def _wait(told: IO[bytes], pid: int, on_event: OnRunEvent) -> Launched:
    opened: RunOpened | None = None
    for line in told:
        event = from_line(line)
        if event is None:
            raise _failure(line)
        try:
            on_event(event)
        except BrokenPipeError:
            on_event = tell_nobody
        match event:
            case RunOpened():
                opened = event
            case RunBegan() if opened is not None:
                return Launched(opened.run, pid, opened.wd)
            case RunEnded():
                raise _error(event.error, event.reason)
    raise RunError("the run ended before it began; `cao runs` may say more")


def _failure(line: bytes) -> OrchestratorError:
    """Return the error on a line that is no event."""
    try:
        data = json.loads(line)
        return _error(str(data["kind"]), str(data["error"]))
    except (ValueError, LookupError, TypeError):
        return RunError("the run could not be started")


def _error(kind: str, text: str) -> OrchestratorError:
    return error_of(kind, text or "the run was stopped before it began")
