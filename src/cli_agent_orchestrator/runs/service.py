"""The runs of a user, as a server offers them: what their folders hold, and starting a new one."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import asdict

from .. import errors
from ..core.codec import encode, object_of
from ..core.files import Folder
from ..core.models import Asked, RunAgents
from ..core.programs import without_repository
from ..core.watch import Waker, watch_file
from ..events import OnRunEvent, RunBegan, RunEnded, RunEvent, RunOpened, from_line, tell_nobody
from ..pipeline.requests import Answered, Unpause, demand_request
from ..settings.gates import without_quotes
from ..settings.layout import EVENTS_FILE, RECORD_FILE, run_folder
from ..settings.table import BY_NAME
from ..settings.values import expand_path
from .control import ANSWER_SECONDS, ask_run, check_live, check_request, options_to_resume, pass_on
from .record import EventReader, read_record, run_of_session
from .view import detailed_json, find_run, list_runs, listed_json, read_run, view_run

RUN_MODULE = "cli_agent_orchestrator.cli.conduct"
"""What the process runs: a command line of its own, at the other end of two pipes."""
STOP_SECONDS = 30.0
STOPPED_EARLY = "the run was stopped before it began"


class RunToLaunch(Struct, frozen=True):
    options: Mapping[str, str | None]
    """Settings by variable name, as if they were given by option."""
    config_file: str | None = None
    replace_terminals: bool = False
    run: str = ""


def launch_run(
    request: RunToLaunch,
    folder: Path,
    on_event: OnRunEvent = tell_nobody,
    *,
    environ: Mapping[str, str],
    command: Sequence[str] = (),
) -> str:
    """Start a run in a folder and return its id when it has begun; raise why it has not.

    If the caller is interrupted meanwhile, the run is stopped. If the output of the caller is
    closed, it continues.
    """
    try:
        process = subprocess.Popen(
            # -P: it is started in the project, whose modules are not ours.
            command or (sys.executable, "-P", "-m", RUN_MODULE),
            env=without_repository(environ),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        # The folder may be gone, or not to be entered.
        raise errors.RunError(f"no run can be started in {folder}: {error.strerror}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as told:
            try:
                with process.stdin as file:
                    file.write(encode(request))
            except BrokenPipeError:
                text = "the run could not be started: its process ended at once"
                raise errors.RunError(text) from None
            run = _wait(told, on_event)
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        raise
    # A caller that lives longer than the run leaves no dead process behind.
    threading.Thread(target=process.wait, name="run", daemon=True).start()
    return run


def _wait(told: IO[bytes], on_event: OnRunEvent) -> str:
    run = ""
    for line in told:
        event = from_line(line)
        if event is None:
            data = object_of(line)
            if "kind" not in data or "error" not in data:
                raise errors.RunError("the run could not be started")
            raise errors.error_of(str(data["kind"]), str(data["error"]) or STOPPED_EARLY)
        try:
            on_event(event)
        except BrokenPipeError:
            on_event = tell_nobody
        match event:
            case RunOpened():
                run = event.run
            case RunBegan() if run:
                return run
            case RunEnded():
                raise errors.error_of(event.error, event.reason or STOPPED_EARLY)
    raise errors.RunError("the run ended before it began; `cao runs` may say more")


LOOK_SECONDS = 2.0
"""How often a follower looks whether the run was killed."""


class Follower:
    """Yields the events of a run: those it has, then each as it comes, until the run ends."""

    def __init__(self, folder: Folder, after: int = 0) -> None:
        self._folder = folder
        self._after = after
        self._waker = Waker()
        self._stopped = False

    def stop(self) -> None:
        """End it; any thread may call this."""
        self._stopped = True
        self._waker.wake()

    def __iter__(self) -> Iterator[RunEvent]:
        reader = EventReader(self._folder, self._after)
        last: RunEvent | None = None
        with watch_file(self._folder.path / EVENTS_FILE, self._waker.wake):
            while not self._stopped:
                # Asked first: what is written before the end is read after this.
                alive = self._folder.is_locked()
                for event in reader.read():
                    last = event
                    yield event
                if isinstance(last, RunEnded):
                    record = read_record(self._folder)
                    alive = alive and record is not None and record.status.is_open
                if not alive:
                    return
                self._waker.wait(LOOK_SECONDS)


# Any: JSON
Answer = dict[str, Any]
ROOT = Path("/")
MOST_FILES = 1000


class RunService(Struct, frozen=True):
    state_folder: Path
    launch: Callable[[RunToLaunch, Path], str]
    environ: Mapping[str, str]
    patience: float = ANSWER_SECONDS

    def list(self) -> list[Answer]:
        return [listed_json(run) for run in list_runs(self.state_folder)]

    def get(self, name: str) -> Answer:
        return detailed_json(view_run(self._find(name)))

    def turn(self, name: str, sequence: int) -> Answer:
        # A quarter of what a server imports, and seldom asked for.
        from .report import detail_of

        found = detail_of(self._find(name), sequence, self.environ)
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
                raise errors.UnknownName("setting", name, BY_NAME)
        told = {"WD": str(folder := _folder(wd))}
        if "PROMPT" in options and not options["PROMPT"].strip():
            raise errors.PromptError("the task is empty: write what is to be done")
        if "GATES" in options:
            told["GATES"] = without_quotes(options["GATES"])
        request = RunToLaunch({**options, **told}, replace_terminals=replace_terminals)
        run = self.launch(request, folder)
        return listed_json(read_run(run_folder(self.state_folder, run)))

    def agents(self, name: str, role: str | None = None) -> RunAgents:
        run = read_run(self._find(name))
        check_live(run)
        terminals = dict(run.terminals)
        if role is not None:
            if role not in terminals:
                raise errors.UnknownName(f"role of the run {run.id}", role, terminals)
            terminals = {role: terminals[role]}
        return RunAgents(run.id, run.api, run.session_name, terminals)

    # Any: JSON
    def steer(self, name: str, wanted: Mapping[str, Any]) -> Asked:
        folder = self._find(name)
        run, request = read_run(folder), demand_request(wanted)
        if isinstance(request, Unpause) and not run.is_live:
            options = options_to_resume(run, folder)
            self.launch(RunToLaunch(options, run=run.id), Path(run.project or run.wd))
            return Asked(True, "The run goes on.")
        check_request(run, request)
        return ask_run(folder, request, self.patience)

    def note_answer(self, session: str, terminal_id: str, text: str) -> None:
        """Tell a run under way how a person answered its agent."""
        run = run_of_session(session)
        record = read_record(run_folder(self.state_folder, run)) if run else None
        terminals = {} if record is None else record.terminals
        for role in (role for role, known in terminals.items() if known == terminal_id):
            with suppress(errors.NotSteerable):
                pass_on(self.state_folder, run, Answered(role, text))

    def _find(self, name: str) -> Folder:
        found = find_run(self.state_folder, name, ROOT)
        folder = run_folder(self.state_folder, found.id)
        if not found.is_readable:
            raise errors.StateError(f"{folder.path / RECORD_FILE} cannot be read")
        return folder


def _folder(wd: str) -> Path:
    folder = expand_path("WD", wd)
    if not folder.is_absolute():
        raise errors.BadFolder(wd, "is not an absolute path")
    try:
        if not folder.is_dir():
            raise errors.BadFolder(wd, "does not exist or is not a folder")
    except OSError as error:
        raise errors.BadFolder(wd, f"cannot be used: {error.strerror}") from None
    return folder
