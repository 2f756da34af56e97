"""The runs of a user, for whoever serves them: what their folders hold, and starting a new one."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ..core.files import Folder
from ..core.models import RunAgents
from ..core.programs import without_repository
from ..errors import (
    BadFolder,
    NotSteerable,
    PromptError,
    RunError,
    StateError,
    UnknownName,
    error_of,
)
from ..events import OnRunEvent, RunBegan, RunEnded, RunOpened, from_line, tell_nobody
from ..pipeline.steering import Answered, Unpause, demand_wish
from ..settings.gates import without_quotes
from ..settings.layout import RECORD_FILE, run_folder
from ..settings.table import BY_NAME
from ..settings.values import expand_path
from .control import (
    ANSWER_SECONDS,
    Asked,
    ask_run,
    check_live,
    check_wish,
    options_to_resume,
    pass_on,
)
from .event_log import Follower
from .record import read_record, run_of_session
from .view import detailed_json, find_run, list_runs, listed_json, read_run, view_run

RUN_MODULE = "cli_agent_orchestrator.cli.conduct"
"""What the process runs: a command line of its own, at the other end of two pipes."""
STOP_SECONDS = 30.0
STOPPED_EARLY = "the run was stopped before it began"


def run_command(python: str) -> tuple[str, ...]:
    """Return what starts the process of a run.

    `-P`: it is started in the project, whose modules are not ours.
    """
    return (python, "-P", "-m", RUN_MODULE)


@dataclass(frozen=True, slots=True)
class RunToLaunch:
    options: Mapping[str, str | None]
    """Settings by variable name, as if they were given by option."""
    config_file: str | None = None
    replace_terminals: bool = False
    run: str = ""
    """The run in a work tree that goes on, if it is one of these."""


@dataclass(frozen=True, slots=True)
class Launched:
    run: str
    pid: int
    wd: str


@dataclass(frozen=True, slots=True)
class RunLauncher:
    command: Sequence[str]
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
            data: dict[str, str] = {}
            with suppress(ValueError, TypeError):
                data = dict(json.loads(line))
            if "kind" not in data or "error" not in data:
                raise RunError("the run could not be started")
            raise error_of(str(data["kind"]), str(data["error"]) or STOPPED_EARLY)
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
                raise error_of(event.error, event.reason or STOPPED_EARLY)
    raise RunError("the run ended before it began; `cao runs` may say more")


# Any: JSON
Answer = dict[str, Any]
ROOT = Path("/")
PROMPT = "PROMPT"
"""The setting that is the text of a task."""
GATES = "GATES"
MOST_FILES = 1000
"""That one turn changed and that are told."""


@dataclass(frozen=True, slots=True)
class RunService:
    """Answers what is asked about runs, with values that can be JSON."""

    state_folder: Path
    launcher: RunLauncher
    patience: float = ANSWER_SECONDS
    """How many seconds a run has to answer."""

    def list(self) -> list[Answer]:
        return [listed_json(run) for run in list_runs(self.state_folder)]

    def get(self, name: str) -> Answer:
        return detailed_json(view_run(self._find(name)))

    def turn(self, name: str, sequence: int) -> Answer:
        # A quarter of what a server imports, and seldom asked for.
        from .report import detail_of

        found = detail_of(self._find(name), sequence, self.launcher.environ)
        return {
            **asdict(found.turn),
            "prompt": found.prompt,
            "reply": found.reply,
            "screen": found.screen,
            "diff": found.patch,
            "files": None
            if found.files is None
            else [
                {"path": one.path, "status": one.status, "added": one.added, "removed": one.removed}
                for one in found.files[:MOST_FILES]
            ],
            "usage": None if found.usage is None else asdict(found.usage),
        }

    def author(self, name: str, sequence: int) -> str | None:
        """Return whose work a turn is or judges; None if the flow of the run is not known."""
        from .report import author_of

        return author_of(self._find(name), sequence)

    def follow(self, name: str, after: int) -> Follower:
        return Follower(self._find(name), after)

    def start(
        self, wd: str, options: Mapping[str, str], *, replace_terminals: bool = False
    ) -> Answer:
        for name in options:
            if name not in BY_NAME:
                raise UnknownName("setting", name, BY_NAME)
        told = {"WD": str(folder := _folder(wd))}
        if PROMPT in options and not options[PROMPT].strip():
            raise PromptError("the task is empty: write what is to be done")
        if GATES in options:
            told[GATES] = without_quotes(options[GATES])
        request = RunToLaunch({**options, **told}, replace_terminals=replace_terminals)
        launched = self.launcher.launch(request, folder)
        return listed_json(read_run(run_folder(self.state_folder, launched.run)))

    def agents(self, name: str, role: str | None = None) -> RunAgents:
        run = read_run(self._find(name))
        check_live(run)
        terminals = dict(run.terminals)
        if role is not None:
            if role not in terminals:
                raise UnknownName(f"role of the run {run.id}", role, terminals)
            terminals = {role: terminals[role]}
        return RunAgents(run.id, run.api, run.session_name, terminals)

    # Any: JSON
    def steer(self, name: str, wanted: Mapping[str, Any]) -> Answer:
        """Ask something of a run, and return what it says; see `pipeline/asks.py`."""
        folder = self._find(name)
        run, wish = read_run(folder), demand_wish(wanted)
        if isinstance(wish, Unpause) and not run.is_live:
            options = options_to_resume(run, folder)
            request = RunToLaunch(options, replace_terminals=not run.has_agents, run=run.id)
            self.launcher.launch(request, Path(run.project or run.wd))
            return asdict(Asked(True, "The run goes on."))
        check_wish(run, wish)
        return asdict(ask_run(folder, wish, self.patience))

    def note_answer(self, session: str, terminal_id: str, text: str) -> None:
        """Tell a run how a person answered its agent; nobody, if it is of no run under way."""
        run = run_of_session(session)
        record = read_record(run_folder(self.state_folder, run)) if run else None
        terminals = {} if record is None else record.terminals
        for role in (role for role, known in terminals.items() if known == terminal_id):
            with suppress(NotSteerable):
                pass_on(self.state_folder, run, Answered(role, text))

    def _find(self, name: str) -> Folder:
        found = find_run(self.state_folder, name, ROOT)
        folder = run_folder(self.state_folder, found.id)
        if not found.is_readable:
            raise StateError(f"{folder.path / RECORD_FILE} cannot be read")
        return folder


def _folder(wd: str) -> Path:
    """Return the folder that is meant, or say why there can be no run in it."""
    folder = expand_path("WD", wd)
    if not folder.is_absolute():
        raise BadFolder(wd, "is not an absolute path")
    try:
        if not folder.is_dir():
            raise BadFolder(wd, "does not exist or is not a folder")
    except OSError as error:
        raise BadFolder(wd, f"cannot be used: {error.strerror}") from None
    return folder
