"""What the package offers to Python programs: `run`, `Client`, `Flow`; see docs/python.md."""

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from msgspec import Struct

from .client.client import ApiClient
from .client.find import ARGUMENT, find_server, name_server
from .core.codec import Private
from .errors import (
    EXIT_INTERRUPTED,
    ApiUnreachable,
    OrchestratorError,
    RunError,
    Stopped,
    UsageError,
)
from .events import OnRunEvent, RunBegan, RunEnded, RunEvent, RunOpened, tell_nobody
from .hosting.environment import conduct, flows_of
from .pipeline import flow as pipeline
from .pipeline.state import FinalStatus
from .runs.request import RunRequest, build_request
from .settings.config import DEFAULT_API
from .settings.values import PathText, Value, read_called, read_task

logger = logging.getLogger(__name__)
# A program that sets up no logging sees errors raised, and no lines of ours among its own.
logging.getLogger(__package__).addHandler(logging.NullHandler())

STOPPED = "stopped by the program that had started it"
NO_SERVER = "no server of yours is there; `cao server` starts one"
CALLED = "cao.run"
"""Where settings stand that have a fault, as a user is told it."""


class Flow(Private, frozen=True):
    _flow: pipeline.Flow

    @classmethod
    def load(cls, name_or_file: PathText, wd: PathText = ".") -> "Flow":
        """Return the flow of that name, as a run in the folder `wd` would find it, or of a file."""
        return cls(flows_of(Path(wd).absolute(), os.environ).find(os.fspath(name_or_file)))

    @property
    def name(self) -> str:
        return self._flow.name

    @property
    def description(self) -> str:
        return self._flow.description

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(role.name for role in self._flow.roles)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages of a round, in their order."""
        return tuple(stage.name for stage in self._flow.stages)


class Client(ApiClient):
    """The terminals and runs of a server, over HTTP. May be used by several threads."""

    @classmethod
    def find(cls, api: str | None = None) -> Self:
        """Return a client of the server that `cao ls` would use; it starts none.

        `api` is the address of a certain one. Raises ApiUnreachable if there is none.
        """
        found = find_server(os.environ, name_server(os.environ, api, by=ARGUMENT))
        if found is None:
            raise ApiUnreachable(DEFAULT_API, NO_SERVER, maybe_received=False)
        return cls(found.url, token=found.token, transport=found.transport)


class RunResult(Struct, frozen=True):
    """How a run ended."""

    run: str
    """Its id, for `cao report` and the like."""
    final_status: str
    """PASS or FAIL; RUNNING if it ended without a verdict, and can be resumed."""
    rounds: int
    exit_code: int
    """What `cao run` would have ended with."""
    archive: Path
    reason: str = ""
    proof: str = ""
    """What stands behind a PASS: `proven: …` or `not proven: …`; empty if nothing was to be."""

    @property
    def passed(self) -> bool:
        return self.final_status == FinalStatus.PASS


def run(
    task: str | os.PathLike[str] | None = None,
    *,
    wd: PathText | None = None,
    flow: "Flow | PathText | None" = None,
    provider: str | None = None,
    # By its name, so that `help` does not list all events.
    on_event: "OnRunEvent" = tell_nobody,
    **settings: Value,
) -> RunResult:
    """Take a task, a text or the `Path` of a file, through its agents and return how it ended.

    An unfinished run in the folder `wd` is resumed. Raises an `OrchestratorError` if no run could
    begin. `on_event` is called in the caller's thread; what it raises, or a KeyboardInterrupt
    there, stops the run so that it can be resumed, and travels on. `settings` are those of
    `cao.toml`, and `replace_terminals`.
    """
    named: pipeline.Flow | None = None
    if isinstance(flow, Flow):
        named, flow = flow._flow, flow.name
    values = {**settings, **read_task(task), "wd": wd, "flow": flow, "provider": provider}
    environ = dict(os.environ)
    replace_lost = bool(values.pop("replace_terminals", False))
    request = build_request(
        read_called(values, CALLED), environ, replace_terminals=replace_lost, called=CALLED
    )
    return _Run(request, named, environ).take_to_its_end(on_event)


class _Run:
    """A run in a thread of its own, so that nothing the caller's thread meets breaks into it.

    To the run it says when to stop.
    """

    def __init__(
        self, request: RunRequest, flow: pipeline.Flow | None, environ: Mapping[str, str]
    ) -> None:
        self._request = request
        self._flow = flow
        self._environ = environ
        self._told: SimpleQueue[RunEvent | None] = SimpleQueue()
        self._is_noted = False
        self._stop: Callable[[], None] | None = None

    def take_to_its_end(self, on_event: OnRunEvent) -> RunResult:
        last: dict[type[RunEvent], RunEvent] = {}
        with ThreadPoolExecutor(1, "cao run") as thread:
            running = thread.submit(self._work)
            try:
                while (event := self._told.get()) is not None:
                    last[type(event)] = event
                    on_event(event)
            except BaseException:
                self.note()
                raise
        error = running.exception()
        if (
            not isinstance(opened := last.get(RunOpened), RunOpened)
            or not isinstance(began := last.get(RunBegan), RunBegan)
            or not isinstance(ended := last.get(RunEnded), RunEnded)
            or isinstance(error, UsageError)
        ):
            raise error or RunError("the run ended before it began")
        if error is not None and not isinstance(error, OrchestratorError):
            raise error
        return RunResult(
            run=opened.run,
            final_status=str(ended.final_status),
            rounds=ended.round,
            exit_code=ended.exit_code,
            archive=Path(began.archive),
            reason=ended.reason,
            proof=ended.proof,
        )

    def _work(self) -> None:
        try:
            conduct(
                self._request,
                self._told.put,
                nullcontext(self),
                self._environ,
                logger.warning,
                flow=self._flow,
            )
        finally:
            self._told.put(None)

    def note(self) -> None:
        self._is_noted = True
        if self._stop is not None:
            self._stop()

    def when_noted(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        if self._is_noted:
            stop()

    @property
    def exit_code(self) -> int:
        return EXIT_INTERRUPTED

    @property
    def reason(self) -> str:
        return STOPPED if self._is_noted else ""

    def check(self) -> None:
        if self._is_noted:
            raise Stopped(STOPPED)
